"""The tables of an ELF file: sections, segments, build id. Of hostile files, what can be read.

Formats: System V ABI, chapters 4 and 5; GNU build ids and debug links as in the manual of binutils and GDB.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import zstandard

from ...domain.arrays import Array
from ...domain.errors import UnreadableInput

MAX_SECTIONS = 1 << 16
MAX_SEGMENTS = 1 << 12
MAX_NAMES_BYTES = 4 << 20
MAX_NOTE_BYTES = 1 << 16
MAX_LINK_BYTES = 4096 + 8
PT_LOAD, PT_NOTE = 1, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 7, 8, 11
SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 2, 4, 0x800
NT_GNU_BUILD_ID = 3
ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD = 1, 2
_SECTION = {
    True: "name u4, type u4, flags u8, addr u8, offset u8, size u8, link u4, info u4, align u8, entsize u8",
    False: "name u4, type u4, flags u4, addr u4, offset u4, size u4, link u4, info u4, align u4, entsize u4",
}
_SEGMENT = {
    True: "type u4, flags u4, offset u8, vaddr u8, paddr u8, filesz u8, memsz u8, align u8",
    False: "type u4, offset u4, vaddr u4, paddr u4, filesz u4, memsz u4, flags u4, align u4",
}


def make_record(text: str, order: str) -> np.dtype[np.void]:
    """The type of a record with fields like "name u4, type u4". order: "<" or ">"."""
    return np.dtype([(name, order + kind) for name, kind in (field.split() for field in text.split(", "))])


def make_segments(rows: Sequence[tuple[int, ...]], *, is_64: bool, order: str) -> Array:
    """The table `ElfImage.segments` of rows of (type, flags, offset, address, bytes in the file)."""
    segments = np.zeros(len(rows), make_record(_SEGMENT[is_64], order))
    for name, column in zip(("type", "flags", "offset", "vaddr", "filesz"), zip(*rows, strict=True), strict=False):
        segments[name] = column
    return segments


@dataclass(frozen=True)
class SectionHeader:
    """A section header, with its name and number."""

    number: int
    name: bytes
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    entsize: int


@dataclass(frozen=True, eq=False)
class ElfImage:
    """An ELF file. machine: e_machine. segments: of `_SEGMENT`, all of them. kind: e_type."""

    stream: BinaryIO
    size: int
    is_64: bool
    order: str
    machine: int
    sections: tuple[SectionHeader, ...]
    segments: Array
    kind: int

    @staticmethod
    def read(stream: BinaryIO) -> "ElfImage":
        """Read the headers. Raises UnreadableInput if it is not an ELF file or its header is damaged."""
        size = stream.seek(0, os.SEEK_END)
        head = _read_at(stream, size, 0, 64)
        if head[:4] != b"\x7fELF" or head[4:5] not in (b"\1", b"\2") or head[5:6] not in (b"\1", b"\2"):
            raise UnreadableInput("It is not an ELF file.")
        is_64, order = head[4] == 2, "<" if head[5] == 1 else ">"
        try:
            fields = struct.unpack_from(f"{order}HHI{'QQQ' if is_64 else 'III'}IHHHHHH", head, 16)
        except struct.error:
            raise UnreadableInput("Its ELF header is incomplete.") from None
        machine, segments_at, sections_at = fields[1], fields[4], fields[5]
        segment_count, section_count, names_in = fields[9], fields[11], fields[12]
        record = make_record(_SECTION[is_64], order)
        first = np.frombuffer(_read_records(stream, size, sections_at, record, 1), record)
        if sections_at and len(first):
            # Counts that do not fit the header are in the first section.
            section_count = section_count or int(first["size"][0])
            names_in = int(first["link"][0]) if names_in == 0xFFFF else names_in
        rows = np.frombuffer(_read_records(stream, size, sections_at, record, min(section_count, MAX_SECTIONS)), record)
        names = b""
        if names_in < len(rows) and rows["type"][names_in] != SHT_NOBITS:
            names_size = min(int(rows["size"][names_in]), MAX_NAMES_BYTES)
            names = _read_at(stream, size, int(rows["offset"][names_in]), names_size)
        columns = ("name", "type", "flags", "addr", "offset", "size", "link", "info", "entsize")
        sections = tuple(
            SectionHeader(number, names[at : max(at, names.find(b"\0", at, at + 256))], *others)
            for number, (at, *others) in enumerate(zip(*(rows[name].tolist() for name in columns), strict=True))
        )
        kind = make_record(_SEGMENT[is_64], order)
        segments = np.frombuffer(_read_records(stream, size, segments_at, kind, min(segment_count, MAX_SEGMENTS)), kind)
        return ElfImage(stream, size, is_64, order, machine, sections, segments, fields[0])

    def find_addresses(self, value: Array, section: Array) -> Array:
        """The addresses of symbols. value, section: as their table has them."""
        return value

    def find_section(self, name: bytes) -> SectionHeader | None:
        """The first section with a name."""
        return next((one for one in self.sections if one.name == name), None)

    def read_section(self, section: SectionHeader, most: int) -> bytes:
        """Its content, decompressed; shorter in a truncated file, and empty if it has more bytes than `most`."""
        if section.type == SHT_NOBITS or section.size > most:
            return b""
        data = _read_at(self.stream, self.size, section.offset, section.size)
        if not section.flags & SHF_COMPRESSED:
            return data
        kind, size, start = self._read_compression(data)
        if not 0 < size <= most:
            return b""
        try:
            if kind == ELFCOMPRESS_ZLIB:
                return zlib.decompressobj().decompress(data[start:], size)
            if kind == ELFCOMPRESS_ZSTD:
                return zstandard.ZstdDecompressor().stream_reader(data[start:]).read(size)
        except (zlib.error, zstandard.ZstdError):
            pass
        return b""

    def measure_section(self, section: SectionHeader) -> int:
        """How many bytes `read_section` would give at most."""
        if section.type == SHT_NOBITS or not section.flags & SHF_COMPRESSED:
            return 0 if section.type == SHT_NOBITS else section.size
        return self._read_compression(_read_at(self.stream, self.size, section.offset, 24))[1]

    def _read_compression(self, data: bytes) -> tuple[int, int, int]:
        """(kind, bytes when decompressed, where the content begins) of a compressed section; zeros if it is damaged."""
        head = struct.Struct(f"{self.order}{'IIQQ' if self.is_64 else 'III'}")
        if len(data) < head.size:
            return 0, 0, 0
        kind, *others = head.unpack_from(data)
        return kind, others[-2], head.size

    @property
    def build_id(self) -> str | None:
        """In hexadecimal digits; None without one."""
        found = (parse_build_id(data, self.order) for data in self._list_notes())
        return next((build_id for build_id in found if build_id), None)

    def _list_notes(self) -> Iterator[bytes]:
        for section in self.sections:
            if section.type == SHT_NOTE:
                yield self.read_section(section, MAX_NOTE_BYTES)
        notes = self.segments[self.segments["type"] == PT_NOTE]
        for offset, size in zip(notes["offset"].tolist(), notes["filesz"].tolist(), strict=True):
            yield _read_at(self.stream, self.size, offset, min(size, MAX_NOTE_BYTES))

    @property
    def debug_link(self) -> tuple[bytes, int] | None:
        """(name, CRC-32) of the file with its symbols; None without one."""
        section = self.find_section(b".gnu_debuglink")
        data = self.read_section(section, MAX_LINK_BYTES) if section else b""
        name = data.partition(b"\0")[0]
        at = len(name) + 4 & ~3
        if not name or b"/" in name or name == b".." or at + 4 > len(data):
            return None
        (checksum,) = struct.unpack_from(f"{self.order}I", data, at)
        return name, checksum

    def find_offsets(self, addresses: Array, without_segment: Array) -> Array:
        """Offsets in the file of addresses of the program, as perf computes them: by the first segment in memory that
        has an address. without_segment: uint64, what is subtracted from the others."""
        offsets: Array = addresses - without_segment
        todo = np.ones(len(addresses), bool)
        loaded = self.segments[self.segments["type"] == PT_LOAD]
        columns = (loaded[name].tolist() for name in ("vaddr", "offset", "filesz", "memsz"))
        for address, offset, size, memory_size in zip(*columns, strict=True):
            low, high = np.uint64(address), np.uint64(min(address + max(size, memory_size), 2**64 - 1))
            inside = todo & (addresses >= low) & (addresses < high)
            offsets[inside] = addresses[inside] - np.uint64((address - offset) % 2**64)
            todo &= ~inside
        return offsets


def parse_build_id(notes: bytes, order: str = "<") -> str | None:
    """The build id in notes of ELF files; None without one."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(f"{order}III", notes, at)
        content = at + 12 + (name_size + 3 & ~3)
        if kind == NT_GNU_BUILD_ID and notes[at + 12 : at + 12 + name_size] == b"GNU\0":
            return notes[content : content + size].hex() or None
        at = content + (size + 3 & ~3)
    return None


def _read_at(stream: BinaryIO, size: int, offset: int, count: int) -> bytes:
    """At most `count` bytes; fewer at the end of the file."""
    if offset >= size or count <= 0:
        return b""
    stream.seek(offset)
    return stream.read(min(count, size - offset))


def _read_records(stream: BinaryIO, size: int, offset: int, record: np.dtype[np.void], count: int) -> bytes:
    data = _read_at(stream, size, offset, record.itemsize * count)
    return data[: len(data) // record.itemsize * record.itemsize]
