"""Instructions of machine code, by Capstone, in the syntax of perf annotate (AT&T on x86)."""

import ctypes
import re
from dataclasses import dataclass

import capstone
import numpy as np

from ...domain.arrays import Array

_X86 = re.compile(r"j|call|loop|xbegin")
_ARM = re.compile(r"b$|bl$|blx$|b\.|b(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)$|cbn?z|tbn?z")
_POWER = re.compile(r"b(?!lr|ctr)")
_RISCV = re.compile(r"b|j|c\.(?:b|j)|jal")
_TARGET = re.compile(rb"(?:^|[ ,#])(0x[0-9a-f]{1,16})$")
_STRUCTURE = capstone._cs_insn
_FIELDS = ("address", "size", "mnemonic", "op_str")
_LAYOUT = np.dtype(
    {
        "names": _FIELDS,
        "formats": [
            "u8",
            "u2",
            *(f"S{size}" for size in (_STRUCTURE.mnemonic.size, _STRUCTURE.op_str.size)),
        ],
        "offsets": [getattr(_STRUCTURE, name).offset for name in _FIELDS],
        "itemsize": ctypes.sizeof(_STRUCTURE),
    }
)
"""What is read of Capstone's structures. Its class for Python creates several objects for each instruction, which takes
as long again as disassembling."""


@dataclass(frozen=True, eq=False)
class Instructions:
    """Instructions in order. address: uint64, in the binary. size: uint8, bytes. texts: mnemonics and operands. jumps:
    the rows of those that jump or call, to `targets` (uint64)."""

    address: Array
    size: Array
    texts: list[str]
    jumps: Array
    targets: Array


class Disassembler:
    """Disassembles code of one kind of machine. is_known: whether it can."""

    def __init__(self, machine: str, little_endian: bool) -> None:
        order = capstone.CS_MODE_LITTLE_ENDIAN if little_endian else capstone.CS_MODE_BIG_ENDIAN
        kinds = {
            "x64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64, _X86),
            "x86": (capstone.CS_ARCH_X86, capstone.CS_MODE_32, _X86),
            "AArch64": (capstone.CS_ARCH_ARM64, order, _ARM),
            "ARM": (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM | order, _ARM),
            "64-bit PowerPC": (capstone.CS_ARCH_PPC, capstone.CS_MODE_64 | order, _POWER),
            "RISC-V": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC, _RISCV),
        }
        self.is_known = machine in kinds
        if not self.is_known:
            return
        architecture, mode, self._branch = kinds[machine]
        self._mnemonics: dict[bytes, tuple[str, bool]] = {}
        self._engine = capstone.Cs(architecture, mode)
        if architecture == capstone.CS_ARCH_X86:
            self._engine.syntax = capstone.CS_OPT_SYNTAX_ATT
        # Bytes that are no instruction, such as tables, are shown as such.
        self._engine.skipdata = True

    def disassemble(self, code: bytes, start: int) -> Instructions:
        """The instructions of `code`, which begins at the address `start`; none on an unknown machine."""
        found = self._run(code, start) if self.is_known else np.zeros(0, _LAYOUT)
        texts: list[str] = []
        jumps: list[int] = []
        targets: list[int] = []
        # There may be anything behind the end of a text.
        names = [name.split(b"\0", 1)[0] for name in found["mnemonic"].tolist()]
        known = self._mnemonics
        for row, (name, operands) in enumerate(zip(names, found["op_str"].tolist(), strict=True)):
            mnemonic, is_branch = known.get(name) or self._add_mnemonic(name)
            operands = operands.split(b"\0", 1)[0]
            texts.append(mnemonic + operands.decode("latin-1") if operands else mnemonic.rstrip())
            if is_branch and (match := _TARGET.search(operands)):
                jumps.append(row)
                targets.append(int(match[1], 16))
        return Instructions(
            found["address"].copy(),
            found["size"].astype(np.uint8),
            texts,
            np.array(jumps, np.int64),
            np.array(targets, np.uint64),
        )

    def _add_mnemonic(self, name: bytes) -> tuple[str, bool]:
        text = name.decode("latin-1")
        found = self._mnemonics[name] = (f"{text:<7} ", bool(self._branch.match(text)))
        return found

    def _run(self, code: bytes, start: int) -> Array:
        """Capstone's structures of the instructions."""
        pointer = ctypes.POINTER(_STRUCTURE)()
        count = capstone._cs.cs_disasm(self._engine.csh, code, len(code), start, 0, ctypes.byref(pointer))
        if not count:
            return np.zeros(0, _LAYOUT)
        try:
            return np.frombuffer(ctypes.string_at(pointer, count * _LAYOUT.itemsize), _LAYOUT)
        finally:
            capstone._cs.cs_free(pointer, count)
