"""Instructions of machine code, by Capstone, in the syntax of perf annotate (AT&T on x86)."""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass

import capstone
import numpy as np
import pyarrow as pa

from ...domain.arrays import Array

_X86 = re.compile(r"j|call|loop|xbegin")
_ARM = re.compile(r"b$|bl$|blx$|b\.|b(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)$|cbn?z|tbn?z")
_POWER = re.compile(r"b(?!lr|ctr)")
_RISCV = re.compile(r"b|j|c\.(?:b|j)|jal")
_TARGET = re.compile(rb"(?:^|[ ,#])(0x[0-9a-f]{1,16})$")
MNEMONIC_BYTES = 7
USUAL_BYTES = 40
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
    """Instructions of some pieces of code, in order. count: of each piece. address: uint64, in the binary. size: uint8,
    bytes. texts: mnemonics and operands. jumps: the rows of those that jump or call, to `targets` (uint64)."""

    count: list[int]
    address: Array
    size: Array
    texts: pa.StringArray
    jumps: Array
    targets: Array


class Disassembler:
    """Disassembles code of one kind of machine. is_known: whether it can."""

    def __init__(self, machine: str, little_endian: bool) -> None:
        order = capstone.CS_MODE_LITTLE_ENDIAN if little_endian else capstone.CS_MODE_BIG_ENDIAN
        kinds = {
            "x64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64, _X86, b"jclx"),
            "x86": (capstone.CS_ARCH_X86, capstone.CS_MODE_32, _X86, b"jclx"),
            "AArch64": (capstone.CS_ARCH_ARM64, order, _ARM, b"bct"),
            "ARM": (capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM | order, _ARM, b"bct"),
            "64-bit PowerPC": (capstone.CS_ARCH_PPC, capstone.CS_MODE_64 | order, _POWER, b"b"),
            "RISC-V": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC, _RISCV, b"bcj"),
        }
        self.is_known = machine in kinds
        if not self.is_known:
            return
        architecture, mode, self._branch, letters = kinds[machine]
        self._first_letters = np.frombuffer(letters, np.uint8)
        self._engine = capstone.Cs(architecture, mode)
        if architecture == capstone.CS_ARCH_X86:
            self._engine.syntax = capstone.CS_OPT_SYNTAX_ATT
        # Bytes that are no instruction, such as tables, are shown as such.
        self._engine.skipdata = True

    def disassemble(self, pieces: Sequence[tuple[bytes, int]]) -> Instructions:
        """The instructions of pieces of code, each with its address; none on an unknown machine."""
        parts = [self._run(code, start) if self.is_known else b"" for code, start in pieces]
        found = np.frombuffer(b"".join(parts), _LAYOUT)
        names, operands = _find_texts(found, "mnemonic"), _find_texts(found, "op_str")
        jumps: list[int] = []
        targets: list[int] = []
        for row in self._list_branches(names):
            if match := _TARGET.search(operands.get(row)):
                jumps.append(row)
                targets.append(int(match[1], 16))
        return Instructions(
            [len(part) // _LAYOUT.itemsize for part in parts],
            found["address"].copy(),
            found["size"].astype(np.uint8),
            _join_texts(names, operands),
            np.array(jumps, np.int64),
            np.array(targets, np.uint64),
        )

    def _list_branches(self, names: "_FieldTexts") -> list[int]:
        """The rows of instructions that may have a target."""
        rows = np.flatnonzero(np.isin(names.characters[:, 0], self._first_letters))
        width = names.characters.shape[1]
        few = names.characters[rows] * (np.arange(width) < names.length[rows, np.newaxis])
        words = few.view(f"S{width}").ravel().tolist()
        branches = {word for word in set(words) if self._branch.match(word.decode("latin-1"))}
        return [row for row, word in zip(rows.tolist(), words, strict=True) if word in branches]

    def _run(self, code: bytes, start: int) -> bytes:
        """Capstone's structures of the instructions."""
        pointer = ctypes.POINTER(_STRUCTURE)()
        count = capstone._cs.cs_disasm(self._engine.csh, code, len(code), start, 0, ctypes.byref(pointer))
        if not count:
            return b""
        try:
            return ctypes.string_at(pointer, count * _LAYOUT.itemsize)
        finally:
            capstone._cs.cs_free(pointer, count)


@dataclass(frozen=True, eq=False)
class _FieldTexts:
    """A field of Capstone's structures. characters: uint8[instructions, at least as many as the longest has], with
    anything behind the end of each. length: int64, of each."""

    characters: Array
    length: Array

    def get(self, row: int) -> bytes:
        """The text of an instruction."""
        return self.characters[row, : self.length[row]].tobytes()


def _find_texts(found: Array, field: str) -> _FieldTexts:
    offset, size = getattr(_STRUCTURE, field).offset, getattr(_STRUCTURE, field).size
    text = found.view(np.uint8).reshape(len(found), _LAYOUT.itemsize)[:, offset : offset + size]
    # Most are short.
    length = (text[:, :USUAL_BYTES] == 0).argmax(axis=1)
    unknown = np.flatnonzero((length == 0) & (text[:, 0] != 0))
    length[unknown] = (text[unknown] == 0).argmax(axis=1)
    return _FieldTexts(text[:, : int(length.max(initial=0)) + 1], length)


def _join_texts(names: _FieldTexts, operands: _FieldTexts) -> pa.StringArray:
    """Mnemonics, filled with spaces up to MNEMONIC_BYTES, and operands behind a space."""
    width, rest = max(names.characters.shape[1], MNEMONIC_BYTES + 1), operands.characters.shape[1]
    joined = np.full((len(names.length), width + rest), ord(" "), np.uint8)
    place, is_behind = np.arange(names.characters.shape[1]), names.length[:, np.newaxis]
    np.copyto(joined[:, : len(place)], names.characters, where=place < is_behind)
    joined[:, width:] = operands.characters
    filled = np.where(operands.length > 0, np.maximum(names.length, MNEMONIC_BYTES) + 1, names.length)
    kept = np.concatenate(
        (
            np.arange(width) < filled[:, np.newaxis],
            np.arange(rest) < operands.length[:, np.newaxis],
        ),
        axis=1,
    )
    text = joined[kept]
    # Texts are ASCII; other bytes would not be UTF-8.
    text[text >= 128] = ord("?")
    offsets = np.concatenate(([0], np.cumsum(filled + operands.length))).astype(np.int32)
    return pa.StringArray.from_buffers(len(names.length), pa.py_buffer(offsets.tobytes()), pa.py_buffer(text.tobytes()))
