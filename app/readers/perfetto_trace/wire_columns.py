"""Protobuf's messages as columns: many messages of one sort at once, compiled.

What `domain/wire.py` does for one message after the other, for those of which there are millions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loops.compiled import compiled
from ..trace.events import Array

ABSENT = -1
LARGEST = (1 << 31) - 1


@compiled
def _varint(data: Array, at: int, end: int) -> tuple[Any, int]:
    """(the number, where it ends); that is -1 where there is none."""
    value = np.uint64(0)
    shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 127) << np.uint64(shift)
        if byte < 128:
            return np.int64(value), at
        shift += 7
    return np.int64(0), -1


@compiled
def _content(data: Array, at: int, end: int, kind: int) -> tuple[Any, Any, int]:
    """(value or where the content begins, its size or -1 for a number, where the field ends or -1)."""
    if kind == 0:
        value, at = _varint(data, at, end)
        return value, -1, at
    if kind == 2:
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at or size > LARGEST:
            return 0, -1, -1
        return at, size, at + size
    width = 8 if kind == 1 else 4 if kind == 5 else 0
    if width == 0 or width > end - at:
        return 0, -1, -1
    number = np.uint64(0)
    for i in range(width):
        number |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return np.int64(number), -1, at + width


@compiled
def _scan(
    data: Array, begin: Array, end: Array, column: Array, value: Array, size: Array, other: Array, bad: Array
) -> None:
    fields = len(column)
    for i in range(len(begin)):
        at, last = begin[i], end[i]
        while at < last:
            start = at
            tag, at = _varint(data, at, last)
            number = tag >> 3
            if at < 0 or number <= 0:
                bad[i] = start
                break
            content, length, at = _content(data, at, last, tag & 7)
            if at < 0:
                bad[i] = start
                break
            to = column[number] if number < fields else -1
            if to == -1:
                other[i] = number
            elif to < 0:
                continue
            elif size[to, i] == -2:
                value[to, i] = content
                size[to, i] = length


@compiled
def _places(data: Array, begin: Array, end: Array, field: int, rows: Array, value: Array, size: Array) -> int:
    """How many fields of that number there are; they are filled in as far as there is room."""
    count = 0
    room = len(rows)
    for i in range(len(begin)):
        at, last = begin[i], end[i]
        while at < last:
            tag, at = _varint(data, at, last)
            if at < 0 or tag >> 3 <= 0:
                break
            content, length, at = _content(data, at, last, tag & 7)
            if at < 0:
                break
            if tag >> 3 == field:
                if count < room:
                    rows[count] = i
                    value[count] = content
                    size[count] = length
                count += 1
    return count


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages of one sort: where each begins and ends in `data`, and some of their fields. other: the number of the
    last field that was not asked for, 0 for none. bad: where a message is damaged (what is before was read), -1."""

    data: Array
    begin: Array
    end: Array
    value: dict[int, Array]
    size: dict[int, Array]
    other: Array
    bad: Array

    def __len__(self) -> int:
        return len(self.begin)

    def has(self, field: int) -> Array:
        """Which messages have a field."""
        there: Array = self.size[field] != ABSENT - 1
        return there

    def number(self, field: int, missing: int = 0) -> Array:
        """A field that is a whole number."""
        return np.where(self.size[field] == ABSENT, self.value[field], missing)

    def inner(self, field: int) -> tuple[Array, Array]:
        """(the rows that have a field that is text or a message, the field's begin and end in them)."""
        rows = np.flatnonzero(self.size[field] >= 0)
        begin = self.value[field][rows]
        return rows, np.stack((begin, begin + self.size[field][rows]))


def messages(data: Array, spans: Array, fields: tuple[int, ...], ignored: tuple[int, ...] = ()) -> Messages:
    """These fields of messages; of a field that comes several times the first. spans: where they begin and end.
    ignored: fields that are not asked for, and no `other` ones either."""
    begin, end = np.ascontiguousarray(spans, np.int64)
    column = np.full(max(fields + ignored) + 1, -1, np.int64)
    column[list(ignored)] = -2
    column[list(fields)] = np.arange(len(fields))
    value = np.zeros((len(fields), len(begin)), np.int64)
    size = np.full((len(fields), len(begin)), -2, np.int32)
    other, bad = np.zeros(len(begin), np.int64), np.full(len(begin), -1, np.int64)
    _scan(data, begin, end, column, value, size, other, bad)
    return Messages(
        data, begin, end, dict(zip(fields, value, strict=True)), dict(zip(fields, size, strict=True)), other, bad
    )


@dataclass(frozen=True, eq=False)
class Places:
    """All fields of one number: the message each is in, its value or where it begins, its size or -1 for a number."""

    row: Array
    value: Array
    size: Array

    def __len__(self) -> int:
        return len(self.row)

    @property
    def end(self) -> Array:
        """Where each ends."""
        ends: Array = self.value + self.size
        return ends

    @property
    def spans(self) -> Array:
        """Where each begins and ends."""
        return np.stack((self.value, self.end))

    def only(self, chosen: Array) -> "Places":
        """Some of them."""
        return Places(self.row[chosen], self.value[chosen], self.size[chosen])


def places(data: Array, spans: Array, field: int, content: bool = True) -> Places:
    """All fields of that number in messages. content: those that are text or messages, else those that are numbers."""
    nothing = np.zeros(0, np.int64)
    begin, end = np.ascontiguousarray(spans, np.int64)
    count = _places(data, begin, end, field, nothing, nothing, nothing)
    row, value, size = (np.empty(count, np.int64) for _ in range(3))
    _places(data, begin, end, field, row, value, size)
    found = Places(row, value, size)
    return found.only((size >= 0) == content)


def distinct(*columns: Array) -> tuple[list[tuple[int, ...]], Array]:
    """The distinct rows of columns of numbers, and which of them each is."""
    code = np.zeros(len(columns[0]), np.int64)
    rows = np.zeros(min(1, len(code)), np.int64)
    for column in columns:
        if len(code) and (column == column[0]).all():
            continue
        values, which = np.unique(column, return_inverse=True)
        _, rows, code = np.unique(code * len(values) + which, return_index=True, return_inverse=True)
    return list(zip(*(column[rows].tolist() for column in columns), strict=True)), code


def texts_at(data: bytes | memoryview, begin: Array, end: Array, place: Any) -> Array:
    """Texts as the numbers that `place` gives them."""
    known: dict[bytes, int] = {}
    found = []
    for first, last in zip(begin.tolist(), end.tolist(), strict=True):
        raw = bytes(data[first:last])
        number = known.get(raw)
        if number is None:
            number = known[raw] = place(raw.decode("utf-8", "backslashreplace"))
        found.append(number)
    return np.array(found, np.int64)
