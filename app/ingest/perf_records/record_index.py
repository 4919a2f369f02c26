"""Where the records of a perf.data file are.

A record starts with its type, flags and size in 8 bytes; all sizes are multiples of 8, so a file is an array of words.
"""

from array import array
from dataclasses import dataclass

import numpy as np
import zstandard

from ...domain.arrays import Array, Int64Array
from .unsupported import UnsupportedRecords

MAX_UNPACKED_RECORD = 1 << 30
_TRACING_DATA, _AUXTRACE, _PACKED, _PACKED_SIZED = 66, 71, 81, 83
_INCOMPLETE = "its last record is not complete"


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """Records in the order of the file. words: all of them, uint64. place: of each record in `words`. kind: its type.
    flags: `misc` of its header. size: in words."""

    words: Array
    place: Int64Array
    kind: Array
    flags: Array
    size: Int64Array

    def read_record(self, row: int) -> bytes:
        """A record, with its header."""
        place = int(self.place[row])
        return self.words[place : place + int(self.size[row])].tobytes()


def index_records(data: bytes | memoryview, start: int, end: int, max_bytes: int, piped: bool) -> RecordIndex:
    """The records between two positions of a file; packed ones (`perf record -z`) are unpacked.

    max_bytes: of all unpacked records. piped: the file was written into a pipe. Raises UnsupportedRecords.
    """
    if (end - start) % 8:
        raise UnsupportedRecords(_INCOMPLETE)
    words = np.frombuffer(data, "<u8", (end - start) // 8, start)
    index = _index_words(words, piped)
    if not np.isin(index.kind, (_PACKED, _PACKED_SIZED)).any():
        return index
    return _index_words(np.frombuffer(_unpack(index, max_bytes), "<u8"), piped)


def _index_words(words: Array, piped: bool) -> RecordIndex:
    place = np.frombuffer(_find_piped_places(words) if piped else _find_places(words), np.int64)
    heads = words[place]
    return RecordIndex(
        words,
        place,
        (heads & np.uint64(0xFFFFFFFF)).astype(np.int64),
        (heads >> np.uint64(32)).astype(np.uint16),
        (heads >> np.uint64(51)).astype(np.int64),
    )


def _find_places(words: Array) -> "array[int]":
    # A loop over a memoryview takes 0.1 s for a million records: less than loading a compiled one.
    halves = memoryview(words.view(np.uint16))
    places = array("q")
    append = places.append
    at, end = 0, len(words)
    while at < end:
        append(at)
        size = halves[4 * at + 3]
        if size & 7 or not size:
            raise UnsupportedRecords(f"a record has {size:,} bytes")
        at += size >> 3
    if at > end:
        raise UnsupportedRecords(_INCOMPLETE)
    return places


def _find_piped_places(words: Array) -> "array[int]":
    """Like `_find_places`, with records behind which further data follows."""
    halves, halfwords = memoryview(words.view(np.uint16)), memoryview(words.view(np.uint32))
    places = array("q")
    at, end = 0, len(words)
    while at < end:
        places.append(at)
        kind, size = halfwords[2 * at], halves[4 * at + 3]
        if size & 7 or not size:
            raise UnsupportedRecords(f"a record has {size:,} bytes")
        if kind == _AUXTRACE:
            raise UnsupportedRecords("it contains raw data of a processor's trace")
        if kind == _TRACING_DATA and size >= 16 and at + 1 < end:
            at += (halfwords[2 * at + 2] + 7) // 8
        at += size >> 3
    if at > end:
        raise UnsupportedRecords(_INCOMPLETE)
    return places


def _unpack(index: RecordIndex, max_bytes: int) -> bytes:
    """All records, those that were packed in place of the packed ones. A record may continue in the next packed one."""
    out, rest = bytearray(), bytearray()
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    for row, kind in enumerate(index.kind.tolist()):
        record = index.read_record(row)
        if kind not in (_PACKED, _PACKED_SIZED):
            out += record
            continue
        packed = record[8:]
        if kind == _PACKED_SIZED:
            packed = packed[8 : 8 + int.from_bytes(packed[:8], "little")]
        try:
            unpacked = unpacker.decompress(packed)
        except zstandard.ZstdError:
            raise UnsupportedRecords("its records cannot be decompressed") from None
        rest += unpacked
        if len(out) + len(rest) > max_bytes or len(unpacked) > MAX_UNPACKED_RECORD:
            raise UnsupportedRecords(f"its records have more than {max_bytes:,} bytes when decompressed")
        end = _find_end_of_records(rest)
        out += rest[:end]
        del rest[:end]
    if rest:
        raise UnsupportedRecords(_INCOMPLETE)
    return bytes(out)


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
