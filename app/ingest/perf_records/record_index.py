"""Where the records of a perf.data file are.

A record starts with its type, flags and size in 8 bytes; all sizes are multiples of 8, so a file is an array of words.
"""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import zstandard

from ...domain.arrays import Array, Int64Array
from .packed_records import RecordUnpacker
from .record_places import OddSize, find_places
from .unsupported import UnsupportedRecords

SAMPLE = 9
"""PERF_RECORD_SAMPLE."""
_TRACING_DATA, _AUXTRACE, _PACKED, _PACKED_SIZED = 66, 71, 81, 83
_PART = 1 << 18
"""How many words are read before their memory is released."""
_INCOMPLETE = "its last record is not complete"


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """Records in the order of the file. words: all of them, uint64. place: of each record in `words`. kind: its type.
    flags: `misc` of its header. size: in words. release: called when words that were read are not needed for some time.
    """

    words: Array
    place: Int64Array
    kind: Array
    flags: Array
    size: Array
    release: Callable[[], object]

    @cached_property
    def other_rows(self) -> Int64Array:
        """The rows of records that are not samples, which are few."""
        return np.flatnonzero(self.kind != SAMPLE)

    def read_words(self, places: Int64Array) -> Array:
        """The words at these places, which ascend more or less."""
        found = np.empty(len(places), np.uint64)
        for start in range(0, len(places), _PART):
            part = slice(start, start + _PART)
            found[part] = self.words[places[part]]
            self.release()
        return found

    def read_record(self, row: int) -> bytes:
        """A record, with its header."""
        place = int(self.place[row])
        return self.words[place : place + int(self.size[row])].tobytes()


def index_records(
    data: bytes | memoryview,
    start: int,
    end: int,
    max_bytes: int,
    piped: bool = False,
    cut: bool = False,
    release: Callable[[], object] = lambda: None,
    compiled: bool = False,
) -> RecordIndex:
    """The records between two positions of a file; packed ones (`perf record -z`) are unpacked.

    max_bytes: of all unpacked records. piped: the file was written into a pipe. cut: the end of the file is missing.
    release: called when what was read of the data is not needed for some time. compiled: see `find_places`. Raises
    UnsupportedRecords.
    """

    def index_words(words: Array) -> RecordIndex:
        # Compiled loops are for arrays that cannot be changed. A damaged header may have the records begin anywhere.
        words = words if words.flags.aligned else words.copy()
        words.flags.writeable = False
        return RecordIndex(words, *find_places(words, release, compiled=compiled), release)

    if piped or (end - start) % 8:
        return index_words(np.frombuffer(_repack(data, start, end, max_bytes, cut), "<u8"))
    try:
        index = index_words(np.frombuffer(data, "<u8", (end - start) // 8, start))
    except OddSize:
        index = None
    if index is None or np.isin(index.kind, (_PACKED, _PACKED_SIZED)).any():
        return index_words(np.frombuffer(_repack(data, start, end, max_bytes, cut), "<u8"))
    return index


class _BoundedBuffer(io.RawIOBase):
    """Collects what is written to it. Raises UnsupportedRecords for more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def write(self, data: Any) -> int:
        if len(self.data) + len(data) > self._limit:
            raise UnsupportedRecords(f"its records have more than {self._limit:,} bytes when decompressed")
        self.data += data
        return len(data)

    def writable(self) -> bool:
        return True


def _repack(data: bytes | memoryview, start: int, end: int, max_bytes: int, cut: bool) -> bytearray:
    """All records, each a multiple of 8 bytes. Those that were packed replace the packed ones, in which a
    record may continue in the next one. Formats of tracepoints, which follow a record of a piped file, are left out."""
    out, rest = bytearray(), _BoundedBuffer(max_bytes)
    unpacker = RecordUnpacker(rest)
    for kind, at, after in _walk(data, start, end, cut):
        if kind in (_PACKED, _PACKED_SIZED):
            packed = bytes(data[at + 8 : after])
            if kind == _PACKED_SIZED:
                packed = packed[8 : 8 + int.from_bytes(packed[:8], "little")]
            try:
                unpacker.write(packed)
            except zstandard.ZstdError:
                raise UnsupportedRecords("its records cannot be decompressed") from None
            stop = _find_end_of_records(rest.data)
            out += rest.data[:stop]
            del rest.data[:stop]
        else:
            out += data[at:after]
            if missing := -(after - at) % 8:
                place = len(out) - (after - at)
                out[place + 6 : place + 8] = min(after - at + missing, 0xFFF8).to_bytes(2, "little")
                out += bytes(missing)
        if len(out) + len(rest.data) > max_bytes:
            raise UnsupportedRecords(f"its records have more than {max_bytes:,} bytes when decompressed")
    if rest.data and not cut:
        raise UnsupportedRecords(_INCOMPLETE)
    return out


def _walk(data: bytes | memoryview, start: int, end: int, cut: bool) -> Iterator[tuple[int, int, int]]:
    """(type, start, end) of the records, of those that are complete."""
    head = struct.Struct("<IHH")
    at = start
    while at < end:
        if at + head.size > end:
            break
        kind, _, size = head.unpack_from(data, at)
        after = at + size
        if size < head.size:
            raise UnsupportedRecords(f"a record has {size:,} bytes")
        if kind == _AUXTRACE:
            raise UnsupportedRecords("it contains raw data of a processor's trace")
        if after > end:
            break
        yield kind, at, after
        at = after
        if kind == _TRACING_DATA and size >= 12:
            at += -(-int.from_bytes(data[at - size + 8 : at - size + 12], "little") // 8) * 8
    if at != end and not cut:
        raise UnsupportedRecords(_INCOMPLETE)


def _find_end_of_records(data: bytearray) -> int:
    """Where the last complete record ends."""
    at, end = 0, len(data)
    while at + 8 <= end:
        size = data[at + 6] | data[at + 7] << 8
        if size & 7 or not size:
            raise UnsupportedRecords(f"a record has {size:,} bytes")
        if at + size > end:
            break
        at += size
    return at
