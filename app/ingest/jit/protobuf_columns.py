"""Protobuf messages as columns: many messages of one type at once, compiled.

Like `protobuf_wire`, which reads one message at a time, for files with millions of messages.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from .decorators import jit
from .hashing import factorize

ABSENT, NUMBER, CONTENT = 0, 1, 2
"""Values in a column of sizes: the field is absent, the field is a number, or CONTENT plus its size."""
MAX_NUMBER = (1 << 31) - 1 - CONTENT
OTHER, IGNORED = -1, -2
"""The kind of a field that is no column."""


@jit
def read_varint(data: Array, at: int, end: int) -> tuple[Any, int]:
    """(the number, its end); the end is -1 if there is none."""
    if at < end and data[at] < 128:
        return np.int64(data[at]), at + 1
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


@jit
def read_content(data: Array, at: int, end: int, kind: int) -> tuple[Any, Any, int]:
    """(value or start of the content, its size or -1 for a number, the end of the field or -1)."""
    if kind == 0:
        value, at = read_varint(data, at, end)
        return value, -1, at
    if kind == 2:
        size, at = read_varint(data, at, end)
        if at < 0 or size < 0 or size > end - at or size > MAX_NUMBER:
            return 0, -1, -1
        return at, size, at + size
    width = 8 if kind == 1 else 4 if kind == 5 else 0
    if width == 0 or width > end - at:
        return 0, -1, -1
    number = np.uint64(0)
    for i in range(width):
        number |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return np.int64(number), -1, at + width


@jit
def _scan(
    data: Array,
    begin: Array,
    end: Array,
    column: Array,
    value: Array,
    size: Array,
    other: Array,
    bad: Array,
    listed: Array,
    done: Array,
) -> bool:
    """Read messages from done[0] on, with done[1] fields listed so far; returns whether there was room to list all."""
    fields, columns, room = len(column), len(value), listed.shape[1]
    for i in range(done[0], len(begin)):
        at, last = begin[i], end[i]
        count = done[1]
        while at < last:
            start = at
            tag, at = read_varint(data, at, last)
            number = tag >> 3
            if at < 0 or number <= 0:
                bad[i] = start + 1
                break
            found, length, at = read_content(data, at, last, tag & 7)
            if at < 0:
                bad[i] = start + 1
                break
            to = column[number] if number < fields else OTHER
            if to == OTHER:
                other[i] = number
            elif to >= columns:
                if count == room:
                    done[0] = i
                    return False
                listed[0, count] = i
                listed[1, count] = to - columns
                listed[2, count] = found
                listed[3, count] = length
                count += 1
            elif to >= 0 and size[to, i] == ABSENT:
                value[to, i] = found
                size[to, i] = length + CONTENT
        done[1] = count
    return True


@dataclass(frozen=True, eq=False)
class FieldColumns:
    """Fields of messages, in their order: the message of each, its value or start, its size or -1 for a number."""

    row: Array
    value: Array
    size: Array

    def __len__(self) -> int:
        return len(self.row)

    @property
    def end(self) -> Array:
        """The end of each field."""
        ends: Array = self.value + self.size
        return ends

    @property
    def spans(self) -> Array:
        """The start and end of each field."""
        return np.stack((self.value, self.end))

    def select(self, chosen: Array) -> "FieldColumns":
        """A subset of the fields."""
        return FieldColumns(self.row[chosen], self.value[chosen], self.size[chosen])

    def select_contents(self) -> "FieldColumns":
        """The fields that are text or messages."""
        chosen = self.size >= 0
        return self if chosen.all() else self.select(chosen)

    def select_numbers(self) -> "FieldColumns":
        """The fields that are numbers."""
        chosen = self.size < 0
        return self if chosen.all() else self.select(chosen)


@dataclass(frozen=True, eq=False)
class MessageColumns:
    """Messages of one type: where each begins and ends in `data`, and some of their fields. listed: all occurrences of
    repeated fields. other: the number of the last unknown field, 0 for none. malformed: 0, or one more than the
    position of damage (everything before it was read)."""

    data: Array
    begin: Array
    end: Array
    value: dict[int, Array]
    size: dict[int, Array]
    listed: dict[int, FieldColumns]
    other: Array
    malformed: Array

    def __len__(self) -> int:
        return len(self.begin)

    def has(self, field: int) -> Array:
        """Which messages have a field."""
        there: Array = self.size[field] != ABSENT
        return there

    def get_number(self, field: int, missing: int = 0) -> Array:
        """A field that is a whole number."""
        return np.where(self.size[field] == NUMBER, self.value[field], missing)

    def get_spans(self, field: int) -> tuple[Array, Array]:
        """(the rows that have a field with text or a message, the start and end of the field in them)."""
        rows = np.flatnonzero(self.size[field] >= CONTENT)
        begin = self.value[field][rows]
        return rows, np.stack((begin, begin + (self.size[field][rows] - CONTENT)))


def read_messages(
    data: Array, spans: Array, fields: tuple[int, ...], ignored: tuple[int, ...] = (), listed: tuple[int, ...] = ()
) -> MessageColumns:
    """These fields of messages; of a repeated field the first, of those in `listed` all. spans: start and end of each
    message. ignored: known fields that are skipped, and not in `other`."""
    begin, end = np.ascontiguousarray(spans, np.int64)
    column = np.full(max(fields + ignored + listed) + 1, OTHER, np.int64)
    column[list(ignored)] = IGNORED
    column[list(fields + listed)] = np.arange(len(fields + listed))
    # Zeros that are never written take no memory.
    value, size = (np.zeros((len(fields), len(begin)), kind) for kind in (np.int64, np.int32))
    other, bad = (np.zeros(len(begin), np.int64) for _ in range(2))
    found = np.empty((4, int((end - begin).sum()) // 32 + 16 if listed else 0), np.int64)
    done = np.zeros(2, np.int64)
    while not _scan(data, begin, end, column, value, size, other, bad, found, done):
        more = np.empty((4, 4 * found.shape[1]), np.int64)
        more[:, : done[1]] = found[:, : done[1]]
        found = more
    row, which, first, length = found[:, : done[1]]
    all_ = FieldColumns(row, first, length)
    return MessageColumns(
        data=data,
        begin=begin,
        end=end,
        value=dict(zip(fields, value, strict=True)),
        size=dict(zip(fields, size, strict=True)),
        listed={field: all_ if len(listed) == 1 else all_.select(which == at) for at, field in enumerate(listed)},
        other=other,
        malformed=bad,
    )


@jit
def _unpack(data: Array, row: Array, begin: Array, size: Array, damaged: Array, rows: Array, values: Array) -> int:
    """Fill in the numbers of packed fields, and of those that are not packed, as far as there is room. Returns how many
    there are."""
    count = 0
    for i in range(len(row)):
        if size[i] < 0:
            if count < len(rows):
                rows[count], values[count] = row[i], begin[i]
            count += 1
            continue
        at, end = begin[i], begin[i] + size[i]
        while at < end:
            value, at = read_varint(data, at, end)
            if at < 0:
                damaged[row[i]] = True
                break
            if count < len(rows):
                rows[count], values[count] = row[i], value
            count += 1
    return count


def read_numbers(data: Array, found: FieldColumns, damaged: Array) -> tuple[Array, Array]:
    """(rows, values) of a field of whole numbers, packed or not: the message of each, and the number. Marks in
    `damaged` (bool, by message) the messages in which the field is invalid."""
    rows, values = np.empty(0, np.int32), np.empty(0, np.int64)
    count = _unpack(data, found.row, found.value, found.size, damaged, rows, values)
    rows, values = np.empty(count, np.int32), np.empty(count, np.int64)
    _unpack(data, found.row, found.value, found.size, damaged, rows, values)
    return rows, values


def unique_rows(*columns: Array) -> tuple[list[tuple[int, ...]], Array]:
    """The distinct rows of columns of numbers, in their order, and the distinct row of each."""
    code, rows = factorize(columns[0])
    for column in columns[1:]:
        more, _ = factorize(column)
        code, rows = factorize((code.astype(np.int64) << 32) | more)
    order = np.lexsort([column[rows] for column in columns[::-1]])
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    rows = rows[order]
    return list(zip(*(column[rows].tolist() for column in columns), strict=True)), place[code]
