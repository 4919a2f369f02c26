"""What is needed of an ELF file: functions, machine code, build id.

Symbols are read as columns, because there may be hundreds of thousands.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import UnreadableInput
from .elf_image import PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, ElfImage
from .linked_image import ET_REL, LinkedImage
from .plt import PltEntry, list_plt_entries

MAX_TABLE_BYTES = 512 << 20
"""Of a symbol table or its names."""
MAX_NAME_BYTES = 4096
PERF_DIGITS = 40
"""Of a build id in perf.data."""
DAMAGED = (
    *(UnreadableInput, zlib.error, struct.error, OSError, LookupError, ValueError, TypeError, ArithmeticError),
    *(RecursionError, MemoryError),
)
"""What readers of damaged files raise."""
_EXECUTABLE = 1
MACHINES = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    21: "64-bit PowerPC",
    22: "IBM S/390",
    40: "ARM",
    43: "SPARC",
    62: "x64",
    183: "AArch64",
    243: "RISC-V",
    258: "LoongArch",
}
_ARM = 40
_FUNCTION_TYPES = (2, 10)
"""STT_FUNC and STT_GNU_IFUNC."""
_SYMBOL_64 = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
_SYMBOL_32 = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")]


def is_same_build(build_id: str | None, recorded: str) -> bool:
    """Whether a binary has the build id of a recording, both in hexadecimal digits. perf records 20 bytes: of longer
    ones the beginning, and old versions fill shorter ones with zeros."""
    return build_id is not None and build_id[:PERF_DIGITS].ljust(PERF_DIGITS, "0") == recorded.ljust(PERF_DIGITS, "0")


@dataclass(frozen=True, eq=False)
class Symbols:
    """Functions of a binary by start: one for each start. start, end: uint64, [start, end). name: offset in `names`."""

    start: Array
    end: Array
    name: Array
    names: bytes

    def name_of(self, row: int) -> str:
        """The raw name of a function."""
        begin = int(self.name[row])
        stop = self.names.find(b"\0", begin, begin + MAX_NAME_BYTES)
        return self.names[begin : stop if stop >= 0 else begin + MAX_NAME_BYTES].decode(errors="replace")

    def find(self, address: Array) -> Array:
        """The row of the function that contains each address, -1 for none. address: uint64."""
        if not len(self.start):
            return np.full(len(address), -1)
        row = np.searchsorted(self.start, address, "right") - 1
        inside = (row >= 0) & (address < self.end[np.maximum(row, 0)])
        found: Array = np.where(inside, row, -1)
        return found


@dataclass(frozen=True, eq=False)
class Binary:
    """An opened ELF file. machine: "x64", "AArch64" …. segments: (address, offset in the file, bytes) of the executable
    parts. debug: the file with its debug information, which may be another one."""

    image: ElfImage
    debug: ElfImage
    machine: str
    build_id: str | None
    symbols: Symbols
    segments: tuple[tuple[int, int, int], ...]

    @property
    def is_little_endian(self) -> bool:
        return self.image.order == "<"

    def read(self, start: int, size: int) -> bytes:
        """Machine code from an address on; shorter or empty where the file has none."""
        for address, offset, length in self.segments:
            if address <= start < address + length:
                with suppress(OSError, OverflowError):
                    self.image.stream.seek(offset + start - address)
                    return self.image.stream.read(min(size, address + length - start, self.image.size))
        return b""


def open_binary(stream: BinaryIO, find_debug: Callable[[str], BinaryIO | None] = lambda build_id: None) -> Binary:
    """The binary in an ELF file. find_debug: opens the separate file of its symbols and debug information, by build id.

    Raises UnreadableInput for other files.
    """
    try:
        image = _read_image(stream)
        loaded = image.segments[(image.segments["type"] == PT_LOAD) & (image.segments["flags"] & _EXECUTABLE > 0)]
        columns = (loaded[name].tolist() for name in ("vaddr", "offset", "filesz"))
        build_id = image.build_id
        debug = _find_debug(image, build_id, find_debug)
        symbols = _read_symbols([image] if debug is image else [debug, image])
        if len(symbols.start):
            symbols = _add_entries(symbols, list_plt_entries(image))
        machine = MACHINES.get(image.machine, f"machine {image.machine}")
        return Binary(image, debug, machine, build_id, symbols, tuple(zip(*columns, strict=True)))
    except DAMAGED:
        raise UnreadableInput("It is not a valid ELF file.") from None


def _read_image(stream: BinaryIO) -> ElfImage:
    image = ElfImage.read(stream)
    return LinkedImage.link(image) if image.kind == ET_REL else image


def _find_debug(image: ElfImage, build_id: str | None, find_debug: Callable[[str], BinaryIO | None]) -> ElfImage:
    if build_id is None or image.find_section(b".debug_line") is not None:
        return image
    stream = find_debug(build_id)
    if stream is None:
        return image
    try:
        beside = _read_image(stream)
        return beside if beside.build_id == build_id else image
    except DAMAGED:
        return image


def _add_entries(symbols: Symbols, entries: Sequence[PltEntry]) -> Symbols:
    """The symbols with entries of the procedure linkage table. Functions without a size end where these begin."""
    if not entries:
        return symbols
    lengths = np.cumsum([0, *(len(name) + 1 for _, _, name in entries)])[:-1] + len(symbols.names)
    names = symbols.names + b"".join(name + b"\0" for _, _, name in entries)
    start = np.append(symbols.start, np.array([low for low, _, _ in entries], np.uint64))
    end = np.append(symbols.end, np.array([high for _, high, _ in entries], np.uint64))
    order = np.argsort(start, kind="stable")
    start, end, name = start[order], end[order], np.append(symbols.name, lengths)[order]
    first = np.append(True, start[1:] != start[:-1])
    start, end, name = start[first], end[first], name[first]
    following = np.append(start[1:], end[-1:])
    is_entry = name >= len(symbols.names)
    before = np.append(is_entry[1:], False)
    return Symbols(start, np.where(before & (end > following), following, end), name, names)


def _read_symbols(images: Sequence[ElfImage]) -> Symbols:
    parts, names = [], b""
    kinds = (SHT_SYMTAB, SHT_DYNSYM)
    for image, table in [(one, s) for one in images for kind in kinds for s in one.sections if s.type == kind]:
        kind = np.dtype([(name, image.order + code) for name, code in (_SYMBOL_64 if image.is_64 else _SYMBOL_32)])
        if not 0 <= table.link < len(image.sections):
            continue
        data = image.read_section(table, MAX_TABLE_BYTES)
        strings = image.read_section(image.sections[table.link], MAX_TABLE_BYTES)
        found = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
        found = found[np.isin(found["info"] & 15, _FUNCTION_TYPES) & (found["section"] != 0)]
        value = image.find_addresses(found["value"].astype(np.uint64), found["section"])
        found, value = found[value != 0], value[value != 0]
        columns = [value, *(found[name].astype(np.uint64) for name in ("size", "name"))]
        columns.append((found["info"] >> 4).astype(np.uint64))
        columns[2] += np.uint64(len(names))
        if image.machine == _ARM:
            # The lowest bit says that it is Thumb code.
            columns[0] &= ~np.uint64(1)
        parts.append(columns)
        names += strings + b"\0"
    start, size, name, binding = (
        (np.concatenate(column) for column in zip(*parts, strict=True))
        if parts
        else (np.zeros(0, np.uint64) for _ in range(4))
    )
    # Of several names for one start the one with a size, then a global one.
    order_of = np.lexsort((binding != 1, size == 0, start))
    start, size, name = start[order_of], size[order_of], name[order_of]
    first = np.ones(len(start), bool)
    first[1:] = start[1:] != start[:-1]
    start, size, name = start[first], size[first], name[first]
    following = np.append(start[1:], start[-1:] + np.uint64(1))
    # Without a size, a function reaches to the next one. A sum that overflows is not valid.
    end = np.where(size > 0, start + size, following)
    return Symbols(start, np.where(end > start, end, start), name.astype(np.int64), names)
