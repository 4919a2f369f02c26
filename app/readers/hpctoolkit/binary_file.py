"""A binary file of database version 4: header, sections, and checked access by offsets.

Definition: doc/FORMATS.md of HPCToolkit. All numbers are little endian, all pointers are offsets in the file.
"""

import struct
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import UnreadableInput
from ...ingest.perf_text.grammar import decode_text
from .format import MAX_NAME_CHARS
from .prefixed_stream import PrefixedStream

MAJOR = 4
HEADER_BYTES = 16
FOOTER_BYTES = 8


class BinaryFile:
    """The content of a file. Every access is checked: one outside of the file raises UnreadableInput."""

    def __init__(self, stream: PrefixedStream, name: str, magic: bytes, footer: bytes, sections: int) -> None:
        """magic, footer: the first and last bytes of such a file. sections: how many it has. Raises UnreadableInput."""
        self.name = name
        self.data = stream.read()
        if not self.data.startswith(magic) or len(self.data) < HEADER_BYTES:
            raise UnreadableInput(f"{name} does not begin with {magic.decode()}. Copy it again.")
        major = self.data[14]
        self.version = f"{major}.{self.data[15]}"
        if major != MAJOR:
            raise UnreadableInput(
                f"{name} has version {self.version} of the format of HPCToolkit; version {MAJOR} is read. Make the "
                "database again with the hpcprof of HPCToolkit 2022.10 or later."
            )
        defect = getattr(stream, "defect", None)
        self.complete = self.data.endswith(footer) and not defect
        self._sections = [self.unpack("<QQ", HEADER_BYTES + 16 * number) for number in range(sections)]

    def section(self, number: int) -> int:
        """The offset of a section."""
        return int(self._sections[number][1])

    def section_bytes(self, number: int) -> int:
        """The size of a section, at most what the file has."""
        return min(int(self._sections[number][0]), max(0, len(self.data) - self.section(number)))

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """The fields of a structure."""
        try:
            return struct.unpack_from(form, self.data, at)
        except (struct.error, OverflowError):
            raise self.damaged(at) from None

    def array(self, kind: Any, count: int, at: int) -> Array:
        """`count` elements of a numpy type."""
        size = np.dtype(kind).itemsize
        if at < 0 or count < 0 or at > len(self.data) or count > (len(self.data) - at) // size:
            raise self.damaged(at)
        return np.frombuffer(self.data, kind, count, at)

    def structures(self, fields: list[tuple[str, str, int]], count: int, size: int, at: int) -> Array:
        """`count` structures of `size` bytes, of which only `fields` (name, type, offset) are used: later versions
        may add others."""
        names, formats, offsets = zip(*fields, strict=True)
        least = max(offset + np.dtype(form).itemsize for _, form, offset in fields)
        if count and size < least:
            raise UnreadableInput(f"{self.name} is damaged: it has structures of {size} bytes instead of {least}.")
        kind = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": max(size, least)})
        return self.array(kind, count, at)

    def text(self, at: int) -> str:
        """The text at an offset, up to the zero byte after it."""
        if at <= 0 or at >= len(self.data):
            raise self.damaged(at)
        end = self.data.find(b"\0", at, at + MAX_NAME_CHARS)
        return decode_text(self.data[at : end if end >= 0 else at + MAX_NAME_CHARS])

    def damaged(self, at: int) -> UnreadableInput:
        """The error about a pointer that is outside of the file."""
        return UnreadableInput(
            f"{self.name} is damaged or truncated: it refers to byte {at:,}, and has {len(self.data):,}. Copy it again."
        )
