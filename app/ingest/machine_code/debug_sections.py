"""The sections with debug information, and the headers of their units (DWARF 2 to 5, sections 6.1.2 and 7.5.1 of the
DWARF 5 standard)."""

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array
from .abbreviations import AbbreviationCache, Abbreviations, UnitSizes
from .elf_image import ElfImage

NAMES = tuple(
    b".debug_" + name
    for name in (b"info", b"line", b"abbrev", b"str", b"line_str", b"str_offsets", b"addr", b"ranges", b"rnglists")
)
MAX_BYTES = 1 << 30
"""Of the sections `NAMES`, when decompressed."""
MAX_UNITS, MAX_TABLES = 1 << 20, 16
"""MAX_TABLES: of abbreviations that are kept. Only units of programs that were optimized as a whole share them."""
_SPLIT_UNITS, _TYPE_UNITS, _ID_BYTES = (4, 5), (2, 6), 8
"""Types of units whose header has an ID: skeletons and what they refer to; of type units also an offset."""
_ESCAPE_64 = 0xFFFFFFFF
_CHECK_EVERY = 256


class UnitHeader(NamedTuple):
    """The header of a unit. offset, entries, end: in .debug_info, of the unit, its first entry and what follows it.
    abbreviations: offset of its abbreviations."""

    offset: int
    version: int
    sizes: UnitSizes
    abbreviations: int
    entries: int
    end: int


@dataclass(frozen=True, eq=False)
class AddressRanges:
    """The code of units, sorted by start. start, end: uint64, [start, end). unit: int64, offset of the unit."""

    start: Array
    end: Array
    unit: Array

    def find(self, addresses: Array) -> Array:
        """The offset of the unit of each address, -1 for none. addresses: uint64."""
        if not len(self.start):
            return np.full(len(addresses), -1, np.int64)
        row = np.searchsorted(self.start, addresses, "right") - 1
        inside = (row >= 0) & (addresses < self.end[np.maximum(row, 0)])
        found: Array = np.where(inside, self.unit[np.maximum(row, 0)], -1)
        return found


class DebugSections:
    """Sections with debug information, read when they are needed. read: gives the content of one by its name without
    ".debug_", empty if there is none. order: "<" or ">"."""

    def __init__(self, read: Callable[[str], bytes], order: str) -> None:
        self._read, self.order = read, order
        self._tables: dict[tuple[int, UnitSizes], Abbreviations] = {}
        self._cache = AbbreviationCache()
        self._headers: list[UnitHeader] = []
        self._header_offsets: list[int] = []

    @classmethod
    def of_image(cls, image: ElfImage) -> "DebugSections":
        """The sections of an ELF file."""

        def read(name: str) -> bytes:
            section = image.find_section(b".debug_" + name.encode())
            return image.read_section(section, MAX_BYTES) if section else b""

        return cls(read, image.order)

    @classmethod
    def of_contents(cls, contents: Mapping[str, bytes], order: str = "<") -> "DebugSections":
        """Sections by their names without ".debug_"."""
        return cls(lambda name: contents.get(name, b""), order)

    @cached_property
    def info(self) -> bytes:
        """.debug_info; the other properties are the sections of their names."""
        return self._read("info")

    @cached_property
    def abbreviations(self) -> bytes:
        """.debug_abbrev."""
        return self._read("abbrev")

    @cached_property
    def lines(self) -> bytes:
        """.debug_line."""
        return self._read("line")

    @cached_property
    def strings(self) -> bytes:
        """.debug_str."""
        return self._read("str")

    @cached_property
    def line_strings(self) -> bytes:
        """.debug_line_str."""
        return self._read("line_str")

    @cached_property
    def string_offsets(self) -> bytes:
        """.debug_str_offsets."""
        return self._read("str_offsets")

    @cached_property
    def addresses(self) -> bytes:
        """.debug_addr."""
        return self._read("addr")

    @cached_property
    def ranges(self) -> bytes:
        """.debug_ranges."""
        return self._read("ranges")

    @cached_property
    def range_lists(self) -> bytes:
        """.debug_rnglists."""
        return self._read("rnglists")

    def get_abbreviations(self, offset: int, sizes: UnitSizes) -> Abbreviations:
        """The abbreviations at an offset."""
        key = offset, sizes
        if key not in self._tables:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            self._tables[key] = Abbreviations(self.abbreviations, offset, sizes, self._cache)
        return self._tables[key]

    def read_header(self, offset: int) -> UnitHeader:
        """The header of the unit at an offset. Raises struct.error, ValueError."""
        data, order = self.info, self.order
        length, at = read_initial_length(data, offset, order)
        size = 8 if at - offset == 12 else 4
        end = at + length
        (version,) = struct.unpack_from(f"{order}H", data, at)
        pointer = "Q" if size == 8 else "I"
        if 2 <= version <= 4:
            abbreviations, address = struct.unpack_from(f"{order}{pointer}B", data, at + 2)
            entries = at + 2 + size + 1
        elif version == 5:
            kind, address, abbreviations = struct.unpack_from(f"{order}BB{pointer}", data, at + 2)
            entries = at + 4 + size + (_ID_BYTES if kind in _SPLIT_UNITS else 0)
            if kind in _TYPE_UNITS:
                entries += _ID_BYTES + size
        else:
            raise ValueError(f"debug information of version {version}")
        if address not in (4, 8):
            raise ValueError(f"addresses of {address} bytes")
        sizes = UnitSizes(address, size, address if version == 2 else size, order)
        return UnitHeader(offset, version, sizes, abbreviations, entries, min(end, len(data)))

    def list_headers(self, check: Callable[[], None]) -> list[UnitHeader]:
        """The headers of all units, up to the first that is damaged. check: called now and then, may raise."""
        if not self._headers:
            at = 0
            while at < len(self.info) and len(self._headers) < MAX_UNITS:
                if not len(self._headers) % _CHECK_EVERY:
                    check()
                try:
                    header = self.read_header(at)
                except (struct.error, ValueError):
                    break
                self._headers.append(header)
                at = header.end
            self._header_offsets = [header.offset for header in self._headers]
        return self._headers

    def find_header(self, offset: int, check: Callable[[], None]) -> UnitHeader:
        """The header of the unit that contains an offset. Raises LookupError."""
        headers = self.list_headers(check)
        place = bisect_right(self._header_offsets, offset) - 1
        if place < 0 or offset >= headers[place].end:
            raise LookupError("an entry outside of all units")
        return headers[place]

    def read_address_ranges(self) -> AddressRanges:
        """.debug_aranges, up to the first part that is damaged: the code of units, which not all compilers write."""
        data = self._read("aranges")
        starts, ends, units, at = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], 0
        while at < len(data):
            try:
                length, begin = read_initial_length(data, at, self.order)
                pointer, size = ("Q", 8) if begin - at == 12 else ("I", 4)
                version, unit, address, segment = struct.unpack_from(f"{self.order}H{pointer}BB", data, begin)
            except struct.error:
                break
            end, width = begin + length, 2 * address
            if version != 2 or address not in (4, 8) or segment or unit >= 2**63:
                break
            # The first pair is at a multiple of its size from the start of the set.
            first = begin + 4 + size
            first = at - (at - first) // width * width
            at, kind = end, f"{self.order}u{address}"
            count = max(0, min(end, len(data)) - first) // width
            pairs = np.frombuffer(data, kind, 2 * count, first).reshape(count, 2).astype(np.uint64)
            last = pairs[:, 0] + pairs[:, 1]
            pairs, last = pairs[last > pairs[:, 0]], last[last > pairs[:, 0]]
            starts.append(pairs[:, 0])
            ends.append(last)
            units.append(np.full(len(pairs), unit, np.int64))
        start, stop, unit_of = np.concatenate(starts), np.concatenate(ends), np.concatenate(units)
        order = np.argsort(start, kind="stable")
        return AddressRanges(start[order], stop[order], unit_of[order])


def read_initial_length(data: bytes, at: int, order: str) -> tuple[int, int]:
    """(the length of what follows, where that begins). Raises struct.error."""
    (length,) = struct.unpack_from(f"{order}I", data, at)
    if length != _ESCAPE_64:
        return length, at + 4
    (length,) = struct.unpack_from(f"{order}Q", data, at + 4)
    return length, at + 12
