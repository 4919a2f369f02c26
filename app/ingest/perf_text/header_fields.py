"""The fields of the headers of perf script's samples: found once for each layout, read for each header.

Headers that differ only in their digits have their fields at the same places. A recording has few such layouts: its
commands, and the widths of its numbers.
"""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.units import NS_PER_S, NS_PER_US
from .grammar import MAX_TIME_NS
from .text_parts import factorize_parts, read_numbers

NEWLINE, SPACE, TAB, DOT, COLON, ZERO, NINE = b"\n \t.:09"
PAD = 16
MAX_DIGITS = 18
MAX_SECOND_DIGITS = 10
MAX_SECONDS = (MAX_TIME_NS // NS_PER_S) - 1
MAX_SPACES = 64
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class HeaderFields:
    """The fields of headers as positions in the text, and their numbers. Only rows that are ok count.

    event_end: where the colon behind the event is. tail: the position behind it. has_tail: whether there is more than
    spaces. time_ns, weight: -1 if not printed. layout: of each row. layout_events: the event of each layout, with a 9
    for every digit. layout_texts: all layouts, one after another.
    """

    ok: Array
    start: Array
    seconds: Array
    event: Array
    event_end: Array
    tail: Array
    has_tail: Array
    time_ns: Array
    weight: Array
    layout: Array
    layout_events: list[bytes]
    layout_texts: bytes


@dataclass(frozen=True)
class _Places:
    """The fields of layouts, as positions from the start of the line; all 0 if the layout is not ok."""

    ok: Array
    seconds: Array
    dot: Array
    fraction_end: Array
    period_end: Array
    period_digits: Array
    event: Array
    event_end: Array
    has_tail: Array


def find_header_fields(chunk: bytes, start: Array, end: Array) -> HeaderFields:
    """The fields of the headers chunk[start:end], which are ascending and end with a newline."""
    layout, texts = factorize_parts(_replace_digits(chunk), start, end)
    blob, begins = _pad(texts)
    places = _find_places(blob, begins[:-1], begins[1:])
    events = zip((begins[:-1] + places.event).tolist(), (begins[:-1] + places.event_end).tolist(), strict=True)
    of_row = _Places(**{field.name: getattr(places, field.name)[layout] for field in fields(_Places)})
    at_dot = start + of_row.dot
    fraction_digits = np.maximum(of_row.fraction_end - of_row.dot - 1, 0)
    seconds = read_numbers(chunk, at_dot, of_row.dot - of_row.seconds)
    fraction = read_numbers(chunk, start + of_row.fraction_end, fraction_digits)
    nanoseconds = np.where(fraction_digits == 9, fraction, fraction * NS_PER_US)
    period = read_numbers(chunk, start + of_row.period_end, of_row.period_digits)
    # Longer times are left to the grammar.
    ok = of_row.ok & (seconds <= MAX_SECONDS)
    return HeaderFields(
        ok=ok,
        start=start,
        seconds=start + of_row.seconds,
        event=start + of_row.event,
        event_end=start + of_row.event_end,
        tail=start + of_row.event_end + 1,
        has_tail=of_row.has_tail,
        time_ns=np.where(ok, seconds * NS_PER_S + nanoseconds, -1),
        weight=np.where(of_row.period_digits > 0, period, -1),
        layout=layout,
        layout_events=[blob[first:last].tobytes() for first, last in events],
        layout_texts=blob.tobytes(),
    )


def _replace_digits(text: bytes) -> Array:
    """A text in which all digits are nines, with 48 subtracted from every byte."""
    letters = np.frombuffer(text, np.uint8)
    changed = np.empty(len(letters), np.uint8)
    zero, nines = np.uint8(ZERO), np.full(min(_BLOCK_BYTES, len(letters)), 9, np.uint8)
    # Parts stay in the cache of the processor. The maximum with one number takes ten times as long in numpy.
    for first in range(0, len(letters), _BLOCK_BYTES):
        part = changed[first : first + _BLOCK_BYTES]
        np.subtract(letters[first : first + _BLOCK_BYTES], zero, out=part)
        np.maximum(part, nines[: len(part)], out=part)
    return changed


def _pad(layouts: pa.Array) -> tuple[Array, Array]:
    """All layouts as text in one array with padding on both sides, and where each begins (and the last ends)."""
    if not len(layouts):
        return np.full(2 * PAD, NEWLINE, np.uint8), np.array([PAD])
    offsets = np.frombuffer(layouts.buffers()[1], np.int32)[layouts.offset : layouts.offset + len(layouts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    blob = np.full(last - first + 2 * PAD, NEWLINE, np.uint8)
    blob[PAD:-PAD] = np.frombuffer(layouts.buffers()[2], np.uint8)[first:last] + np.uint8(ZERO)
    return blob, offsets.astype(np.int64) + (PAD - first)


def _find_places(blob: Array, start: Array, end: Array) -> _Places:
    """The fields of the layouts blob[start:end], which end with a newline."""
    ok, dot, nine = _find_time_dots(blob, start)
    place = dot - 1
    for _ in range(MAX_SECOND_DIGITS + 1):
        more = (blob[place] == NINE) & (place >= start)
        if not more.any():
            break
        place = place - more
    else:
        ok &= ~more
    ok &= (place < start) | _is_space(blob[place])
    fraction_end = dot + np.where(nine, 10, 7)
    ok &= _is_space(blob[fraction_end + 1])
    period_start = _skip_spaces(blob, fraction_end + 1, end)
    period_end = _skip_digits(blob, period_start)
    has_period = (period_end > period_start) & _is_space(blob[period_end])
    ok &= blob[period_end] != NINE
    event = _skip_spaces(blob, np.where(has_period, period_end, period_start), end)
    colons = np.flatnonzero(blob == COLON)
    colons = np.append(colons[_is_space(blob[colons + 1])], len(blob))
    event_end = colons[np.searchsorted(colons, event)]
    ok &= (event_end < end) & (event < event_end)
    event_end = np.where(ok, event_end, start)
    tail = _skip_spaces(blob, event_end + 1, end)
    return _Places(
        ok=ok,
        seconds=np.where(ok, place + 1 - start, 0),
        dot=np.where(ok, dot - start, 0),
        fraction_end=np.where(ok, fraction_end - start, 0),
        period_end=np.where(ok, period_end - start, 0),
        period_digits=np.where(ok & has_period, period_end - period_start, 0),
        event=np.where(ok, event - start, 0),
        event_end=event_end - start,
        has_tail=ok & (tail < end - 1),
    )


def _find_time_dots(blob: Array, start: Array) -> tuple[Array, Array, Array]:
    """The dot of each layout's time: whether there is one as perf writes it, its position (else the layout's start),
    and whether nine digits follow."""
    n = len(start)
    dots = np.flatnonzero(blob == DOT)
    after = dots + 1
    # One digit more than the longest fraction, which then is too long. The padding ends the last one.
    for _ in range(MAX_DIGITS + 1):
        more = blob[after] == NINE
        if not more.any():
            break
        after = after + more
    digits = after - dots - 1
    good = (digits > 0) & (digits <= MAX_DIGITS) & (blob[after] == COLON) & (blob[dots - 1] == NINE)
    dots, digits = dots[good], digits[good]
    owner = np.searchsorted(start, dots, "right") - 1
    leading = np.ones(len(owner), bool)
    leading[1:] = owner[1:] != owner[:-1]
    dot, is_nine, ok = start.copy(), np.zeros(n, bool), np.zeros(n, bool)
    dot[owner[leading]] = dots[leading]
    is_nine[owner[leading]] = digits[leading] == 9
    # Other numbers of digits are left to the grammar.
    ok[owner[leading]] = np.isin(digits[leading], (6, 9))
    return ok, dot, is_nine


def _skip_digits(blob: Array, at: Array) -> Array:
    """The first position from each on that is no digit; after very many it is still a digit."""
    for _ in range(MAX_DIGITS):
        more = blob[at] == NINE
        if not more.any():
            break
        at = at + more
    return at


def _skip_spaces(blob: Array, at: Array, end: Array) -> Array:
    """The first position from each on, before its line's end, that is no space or tab.

    After very many it is still a space; then the field is found to be odd and left to the grammar.
    """
    for _ in range(MAX_SPACES):
        more = ((blob[at] == SPACE) | (blob[at] == TAB)) & (at < end - 1)
        if not more.any():
            break
        at = at + more
    return at


def _is_space(values: Array) -> Array:
    result: Array = (values == SPACE) | (values == TAB) | (values == NEWLINE)
    return result
