"""Tables that do not fit in memory: they are processed in chunks, from a spool file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from ..domain.tables import SCHEMAS


@dataclass(frozen=True)
class ChunkedTable:
    """A table in chunks. rows: of all chunks. iterate_batches: starts from the first chunk whenever it is called."""

    name: str
    rows: int
    iterate_batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_table(self) -> pa.Table:
        """The whole table, in memory."""
        return pa.Table.from_batches(list(self.iterate_batches()), SCHEMAS[self.name]).combine_chunks()


class SpillFile:
    """Data spooled to a file until it is needed again. file: empty, writable, readable and seekable."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0

    def put(self, data: Any) -> int:
        """Write bytes; returns their offset. Raises OSError."""
        view = memoryview(data).cast("B")
        start, at = self._end, 0
        self._file.seek(start)
        while at < len(view):
            at += self._file.write(view[at:])
        self._end += len(view)
        return start

    def get(self, start: int, size: int) -> bytearray:
        """`size` bytes that were written at an offset. Raises OSError."""
        data = bytearray(size)
        view, at = memoryview(data), 0
        self._file.seek(start)
        while at < size:
            part: bytes = self._file.read(min(size - at, 1 << 24))
            if not part:
                raise OSError("temporary data of the import is missing")
            view[at : at + len(part)] = part
            at += len(part)
        return data
