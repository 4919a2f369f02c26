"""The documents of a file of trace events: each an object with `traceEvents`, or a bare array of events.

Damaged bytes are skipped up to the next complete event, and recorded; a truncated file is read up to its end.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...domain.text import shorten
from ..losses import MAX_EXAMPLE_CHARS
from ..trace.events import TraceEvents
from ..trace.losses import CUT_OFF
from .grammar import (
    BETWEEN,
    PLAUSIBLE_BYTES,
    MalformedValue,
    NeedMoreData,
    decode_json,
    decode_string,
    find_event_candidates,
    is_event,
    to_strict_json,
)
from .losses import DAMAGED, NO_DOCUMENT, NO_EVENT, NO_EVENTS, NO_VALUE, OTHER_VALUE
from .window import MAX_EVENT_BYTES, MAX_WINDOW_BYTES, TextChunk, Window

EVENTS = b"traceEvents"


_BLANK = re.compile(rb"[\s\x00\x1e]*+")
_CLOSE = re.compile(rb'\}\s*+(\])\s*+(?:,\s*+"(?:traceName|displayTimeUnit|baseTimeNanoseconds|otherData)"|\}\s*+\Z)')
_LIST = re.compile(rb'"traceEvents"\s*+:\s*+\[')
_DOCUMENT = re.compile(rb"[\[{]")
_ENDING = re.compile(rb"\}\s*+\]")
RESYNC_BYTES = 64 << 10
"""How far after damage an event is searched for within a chunk."""


class EventConsumer(Protocol):
    """Reads events while the window is within a list of events."""

    def feed(self, window: Window, losses: "LossCounts") -> None:
        """Iterate complete events; stop before anything else, or an event that exceeds the window."""

    def __len__(self) -> int: ...

    def finish(self, shifts: list[tuple[int, int]], top: dict[str, Any], losses: "LossCounts") -> TraceEvents:
        """All events. shifts: from which event on how many ns are to be added to times."""


@dataclass
class LossCounts:
    """What could not be read."""

    counts: dict[str, tuple[int, str]] = field(default_factory=dict)

    def note(self, reason: str, place: int, text: bytes = b"", count: int = 1) -> None:
        """Something at byte `place` was lost."""
        before, first = self.counts.get(reason, (0, ""))
        if not before:
            line = " ".join(text[: 4 * MAX_EXAMPLE_CHARS].decode(errors="backslashreplace").split())
            first = f"byte {place:,}: {shorten(line, MAX_EXAMPLE_CHARS)}".rstrip(": ")
        self.counts[reason] = (before + count, first)

    def add(self, other: "LossCounts") -> None:
        """Add the losses of a later block."""
        for reason, (count, first) in other.counts.items():
            before, known = self.counts.get(reason, (0, first))
            self.counts[reason] = (before + count, known)

    def to_list(self) -> list[tuple[str, int, str]]:
        """As in TraceEvents."""
        return [(reason, count, first) for reason, (count, first) in self.counts.items()]


class _UnterminatedDamage(Exception):
    """The damage extends to the end of the file."""


@dataclass(frozen=True)
class _BracketSearch:
    """A search in the file, from `since` to `end`. found: the start of the match, and its bracket; None without one."""

    end: int
    since: int
    found: tuple[int, int] | None


def find_event(window: Window | TextChunk, start: int, end: int) -> int | None:
    """The start of the first complete event in data[start:end]."""
    for at in find_event_candidates(window.data, start, end):
        if is_event(
            window.data, at, window.place, window.unterminated_events, at_end=window.at_end, longest=PLAUSIBLE_BYTES
        ):
            return at
    return None


def skip_damaged(piece: TextChunk, damaged: int, losses: LossCounts) -> int | None:
    """The start of the next event after a damaged one, which is recorded; None if a chunk does not determine it, and
    `DocumentReader` has to read on. Both find the same event."""
    data, start = piece.data, damaged + 1
    event = find_event(piece, start, min(len(data), start + RESYNC_BYTES))
    if event is None or not (piece.at_end or event + PLAUSIBLE_BYTES <= len(data)):
        return None
    if piece.place + event in piece.unterminated_values.damaged:
        return None
    if any(_CLOSE.match(data, ending.start()) for ending in _ENDING.finditer(data, start, event)):
        return None
    losses.note(DAMAGED, piece.place + damaged, bytes(data[damaged : damaged + 4 * MAX_EXAMPLE_CHARS]))
    return event


class DocumentReader:
    """Iterates the documents of a file, and adds the events of their lists."""

    def __init__(self, window: Window, block: EventConsumer) -> None:
        self._window = window
        self._block = block
        self._top: dict[str, Any] = {}
        self._shifts: list[tuple[int, int]] = []
        self._losses = LossCounts()
        self._closed = _BracketSearch(-1, -1, None)

    def read(self) -> TraceEvents:
        """Read the whole file."""
        window = self._window
        try:
            while self._skip_blank(_BLANK):
                self._read_document()
        except EOFError:
            self._losses.note(CUT_OFF, window.place + window.length)
        except _UnterminatedDamage:
            self._losses.note(CUT_OFF, window.place + window.length)
        return self._block.finish(self._shifts, self._top, self._losses)

    def _skip_blank(self, what: re.Pattern[bytes]) -> bool:
        """Skip white space; False at the end."""
        window = self._window
        while True:
            match = what.match(window.data, window.at)
            assert match is not None
            window.at = match.end()
            if window.at < len(window.data):
                return True
            if not window.read_more():
                return False

    def _next_sign(self) -> bytes:
        """The next byte other than white space and commas. Raises EOFError."""
        if not self._skip_blank(BETWEEN):
            raise EOFError
        return bytes(self._window.data[self._window.at : self._window.at + 1])

    def _next_value(self, longest: int = MAX_EVENT_BYTES) -> tuple[int, int, bool]:
        """(start, end, whether it is not strict JSON) of the next value in the data. Raises Damaged, EOFError."""
        window = self._window
        while True:
            try:
                value = window.scan_value(window.at, longest)
            except NeedMoreData:
                if not window.read_much_more():
                    raise EOFError from None
            else:
                window.at = value.end
                return value.start, value.end, value.non_strict

    def _note(self, reason: str, at: int) -> None:
        """Record a loss at `at` in the data, which may be moved later."""
        window = self._window
        gone = window.at - at
        window.at = at
        while len(window.data) - window.at < 4 * MAX_EXAMPLE_CHARS and window.read_more():
            pass
        at, window.at = window.at, window.at + gone
        self._losses.note(reason, window.place + at, bytes(window.data[at : at + 4 * MAX_EXAMPLE_CHARS]))

    def _read_document(self) -> None:
        window = self._window
        start = bytes(window.data[window.at : window.at + 1])
        if start == b"[":
            window.at += 1
            self._read_events()
        elif start == b"{":
            window.at += 1
            rows, top = len(self._block), dict[str, Any]()
            try:
                self._read_object(top)
            finally:
                self._keep(top, rows)
        else:
            self._note(NO_DOCUMENT, window.at)
            if self._skip_to_next(_DOCUMENT):
                window.at -= 1

    def _read_object(self, top: dict[str, Any]) -> None:
        window = self._window
        while (sign := self._next_sign()) != b"}":
            try:
                if sign != b'"':
                    raise MalformedValue([])
                start, end, bent = self._next_value(MAX_WINDOW_BYTES)
                key = bytes(window.data[start:end])
                key = (to_strict_json(key, 0, len(key))[0] if bent else key)[1:-1]
                if self._next_sign() != b":":
                    raise MalformedValue([])
                window.at += 1
                sign = self._next_sign()
                if key == EVENTS and sign == b"[":
                    window.at += 1
                    self._read_events()
                    continue
                start, end, bent = self._next_value(MAX_WINDOW_BYTES)
            except MalformedValue:
                self._note(DAMAGED, window.at)
                if not self._skip_to_next(_LIST):
                    return
                self._read_events()
                continue
            if key == EVENTS:
                self._note(NO_EVENTS, start)
            else:
                self._keep_sibling(decode_string(key), bytes(window.data[start:end]), bent, window.place + start, top)
        window.at += 1

    def _keep_sibling(self, key: str, raw: bytes, bent: bool, place: int, top: dict[str, Any]) -> None:
        """Store a value that is next to the events."""
        if bent:
            raw, lost = to_strict_json(raw, 0, len(raw))
            if lost:
                self._losses.note(NO_VALUE, place, raw, lost)
        try:
            top[key] = json.loads(decode_json(raw))
        except (ValueError, RecursionError):
            # A number of many thousand digits, or nesting beyond Python's recursion limit.
            self._losses.note(NO_VALUE, place, raw)

    def _skip_to_next(self, what: re.Pattern[bytes]) -> bool:
        """Skip to the end of the next match, else to the end."""
        window = self._window
        while (match := what.search(window.data, window.at)) is None:
            window.at = max(window.at, len(window.data) - 64)
            if not window.read_more():
                window.at = len(window.data)
                return False
        window.at = match.end()
        return True

    def _keep(self, top: dict[str, Any], rows: int) -> None:
        """Store the values next to the events of a document that began at event `rows`."""
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

    def _read_events(self) -> None:
        """Read a list of events, from after its opening bracket to after the closing one."""
        window = self._window
        while (sign := self._next_sign()) != b"]":
            at = window.place + window.at
            if sign == b"{":
                if at not in window.unterminated_values.damaged:
                    self._block.feed(window, self._losses)
                    if self._next_sign() != b"{" or window.place + window.at != at:
                        continue
                self._handle_unfinished_event()
                continue
            try:
                self._next_value()
            except MalformedValue:
                self._skip()
            except EOFError:
                self._end_open_event()
            else:
                self._note(NO_EVENT, at - window.place)
        window.at += 1

    def _handle_unfinished_event(self) -> None:
        """Continue after the block reader: read on, or skip damaged bytes. Raises EOFError, _UnterminatedDamage."""
        window = self._window
        if window.place + window.at not in window.unterminated_values.damaged:
            if window.read_much_more():
                return
            self._end_open_event()
            return
        self._skip()

    def _end_open_event(self) -> None:
        """Handle an event without an end: it is truncated, or damaged and followed by a complete event."""
        if self._next_event(self._window.at + 1) is None:
            raise EOFError
        self._skip()

    def _skip(self) -> None:
        """Record damage and go to the next event, or the end of the list. Raises _UnterminatedDamage."""
        window = self._window
        self._note(DAMAGED, window.at)
        window.at += 1
        while True:
            next_event = self._next_event(window.at)
            # The same event is found for any window.
            if next_event is not None and next_event + PLAUSIBLE_BYTES <= len(window.data):
                break
            if next_event is None:
                window.at = max(window.at, len(window.data) - 2 * PLAUSIBLE_BYTES)
            if not window.read_more():
                break
        if next_event is None:
            raise _UnterminatedDamage
        window.at = next_event

    def _next_event(self, start: int) -> int | None:
        """The start of the next complete event, or of the end of the list."""
        window = self._window
        close = self._close(start)
        end = len(window.data) if close is None else close
        event = find_event(window, start, end)
        return close if event is None else event

    def _close(self, start: int) -> int | None:
        """The end of the list after `start`, as far as it can be determined."""
        window, known = self._window, self._closed
        end, at = window.place + len(window.data), window.place + start
        if known.end != end or at < known.since or (known.found is not None and known.found[0] < at):
            match = _CLOSE.search(window.data, start)
            place = window.place
            known = _BracketSearch(end, at, None if match is None else (place + match.start(), place + match.start(1)))
            self._closed = known
        return None if known.found is None else known.found[1] - window.place
