"""The header of a perf.data file: the version of perf that wrote it, and the repair of an unfinished file.

Layout: tools/perf/Documentation/perf.data-file-format.txt and tools/perf/util/header.h of Linux. The header is magic,
size, size of an attribute, then (offset, size) of the attributes, the records and the event types, then one bit for
each feature; after the records (offset, size) of each feature. perf knows the size of the records and writes the
features when it ends: a killed perf leaves a size of 0.
"""

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zstandard

from ..ingest.perf_records.packed_records import RecordUnpacker
from .perf_data import MAGIC, SWAPPED_MAGIC, is_piped

Data = bytes | bytearray | memoryview
HEADER_BYTES = 104
MAX_TEXT = 100
_DATA_OFFSET, _DATA_SIZE = 5, 6
_FEATURES_AT = 72
_VERSION = 5
"""The bit of the feature with the version of perf."""
_NUMBERS = re.compile(r"(?:perf version )?(\d{1,5})\.(\d{1,5})", re.ASCII)
_THROTTLE = 5
_TRACING_DATA = 66
"""Before the formats of tracepoints in a piped file, with their size."""
_AUXTRACE = 71
"""The record before raw data of a processor's trace, with the data's size."""
PACKED, PACKED_SIZED = 81, 83
"""Records that contain others as one Zstandard stream; the second one contains its size."""
_COMPRESSED, _ZSTD = 27, (1, 1, 1, 1)
"""The bit of the feature that describes the compression, and its content: version, algorithm, level, ratio, and the
decompressed size of the largest record including the rest of the previous one."""
_BESIDE, _PAGE, _MAX_UNPACKED_BYTES = (1 << 16) + (1 << 17), 1 << 12, 1 << 30
INCOMPLETE_RECORDING = (
    "perf was ended before it finished this recording: records still in its buffer and the data at the end of the "
    "file are missing."
)


@dataclass(frozen=True)
class Repair:
    """How to change a copy of a file so that perf reads it. header: its new first bytes. end: where its records then
    end. features: the bytes after them. defect: what is missing, a sentence."""

    header: bytes
    end: int
    features: bytes
    defect: str


def plan_repair(data: Data) -> Repair | None:
    """A repair of a truncated file; None if none is needed or possible.

    data: the whole file. Its complete records are kept, but of the sections after them only compression, without which
    perf would not decompress its records.
    """
    order = find_byte_order(data)
    if order is None:
        return None
    words = list(struct.unpack_from(f"{order}{HEADER_BYTES // 8}Q", data))
    start, length, size = words[_DATA_OFFSET], words[_DATA_SIZE], len(data)
    finished = length > 0
    missing = start + length - size
    if missing <= 0:
        missing = _compute_expected_length(data, order, words) - size
    if (finished and missing <= 0) or not HEADER_BYTES <= start < size:
        return None
    end, largest = _find_complete_records(data, order, start, start + length if finished else size)
    if end <= start:
        return None
    words[_DATA_SIZE] = end - start
    words[_FEATURES_AT // 8 :] = [0] * (HEADER_BYTES // 8 - _FEATURES_AT // 8)
    features = b""
    if largest:
        words[_FEATURES_AT // 8] = 1 << _COMPRESSED
        content = struct.pack(f"{order}5I", *_ZSTD, -(-(largest + _BESIDE) // _PAGE) * _PAGE)
        features = struct.pack(f"{order}2Q", end + 16, len(content)) + content
    cut = f"The recording is truncated: at least {missing:,} bytes at its end are missing."
    # The magic is text, not a number in the machine's byte order.
    header = bytes(data[:8]) + struct.pack(f"{order}{HEADER_BYTES // 8}Q", *words)[8:]
    return Repair(header, end, features, cut if finished else INCOMPLETE_RECORDING)


def explain_truncation(data: Data) -> str:
    """Describe how much of a file exists if it is shorter than its header says, as the end of a sentence; else empty.

    data: the complete file.
    """
    size = len(data)
    if size < HEADER_BYTES:
        is_cut = not is_piped(bytes(data[:16])) and bytes(data[:8]) in (MAGIC, SWAPPED_MAGIC)
        return f"it is cut short after {size:,} bytes, within its header." if is_cut else ""
    order = find_byte_order(data)
    if order is None:
        return ""
    words = list(struct.unpack_from(f"{order}{HEADER_BYTES // 8}Q", data))
    expected = _compute_expected_length(data, order, words)
    return f"it is cut short, {size:,} of at least {expected:,} bytes are there." if size < expected else ""


def _compute_expected_length(data: Data, order: str, words: list[int]) -> int:
    """The length of a file according to its header: to the end of its records, or of the last feature after them."""
    table = words[_DATA_OFFSET] + words[_DATA_SIZE]
    end = table + 16 * words[_FEATURES_AT // 8].bit_count()
    if not words[_DATA_SIZE] or end > len(data):
        return max(table, end if words[_DATA_SIZE] else 0)
    for place in range(table, end, 16):
        offset, length = struct.unpack_from(f"{order}2Q", data, place)
        end = max(end, offset + length)
    return end


def explain_small_records(data: Data) -> str:
    """Why perf script would not end, as the end of a sentence, if the header says that the records are smaller than the
    header of one (perf 6.1); else empty."""
    order = find_byte_order(data)
    if order is None:
        return ""
    (length,) = struct.unpack_from(f"{order}Q", data, 8 * _DATA_SIZE)
    return f"its header says that its records have {length} bytes." if 0 < length < 8 else ""


def count_throttle_events(data: Data) -> int:
    """How often the kernel stopped an event until the end of a tick, because its samples came too fast. Compressed
    records are not searched."""
    order = find_byte_order(data)
    if order is None:
        return 0
    start, length = struct.unpack_from(f"{order}2Q", data, 8 * _DATA_OFFSET)
    return sum(kind == _THROTTLE for kind, _, _ in iterate_records(data, order, start, min(start + length, len(data))))


def get_perf_version(data: Data) -> str | None:
    """The version of the perf that wrote a file, from its header ("6.12.1"); None without one."""
    order = find_byte_order(data)
    if order is None:
        return None
    words = struct.unpack_from(f"{order}{HEADER_BYTES // 8}Q", data)
    features = words[_FEATURES_AT // 8]
    if not features >> _VERSION & 1 or not words[_DATA_SIZE]:
        return None
    # There is one for each set bit, in order.
    place = words[_DATA_OFFSET] + words[_DATA_SIZE] + 16 * (features & ((1 << _VERSION) - 1)).bit_count()
    if place + 16 > len(data):
        return None
    (at,) = struct.unpack_from(f"{order}Q", data, place)
    if at + 4 > len(data):
        return None
    (length,) = struct.unpack_from(f"{order}I", data, at)
    text = bytes(data[at + 4 : at + 4 + min(length, MAX_TEXT)]).split(b"\0")[0]
    found = text.decode("ascii", "replace")
    return found if found.isprintable() and found else None


def parse_version(text: str) -> tuple[int, int] | None:
    """(major, minor) of a version of perf, as it prints it; None for another text."""
    numbers = _NUMBERS.match(text)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def explain_version_mismatch(written: str | None, here: str | None) -> str:
    """What to do if perf cannot read a file of another version, as a sentence; else empty."""
    theirs, ours = parse_version(written or ""), parse_version(here or "")
    if written is None or theirs is None or ours is None or theirs <= ours:
        return ""
    mine = (here or "").removeprefix("perf version").strip()
    return (
        f"It was written by perf {written}, and perf here is {mine}, which is older: install perf {theirs[0]}."
        f"{theirs[1]} or newer here, or run `perf script` where it was recorded and import what that prints."
    )


def find_byte_order(data: Data) -> str | None:
    """The byte order, as struct names it; None if the header is incomplete."""
    head = bytes(data[:16])
    if len(data) < HEADER_BYTES or is_piped(head):
        return None
    return {MAGIC: "<", SWAPPED_MAGIC: ">"}.get(head[:8])


def iterate_records(data: Data, order: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(type, start, end) of each complete record between two positions."""
    record, number, short = struct.Struct(f"{order}IHH"), struct.Struct(f"{order}Q"), struct.Struct(f"{order}I")
    at = start
    while at + record.size <= end:
        kind, _, length = record.unpack_from(data, at)
        if kind == _AUXTRACE and length >= record.size + number.size and at + length <= end:
            length += number.unpack_from(data, at + record.size)[0]
        elif kind == _TRACING_DATA and length >= record.size + short.size and at + length <= end:
            length += -(-short.unpack_from(data, at + record.size)[0] // 8) * 8
        if length < record.size or at + length > end:
            return
        yield kind, at, at + length
        at += length


class _ByteCounter(io.RawIOBase):
    """Counts the bytes written to it and discards them. count: bytes since `count` was set to 0."""

    count = 0

    def write(self, data: Any) -> int:
        self.count += len(data)
        return len(data)

    def writable(self) -> bool:
        return True


def _find_complete_records(data: Data, order: str, start: int, last: int) -> tuple[int, int]:
    """(end of the last complete record that can be decompressed, decompressed size of the largest), of those that end
    before `last`."""
    end, most, counter = start, 0, _ByteCounter()
    unpacker = RecordUnpacker(counter)
    for kind, at, after in iterate_records(data, order, start, min(last, len(data))):
        if kind in (PACKED, PACKED_SIZED):
            packed = data[at + 8 : after]
            if kind == PACKED_SIZED and len(packed) >= 8:
                (length,) = struct.unpack_from(f"{order}Q", packed)
                packed = packed[8 : 8 + length]
            counter.count = 0
            try:
                unpacker.write(packed)
            except zstandard.ZstdError:
                break
            if (most := max(most, counter.count)) > _MAX_UNPACKED_BYTES:
                break
        end = after
    return end, most
