"""profile.db of database version 4: the values of each thread, and what identifies it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Float64Array, Int64Array
from ...domain.errors import UnreadableInput
from .binary_file import BinaryFile
from .parts import PROFILE
from .prefixed_stream import PrefixedStream

FOOTER = b"_prof.db"
INFOS, _IDENTIFIERS = 0, 1
SUMMARY = 1
_PHYSICAL = 1
_VALUE = np.dtype([("metric", "<u2"), ("value", "<f8")])
_INDEX = np.dtype([("context", "<u4"), ("start", "<u8")])
_INFO = [
    *(("values_count", "<u8", 0), ("values", "<u8", 8), ("contexts_count", "<u4", 16), ("contexts", "<u8", 24)),
    *(("identifiers", "<u8", 32), ("flags", "<u4", 40)),
]


@dataclass(frozen=True)
class Identifier:
    """One of the identifiers of a thread: a kind, as the index of its name in meta.db, and a number."""

    kind: int
    logical: int
    physical: int | None


@dataclass(frozen=True)
class ThreadValues:
    """The values of a thread: context ids, metric ids and values, of equal length."""

    identifiers: tuple[Identifier, ...]
    context: Int64Array
    metric: Int64Array
    value: Float64Array


class ProfileDb:
    """The content of a profile.db."""

    def __init__(self, stream: PrefixedStream, source: str) -> None:
        """Raises UnreadableInput if it is damaged."""
        file = self._file = BinaryFile(stream, source, PROFILE, FOOTER, 2)
        self.complete = file.complete
        pointer, count, size = file.unpack("<QIB", file.section(INFOS))
        infos = file.structures(_INFO, count, size, pointer)
        self._infos = infos[(infos["flags"] & SUMMARY) == 0]
        # The blocks of threads do not overlap. Without this check a small file could announce any number of values.
        if float(self._infos["values_count"].astype(np.float64).sum()) * _VALUE.itemsize > len(file.data):
            raise UnreadableInput(f"{source} is damaged: it announces more values than it has bytes. Copy it again.")

    def __len__(self) -> int:
        return len(self._infos)

    def threads(self) -> Iterator[ThreadValues | UnreadableInput]:
        """The values of each thread, without summaries of several; an error for those that cannot be read."""
        for row in range(len(self._infos)):
            try:
                yield self._read_thread(self._infos[row])
            except UnreadableInput as error:
                yield error

    def _read_thread(self, info: Array) -> ThreadValues:
        file = self._file
        values_count, values_at, contexts_count, contexts_at, identifiers_at, _ = info.tolist()
        values = file.array(_VALUE, values_count, values_at)
        index = file.array(_INDEX, contexts_count, contexts_at)
        bounds = np.append(index["start"], np.uint64(values_count))
        if (bounds[1:] < bounds[:-1]).any() or (len(index) and bounds[0] != 0):
            raise UnreadableInput(f"{file.name} is damaged: the values of a thread are not in order. Copy it again.")
        sizes = np.diff(bounds).astype(np.int64)
        context = np.repeat(index["context"].astype(np.int64), sizes)
        return ThreadValues(
            self._read_identifiers(identifiers_at),
            context,
            values["metric"][: len(context)].astype(np.int64),
            values["value"][: len(context)].astype(np.float64),
        )

    def _read_identifiers(self, at: int) -> tuple[Identifier, ...]:
        if not at:
            return ()
        (count,) = self._file.unpack("<H", at)
        rows = self._file.structures(
            [("kind", "u1", 0), ("flags", "<u2", 2), ("logical", "<u4", 4), ("physical", "<u8", 8)], count, 16, at + 8
        )
        return tuple(
            Identifier(kind, logical, physical if flags & _PHYSICAL else None)
            for kind, flags, logical, physical in rows.tolist()
        )
