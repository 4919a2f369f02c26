"""The arguments of track events as texts in JSON, written by compiled loops. Needs the compiler.

Only the usual arguments are written here: each with one name and one value, text in ASCII. An event with any other
argument is left to Python code (see `arguments`), which yields the same.
"""

from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...ingest.jit.decorators import jit_no_refcount
from ...ingest.jit.hashing import HASH_FACTOR, RowIndex, hash_slot
from ...ingest.jit.protobuf_columns import read_content, read_varint
from .text_interning import TextInterner
from .texts import format_float

NAME_ID, BOOL, UINT, INT, DOUBLE, TEXT, POINTER, NESTED, JSON, NAME, DICT, ARRAY, TEXT_ID = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17),
)
"""Fields of a DebugAnnotation."""
OBJECT, LIST = 32, 33
"""Kinds of a NestedValue that contains others."""
MAX_DEPTH = 20
"""The maximum depth of nested arguments."""
MAX_MEMBERS = 64
MAX_INT32 = (1 << 31) - 1
ROOM, ROWS, MAX_TEXT_BYTES, MARGIN = 1 << 20, 1 << 15, 1 << 14, 128
"""Bytes and events that are written at a time. An event is started only if there is room for MAX_TEXT_BYTES; if it
exceeds the room, up to MARGIN, it is left to Python code."""
MAX_LOOKUPS = 1 << 22
FALLBACK, RETRY = -1, -2
"""Results for an event whose arguments were not written. RETRY: after all its doubles have texts."""

# Indices into `at`: the next argument, the next of the deferred ones, events and bytes that were written, doubles
# without a text, and where in `known` the table of each kind begins and the mask of its slots.
ONE, OTHER, WRITTEN, END, ASKS, TABLES = range(6)
KEYS, STRINGS, REALS = range(3)
"""The kinds of tables."""

# Rows of `stack`, by depth, of enclosing messages: position of the next field, and of the next key if separate, its
# end, DICT, ARRAY, OBJECT or LIST, the number of entries, and where the key of each of these begins and ends.
FIELD_AT, KEY_AT, LAST, KIND, MEMBERS, KEY = range(6)

_QUOTE, _ESCAPE, _COMMA, _COLON, _BLANK, _ZERO, _MINUS, _X, _A = b'"\\,: 0-xa'
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b"{}[]"
TRUE, FALSE, NULL, EMPTY = range(4)
WORDS = (b"true", b"false", b"null", b'""')
"""The first texts of `quoted`."""


@jit_no_refcount
def _copy_text(quoted: Array, bounds: Array, text: int, out: Array, to: int) -> int:
    """Write one of the texts."""
    begin, end = bounds[text], bounds[text + 1]
    if to + end - begin > len(out) - MARGIN:
        return FALLBACK
    for i in range(begin, end):
        out[to] = quoted[i]
        to += 1
    return to


@jit_no_refcount
def _write_digits(out: Array, to: int, value: Any, base: Any) -> int:
    """Write a whole number (uint64)."""
    count = 1
    rest = value // base
    while rest > 0:
        count += 1
        rest //= base
    for i in range(to + count - 1, to - 1, -1):
        digit = np.int64(value % base)
        value //= base
        out[i] = _ZERO + digit if digit < 10 else _A + digit - 10
    return to + count


@jit_no_refcount
def _write_quoted(data: Array, begin: int, end: int, out: Array, to: int) -> int:
    if to + end - begin > len(out) - MARGIN:
        return FALLBACK
    out[to] = _QUOTE
    to += 1
    for i in range(begin, end):
        byte = data[i]
        if byte < 32 or byte > 126 or byte in (_QUOTE, _ESCAPE):
            return FALLBACK
        out[to] = byte
        to += 1
    out[to] = _QUOTE
    return to + 1


@jit_no_refcount
def _find_text(known: Array, first: int, mask: int, key: int, factor: int) -> int:
    """The index of a key among the texts, -1 for none."""
    at = hash_slot(key, factor, mask)
    while known[1, first + at] >= 0 and known[0, first + at] != key:
        at = (at + 1) & mask
    return int(known[1, first + at])


@jit_no_refcount
def _classify_argument(data: Array, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """(its kind, 0 without a value, or FALLBACK; the value and its size; the field that names it, or 0; its value and
    size) of an argument."""
    kind = value = size = named = name = name_size = 0
    while at < end:
        tag, at = read_varint(data, at, end)
        number = tag >> 3
        if at < 0 or number <= 0:
            return FALLBACK, 0, 0, 0, 0, 0
        found, length, at = read_content(data, at, end, tag & 7)
        if at < 0 or number == JSON:
            return FALLBACK, 0, 0, 0, 0, 0
        if number in (NAME_ID, NAME):
            if named or (number == NAME) != (length >= 0):
                return FALLBACK, 0, 0, 0, 0, 0
            named, name, name_size = number, found, length
        elif number in (DICT, ARRAY):
            if length < 0 or (kind and kind != number):
                return FALLBACK, 0, 0, 0, 0, 0
            kind = number
        elif number <= NESTED or number == TEXT_ID:
            wanted = 2 if number in (TEXT, NESTED) else 1 if number == DOUBLE else 0
            if kind or tag & 7 != wanted:
                return FALLBACK, 0, 0, 0, 0, 0
            kind, value, size = number, found, length
    return kind, value, size, named, name, name_size


@jit_no_refcount
def _classify_nested_value(data: Array, at: int, end: int) -> tuple[int, int, int]:
    """(its kind, 0 without a value, or FALLBACK; the value and its size) of a NestedValue."""
    kind = value = size = keys = inner = 0
    while at < end:
        tag, at = read_varint(data, at, end)
        number = tag >> 3
        if at < 0 or number <= 0:
            return FALLBACK, 0, 0
        found, length, at = read_content(data, at, end, tag & 7)
        if at < 0:
            return FALLBACK, 0, 0
        if number == 1 or number > 8:
            continue
        wanted = 0 if number in (5, 7) else 1 if number == 6 else 2
        if tag & 7 != wanted or (kind and number >= 5):
            return FALLBACK, 0, 0
        if number == 2:
            keys += 1
        elif number < 5:
            inner += 1
        else:
            kind = INT if number == 5 else DOUBLE if number == 6 else BOOL if number == 7 else TEXT
            value, size = found, length
    if keys or inner:
        return FALLBACK if kind or (keys and keys != inner) else OBJECT if keys else LIST, 0, 0
    return kind, value, size


@jit_no_refcount
def _next(data: Array, at: int, end: int, least: Any, most: Any) -> tuple[int, int, int]:
    """(where the next field with these numbers begins and ends, and the continuation; -1 without one) of a complete
    message."""
    while at < end:
        tag, at = read_varint(data, at, end)
        begin, length, at = read_content(data, at, end, tag & 7)
        if least <= tag >> 3 <= most:
            return begin, begin + length, at
    return -1, -1, -1


@jit_no_refcount
def _is_repeated(out: Array, begin: int, end: int, stack: Array, level: int, count: int) -> bool:
    """Whether a key is among those before it."""
    for i in range(count):
        first, last = stack[KEY + 2 * i, level], stack[KEY + 2 * i + 1, level]
        if last - first == end - begin:
            same = True
            for k in range(end - begin):
                if out[first + k] != out[begin + k]:
                    same = False
                    break
            if same:
                return True
    return False


@jit_no_refcount
def _write_text(
    first: int, mask: int, generation: int, number: int, known: Array, quoted: Array, bounds: Array, out: Array,
    to: int, factor: int,
) -> int:  # fmt: skip
    """Write the text with a number. first, mask: of the table in `known`."""
    text = -1
    if 0 <= number <= MAX_INT32:
        key: Any = (np.int64(generation) << 32) | number
        text = _find_text(known, first, mask, key, factor)
    return _copy_text(quoted, bounds, text if text >= 0 else EMPTY, out, to)


@jit_no_refcount
def _write_double(
    bits: int, known: Array, quoted: Array, bounds: Array, out: Array, asked: Array, at: Array, to: int, factor: int
) -> int:
    """Write a double; its text is created when all doubles are known."""
    text = _find_text(known, at[TABLES + 2 * REALS], at[TABLES + 2 * REALS + 1], bits, factor)
    if text >= 0:
        return _copy_text(quoted, bounds, text, out, to)
    if at[ASKS] == len(asked):
        return FALLBACK
    asked[at[ASKS]] = bits
    at[ASKS] += 1
    return to


@jit_no_refcount
def _write_plain(
    data: Array, kind: int, value: int, size: int, generation: int, known: Array, quoted: Array, bounds: Array,
    out: Array, asked: Array, at: Array, to: int, factor: int,
) -> int:  # fmt: skip
    """Write a value that is no list or object."""
    if kind == TEXT:
        return _write_quoted(data, value, value + size, out, to)
    if kind == TEXT_ID:
        table = TABLES + 2 * STRINGS
        return _write_text(at[table], at[table + 1], generation, value, known, quoted, bounds, out, to, factor)
    if kind == DOUBLE:
        return _write_double(value, known, quoted, bounds, out, asked, at, to, factor)
    if kind in (UINT, INT, POINTER):
        if kind == POINTER:
            out[to], out[to + 1], out[to + 2] = _QUOTE, _ZERO, _X
            to += 3
        elif kind == INT and value < 0:
            out[to] = _MINUS
            to += 1
            value = -value
        to = _write_digits(out, to, np.uint64(value), np.uint64(16 if kind == POINTER else 10))
        out[to] = _QUOTE
        return to + (kind == POINTER)
    return _copy_text(quoted, bounds, NULL if kind != BOOL else TRUE if value else FALSE, out, to)


@jit_no_refcount
def _write_member(
    data: Array, begin: int, end: int, generation: int, known: Array, quoted: Array, bounds: Array,
    out: Array, stack: Array, asked: Array, at: Array, to: int, factor: int,
) -> int:  # fmt: skip
    """Write an argument, its name and its value. Returns its end, or FALLBACK."""
    level, two = 0, np.int64(2)
    while True:
        above = stack[KIND, level - 1] if level else 0
        if above < OBJECT:
            kind, value, size, named, name, name_size = _classify_argument(data, begin, end)
        else:
            kind, value, size = _classify_nested_value(data, begin, end)
            named, name, name_size = 0, 0, 0
        if kind == FALLBACK or to > len(out) - MARGIN:
            return FALLBACK
        if above not in (ARRAY, LIST):
            key = to
            if above == OBJECT:
                name, name_end, behind = _next(data, stack[KEY_AT, level - 1], stack[LAST, level - 1], two, two)
                stack[KEY_AT, level - 1] = behind
                to = _write_quoted(data, name, name_end, out, to)
            elif named == NAME:
                to = _write_quoted(data, name, name + name_size, out, to)
            else:
                # A top-level argument without a name has name id 0.
                number = name if named or not level else -1
                to = _write_text(at[TABLES], at[TABLES + 1], generation, number, known, quoted, bounds, out, to, factor)
            if to < 0:
                return FALLBACK
            if level:
                count = stack[MEMBERS, level - 1] - 1
                if count == MAX_MEMBERS or _is_repeated(out, key, to, stack, level - 1, count):
                    return FALLBACK
                stack[KEY + 2 * count, level - 1], stack[KEY + 2 * count + 1, level - 1] = key, to
            out[to], out[to + 1] = _COLON, _BLANK
            to += 2
        if kind == NESTED:
            begin, end = value, value + size
            kind, value, size = _classify_nested_value(data, begin, end)
            if kind == FALLBACK:
                return FALLBACK
        if kind in (DICT, ARRAY, OBJECT, LIST):
            # A NestedValue is one level deeper than its argument.
            if level >= (MAX_DEPTH if kind in (DICT, ARRAY) else MAX_DEPTH - 1):
                return FALLBACK
            stack[FIELD_AT, level], stack[KEY_AT, level], stack[LAST, level] = begin, begin, end
            stack[KIND, level], stack[MEMBERS, level] = kind, 0
            out[to] = _OPEN if kind in (DICT, OBJECT) else _OPEN_LIST
            to += 1
            level += 1
        else:
            to = _write_plain(data, kind, value, size, generation, known, quoted, bounds, out, asked, at, to, factor)
            if to < 0:
                return FALLBACK
        # Go to the next one: close messages without further fields.
        while level:
            if to > len(out) - MARGIN:
                return FALLBACK
            kind = stack[KIND, level - 1]
            least, most = (kind, kind) if kind < OBJECT else (3, 4)
            begin, end, behind = _next(data, stack[FIELD_AT, level - 1], stack[LAST, level - 1], least, most)
            if behind >= 0:
                stack[FIELD_AT, level - 1] = behind
                if stack[MEMBERS, level - 1]:
                    out[to], out[to + 1] = _COMMA, _BLANK
                    to += 2
                stack[MEMBERS, level - 1] += 1
                break
            level -= 1
            out[to] = _CLOSE if kind in (DICT, OBJECT) else _CLOSE_LIST
            to += 1
        if not level:
            return to


@jit_no_refcount
def _write_arguments(
    data: Array, given: Array, more: Array, generation: Array, known: Array, quoted: Array, bounds: Array,
    out: Array, stack: Array, asked: Array, at: Array, rows: Array, spans: Array, factor: int,
) -> None:  # fmt: skip
    """Write the arguments of events in order, as long as there is room."""
    one, other = at[ONE], at[OTHER]
    while one < given.shape[1] or other < more.shape[1]:
        begin, count = at[END], at[WRITTEN]
        if count == len(rows) or begin + MAX_TEXT_BYTES > len(out):
            break
        row = given[0, one] if one < given.shape[1] else more[0, other]
        if other < more.shape[1]:
            row = min(row, more[0, other])
        to, asks = begin, at[ASKS]
        while one < given.shape[1] and given[0, one] == row:
            if to >= 0:
                out[to], out[to + 1] = _COMMA, _BLANK
                to = _write_member(
                    data, given[1, one], given[2, one], generation[row], known, quoted, bounds,
                    out, stack, asked, at, to + 2, factor,
                )  # fmt: skip
            one += 1
        while other < more.shape[1] and more[0, other] == row:
            for part in range(1, 3):
                if to >= 0:
                    out[to], out[to + 1] = _COMMA if part == 1 else _COLON, _BLANK
                    to = _copy_text(quoted, bounds, more[part, other], out, to + 2)
            other += 1
        rows[count] = row
        spans[0, count], spans[1, count] = begin, begin + (RETRY if asks < at[ASKS] else FALLBACK)
        if to >= 0 and asks == at[ASKS]:
            out[begin + 1], out[to] = _OPEN, _CLOSE
            spans[0, count], spans[1, count] = begin + 1, to + 1
            at[END] = to + 1
        at[WRITTEN] = count + 1
    at[ONE], at[OTHER] = one, other


class ArgumentWriter:
    """Writes arguments. data: with packets.PAD. given: by column of arguments: event, ascending, start and end. more:
    the deferred ones: the event, the indexes of key and value. generation: by event. quoted: texts in quotes; WORDS
    come before them."""

    def __init__(self, data: bytes, generation: Array, quoted: list[bytes]) -> None:
        self._data, self._generation = np.frombuffer(data, np.uint8), generation
        self._quoted = [*WORDS, *quoted]
        self._tables: list[Array] = []
        self._at = np.zeros(TABLES + 6, np.int64)
        self._asked = np.empty(MAX_LOOKUPS, np.int64)
        self.texts = TextInterner()

    def add_table(self, index: RowIndex, texts: Array) -> None:
        """Add a table: of KEYS, of STRINGS, and of REALS. texts: the index of the text of each row."""
        place = TABLES + 2 * len(self._tables)
        self._at[place : place + 2] = sum(table.shape[1] for table in self._tables), len(index.keys) - 1
        self._tables.append(np.stack((index.keys, np.append(texts, -1)[index.rows])))

    def write(self, given: Array, more: Array) -> tuple[Array, Array]:
        """(the events with arguments, ascending; the index in `texts` of each, or FALLBACK)."""
        nothing = np.zeros(0, np.int64)
        self.add_table(RowIndex(nothing, nothing), nothing)
        rows, codes = self._write(given, more)
        again = codes == RETRY
        if again.any():
            asked = np.unique(self._asked[: self._at[ASKS]])
            del self._tables[REALS]
            self.add_table(RowIndex(asked, np.arange(len(asked))), len(self._quoted) + np.arange(len(asked)))
            self._quoted += [format_float(one).encode() for one in asked.view(np.float64).tolist()]
            of = np.zeros(len(self._generation), bool)
            of[rows[again]] = True
            _, codes[again] = self._write(given[:, of[given[0]]], more[:, of[more[0]]])
        return rows, codes

    def _write(self, given: Array, more: Array) -> tuple[Array, Array]:
        at, known = self._at, np.concatenate(self._tables, axis=1)
        given, more = np.ascontiguousarray(given), np.ascontiguousarray(more)
        quoted = np.frombuffer(b"".join(self._quoted), np.uint8)
        bounds = np.cumsum([0, *map(len, self._quoted)])
        out, stack = np.empty(ROOM, np.uint8), np.zeros((KEY + 2 * MAX_MEMBERS, MAX_DEPTH), np.int64)
        shown = out[:]
        shown.flags.writeable = False
        rows, spans = np.empty(ROWS, np.int64), np.empty((2, ROWS), np.int64)
        found: list[tuple[Array, Array]] = []
        at[[ONE, OTHER]] = 0
        while at[ONE] < given.shape[1] or at[OTHER] < more.shape[1]:
            at[[WRITTEN, END]] = 0
            _write_arguments(
                *(self._data, given, more, self._generation, known, quoted, bounds),
                *(out, stack, self._asked, at, rows, spans, HASH_FACTOR),
            )
            span = spans[:, : at[WRITTEN]]
            found.append((rows[: at[WRITTEN]].copy(), self.texts.intern(shown, span)))
        written, codes = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return written, codes
