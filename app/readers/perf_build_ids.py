"""The build ids of the binaries of a perf.data file: its feature HEADER_BUILD_ID, records of the same form that `perf
inject -b` writes, and the records of mappings of `perf record --buildid-mmap`.

Layout: tools/perf/util/header.c and tools/perf/Documentation/perf.data-file-format.txt of Linux, and PERF_RECORD_MMAP2
in include/uapi/linux/perf_event.h. Each entry of the feature is a record header, the process (-1 for the machine), 24
bytes with the id, and the path of the binary.
"""

import io
import struct
from collections.abc import Iterator
from typing import Any

import zstandard

from ..ingest.perf_records.packed_records import RecordUnpacker
from .perf_data import MAGIC, PIPE_HEADER_BYTES, SWAPPED_MAGIC, is_piped
from .perf_header import HEADER_BYTES, PACKED, PACKED_SIZED, Data, find_byte_order, iterate_records

_DATA_OFFSET = 5
_FEATURES_AT = 72
_BUILD_ID = 2
"""The bit of the feature."""
_ENTRY_BYTES, _PATH_AT, _ID_AT, _LENGTH_AT = 8, 36, 12, 32
_HAS_LENGTH = 1 << 15
_MAPPING, _ENTRY, _FEATURE = 10, 67, 80
"""Records: PERF_RECORD_MMAP2, PERF_RECORD_HEADER_BUILD_ID, PERF_RECORD_HEADER_FEATURE."""
_HAS_BUILD_ID = 1 << 14
_MAPPING_LENGTH_AT, _MAPPING_ID_AT, _MAPPING_PATH_AT = 40, 44, 72
MAX_ENTRIES = 100_000
MAX_ID_BYTES = 20
MAX_UNPACKED_BYTES = 64 << 20
"""Of one compressed record. perf compresses at most a buffer of each CPU."""


def read_build_ids(data: Data) -> dict[str, str]:
    """The build id (hexadecimal) of each binary, by its path. Empty without any, or if they cannot be read.

    data: the complete file. Its records are only read if its header has no build ids.
    """
    order = find_byte_order(data)
    if order is not None:
        words = struct.unpack_from(f"{order}{HEADER_BYTES // 8}Q", data)
        start, length = words[_DATA_OFFSET], words[_DATA_OFFSET + 1]
        return _read_feature(data, order, words) or _read_records(data, order, start, min(start + length, len(data)))
    head = bytes(data[:PIPE_HEADER_BYTES])
    if is_piped(head) and (order := {MAGIC: "<", SWAPPED_MAGIC: ">"}.get(head[:8])) is not None:
        return _read_records(data, order, PIPE_HEADER_BYTES, len(data))
    return {}


def _read_feature(data: Data, order: str, words: tuple[int, ...]) -> dict[str, str]:
    """The build ids in the header. words: of the header."""
    features, start, length = words[_FEATURES_AT // 8], words[_DATA_OFFSET], words[_DATA_OFFSET + 1]
    if not features >> _BUILD_ID & 1 or not length:
        return {}
    # There is one pair of offset and size for each set bit, in order.
    place = start + length + 16 * (features & ((1 << _BUILD_ID) - 1)).bit_count()
    if place + 16 > len(data):
        return {}
    at, size = struct.unpack_from(f"{order}2Q", data, place)
    return read_entries(data, order, at, min(at + size, len(data)))


def read_entries(data: Data, order: str, at: int, end: int) -> dict[str, str]:
    """The build ids in a section of the feature, between two positions."""
    found: dict[str, str] = {}
    for _ in range(MAX_ENTRIES):
        if at + _ENTRY_BYTES > end:
            break
        _, misc, length = struct.unpack_from(f"{order}IHH", data, at)
        if length <= _PATH_AT or at + length > end:
            break
        count = data[at + _LENGTH_AT] if misc & _HAS_LENGTH else MAX_ID_BYTES
        _add(found, data[at + _PATH_AT : at + length], data[at + _ID_AT : at + _ID_AT + min(count, MAX_ID_BYTES)])
        at += length
    return found


def _read_records(data: Data, order: str, start: int, end: int) -> dict[str, str]:
    """The build ids in the records between two positions, also compressed ones."""
    found: dict[str, str] = {}
    for part in _list_parts(data, order, start, end):
        for kind, at, after in iterate_records(part, order, 0, len(part)):
            if kind == _MAPPING and after - at > _MAPPING_PATH_AT:
                (misc,) = struct.unpack_from(f"{order}H", part, at + 4)
                if misc & _HAS_BUILD_ID:
                    count = min(part[at + _MAPPING_LENGTH_AT], MAX_ID_BYTES)
                    build_id = part[at + _MAPPING_ID_AT : at + _MAPPING_ID_AT + count]
                    _add(found, part[at + _MAPPING_PATH_AT : after], build_id)
            elif kind == _ENTRY:
                found = read_entries(part, order, at, after) | found
            elif kind == _FEATURE and struct.pack(f"{order}Q", _BUILD_ID) == part[at + 8 : at + 16]:
                found = read_entries(part, order, at + 16, after) | found
            if len(found) > MAX_ENTRIES:
                return found
    return found


def _list_parts(data: Data, order: str, start: int, end: int) -> Iterator[Data]:
    """The records between two positions: those of the file, then those in each compressed one."""
    yield data[start:end]
    rest = b""
    sink = _Sink()
    unpacker = RecordUnpacker(sink)
    for kind, at, after in iterate_records(data, order, start, end):
        if kind not in (PACKED, PACKED_SIZED):
            continue
        packed = data[at + 8 : after]
        if kind == PACKED_SIZED and len(packed) >= 8:
            packed = packed[8 : 8 + struct.unpack_from(f"{order}Q", packed)[0]]
        try:
            unpacker.write(packed)
        except (zstandard.ZstdError, ValueError):
            return
        part = rest + sink.take()
        yield part
        # A record may continue in the next compressed one.
        ends = [last for _, _, last in iterate_records(part, order, 0, len(part))]
        rest = part[ends[-1] :] if ends else part


class _Sink(io.RawIOBase):
    """Collects what is written to it. Raises ValueError for too much."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: Any) -> int:
        if len(self._data) + len(data) > MAX_UNPACKED_BYTES:
            raise ValueError("a compressed record is too large")
        self._data += data
        return len(data)

    def writable(self) -> bool:
        return True

    def take(self) -> bytes:
        """What was written since the last call."""
        taken, self._data = bytes(self._data), bytearray()
        return taken


def _add(found: dict[str, str], path: Data, build_id: Data) -> None:
    """Add an entry. path: ends with a zero byte."""
    text = bytes(build_id).hex()
    if text.strip("0"):
        found.setdefault(bytes(path).split(b"\0")[0].decode(errors="replace"), text)
