"""The header of a perf.data file: its events, and its sections of features.

Layout: tools/perf/Documentation/perf.data-file-format.txt of Linux. A file that was written into a pipe has its events
and features among its records.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .byte_reader import ByteReader
from .event_attributes import AttributeFields
from .unsupported import UnsupportedRecords

PIPE_HEADER_BYTES, HEADER_BYTES = 16, 104
MAX_EVENTS = 4096
EVENT_DESC, CMDLINE, BUILD_ID, SAMPLE_TIME, COMPRESSED = 12, 11, 2, 21, 27
"""Bits of features."""
_LAST_FEATURE = 256
_HEADER_ATTR, _BUILD_ID_RECORD, _EVENT_UPDATE, _HEADER_FEATURE = 64, 67, 78, 80
SETUP_RECORDS = (_HEADER_ATTR, _BUILD_ID_RECORD, _EVENT_UPDATE, _HEADER_FEATURE)
"""Records with parts of the header of a piped file."""
_NAME_UPDATE = 2
_ID_PAIR = 16
_RATIO_AT = 12
"""Where the feature COMPRESSED has the size of all records divided by that in the file."""

Data = bytes | memoryview


@dataclass(frozen=True)
class RecordedEvent:
    """An event. ids: of its counters, which samples refer to. name: as perf prints it; None if the file has none."""

    attributes: AttributeFields
    ids: tuple[int, ...]
    name: str | None = None

    def get_name(self) -> str:
        """Raises UnsupportedRecords if the file has no name, and only perf knows it."""
        return self.attributes.derive_name() if self.name is None else self.name


@dataclass
class FileHeader:
    """The header. start, end: of the records in the file. features: the content of the sections by their bits, in the
    order of the file. build_id_records: the content of BUILD_ID records, with their headers."""

    is_piped: bool
    start: int
    end: int
    events: list[RecordedEvent] = field(default_factory=list)
    features: dict[int, Data] = field(default_factory=dict)
    build_id_records: list[bytes] = field(default_factory=list)

    def estimate_record_bytes(self) -> int:
        """About how many bytes the records have when decompressed, if perf finished the file."""
        ratio = bytes(self.features.get(COMPRESSED, b""))[_RATIO_AT : _RATIO_AT + 4]
        return (self.end - self.start) * max(1, int.from_bytes(ratio, "little"))

    def take_setup_record(self, kind: int, record: bytes) -> None:
        """Add what a record says. record: with its header."""
        reader = ByteReader(record[8:], "a record with a part of the header")
        if kind == _HEADER_ATTR and self.is_piped:
            size = int.from_bytes(record[12:16], "little")
            attributes = AttributeFields.parse(reader.read_bytes(size or 64))
            ids = tuple(reader.read_u64() for _ in range(reader.left // 8))
            self.events.append(RecordedEvent(attributes, ids))
            if len(self.events) > MAX_EVENTS:
                raise UnsupportedRecords(f"it has more than {MAX_EVENTS:,} events")
        elif kind == _HEADER_FEATURE and self.is_piped:
            bit = reader.read_u64()
            self.features[bit] = reader.read_bytes(reader.left)
        elif kind == _BUILD_ID_RECORD:
            self.build_id_records.append(record)
        elif kind == _EVENT_UPDATE and reader.read_u64() == _NAME_UPDATE:
            id, name = reader.read_u64(), reader.read_bytes(reader.left).split(b"\0")[0]
            for number, event in enumerate(self.events):
                if id in event.ids:
                    self.events[number] = replace(event, name=name.decode("utf-8", "surrogateescape"))

    def name_events(self) -> None:
        """Name the events as the feature EVENT_DESC does."""
        described = list(self.describe_events())
        if len(described) == len(self.events):
            self.events = [replace(event, name=other.name) for event, other in zip(self.events, described, strict=True)]

    def describe_events(self) -> Iterator[RecordedEvent]:
        """The events in the feature EVENT_DESC."""
        if EVENT_DESC not in self.features:
            return
        reader = ByteReader(self.features[EVENT_DESC], "the section with the names of events")
        count, size = reader.read_u32(), reader.read_u32()
        if count > MAX_EVENTS:
            raise UnsupportedRecords(f"it has {count:,} events")
        for _ in range(count):
            attributes = AttributeFields.parse(reader.read_bytes(size))
            id_count, name = reader.read_u32(), reader.read_text()
            ids = struct.unpack(f"<{id_count}Q", reader.read_bytes(8 * id_count))
            yield RecordedEvent(attributes, ids, name.decode("utf-8", "surrogateescape"))


def read_header(
    data: Data, start_of_file: bytes | None = None, end: int | None = None, *, reads_events: bool = True
) -> FileHeader:
    """The header of a file in little-endian order. A piped file has nothing but its bounds.

    data: the file. start_of_file: to be used instead of its first bytes, and `end` as the end of its records, for a
    file that was never finished. reads_events: else only the sections of features. Raises UnsupportedRecords.
    """
    head = start_of_file or bytes(data[:HEADER_BYTES])
    if len(head) < PIPE_HEADER_BYTES or head[:8] != b"PERFILE2":
        raise UnsupportedRecords("it was written by a machine with another byte order, or by a very old perf")
    size = int.from_bytes(head[8:16], "little")
    if size == PIPE_HEADER_BYTES:
        return FileHeader(True, PIPE_HEADER_BYTES, len(data))
    if size != HEADER_BYTES or len(head) < HEADER_BYTES:
        raise UnsupportedRecords(f"its header has {size:,} bytes")
    words = struct.unpack_from("<13Q", head)
    start, stop = words[5], words[5] + words[6]
    if not HEADER_BYTES <= start <= stop <= len(data) or (end is not None and stop != end):
        raise UnsupportedRecords("the records are not where the header says")
    header = FileHeader(False, start, stop)
    if reads_events:
        _read_events(header, data, *words[2:5])
    if start_of_file is None:
        _read_features(header, data, words[9:13])
    return header


def _read_events(header: FileHeader, data: Data, entry_bytes: int, at: int, size: int) -> None:
    """Read the table of events."""
    if entry_bytes < 64 + _ID_PAIR or size % entry_bytes:
        raise UnsupportedRecords("the table of its events is damaged")
    if size > MAX_EVENTS * entry_bytes:
        raise UnsupportedRecords(f"it has more than {MAX_EVENTS:,} events")
    all_ids_bytes = 0
    for place in range(at, at + size, entry_bytes):
        entry = bytes(data[place : place + entry_bytes])
        if len(entry) < entry_bytes:
            raise UnsupportedRecords("the table of its events is damaged")
        ids_at, ids_bytes = struct.unpack("<QQ", entry[-_ID_PAIR:])
        ids = bytes(data[ids_at : ids_at + ids_bytes]) if ids_at <= len(data) else b""
        all_ids_bytes += ids_bytes
        # Events that share identifiers would need much more memory than the file.
        if len(ids) != ids_bytes or ids_bytes % 8 or all_ids_bytes > len(data):
            raise UnsupportedRecords("the identifiers of its events are damaged")
        attributes = AttributeFields.parse(entry[:-_ID_PAIR])
        header.events.append(RecordedEvent(attributes, struct.unpack(f"<{ids_bytes // 8}Q", ids)))


def _read_features(header: FileHeader, data: Data, words: tuple[int, ...]) -> None:
    """Read the sections after the records."""
    bits = sum(word << 64 * number for number, word in enumerate(words))
    at = header.end
    for bit in range(_LAST_FEATURE):
        if bits >> bit & 1:
            entry = bytes(data[at : at + 16])
            if len(entry) < 16:
                raise UnsupportedRecords("the table of its features is damaged")
            offset, length = struct.unpack("<QQ", entry)
            if offset + length > len(data):
                raise UnsupportedRecords("a feature is not where the header says")
            header.features[bit] = data[offset : offset + length]
            at += 16
