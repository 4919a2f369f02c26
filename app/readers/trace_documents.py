"""The documents of a file of trace events: each an object with `traceEvents`, or a bare array of events.

What is damaged is skipped up to the next event that is whole, and noted; what is cut off is read up to there.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from .trace_events import TraceEvents
from .trace_grammar import (
    BETWEEN,
    PLAUSIBLE_BYTES,
    Damaged,
    More,
    Text,
    event_starts,
    shown,
    shown_json,
    straightened,
    value,
)
from .trace_window import LONGEST_BYTES, Window

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
_CLOSE = re.compile(rb'\}\s*+(\])\s*+(?:,\s*+"(?:traceName|displayTimeUnit|baseTimeNanoseconds|otherData)"|\}\s*+\Z)')
_LIST = re.compile(rb'"traceEvents"\s*+:\s*+\[')
_DOCUMENT = re.compile(rb"[\[{]")


class Block(Protocol):
    """What takes in events, while the window is inside of a list of events."""

    def take(self, window: Window, losses: "Losses") -> None:
        """Go through whole events, and stop before what is none, or not in sight as a whole."""

    def damaged(self, data: Text, start: int) -> bool:
        """Whether what it stopped at would not become an event with more text."""

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
            said = " ".join(text[: 4 * SHOWN].decode(errors="backslashreplace").split())
            first = f"byte {place:,}: {said if len(said) <= SHOWN else said[:SHOWN] + '…'}".rstrip(": ")
        self.found[reason] = (before + count, first)

    def add(self, other: "Losses") -> None:
        """What was lost behind that."""
        for reason, (count, first) in other.found.items():
            before, known = self.found.get(reason, (0, first))
            self.found[reason] = (before + count, known)

    def listed(self) -> list[tuple[str, int, str]]:
        """As TraceEvents has them."""
        return [(reason, count, first) for reason, (count, first) in self.found.items()]


class _Gone(Exception):
    """What is damaged goes on to the end of the file."""


class Documents:
    """Goes through the documents of a file, and has what stands in their lists of events taken in."""

    def __init__(self, window: Window, block: Block) -> None:
        self._window = window
        self._block = block
        self._top: dict[str, Any] = {}
        self._shifts: list[tuple[int, int]] = []
        self._losses = Losses()

    def read(self) -> TraceEvents:
        """Go through all of the file."""
        window = self._window
        try:
            while self._blank(_BLANK):
                self._document()
        except EOFError:
            self._losses.note(CUT_OFF, window.place + window.length)
        except _Gone:
            pass
        return self._block.finish(self._shifts, self._top, self._losses)

    def _blank(self, what: re.Pattern[bytes]) -> bool:
        """Go to what is not blank; False where there is nothing more."""
        window = self._window
        while True:
            found = what.match(window.data, window.at)
            assert found is not None
            window.at = found.end()
            if window.at < len(window.data):
                return True
            if not window.more():
                return False

    def _sign(self) -> bytes:
        """The next byte that is neither blank nor a comma. Raises EOFError."""
        if not self._blank(BETWEEN):
            raise EOFError
        return bytes(self._window.data[self._window.at : self._window.at + 1])

    def _value(self) -> tuple[int, int, bool]:
        """(start, end, whether it is bent) of the next value in the data. Raises Damaged, EOFError."""
        window = self._window
        while True:
            try:
                found = value(window.data, window.at)
            except More:
                if len(window.data) - window.at > LONGEST_BYTES:
                    raise Damaged from None
                if not window.more():
                    raise EOFError from None
            else:
                window.at = found.end
                return found.start, found.end, found.bent

    def _note(self, reason: str, at: int) -> None:
        """Note what is lost at `at` in the data, which may come to lie elsewhere."""
        window = self._window
        gone = window.at - at
        window.at = at
        while len(window.data) - window.at < 4 * SHOWN and window.more():
            pass
        at, window.at = window.at, window.at + gone
        self._losses.note(reason, window.place + at, bytes(window.data[at : at + 4 * SHOWN]))

    def _document(self) -> None:
        window = self._window
        start = bytes(window.data[window.at : window.at + 1])
        if start == b"[":
            window.at += 1
            self._events()
        elif start == b"{":
            window.at += 1
            rows, top = len(self._block), dict[str, Any]()
            try:
                self._object(top)
            finally:
                self._keep(top, rows)
        else:
            self._note(NO_DOCUMENT, window.at)
            if self._found(_DOCUMENT):
                window.at -= 1

    def _object(self, top: dict[str, Any]) -> None:
        window = self._window
        while (sign := self._sign()) != b"}":
            try:
                if sign != b'"':
                    raise Damaged
                start, end, bent = self._value()
                key = bytes(window.data[start:end])
                key = (straightened(key, 0, len(key))[0] if bent else key)[1:-1]
                if self._sign() != b":":
                    raise Damaged
                window.at += 1
                sign = self._sign()
                if key == EVENTS and sign == b"[":
                    window.at += 1
                    self._events()
                    continue
                start, end, bent = self._value()
            except Damaged:
                self._note(DAMAGED, window.at)
                if not self._found(_LIST):
                    return
                self._events()
                continue
            if key == EVENTS:
                self._note(NO_EVENTS, start)
            else:
                self._beside(shown(key), bytes(window.data[start:end]), bent, window.place + start, top)
        window.at += 1

    def _beside(self, key: str, raw: bytes, bent: bool, place: int, top: dict[str, Any]) -> None:
        """Keep a value that stands beside the events."""
        if bent:
            raw, lost = straightened(raw, 0, len(raw))
            if lost:
                self._losses.note(NO_VALUE, place, raw, lost)
        try:
            top[key] = json.loads(shown_json(raw))
        except (ValueError, RecursionError):
            # A number of many thousand digits, or nesting beyond what Python follows.
            self._losses.note(NO_VALUE, place, raw)

    def _found(self, what: re.Pattern[bytes]) -> bool:
        """Go behind the next place that looks so, else to the end."""
        window = self._window
        while (found := what.search(window.data, window.at)) is None:
            window.at = max(window.at, len(window.data) - 64)
            if not window.more():
                window.at = len(window.data)
                return False
        window.at = found.end()
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
                self._losses.note(OTHER_VALUE, self._window.place + self._window.at, key.encode())

    def _events(self) -> None:
        """Go through a list of events, from behind its bracket to behind the other one."""
        window = self._window
        while (sign := self._sign()) != b"]":
            at = window.place + window.at
            if sign == b"{":
                self._block.take(window, self._losses)
                if self._sign() == b"{" and window.place + window.at == at:
                    self._odd_event()
                continue
            try:
                self._value()
            except Damaged:
                self._skip()
            else:
                self._note(NO_EVENT, at - window.place)
        window.at += 1

    def _odd_event(self) -> None:
        """Go on where the block reader did not: read on, or pass over what is damaged. Raises EOFError, _Gone."""
        window = self._window
        if not self._block.damaged(window.data, window.at) and len(window.data) - window.at < LONGEST_BYTES:
            if window.more():
                return
            # At the end: either it is cut off, or a whole event stands behind something damaged.
            if self._next_event(window.at + 1) is None:
                raise EOFError
        self._skip()

    def _skip(self) -> None:
        """Note something damaged and go to the next event, or the end of the list. Raises _Gone."""
        window = self._window
        self._note(DAMAGED, window.at)
        window.at += 1
        while True:
            found = self._next_event(window.at)
            # Whatever is in sight by chance, the same event is found.
            if found is not None and found + PLAUSIBLE_BYTES <= len(window.data):
                break
            if found is None:
                window.at = max(window.at, len(window.data) - 2 * PLAUSIBLE_BYTES)
            if not window.more():
                break
        if found is None:
            raise _Gone
        window.at = found

    def _next_event(self, start: int) -> int | None:
        """Where the next event starts that is whole, or the list ends."""
        data = self._window.data
        close = _CLOSE.search(data, start)
        end = close.start(1) if close else len(data)
        return next(event_starts(data, start, end), close and end)
