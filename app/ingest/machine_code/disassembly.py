"""Instructions of machine code, by Capstone, in the syntax of perf annotate (AT&T on x86)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import capstone

_X86 = re.compile(r"j|call|loop|xbegin")
_ARM = re.compile(r"b$|bl$|blx$|b\.|b(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)$|cbn?z|tbn?z")
_POWER = re.compile(r"b(?!lr|ctr)")
_RISCV = re.compile(r"b|j|c\.(?:b|j)|jal")
_TARGET = re.compile(r"(?:^|[ ,#])(0x[0-9a-f]{1,16})$")
_ATT = 1
MAX_TEXT = 200


class Instruction(NamedTuple):
    """address: in the binary. size: bytes. text: mnemonic and operands. target: where it jumps to or what it calls."""

    address: int
    size: int
    text: str
    target: int | None


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
        self._branches: dict[str, bool] = {}
        self._engine = capstone.Cs(architecture, mode)
        if architecture == capstone.CS_ARCH_X86:
            self._engine.syntax = capstone.CS_OPT_SYNTAX_ATT
        # Bytes that are no instruction, such as tables, are shown as such.
        self._engine.skipdata = True

    def disassemble(self, code: bytes, start: int) -> Iterator[Instruction]:
        """The instructions of `code`, which begins at the address `start`."""
        if not self.is_known:
            return
        branches = self._branches
        for address, size, mnemonic, operands in self._engine.disasm_lite(code, start):
            is_branch = branches.get(mnemonic)
            if is_branch is None:
                is_branch = branches[mnemonic] = bool(self._branch.match(mnemonic))
            text = f"{mnemonic:<7} {operands}"[:MAX_TEXT] if operands else mnemonic
            found = _TARGET.search(operands) if is_branch else None
            yield Instruction(address, size, text, int(found[1], 16) if found else None)
