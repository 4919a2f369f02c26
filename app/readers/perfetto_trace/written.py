"""The arguments of track events as texts in JSON, written by compiled loops. Needs the compiler.

What is as writers make it is written here: each argument with one name and one value, text in ASCII. An event of which
anything is otherwise is left to be written by hand (see `arguments`), which comes to the same.
"""

from typing import Any, NamedTuple

import numpy as np

from ..loops.compiled import compiled, lean
from ..loops.hashing import FACTOR, Index, place
from ..trace.events import Array
from ..trace.interning import Table, grown, interned, table
from ..trace.masks import PAD
from .known import TEXT_BYTES, TEXTS, listed
from .texts import real_text
from .wire_columns import content, varint

NAME_ID, BOOL, UINT, INT, DOUBLE, TEXT, POINTER, NESTED, JSON, NAME, DICT, ARRAY, TEXT_ID = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17),
)
"""Fields of a DebugAnnotation."""
OBJECT, LIST = 32, 33
"""Kinds of a NestedValue that has others in it."""
DEEPEST = 20
"""Arguments in arguments are read so deep."""
MOST_MEMBERS = 64
LARGEST = (1 << 31) - 1
LONGEST = 1 << 14
"""Longer texts are written by hand."""
BY_HAND, AGAIN = -1, -2
"""What becomes of an event whose arguments were not written; again, once there are texts of all doubles in them."""
MOST_ASKED = 1 << 22
_NUMBERS = (BOOL, UINT, INT, POINTER, TEXT_ID)
_QUOTE, _ESCAPE, _COMMA, _COLON, _BLANK, _ZERO, _POINT, _MINUS, _X, _A = b'"\\,: 0.-xa'
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b"{}[]"
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


class Known(NamedTuple):
    """What numbers stand for: a table as of Index, by generation and number, and which of `Quoted` each is."""

    keys: Array
    rows: Array
    quoted: Array


class Quoted(NamedTuple):
    """Texts in quotes. Number i is text[bounds[i] : bounds[i + 1]], and 0 the empty one."""

    text: Array
    bounds: Array


class Work(NamedTuple):
    """What is being written. out: the text. at, key_at, end, kind, members: of each argument that others are in, where
    its next field is, and the next key where these stand apart, where it ends, DICT, ARRAY, OBJECT or LIST, and how
    many were in it. keys: where the keys of these begin and end in `out`. bits, real: one number, as an int64 and as a
    double. reals: texts of doubles, by their bits. asked: the bits of those that have none, of which there are
    asks[0]."""

    out: Array
    at: Array
    key_at: Array
    end: Array
    kind: Array
    members: Array
    keys: Array
    bits: Array
    real: Array
    reals: Known
    asked: Array
    asks: Array


@compiled
def _copied(source: Array, begin: int, end: int, out: Array, to: int) -> int:
    if to + end - begin > LONGEST:
        return BY_HAND
    for i in range(begin, end):
        out[to] = source[i]
        to += 1
    return to


@compiled
def _digits(out: Array, to: int, value: Any, base: int, least: int) -> int:
    """Write a whole number (uint64) with at least so many digits."""
    if to + 40 > LONGEST:
        return BY_HAND
    count = 1
    rest = value // np.uint64(base)
    while rest > 0:
        count += 1
        rest //= np.uint64(base)
    count = max(count, least)
    for i in range(to + count - 1, to - 1, -1):
        digit = np.int64(value % np.uint64(base))
        value //= np.uint64(base)
        out[i] = _ZERO + digit if digit < 10 else _A + digit - 10
    return to + count


@compiled
def _real(out: Array, to: int, value: float, negative: bool) -> int:
    """Write a double that is not negative, or the other side of it, as Python does where it has at most 15 digits."""
    if not (value == 0.0 or 1e-4 <= value < 1e15) or to + 40 > LONGEST:
        return BY_HAND
    if negative:
        out[to] = _MINUS
        to += 1
    scale = np.int64(1)
    places = 1
    if value == np.floor(value):
        to = _digits(out, to, np.uint64(value), 10, 1)
        out[to], out[to + 1] = _POINT, _ZERO
        return to + 2
    while value * scale < 1e14:
        scale *= 10
        whole = np.int64(np.rint(value * scale))
        if whole / np.float64(scale) == value:
            to = _digits(out, to, np.uint64(whole // scale), 10, 1)
            out[to] = _POINT
            return _digits(out, to + 1, np.uint64(whole % scale), 10, places)
        places += 1
    return BY_HAND


@compiled
def _text(data: Array, begin: int, end: int, out: Array, to: int) -> int:
    if to + end - begin + 2 > LONGEST:
        return BY_HAND
    out[to] = _QUOTE
    to += 1
    for i in range(begin, end):
        byte = data[i]
        if byte < 32 or byte > 126 or byte in (_QUOTE, _ESCAPE):
            return BY_HAND
        out[to] = byte
        to += 1
    out[to] = _QUOTE
    return to + 1


@compiled
def _found(known: Known, key: Any, factor: int) -> int:
    """Which of `Quoted` a key stands for, 0 for none."""
    mask = len(known.keys) - 1
    at = place(key, factor, mask)
    while known.rows[at] >= 0 and known.keys[at] != key:
        at = (at + 1) & mask
    return known.quoted[known.rows[at]] if known.rows[at] >= 0 else 0


@compiled
def _named(known: Known, quoted: Quoted, generation: int, number: int, out: Array, to: int, factor: int) -> int:
    text = 0
    if 0 <= number <= LARGEST:
        text = _found(known, (np.int64(generation) << 32) | number, factor)
    return _copied(quoted.text, quoted.bounds[text], quoted.bounds[text + 1], out, to)


@compiled
def _shape(data: Array, at: int, end: int) -> tuple[int, int, int, int, int, int]:
    """(its kind, 0 without a value, or BY_HAND; the value and its size; the field that names it, or 0; its value and
    size) of an argument."""
    kind = value = size = named = name = name_size = 0
    while at < end:
        tag, at = varint(data, at, end)
        number = tag >> 3
        if at < 0 or number <= 0:
            return BY_HAND, 0, 0, 0, 0, 0
        found, length, at = content(data, at, end, tag & 7)
        if at < 0 or number == JSON:
            return BY_HAND, 0, 0, 0, 0, 0
        if number in (NAME_ID, NAME):
            if named or (number == NAME) != (length >= 0):
                return BY_HAND, 0, 0, 0, 0, 0
            named, name, name_size = number, found, length
        elif number in (DICT, ARRAY):
            if length < 0 or (kind and kind != number):
                return BY_HAND, 0, 0, 0, 0, 0
            kind = number
        elif number <= NESTED or number == TEXT_ID:
            wanted = 2 if number in (TEXT, NESTED) else 1 if number == DOUBLE else 0
            if kind or tag & 7 != wanted:
                return BY_HAND, 0, 0, 0, 0, 0
            kind, value, size = number, found, length
    return kind, value, size, named, name, name_size


@compiled
def _nested_shape(data: Array, at: int, end: int) -> tuple[int, int, int]:
    """(its kind, 0 without a value, or BY_HAND; the value and its size) of a NestedValue."""
    kind = value = size = keys = inner = 0
    while at < end:
        tag, at = varint(data, at, end)
        number = tag >> 3
        if at < 0 or number <= 0:
            return BY_HAND, 0, 0
        found, length, at = content(data, at, end, tag & 7)
        if at < 0:
            return BY_HAND, 0, 0
        if number == 1 or number > 8:
            continue
        wanted = 0 if number in (5, 7) else 1 if number == 6 else 2
        if tag & 7 != wanted or (kind and number >= 5):
            return BY_HAND, 0, 0
        if number == 2:
            keys += 1
        elif number < 5:
            inner += 1
        else:
            kind = INT if number == 5 else DOUBLE if number == 6 else BOOL if number == 7 else TEXT
            value, size = found, length
    if keys or inner:
        return BY_HAND if kind or (keys and keys != inner) else OBJECT if keys else LIST, 0, 0
    return kind, value, size


@compiled
def _next(data: Array, at: int, end: int, least: int, most: int) -> tuple[int, int, int]:
    """(where the next field of these numbers begins and ends, and where it goes on; -1 without one) of a message that
    is whole."""
    while at < end:
        tag, at = varint(data, at, end)
        begin, length, at = content(data, at, end, tag & 7)
        if least <= tag >> 3 <= most:
            return begin, begin + length, at
    return -1, -1, -1


@compiled
def _again(out: Array, begin: int, end: int, keys: Array, level: int, count: int) -> bool:
    """Whether a key stands among those before it."""
    for i in range(count):
        first, last = keys[level, i, 0], keys[level, i, 1]
        if last - first == end - begin:
            same = True
            for k in range(end - begin):
                if out[first + k] != out[begin + k]:
                    same = False
                    break
            if same:
                return True
    return False


@compiled
def _plain(
    data: Array, kind: int, value: Any, size: int, generation: int, strings: Known, quoted: Quoted, work: Work,
    to: int, factor: int,
) -> int:  # fmt: skip
    """Write a value that is no list or object."""
    out = work.out
    if kind == TEXT:
        return _text(data, value, value + size, out, to)
    if kind == TEXT_ID:
        return _named(strings, quoted, generation, value, out, to, factor)
    if kind == UINT:
        return _digits(out, to, np.uint64(value), 10, 1)
    if kind == INT:
        if value >= 0:
            return _digits(out, to, np.uint64(value), 10, 1)
        out[to] = _MINUS
        return _digits(out, to + 1, np.uint64(0) - np.uint64(value), 10, 1)
    if kind == POINTER:
        out[to], out[to + 1], out[to + 2] = _QUOTE, _ZERO, _X
        to = _digits(out, to + 3, np.uint64(value), 16, 1)
        if to >= 0:
            out[to] = _QUOTE
            to += 1
        return to
    if kind == DOUBLE:
        work.bits[0] = value & 0x7FFFFFFFFFFFFFFF
        end = _real(out, to, work.real[0], value < 0)
        if end >= 0:
            return end
        text = _found(work.reals, value, factor)
        if text:
            return _copied(quoted.text, quoted.bounds[text], quoted.bounds[text + 1], out, to)
        if work.asks[0] == len(work.asked):
            return BY_HAND
        work.asked[work.asks[0]] = value
        work.asks[0] += 1
        return to
    if kind == BOOL:
        return _copied(_TRUE, 0, 4, out, to) if value else _copied(_FALSE, 0, 5, out, to)
    return _copied(_NULL, 0, 4, out, to)


@compiled
def _member(
    data: Array, begin: int, end: int, generation: int, keys: Known, strings: Known, quoted: Quoted, work: Work,
    to: int, factor: int,
) -> int:  # fmt: skip
    """Write an argument, its name and its value. Returns where it ends, or BY_HAND."""
    out = work.out
    level = 0
    while True:
        above = work.kind[level - 1] if level else 0
        if above < OBJECT:
            kind, value, size, named, name, name_size = _shape(data, begin, end)
        else:
            kind, value, size = _nested_shape(data, begin, end)
            named, name, name_size = 0, 0, 0
        if kind == BY_HAND or to + 8 > LONGEST:
            return BY_HAND
        if above not in (ARRAY, LIST):
            key = to
            if above == OBJECT:
                name, name_end, work.key_at[level - 1] = _next(data, work.key_at[level - 1], work.end[level - 1], 2, 2)
                to = _text(data, name, name_end, out, to)
            elif named == NAME:
                to = _text(data, name, name + name_size, out, to)
            else:
                # An argument that is not in another has the name of the number 0 where it says none.
                to = _named(keys, quoted, generation, name if named or not level else -1, out, to, factor)
            if to < 0:
                return BY_HAND
            if level:
                count = work.members[level - 1] - 1
                if count == MOST_MEMBERS or _again(out, key, to, work.keys, level - 1, count):
                    return BY_HAND
                work.keys[level - 1, count, 0], work.keys[level - 1, count, 1] = key, to
            out[to], out[to + 1] = _COLON, _BLANK
            to += 2
        if kind == NESTED:
            begin, end = value, value + size
            kind, value, size = _nested_shape(data, begin, end)
            if kind == BY_HAND:
                return BY_HAND
        if kind in (DICT, ARRAY, OBJECT, LIST):
            # A NestedValue lies one deeper than what it is the value of.
            if level >= (DEEPEST if kind in (DICT, ARRAY) else DEEPEST - 1):
                return BY_HAND
            work.at[level], work.key_at[level], work.end[level] = begin, begin, end
            work.kind[level], work.members[level] = kind, 0
            out[to] = _OPEN if kind in (DICT, OBJECT) else _OPEN_LIST
            to += 1
            level += 1
        else:
            to = _plain(data, kind, value, size, generation, strings, quoted, work, to, factor)
            if to < 0:
                return BY_HAND
        # On to the next one: what has no more is closed.
        while level:
            if to + 8 > LONGEST:
                return BY_HAND
            kind = work.kind[level - 1]
            least, most = (kind, kind) if kind < OBJECT else (3, 4)
            begin, end, at = _next(data, work.at[level - 1], work.end[level - 1], least, most)
            if at >= 0:
                work.at[level - 1] = at
                if work.members[level - 1]:
                    out[to], out[to + 1] = _COMMA, _BLANK
                    to += 2
                work.members[level - 1] += 1
                break
            level -= 1
            out[to] = _CLOSE if kind in (DICT, OBJECT) else _CLOSE_LIST
            to += 1
        if not level:
            return to


@lean
def _written(
    data: Array, given: Array, more: Array, generation: Array, keys: Known, strings: Known, quoted: Quoted,
    work: Work, texts: Table, rows: Array, codes: Array, at: Array, factor: int,
) -> bool:  # fmt: skip
    """Write the arguments of one event after the other; whether there was room for all."""
    out = work.out
    one, other = at[4], at[5]
    while one < given.shape[1] or other < more.shape[1]:
        if at[2] == len(texts.start) or at[3] + LONGEST + PAD > len(texts.text):
            return False
        row = given[0, one] if one < given.shape[1] else more[0, other]
        if other < more.shape[1]:
            row = min(row, more[0, other])
        to, asks = 0, work.asks[0]
        while one < given.shape[1] and given[0, one] == row:
            if to >= 0:
                out[to], out[to + 1] = _COMMA, _BLANK
                to = _member(
                    data, given[1, one], given[2, one], generation[row], keys, strings, quoted, work, to + 2, factor
                )  # fmt: skip
            one += 1
        while other < more.shape[1] and more[0, other] == row:
            if to >= 0:
                out[to], out[to + 1] = _COMMA, _BLANK
                to = _copied(quoted.text, quoted.bounds[more[1, other]], quoted.bounds[more[1, other] + 1], out, to + 2)
            if to >= 0:
                out[to], out[to + 1] = _COLON, _BLANK
                to = _copied(quoted.text, quoted.bounds[more[2, other]], quoted.bounds[more[2, other] + 1], out, to + 2)
            if to + 8 > LONGEST:
                to = BY_HAND
            other += 1
        rows[at[0]] = row
        codes[at[0]] = AGAIN if asks < work.asks[0] else BY_HAND
        if to >= 0 and asks == work.asks[0]:
            out[1] = _OPEN
            out[to] = _CLOSE
            codes[at[0]] = interned(out, 1, to, 0, texts, at)
        at[0] += 1
        at[4], at[5] = one, other
    return True


def written(
    data: bytes, given: Array, more: Array, generation: Array, keys: Known, strings: Known, quoted: Quoted
) -> tuple[Array, Array, list[str]]:
    """(the events that have arguments, ascending; which of the texts has them, or BY_HAND; the texts).

    given: by column an argument: its event, ascending, where it begins and where it ends. more: what stands behind
    them: the event, which of `quoted` is the key and which the value. generation: by event. keys, strings: what numbers
    of names and of values stand for.
    """
    bits = np.zeros(1, np.int64)
    nothing = np.zeros(0, np.int64)
    stack = np.zeros((5, DEEPEST), np.int64)
    work = Work(
        *(np.empty(LONGEST + PAD, np.uint8), stack[0], stack[1], stack[2], stack[3], stack[4]),
        *(np.zeros((DEEPEST, MOST_MEMBERS, 2), np.int64), bits, bits.view(np.float64)),
        *(_reals(nothing, 0), np.empty(MOST_ASKED, np.int64), np.zeros(1, np.int64)),
    )
    texts = Texts()
    rows, codes = texts.add(data, given, more, generation, keys, strings, quoted, work)
    again = codes == AGAIN
    if again.any():
        asked = np.unique(work.asked[: work.asks[0]])
        shown = [real_text(one).encode() for one in asked.view(np.float64).tolist()]
        work = work._replace(reals=_reals(asked, len(quoted.bounds) - 1))
        quoted = Quoted(
            np.concatenate((quoted.text, np.frombuffer(b"".join(shown), np.uint8))),
            np.concatenate((quoted.bounds, quoted.bounds[-1] + np.cumsum([len(one) for one in shown]))),
        )
        of = np.zeros(len(generation), bool)
        of[rows[again]] = True
        parts = given[:, of[given[0]]], more[:, of[more[0]]]
        _, codes[again] = texts.add(data, *parts, generation, keys, strings, quoted, work)
    return rows, codes, [text.decode() for text in listed(texts.table, texts.at)]


def _reals(bits: Array, first: int) -> Known:
    """Doubles whose texts are numbered from `first` on."""
    index = Index(bits, np.arange(len(bits)))
    return Known(index.keys, index.rows, np.arange(first, first + len(bits)))


class Texts:
    """The texts that were written, each once."""

    def __init__(self) -> None:
        self.table, self.at = table(TEXTS, TEXT_BYTES), np.zeros(6, np.int64)

    def add(
        self,
        data: bytes,
        given: Array,
        more: Array,
        generation: Array,
        keys: Known,
        strings: Known,
        quoted: Quoted,
        work: Work,
    ) -> tuple[Array, Array]:
        """Write the arguments of events: (the events, which text each has)."""
        room = given.shape[1] + more.shape[1]
        rows, codes = np.empty(room, np.int64), np.empty(room, np.int32)
        at = self.at
        at[0] = at[4] = at[5] = 0
        array = np.frombuffer(data, np.uint8)
        known = keys, strings, quoted, work
        while not _written(array, given, more, generation, *known, self.table, rows, codes, at, FACTOR):
            size = max(2 * int(at[3]) + LONGEST + PAD, len(self.table.text))
            self.table = grown(self.table, int(at[2]), int(at[3]), 2 * len(self.table.start), size)
        return rows[: at[0]], codes[: at[0]]
