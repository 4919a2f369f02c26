"""Events from bytes, compiled: the content of a list of events, as columns, for any layout of lines.

It accepts only strict JSON, and only the parts of it that traces use. At anything else it stops (ODD) for the decoder.
Events that it accepts get exactly the decoder's result.
"""

from typing import Any, NamedTuple

import numpy as np

from ...domain.arrays import MISSING, Array
from ...domain.tables import NUMERIC_ARGUMENTS
from ..jit.decorators import jit_inline, jit_no_refcount, uint64
from ..trace.events import ID_TEXT
from .grammar import MAX_TIME_NS
from .simd import count_trailing_zeros, load_word, special_mask
from .string_table import StringTable, intern, intern_object, remove_last
from .values import (
    BAD,
    find_blank_end,
    find_literal_end,
    find_nested_end,
    find_number_end,
    find_scoped_id_end,
    find_string_end,
    find_value_end,
    mask_low_bytes,
)

STOP, FULL, ODD, OTHER = 0, 1, 2, 3
"""Why a scan ended: at `stop`; no more room; an event that it cannot parse; no event."""

SLOTS = 128
MAX_INT = 2**63 - 1
NAME, CATEGORY, PROCESS, THREAD, ID, ID2, BIND = range(7)
FIELDS = 7
"""The members of an event that are texts."""
MEMBERS = 100
"""Objects with more arguments are left to the decoder."""
WORK_SIZE = 2 * FIELDS + 2 * MEMBERS + len(NUMERIC_ARGUMENTS)


class EventColumns(NamedTuple):
    """Columns of events, as in TraceEvents, with limited room; codes are indices into a Table. One key's numbers are in
    event[key, :counts[key]], value[key, :counts[key]]."""

    phase: Array
    name: Array
    category: Array
    process: Array
    thread: Array
    id: Array
    time_ns: Array
    duration_ns: Array
    arguments: Array
    counts: Array
    event: Array
    value: Array


def _make_words(text: bytes) -> list[int]:
    padded = text.ljust(24, b"\0")
    return [int.from_bytes(padded[i : i + 8], "little") for i in (0, 8, 16)]


def _make_key(text: str) -> np.uint64:
    return np.uint64(_make_words(text.encode())[0])


_PH, _TS, _ID, _ID2 = _make_key("ph"), _make_key("ts"), _make_key("id"), _make_key("id2")
_CAT, _PID, _TID, _DUR = _make_key("cat"), _make_key("pid"), _make_key("tid"), _make_key("dur")
_NAME, _ARGS, _BIND = _make_key("name"), _make_key("args"), _make_key("bind_id")


class KeyTable(NamedTuple):
    """The keys of NUMBERED: their texts, padded with zeros, in three words each, and by `slot` the candidate key."""

    words: Array
    lengths: Array
    slots: Array
    factor: Any


def make_key_table() -> KeyTable:
    """Those keys, each in its own slot."""
    words = [_make_words(key.encode()) for key in NUMERIC_ARGUMENTS]
    lengths = [len(key) for key in NUMERIC_ARGUMENTS]
    slots = np.full(SLOTS, BAD, np.int64)
    factor = 0x9E3779B97F4A7C15
    while len({_compute_slot(text, factor) for text in NUMERIC_ARGUMENTS}) < len(NUMERIC_ARGUMENTS):
        factor = (factor * 0x5851F42D4C957F2D + 2) % 2**64 | 1
    for number, text in enumerate(NUMERIC_ARGUMENTS):
        slots[_compute_slot(text, factor)] = number
    return KeyTable(np.array(words, np.uint64), np.array(lengths, np.int64), slots, np.uint64(factor))


def _compute_slot(key: str, factor: int) -> int:
    text = key.encode().ljust(8, b"\0")
    ends = int.from_bytes(text[:8], "little") ^ (3 * int.from_bytes(text[-8:], "little")) ^ len(key)
    return int(ends * factor % 2**64 >> 57)


@jit_inline
def _scan_time(data: Array, p: int) -> tuple[int, int]:
    """(the nanoseconds of the number of microseconds that begins at p, its end, BAD if there is none)."""
    negative = data[p] == 45
    if negative:
        p += 1
    begin = p
    number = uint64(0)
    while 48 <= data[p] <= 57:
        number = number * uint64(10) + uint64(data[p] - 48)
        p += 1
    digits = p - begin
    if digits == 0 or digits > 19 or (data[begin] == 48 and digits > 1):
        return 0, BAD
    # The power of ten by which the digits are multiplied.
    power = 3
    if data[p] == 46:
        p += 1
        begin = p
        while 48 <= data[p] <= 57:
            number = number * uint64(10) + uint64(data[p] - 48)
            p += 1
        power -= p - begin
        if p == begin or digits + p - begin > 19:
            return 0, BAD
    if data[p] == 101 or data[p] == 69:
        p += 1
        smaller = data[p] == 45
        if smaller or data[p] == 43:
            p += 1
        begin = p
        exponent = 0
        while 48 <= data[p] <= 57 and p < begin + 4:
            exponent = exponent * 10 + (data[p] - 48)
            p += 1
        if p == begin or p == begin + 4:
            return 0, BAD
        power += -exponent if smaller else exponent
    while power > 0 and number:
        if number > uint64(MAX_TIME_NS):
            return 0, BAD
        number *= uint64(10)
        power -= 1
    if power < -19:
        number = uint64(0)
    elif power < 0:
        divisor = uint64(1)
        for _ in range(-power):
            divisor *= uint64(10)
        rest = number % divisor
        # Round half away from zero.
        number //= divisor
        if rest >= divisor - rest:
            number += uint64(1)
    if number >= uint64(MAX_TIME_NS):
        return 0, BAD
    time: Any = np.int64(number)
    return -time if negative else time, p


@jit_inline
def _parse_small_int(data: Array, p: int, length: int) -> int:
    """The value of a text that is a whole number below ID_TEXT, BAD for another one."""
    if length <= 0 or length > 10 or (data[p] == 48 and length > 1):
        return BAD
    number = 0
    for i in range(p, p + length):
        if not 48 <= data[i] <= 57:
            return BAD
        number = number * 10 + (data[i] - 48)
    return number if number < ID_TEXT else BAD


@jit_inline
def _number_key(data: Array, p: int, length: int, keys: KeyTable) -> int:
    """The key of NUMBERED that this key is, or BAD."""
    start = mask_low_bytes(load_word(data, p), length)
    end = load_word(data, p + length - 8) if length > 8 else start
    ends = start ^ (uint64(3) * end) ^ uint64(length)
    key = keys.slots[(ends * keys.factor) >> uint64(57)]
    if key < 0 or keys.lengths[key] != length or keys.words[key, 0] != start:
        return BAD
    if length > 8 and keys.words[key, 1] != mask_low_bytes(load_word(data, p + 8), length - 8):
        return BAD
    if length > 16 and keys.words[key, 2] != mask_low_bytes(load_word(data, p + 16), length - 16):
        return BAD
    return int(key)


@jit_inline
def _scan_int(data: Array, p: int) -> tuple[int, int]:
    """(the 64-bit whole number that begins at p, its end, BAD if there is none)."""
    negative = data[p] == 45
    if negative:
        p += 1
    begin = p
    number = uint64(0)
    while 48 <= data[p] <= 57:
        number = number * uint64(10) + uint64(data[p] - 48)
        p += 1
    length = p - begin
    if length == 0 or length > 19 or (data[begin] == 48 and length > 1) or number > uint64(MAX_INT):
        return 0, BAD
    if data[p] == 46:
        begin = p + 1
        p = begin
        while data[p] == 48:
            p += 1
        if p == begin or 49 <= data[p] <= 57:
            return 0, BAD
    if data[p] == 101 or data[p] == 69:
        return 0, BAD
    value: Any = np.int64(number)
    return -value if negative else value, p


@jit_inline
def _scan_arguments(
    data: Array, p: int, end: int, keys: KeyTable, pieces: Array, numbers: Array
) -> tuple[int, int, Any]:
    """Iterates the members of the object at p.

    Returns its end (BAD if it cannot be parsed), the number of members that are no numbers, each from one entry to the
    next of `pieces`, and a mask of the keys of NUMBERED. One that is no number is MISSING.
    """
    seen = uint64(0)
    kept = 0
    p = find_blank_end(data, p + 1)
    if data[p] == 125:
        return p + 1, 0, seen
    while True:
        if data[p] != 34:
            return BAD, 0, seen
        start = p
        mask = special_mask(data, p + 1)
        while not mask:
            p += 64
            mask = special_mask(data, p + 1)
        p += 1 + count_trailing_zeros(mask)
        if data[p] != 34:
            return BAD, 0, seen
        key = _number_key(data, start + 1, p - start - 1, keys)
        p += 1
        if data[p] != 58:
            p = find_blank_end(data, p)
            if data[p] != 58:
                return BAD, 0, seen
        p = find_blank_end(data, p + 1)
        byte = data[p]
        is_number = byte == 45 or 48 <= byte <= 57
        if key >= 0:
            bit = uint64(1) << uint64(key)
            # Of two members of one name the last counts, which the decoder handles.
            if seen & bit:
                return BAD, 0, seen
            seen |= bit
            numbers[key] = MISSING
        if key >= 0 and is_number:
            numbers[key], p = _scan_int(data, p)
        else:
            if byte == 34:
                p = find_string_end(data, p + 1)
                p += p >= 0
            elif byte == 91 or byte == 123:
                p = find_nested_end(data, p, end)
            elif is_number:
                p = find_number_end(data, p)
            else:
                p = find_literal_end(data, p)
            if kept == len(pieces) // 2:
                return BAD, 0, seen
            pieces[2 * kept] = start
            pieces[2 * kept + 1] = p - start
            kept += 1
        if p < 0:
            return BAD, 0, seen
        p = find_blank_end(data, p)
        if data[p] == 44:
            p = find_blank_end(data, p + 1)
            continue
        if data[p] != 125:
            return BAD, 0, seen
        return p + 1, kept, seen


@jit_no_refcount
def scan_events(
    data: Array,
    start: int,
    stop: int,
    end: int,
    keys: KeyTable,
    rows: EventColumns,
    table: StringTable,
    work: Array,
    at: Array,
) -> int:
    """Read events from `start` on, up to the first one that begins at or after `stop`. Returns why it stopped.

    data: has PAD zeros after `end`. work: room for WORK numbers. at: the number of rows, where it stopped (set), the
    number of texts, and the number of bytes of texts.
    """
    starts, lengths = work[:FIELDS], work[FIELDS : 2 * FIELDS]
    pieces, numbers = work[2 * FIELDS : 2 * FIELDS + 2 * MEMBERS], work[2 * FIELDS + 2 * MEMBERS :]
    p = start
    while True:
        p = find_blank_end(data, p)
        while data[p] == 44:
            p = find_blank_end(data, p + 1)
        at[1] = p
        if p >= stop:
            return STOP
        if data[p] != 123:
            return OTHER
        begin = p
        phase = 0
        time_ns, duration_ns = MISSING, MISSING
        for field in range(FIELDS):
            lengths[field] = BAD
        arguments, seen = 0, uint64(0)
        p = find_blank_end(data, p + 1)
        empty = data[p] == 125
        while not empty:
            if data[p] != 34:
                return ODD
            key = p + 1
            mask = special_mask(data, key)
            if not mask:
                return ODD
            p = key + count_trailing_zeros(mask)
            if data[p] != 34:
                return ODD
            length = p - key
            p += 1
            if data[p] != 58:
                p = find_blank_end(data, p)
                if data[p] != 58:
                    return ODD
            p = find_blank_end(data, p + 1)
            text = mask_low_bytes(load_word(data, key), length) if length < 8 else uint64(0)
            byte = data[p]
            if text == _PH:
                letter = data[p + 1]
                if byte != 34 or data[p + 2] != 34 or not 32 <= letter < 127 or letter == 34 or letter == 92:
                    return ODD
                phase = letter
                p += 3
            elif text in (_TS, _DUR):
                if byte == 110:
                    time, p = MISSING, find_literal_end(data, p)
                else:
                    quoted = byte == 34
                    time, p = _scan_time(data, p + quoted)
                    if quoted:
                        if p < 0 or data[p] != 34:
                            return ODD
                        p += 1
                if text == _TS:
                    time_ns = time
                else:
                    duration_ns = time
            elif text == _ARGS:
                arguments, seen = 0, uint64(0)
                if byte == 123:
                    p, arguments, seen = _scan_arguments(data, p, end, keys, pieces, numbers)
                elif byte == 110:
                    p = find_literal_end(data, p)
                else:
                    return ODD
            elif text == _ID2:
                start = p
                p = find_literal_end(data, p) if byte == 110 else find_scoped_id_end(data, p)
                starts[ID2] = start
                lengths[ID2] = BAD if byte == 110 else p - start
            else:
                field = (
                    NAME
                    if text == _NAME
                    else CATEGORY
                    if text == _CAT
                    else PROCESS
                    if text == _PID
                    else THREAD
                    if text == _TID
                    else ID
                    if text == _ID
                    else BIND
                    if text == _BIND
                    else BAD
                )
                if byte == 34:
                    start = p + 1
                    p = find_string_end(data, start)
                    length = p - start
                    p += p > 0
                elif byte == 45 or 48 <= byte <= 57:
                    start = p
                    p = find_number_end(data, p)
                    length = p - start
                elif field < 0:
                    p = find_value_end(data, p)
                elif byte == 110:
                    p = find_literal_end(data, p)
                    length = BAD
                else:
                    return ODD
                if field >= 0:
                    starts[field] = start
                    lengths[field] = length
            if p < 0:
                return ODD
            p = find_blank_end(data, p)
            if data[p] == 44:
                p = find_blank_end(data, p + 1)
                continue
            if data[p] != 125:
                return ODD
            break
        p += 1
        if p > end:
            return ODD
        if empty:
            continue
        row = at[0]
        if row == len(rows.phase) or at[2] + 8 > len(table.start) or at[3] + (p - begin) + 256 > len(table.text):
            return FULL
        code = -1
        if arguments:
            known = at[2]
            code = intern_object(data, pieces, arguments, begin, table, at)
            if code == known and find_value_end(table.text, table.start[code]) != at[3]:
                # Brackets were closed, but not in the right order.
                remove_last(table, code, at)
                return ODD
        rows.arguments[row] = code
        rows.phase[row] = phase
        rows.time_ns[row] = time_ns
        rows.duration_ns[row] = duration_ns
        for field in range(ID2, BIND + 1):
            if lengths[ID] < 0:
                starts[ID], lengths[ID] = starts[field], lengths[field]
        small = _parse_small_int(data, starts[ID], lengths[ID])
        rows.id[row] = small
        for field in range(ID if small >= 0 or lengths[ID] < 0 else ID + 1):
            code = intern(data, starts[field], lengths[field], begin, table, at)
            if field == NAME:
                rows.name[row] = code
            elif field == CATEGORY:
                rows.category[row] = code
            elif field == PROCESS:
                rows.process[row] = code
            elif field == THREAD:
                rows.thread[row] = code
            else:
                rows.id[row] = ID_TEXT + code
        while seen:
            key = count_trailing_zeros(seen)
            seen &= seen - uint64(1)
            if numbers[key] != MISSING:
                count = rows.counts[key]
                rows.event[key, count] = row
                rows.value[key, count] = numbers[key]
                rows.counts[key] = count + 1
        at[0] = row + 1


@jit_no_refcount
def remap_codes(
    codes: Array, base: int, source: StringTable, place: int, same: Array, target: StringTable, at: Array, column: Array
) -> None:
    """Write codes of one table into a column as codes of another.

    base: codes below it are unchanged, it is added to others. place: what is added to positions of texts. same: the
    other table's code of each, -1 if not yet known.
    """
    for i in range(len(codes)):
        code = codes[i] - base
        if code < 0:
            column[i] = codes[i]
            continue
        if same[code] < 0:
            first_met = source.place[code] + place
            same[code] = intern(source.text, source.start[code], source.length[code], first_met, target, at)
        column[i] = base + same[code]
