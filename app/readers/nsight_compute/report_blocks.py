"""The blocks of a report of Nsight Compute (.ncu-rep), and the messages in them.

The layout is that of the definitions that come with Nsight Compute (extras/FileFormat, ProfilerReport.proto): after
"NVR\\0" a file header, then blocks: a block header, and the code, results of launches and results of ranges that it
announces. Each is preceded by its size as 32 bits. Nothing is trusted: sizes are limited by the file, and of a
truncated message the fields before its end are read.
"""

import struct
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from ...ingest.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, MalformedMessage, iterate_fields
from .format import MAGIC

SIZE_BYTES = 4
TRUNCATED = "The report is truncated; copy it again."
DAMAGED = "The report is damaged: the rest after the damage is missing; copy it again."
CODE, RESULT, RANGE = 1, 2, 7
"""The contents of a block, by the field of its header that counts them, in the order of the file."""
_STRINGS, _PAYLOAD = 4, 5

Value = str | float | int


class ReportMessage:
    """The fields of a message by their numbers. Of a damaged one those before the damage, which is appended to
    `damaged`."""

    def __init__(self, data: bytes | memoryview, damaged: Callable[[], None]) -> None:
        self._fields: dict[int, list[tuple[int, Any]]] = {}
        self._damaged = damaged
        try:
            for number, kind, value in iterate_fields(data):
                self._fields.setdefault(number, []).append((kind, value))
        except MalformedMessage:
            damaged()

    def __bool__(self) -> bool:
        return bool(self._fields)

    def get_int(self, number: int) -> int | None:
        """A field with a whole number; None if it is missing."""
        for kind, value in reversed(self._fields.get(number, ())):
            if kind == VARINT:
                return int(value)
        return None

    def get_contents(self, number: int) -> list[memoryview]:
        """The values of all fields with a number."""
        return [value for kind, value in self._fields.get(number, ()) if kind == BYTES]

    def get_text(self, number: int) -> str:
        """A text field, stripped; empty if it is missing."""
        contents = self.get_contents(number)
        return str(contents[-1], "utf-8", "replace").strip() if contents else ""

    def iterate_messages(self, number: int) -> "Iterator[ReportMessage]":
        """All fields with a number that are messages."""
        for piece in self.get_contents(number):
            yield ReportMessage(piece, self._damaged)

    def get_message(self, number: int) -> "ReportMessage":
        """A message field; an empty message if it is missing."""
        contents = self.get_contents(number)
        return ReportMessage(contents[-1] if contents else b"", self._damaged)


def parse_value(data: memoryview) -> Value | None:
    """The value in a message: text, a floating-point number, or a whole one. Raises Damaged."""
    found: Value | None = None
    for number, kind, value in iterate_fields(data):
        if number == 1 and kind == BYTES:
            found = str(value, "utf-8", "replace")
        elif number == 2 and kind == FIXED32:
            found = struct.unpack("<f", value.to_bytes(4, "little"))[0]
        elif number == 3 and kind == FIXED64:
            found = struct.unpack("<d", value.to_bytes(8, "little"))[0]
        elif number in (4, 5) and kind == VARINT:
            found = value
    return found


@dataclass(frozen=True)
class BlockEntry:
    """An item of a block. kind: CODE, RESULT, RANGE. strings: names by number."""

    kind: int
    data: memoryview
    header: ReportMessage
    strings: list[str]


class BlockReader:
    """Reads the blocks of a report. defect: what is wrong with the file, known at the end. headers: called with each
    header."""

    def __init__(self, data: bytes, damaged: Callable[[], None], headers: Callable[[ReportMessage], None]) -> None:
        self.defect: str | None = None
        self._data = memoryview(data)
        self._damaged = damaged
        self._headers = headers
        self._strings: list[str] = []
        self._known: set[str] = set()

    def iterate_entries(self) -> Iterator[BlockEntry]:
        """The items of all blocks, in order."""
        at, first = len(MAGIC), True
        while at < len(self._data):
            begin = at + SIZE_BYTES
            if begin > len(self._data):
                self.defect = TRUNCATED
                return
            at = begin + self._read_size(at)
            if at == begin or at > len(self._data):
                # No header is empty: each has its counts.
                self.defect = DAMAGED if at == begin else TRUNCATED
                return
            if not first:
                header = ReportMessage(self._data[begin:at], self._damaged)
                self._headers(header)
                self._name(header)
                at = yield from self._read_payload(header, at)
            first = False
        if first:
            self.defect = TRUNCATED

    def _read_size(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + SIZE_BYTES], "little")

    def _name(self, header: ReportMessage) -> None:
        """Read the names of a block. A later block has none, only new ones, or all of them again."""
        new = [
            str(piece, "utf-8", "replace")
            for part in header.iterate_messages(_STRINGS)
            for piece in part.get_contents(1)
        ]
        if not self._known.isdisjoint(new):
            self._strings, self._known = [], set()
        self._strings += new
        self._known.update(new)

    def _read_payload(self, header: ReportMessage, at: int) -> Generator[BlockEntry, None, int]:
        """The items of one block. Returns where the next one begins."""
        size = header.get_int(_PAYLOAD)
        stop = len(self._data) if size is None else min(at + size, len(self._data))
        if size is not None and at + size > stop:
            self.defect = TRUNCATED
        for kind in (CODE, RESULT, RANGE):
            for _ in range(header.get_int(kind) or 0):
                begin = at + SIZE_BYTES
                if begin >= stop:
                    break
                at = begin + self._read_size(at)
                if at == begin:
                    self.defect = DAMAGED
                    return stop
                if at > stop:
                    self.defect = self.defect or (TRUNCATED if stop == len(self._data) else DAMAGED)
                    at = stop
                yield BlockEntry(kind, self._data[begin:at], header, self._strings)
        return at if size is None else stop
