"""Numbers and texts in the sections of a file."""

import struct

from .unsupported import UnsupportedRecords


class ByteReader:
    """Reads numbers and texts one after the other. Raises UnsupportedRecords at the end of the data."""

    def __init__(self, data: bytes | memoryview, what: str = "the header of the file") -> None:
        """what: the data, for messages."""
        self._data = data
        self._at = 0
        self._what = what

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def read_bytes(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise UnsupportedRecords(f"{self._what} is damaged")
        self._at += count
        return bytes(self._data[self._at - count : self._at])

    def read_u32(self) -> int:
        value: int = struct.unpack("<I", self.read_bytes(4))[0]
        return value

    def read_u64(self) -> int:
        value: int = struct.unpack("<Q", self.read_bytes(8))[0]
        return value

    def read_text(self) -> bytes:
        """A text with its length before it, as perf writes it: padded with zeros."""
        return self.read_bytes(self.read_u32()).split(b"\0")[0]
