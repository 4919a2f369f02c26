"""Trace events one by one, from any text that contains some: slow and tolerant, the reference of the scanner."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from ...domain.arrays import MISSING, Array, sort_distinct
from ...domain.losses import NO_UNICODE
from ...domain.tables import NUMERIC_ARGUMENTS
from ..trace.events import ID_TEXT, NumericArgument, TraceEvents
from .documents import DocumentReader, LossCounts
from .grammar import (
    MAX_ARGUMENT_DEPTH,
    MalformedValue,
    NeedMoreData,
    decode_json,
    decode_string,
    is_unicode,
    iterate_members,
    parse_int,
    parse_nanoseconds,
    skip_blanks,
    split_plain_event,
    to_strict_json,
    unescape,
)
from .losses import NO_ARGUMENTS, NO_PHASE, NO_TEXT, NO_TIME, NO_VALUE, TOO_DEEP_ARGUMENT, TOO_LARGE_TIME
from .window import TextChunk, Window, open_window


def decode(stream: BinaryIO) -> TraceEvents:
    """The events in a stream of decompressed bytes. Raises what reading the stream does; its content never raises."""
    with open_window(stream) as window:
        return DocumentReader(window, PythonDecoder()).read()


class PythonDecoder:
    """Adds events one by one, in Python."""

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}
        self._places: list[int] = []
        self._rows: list[tuple[int, int, int, int, int, int, int, int, int]] = []
        self._numbers: dict[str, tuple[list[int], list[int]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def feed(self, window: Window, losses: LossCounts) -> None:
        while True:
            window.at = skip_blanks(window.data, window.at)
            if bytes(window.data[window.at : window.at + 1]) != b"{":
                return
            try:
                event, end = decode_event_at(window, window.at, losses)
            except (MalformedValue, NeedMoreData):
                return
            if event is not None:
                self._add(event, window.place + window.at)
            window.at = end

    def _add(self, event: "DecodedEvent", place: int) -> None:
        def text(raw: bytes | None) -> int:
            if raw is None:
                return -1
            code = self._texts.setdefault(raw, len(self._texts))
            if code == len(self._places):
                self._places.append(place)
            return code

        for key, number in event.numbers.items():
            at, values = self._numbers.setdefault(key, ([], []))
            at.append(len(self._rows))
            values.append(number)
        id_ = parse_small_id(event.id)
        if id_ is None:
            id_ = -1 if event.id is None else ID_TEXT + text(event.id)
        self._rows.append(
            (
                event.phase,
                text(event.name),
                text(event.category),
                text(event.process),
                text(event.thread),
                id_,
                event.time_ns,
                event.duration_ns,
                text(event.arguments),
            )
        )

    def finish(self, shifts: list[tuple[int, int]], top: dict[str, Any], losses: LossCounts) -> TraceEvents:
        text = np.frombuffer(b"".join(self._texts), np.uint8)
        ends = np.cumsum([len(one) for one in self._texts], dtype=np.int64)
        starts = ends - [len(one) for one in self._texts]
        texts, same = decode_texts(text, starts, ends, np.array(self._places, np.int64), losses)
        rows = np.array(self._rows, np.int64).reshape(-1, 9)
        phase, name, category, process, thread, id_, time_ns, duration_ns, arguments = np.ascontiguousarray(rows.T)
        if same is not None:
            for column in (name, category, process, thread, arguments):
                column[column >= 0] = same[column[column >= 0]]
            id_[id_ >= ID_TEXT] = ID_TEXT + same[id_[id_ >= ID_TEXT] - ID_TEXT]
        apply_shifts(time_ns, shifts)
        return TraceEvents(
            texts,
            phase.astype(np.uint8),
            name.astype(np.int32),
            category.astype(np.int32),
            process.astype(np.int32),
            thread.astype(np.int32),
            id_.astype(np.int32),
            time_ns,
            duration_ns,
            arguments.astype(np.int32),
            {
                key: NumericArgument(np.array(event, np.int32), np.array(number, np.int64))
                for key, (event, number) in sorted(self._numbers.items())
            },
            top,
            losses.to_list(),
        )


def parse_small_id(raw: bytes | None) -> int | None:
    """The value of an id that is a whole number below ID_TEXT."""
    return int(raw) if raw is not None and _SMALL.fullmatch(raw) and int(raw) < ID_TEXT else None


@dataclass
class DecodedEvent:
    """An event's columns. Texts as they are in the file, strings without quotes."""

    phase: int = 0
    name: bytes | None = None
    category: bytes | None = None
    process: bytes | None = None
    thread: bytes | None = None
    id: bytes | None = None
    time_ns: int = MISSING
    duration_ns: int = MISSING
    arguments: bytes | None = None
    numbers: dict[str, int] = field(default_factory=dict)


_TEXTS = {b"name": "name", b"cat": "category", b"pid": "process", b"tid": "thread", b"id": "id"}
_TIMES = {b"ts": "time_ns", b"dur": "duration_ns"}
_SMALL = re.compile(rb"0|[1-9][0-9]{0,9}")
_NUMBERED = {key.encode(): key for key in NUMERIC_ARGUMENTS}


def decode_event_at(window: Window | TextChunk, start: int, losses: LossCounts) -> tuple[DecodedEvent | None, int]:
    """(the event that begins at `start` of the window, None for an empty one, its end).

    Raises Damaged, More.
    """

    def lost(reason: str) -> None:
        losses.note(reason, window.place + start, raw)

    if (plain := split_plain_event(window.data, start)) is not None:
        end, texts, members = plain
        raw = bytes(window.data[start:end])
        return _decode_members(texts, ((name, member, text, 0) for member, name, text in members), lost), end
    value = window.scan_value(start)
    raw, end = bytes(window.data[value.start : value.end]), value.end
    if value.non_strict:
        raw, words = to_strict_json(raw, 0, len(raw))
        for _ in range(words):
            lost(NO_VALUE)
    # Of two members of one name the last counts.
    texts = {name: text for name, _, text, _ in iterate_members(raw, 0)}
    if not texts:
        return None, end
    arguments = texts.get(b"args", b"")
    return _decode_members(texts, iterate_members(arguments, 0) if arguments[:1] == b"{" else (), lost), end


def _decode_members(
    texts: Mapping[bytes, bytes], arguments: Iterable[tuple[bytes, bytes, bytes, int]], lost: Callable[[str], None]
) -> DecodedEvent:
    """The event with these values. arguments: as `iterate_members` has those of `args`. lost: called with a reason."""
    event = DecodedEvent()
    for name, field_name in _TEXTS.items():
        if (text := texts.get(name)) is not None:
            setattr(event, field_name, _get_text(text, lost))
    if event.id is None and b"id2" in texts:
        event.id = _get_scoped_id(texts[b"id2"], lost)
    if event.id is None:
        event.id = _get_text(texts.get(b"bind_id"), lost)
    for name, field_name in _TIMES.items():
        text = texts.get(name, b"null")
        if text == b"null":
            continue
        try:
            time = parse_nanoseconds(unescape(text[1:-1]) if text[:1] == b'"' else text)
        except OverflowError:
            lost(TOO_LARGE_TIME)
        else:
            if time is None:
                lost(NO_TIME)
            else:
                setattr(event, field_name, time)
    phase = texts.get(b"ph")
    if phase is not None:
        letter = unescape(phase[1:-1]) if phase[:1] == b'"' else b""
        if len(letter) == 1:
            event.phase = letter[0]
        else:
            lost(NO_PHASE)
    if texts.get(b"args", b"null")[:1] not in (b"{", b"n"):
        lost(NO_ARGUMENTS)
    _add_arguments(event, arguments, lost)
    return event


def _get_text(text: bytes | None, lost: Callable[[str], None]) -> bytes | None:
    if text is None or text == b"null":
        return None
    if text[:1] == b'"':
        return text[1:-1]
    if text[:1] in b"-0123456789":
        return text
    lost(NO_TEXT)
    return None


def _get_scoped_id(text: bytes, lost: Callable[[str], None]) -> bytes | None:
    """An `id2` as it is in the file, or None if it is not an object: see `resolve_scoped_ids`."""
    if text[:1] == b"{":
        return text
    if text != b"null":
        lost(NO_TEXT)
    return None


def _add_arguments(
    event: DecodedEvent, arguments: Iterable[tuple[bytes, bytes, bytes, int]], lost: Callable[[str], None]
) -> None:
    kept: list[tuple[bytes, bytes]] = []
    for name, member, text, depth in arguments:
        key = _NUMBERED.get(name)
        if key is not None:
            # Of two members of one name the last counts.
            kept = [one for one in kept if one[0] != name]
            event.numbers.pop(key, None)
            number = parse_int(text)
            if number is not None:
                event.numbers[key] = number
                continue
        if depth > MAX_ARGUMENT_DEPTH:
            lost(TOO_DEEP_ARGUMENT)
        else:
            kept.append((name, member))
    if kept:
        event.arguments = b"{" + b",".join(member for _, member in kept) + b"}"


def decode_texts(
    text: Array, starts: Array, ends: Array, places: Array, losses: LossCounts
) -> tuple[list[str], Array | None]:
    """(consecutive texts in bytes of a file, and the index of each among them, None: its own).

    Arguments are recognized by their first character: no string's text contains an unescaped quote.
    """
    raw = text.tobytes()
    combined = raw.decode("latin-1")
    texts = [combined[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    # Only texts with escapes or non-ASCII characters need a check.
    odd = sort_distinct(np.searchsorted(ends, np.flatnonzero((text == ord("\\")) | (text > 127)), "right"))
    parts = [(int(places[i]), raw[starts[i] : ends[i]], i) for i in odd.tolist()]
    for place, part, i in sorted(parts):
        is_json = part.startswith(b'{"')
        texts[i] = decode_json(part) if is_json else decode_string(part)
        if not is_unicode(part, is_json):
            losses.note(NO_UNICODE, place, part)
    known = dict(zip(texts, range(len(texts)), strict=True)) if len(odd) else None
    if known is None or len(known) == len(texts):
        return texts, None
    number = {one: i for i, one in enumerate(known)}
    return list(known), np.array([number[one] for one in texts], np.int32)


def apply_shifts(time_ns: Array, shifts: list[tuple[int, int]]) -> None:
    """Add the shifts of `Block.finish` to times."""
    for (start, add), (end, _) in zip(shifts, [*shifts[1:], (len(time_ns), 0)], strict=False):
        part = time_ns[start:end]
        part[part != MISSING] += add
