"""Tables that are too large to be held: they come in pieces, from a file that holds what there is no room for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from ..domain.tables import SCHEMAS


@dataclass(frozen=True)
class ChunkedTable:
    """A table in pieces. rows: of all of them. iterate_batches: begins again from the first one, whenever it is
    called."""

    name: str
    rows: int
    iterate_batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_table(self) -> pa.Table:
        """The whole table, in memory."""
        return pa.Table.from_batches(list(self.iterate_batches()), SCHEMAS[self.name]).combine_chunks()


class SpillFile:
    """What is put aside until it is needed again. file: empty, may be written, read and sought in."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._end = 0

    def put(self, data: Any) -> int:
        """Put bytes aside; returns where they begin. Raises OSError."""
        view = memoryview(data).cast("B")
        start, at = self._end, 0
        self._file.seek(start)
        while at < len(view):
            at += self._file.write(view[at:])
        self._end += len(view)
        return start

    def get(self, start: int, size: int) -> bytearray:
        """`size` bytes that were put there. Raises OSError."""
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
