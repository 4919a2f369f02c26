"""The files of one `perf record --switch-output`, joined to the perf.data file that perf writes without that option.

All files come from one process, whose counters have the same identifiers in each: their records, one after another,
are those of one recording. What later files do not repeat, such as names and maps of processes that were forked from
the recorded one, and the beginning of a compressed stream, is then known for them too.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..ingest.perf_records.event_attributes import SampleType
from ..ingest.perf_records.file_header import (
    BUILD_ID,
    CMDLINE,
    HEADER_BYTES,
    SAMPLE_TIME,
    FileHeader,
    RecordedEvent,
    read_header,
)
from ..ingest.perf_records.record_index import SAMPLE
from ..ingest.perf_records.unsupported import UnsupportedRecords
from .perf_header import INCOMPLETE_RECORDING, find_byte_order, iterate_records, plan_repair

_HOSTNAME, _RELEASE, _AUXTRACE = 3, 4, 18
"""Bits of features."""
_START_AT, _SIZE_AT, _FEATURES_AT = 40, 48, 72
_FEATURE_WORDS = 4
_END_OF_ROUND = struct.pack("<IHH", 68, 0, 8)
"""PERF_RECORD_FINISHED_ROUND: what was recorded before the last but one need not wait for earlier records."""
_TAIL_WORDS = 1 << 23
_ROUNDS = 4
"""How many rounds at the end of a file are searched for its last sample."""
_MAX_RECORDS = 1 << 20


@dataclass(frozen=True)
class RecordingPart:
    """One file. head: its bytes before the records. start, end: of the records. features: the content of its sections,
    by their bits. begins, ends: times of the first and of a late sample, ns, None if they are compressed or have none.
    defect: what is missing at its end, a sentence."""

    head: bytes
    start: int
    end: int
    events: tuple[RecordedEvent, ...]
    features: dict[int, bytes]
    begins: int | None
    ends: int | None
    defect: str | None


@dataclass(frozen=True)
class RecordsOfPart:
    """The bytes of a part's file from `start` up to `end`. part: its index."""

    part: int
    start: int
    end: int


def read_part(data: memoryview) -> RecordingPart | None:
    """A file; None if it cannot be joined with others: it is damaged, from a machine with another byte order, from a
    pipe, or refers to places in itself (traces of processors)."""
    if find_byte_order(data) != "<":
        return None
    try:
        start = int.from_bytes(data[_START_AT:_SIZE_AT], "little")
        head = bytes(data[:start])
        empty = head[:_SIZE_AT] + bytes(8) + head[_SIZE_AT + 8 : HEADER_BYTES]
        repair, defect = plan_repair(data), None
        if repair is not None:
            header, defect = read_header(data, repair.header, repair.end), repair.defect
        elif any(data[_SIZE_AT : _SIZE_AT + 8]):
            header = read_header(data)
        else:
            # perf was killed before it wrote records to this file.
            header, defect = read_header(data, empty, start), INCOMPLETE_RECORDING
        # The events have to be in what is copied.
        if read_header(memoryview(head), empty, start).events != header.events:
            return None
    except UnsupportedRecords:
        return None
    if not header.events or _AUXTRACE in header.features:
        return None
    if sum(len(content) for content in header.features.values()) > len(data):
        # They overlap, which perf does not write.
        return None
    begins, ends = _find_times(data, header)
    return RecordingPart(
        head=head,
        start=header.start,
        end=header.end,
        events=tuple(header.events),
        features={bit: bytes(content) for bit, content in header.features.items()},
        begins=begins,
        ends=ends,
        defect=defect,
    )


def read_unfinished_part(data: memoryview, before: RecordingPart) -> RecordingPart | None:
    """The file that perf was writing when it was killed; None if it is another one.

    before: an earlier file of the recording. perf writes the header of a later file when it ends it: until then zeros
    are in its place.
    """
    size = len(before.head)
    if bytes(data[:size]).strip(b"\0"):
        return None
    start = end = min(size, len(data))
    for _, _, after in iterate_records(data, "<", start, len(data)):
        end = after
    begins, ends = _find_times(data, FileHeader(False, start, end, list(before.events)))
    return RecordingPart(before.head, start, end, before.events, {}, begins, ends, INCOMPLETE_RECORDING)


def group_parts(parts: Sequence[RecordingPart]) -> list[list[int]]:
    """The indices of the files of each recording. parts: in the order of time.

    Files are of one process of perf if they have the same events with the same counters, command and machine, and each
    begins after the middle of the one before.
    """
    groups: list[list[int]] = []
    for at, part in enumerate(parts):
        group = next((group for group in groups if _continues(parts[group[-1]], part)), None)
        if group is None:
            groups.append([at])
        else:
            group.append(at)
    return groups


def _continues(one: RecordingPart, other: RecordingPart) -> bool:
    """Whether a file is a later one of the same recording."""
    if one.events != other.events:
        return False
    for bit in (_HOSTNAME, _RELEASE, CMDLINE):
        # A file that perf did not finish has no features.
        if bit in one.features and bit in other.features and one.features[bit] != other.features[bit]:
            return False
    if one.begins is None or other.begins is None:
        return True
    # The buffers of CPUs are read one after another, so that the times of two files overlap a little.
    middle = one.begins if one.ends is None else (one.begins + max(one.begins, one.ends)) // 2
    return other.begins > middle


def join_parts(parts: Sequence[RecordingPart]) -> Iterator[bytes | RecordsOfPart]:
    """The content of the joined file, piece by piece."""
    features = _join_features(parts)
    # What perf found out at the beginning of a file has no time: it must not apply to what was recorded before.
    gap = 2 * _END_OF_ROUND
    first = parts[0]
    size = sum(part.end - part.start for part in parts) + len(gap) * (len(parts) - 1)
    words = sum(1 << bit for bit in features)
    yield b"".join(
        (
            first.head[:_SIZE_AT],
            struct.pack("<Q", size),
            first.head[_SIZE_AT + 8 : _FEATURES_AT],
            words.to_bytes(8 * _FEATURE_WORDS, "little"),
            first.head[HEADER_BYTES:],
        )
    )
    for number, part in enumerate(parts):
        if number:
            yield gap
        yield RecordsOfPart(number, part.start, part.end)
    place = first.start + size + 16 * len(features)
    table = []
    for _, content in sorted(features.items()):
        table.append(struct.pack("<QQ", place, len(content)))
        place += len(content)
    yield b"".join((*table, *(content for _, content in sorted(features.items()))))


def _join_features(parts: Sequence[RecordingPart]) -> dict[int, bytes]:
    """Each feature as in the first file that has it, but the build ids of all files, and the time from the first to
    the last sample."""
    features: dict[int, bytes] = {}
    for part in parts:
        features = part.features | features
    if BUILD_ID in features:
        entries = (entry for part in parts for entry in _split_build_ids(part.features.get(BUILD_ID, b"")))
        features[BUILD_ID] = b"".join(dict.fromkeys(entries))
    times = [part.features[SAMPLE_TIME] for part in parts if len(part.features.get(SAMPLE_TIME, b"")) == 16]
    if times:
        features[SAMPLE_TIME] = times[0][:8] + times[-1][8:]
    return features


def _split_build_ids(section: bytes) -> Iterator[bytes]:
    for _, at, after in iterate_records(section, "<", 0, len(section)):
        yield section[at:after]


def _find_times(data: memoryview, header: FileHeader) -> tuple[int | None, int | None]:
    """The times of the first sample of a file, and of the latest one at its end; None if they are not found."""
    kinds = {event.attributes.sample_type for event in header.events}
    shown = SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME
    if len({kind & shown for kind in kinds}) > 1 or not (kind := kinds.pop()) & SampleType.TIME:
        return None, None
    place = 8 + 8 * (kind & shown & ~SampleType.TIME).bit_count()

    def iterate_times(start: int) -> Iterator[int]:
        for number, at, after in islice(iterate_records(data, "<", start, header.end), _MAX_RECORDS):
            if number == SAMPLE and after - at >= place + 8:
                yield int.from_bytes(data[at + place : at + place + 8], "little")

    begins = next(iterate_times(header.start), None)
    start = _find_last_rounds(data, header)
    return begins, max(iterate_times(start), default=None) if start is not None else None


def _find_last_rounds(data: memoryview, header: FileHeader) -> int | None:
    """Where a record begins after which a few rounds follow to the end of the file; None if none is found."""
    count = min((header.end - header.start) // 8, _TAIL_WORDS)
    words = np.frombuffer(data, "<u8", count, header.end - 8 * count)
    rounds = np.flatnonzero(words == np.frombuffer(_END_OF_ROUND, "<u8")[0])
    if len(rounds) <= _ROUNDS:
        return header.start if count < _TAIL_WORDS else None
    return header.end - 8 * (count - int(rounds[-1 - _ROUNDS]))
