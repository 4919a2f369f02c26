"""The documents of a file of trace events: each an object with `traceEvents`, or a bare array of events.

What is damaged is skipped up to the next event that is whole, and noted; what is cut off is read up to there.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from .trace_events import TraceEvents
from .trace_grammar import BETWEEN, Damaged, More, members, shown, shown_json, straightened, value
from .trace_sniff import utf8

BLOCK_BYTES = 1 << 20
LONGEST_BYTES = 64 << 20
RESYNC_BYTES = 1 << 20
SHOWN = 160
EVENTS = b"traceEvents"

CUT_OFF = "end of the file, which is missing"
DAMAGED = "text that is no JSON"
NO_EVENT = "element of traceEvents that is no event"
NO_DOCUMENT = "text that is no document with traceEvents"
NO_EVENTS = "traceEvents that is no list"
OTHER_VALUE = "value of a second document that differs from the first one's"
NO_VALUE = "value that is no JSON, such as NaN"

_BLANK = re.compile(rb"[\s\x00\x1e]*+")
_START = re.compile(rb'\}\s*+,?\s*+(\{\s*+")')
_CLOSE = re.compile(rb'\}\s*+(\])\s*+(?:,\s*+"(?:traceName|displayTimeUnit|baseTimeNanoseconds|otherData)"|\}\s*+\Z)')
_LIST = re.compile(rb'"traceEvents"\s*+:\s*+\[')


class Block(Protocol):
    """What takes in events, from a text that is inside of a list of events."""

    def take(self, data: bytes, start: int, place: int, losses: "Losses") -> int:
        """Take in whole events from `start` on; returns where it stopped: before what is no whole event.

        place: of data[0] in the file.
        """

    def damaged(self, data: bytes, start: int) -> bool:
        """Whether it stopped at `start` for something that more text would not make an event."""

    def __len__(self) -> int: ...

    def finish(self, shifts: list[tuple[int, int]], top: dict[str, Any], losses: "Losses") -> TraceEvents:
        """All that was taken in. shifts: from which event on how many ns are to be added to times."""


@dataclass
class Losses:
    """What could not be read."""

    found: dict[str, tuple[int, str]] = field(default_factory=dict)

    def note(self, reason: str, place: int, text: bytes = b"", count: int = 1) -> None:
        """Something at byte `place` was lost."""
        before, first = self.found.get(reason, (0, ""))
        if not before:
            words = text[: 4 * SHOWN].decode(errors="backslashreplace").split()
            said = " ".join(words)
            first = f"byte {place:,}: {said if len(said) <= SHOWN else said[:SHOWN] + '…'}".rstrip(": ")
        self.found[reason] = (before + count, first)

    def listed(self) -> list[tuple[str, int, str]]:
        return [(reason, count, first) for reason, (count, first) in self.found.items()]


class Documents:
    """Goes through the documents of a file, and hands what stands in their lists of events to a block reader."""

    def __init__(self, stream: BinaryIO, block: Block, block_bytes: int = BLOCK_BYTES) -> None:
        self._read = utf8(stream)
        self._block = block
        self._block_bytes = block_bytes
        self._data = b""
        self._at = 0
        self._place = 0
        self._ended = False
        self._top: dict[str, Any] = {}
        self._shifts: list[tuple[int, int]] = []
        self.losses = Losses()

    def read(self) -> TraceEvents:
        """Go through all of the file."""
        try:
            while self._blank(_BLANK):
                self._document()
        except EOFError:
            self.losses.note(CUT_OFF, self._place + len(self._data))
        return self._block.finish(self._shifts, self._top, self.losses)

    def _more(self) -> bool:
        """Read on; False at the end of the file. What was gone through is let go."""
        if self._ended:
            return False
        rest = self._data[self._at :]
        read = self._read(max(self._block_bytes, len(rest)))
        self._ended = not read
        # A word at the very end could else go on.
        self._data = rest + (read or b"\n")
        self._place += self._at
        self._at = 0
        return True

    def _blank(self, what: re.Pattern[bytes]) -> bool:
        """Go to what is not blank; False where there is nothing more."""
        while True:
            found = what.match(self._data, self._at)
            assert found is not None
            self._at = found.end()
            if self._at < len(self._data):
                return True
            if not self._more():
                return False

    def _sign(self) -> bytes:
        """The next byte that is neither blank nor a comma. Raises EOFError."""
        if not self._blank(BETWEEN):
            raise EOFError
        return self._data[self._at : self._at + 1]

    def _value(self) -> tuple[int, int, bool]:
        """(start, end, whether it is bent) of the next value in the data. Raises Damaged, EOFError."""
        while True:
            try:
                found = value(self._data, self._at)
            except More:
                if len(self._data) - self._at > LONGEST_BYTES:
                    raise Damaged from None
                if not self._more():
                    raise EOFError from None
            else:
                self._at = found.end
                return found.start, found.end, found.bent

    def _note(self, reason: str) -> None:
        self.losses.note(reason, self._place + self._at, self._data[self._at : self._at + 4 * SHOWN])

    def _document(self) -> None:
        start = self._data[self._at : self._at + 1]
        if start == b"[":
            self._at += 1
            self._events()
        elif start == b"{":
            self._at += 1
            rows, top = len(self._block), dict[str, Any]()
            try:
                self._object(top)
            finally:
                self._keep(top, rows)
        else:
            self._note(NO_DOCUMENT)
            while (found := re.search(rb"[\[{]", self._data[self._at :])) is None:
                self._at = len(self._data)
                if not self._more():
                    return
            self._at += found.start()

    def _object(self, top: dict[str, Any]) -> None:
        while (sign := self._sign()) != b"}":
            at = self._at
            try:
                if sign != b'"':
                    raise Damaged
                start, end, _ = self._value()
                key = self._data[start + 1 : end - 1]
                if self._sign() != b":":
                    raise Damaged
                self._at += 1
                sign = self._sign()
                if key == EVENTS and sign == b"[":
                    self._at += 1
                    self._events()
                    continue
                start, end, bent = self._value()
            except Damaged:
                self._at = min(at, len(self._data))
                self._note(DAMAGED)
                if not self._found(_LIST):
                    return
                self._events()
                continue
            raw = self._data[start:end]
            if key == EVENTS:
                self.losses.note(NO_EVENTS, self._place + start, raw)
                continue
            if bent:
                raw, lost = straightened(raw, 0, len(raw))
                if lost:
                    self.losses.note(NO_VALUE, self._place + start, raw, lost)
            try:
                top[shown(key)] = json.loads(shown_json(raw))
            except (ValueError, RecursionError):
                # A number of many thousand digits, or nesting beyond what Python follows.
                self.losses.note(NO_VALUE, self._place + start, raw)
        self._at += 1

    def _found(self, what: re.Pattern[bytes]) -> bool:
        """Go behind the next place that looks so."""
        while (found := what.search(self._data, self._at)) is None:
            self._at = max(self._at, len(self._data) - 64)
            if not self._more():
                return False
        self._at = found.end()
        return True

    def _keep(self, top: dict[str, Any], rows: int) -> None:
        """Keep what stands beside the events of a document that began at event `rows`."""
        if not self._top:
            self._top = top
            return
        base, first = top.get("baseTimeNanoseconds"), self._top.get("baseTimeNanoseconds")
        if isinstance(base, int) and isinstance(first, int) and abs(base - first) < 2**62:
            self._shifts += [(rows, base - first), (len(self._block), 0)]
            del top["baseTimeNanoseconds"]
        for key, one in top.items():
            if self._top.setdefault(key, one) != one:
                self.losses.note(OTHER_VALUE, self._place + self._at, key.encode())

    def _events(self) -> None:
        """Go through a list of events, from behind its bracket to behind the other one."""
        while True:
            sign = self._sign()
            if sign == b"]":
                self._at += 1
                return
            if sign == b"{":
                self._at = self._block.take(self._data, self._at, self._place, self.losses)
                if self._sign() != b"{":
                    continue
                if not self._block.damaged(self._data, self._at) and len(self._data) - self._at < LONGEST_BYTES:
                    if self._more():
                        continue
                    # At the end: either it is cut off, or a whole event stands behind something damaged.
                    at = self._at
                    if self._next_event() is None:
                        self._at = at
                        raise EOFError
                    self._at = at
                self._skip(DAMAGED)
            else:
                try:
                    at = self._at
                    self._value()
                    raw = self._data[at : at + 4 * SHOWN]
                    self.losses.note(NO_EVENT, self._place + at, raw)
                except Damaged:
                    self._skip(DAMAGED)

    def _skip(self, reason: str) -> None:
        """Note something damaged and go to the next event, or the end of the list."""
        self._note(reason)
        self._at += 1
        while (found := self._next_event()) is None:
            self._at = max(self._at, len(self._data) - RESYNC_BYTES)
            if not self._more():
                raise EOFError
        self._at = found

    def _next_event(self) -> int | None:
        """Where the next event starts that is whole, or the list ends."""
        close = _CLOSE.search(self._data, self._at)
        position = self._at
        while found := _START.search(self._data, position, close.start(1) if close else len(self._data)):
            position = found.start(1)
            try:
                one = value(self._data[position : position + RESYNC_BYTES], 0)
                if any(name == b"ph" for name, _, _ in _safe_members(self._data, position, one.end, one.bent)):
                    return position
            except (Damaged, More):
                continue
        return close.start(1) if close else None


def _safe_members(data: bytes, start: int, size: int, bent: bool) -> list[tuple[bytes, bytes, int]]:
    raw = data[start : start + size]
    return list(members(straightened(raw, 0, size)[0] if bent else raw, 0))
