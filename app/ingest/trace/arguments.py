"""The arguments of events: their distinct sets, and the value of each member as written."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array, Int64Array
from ...domain.tables import NO_ID
from ..jit.decorators import jit
from ..jit.hashing import compact_ids
from .argument_values import parse_arguments
from .events import TraceEvents
from .tables import build_table

MAX_BYTES = 1 << 31
_QUOTE, _ESCAPE, _COMMA, _COLON, _MINUS, _ZERO, _NINE = b'"\\,:-09'
_OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE = b"[]{}"
_COLUMNS = ("shapes", "types", "strides", "values", "call_stack")


@jit
def _find_string_end(data: Array, at: int, end: int) -> int:
    """The position after the closing quote of the string that begins at `at`."""
    at += 1
    while at < end and data[at] != _QUOTE:
        at += 2 if data[at] == _ESCAPE else 1
    return at + 1


@jit
def _find_value_end(data: Array, at: int, end: int) -> int:
    """The position after the value that begins at `at`."""
    if at < end and data[at] == _QUOTE:
        return min(_find_string_end(data, at, end), end)
    depth = 0
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            at = _find_string_end(data, at, end)
            continue
        if byte in (_OPEN_LIST, _OPEN):
            depth += 1
        elif byte in (_CLOSE_LIST, _CLOSE):
            if depth == 0:
                break
            depth -= 1
        elif byte == _COMMA and depth == 0:
            break
        at += 1
    return min(at, end)


@jit
def _find_members(data: Array, bounds: Array, names: Array, name_bounds: Array, start: Array, stop: Array) -> None:
    """Where the values of members begin and end: start[i, j] of name i in the object j; -1 if it is absent."""
    for j in range(len(bounds) - 1):
        at, end = bounds[j] + 1, bounds[j + 1]
        for i in range(len(name_bounds) - 1):
            start[i, j] = -1
        while at < end:
            if data[at] != _QUOTE:
                at += 1
                continue
            key = at + 1
            at = _find_string_end(data, at, end)
            length = at - 1 - key
            while at < end and (data[at] == _COLON or data[at] <= 32):
                at += 1
            value = at
            at = _find_value_end(data, at, end)
            for i in range(len(name_bounds) - 1):
                first = name_bounds[i]
                if name_bounds[i + 1] - first != length:
                    continue
                same = True
                for k in range(length):
                    if data[key + k] != names[first + k]:
                        same = False
                        break
                if same:
                    start[i, j] = value
                    stop[i, j] = at


@jit
def _parse_ints(data: Array, start: Array, stop: Array, missing: int) -> Int64Array:
    """The whole numbers at these positions, quoted or not."""
    numbers = np.full(len(start), missing, np.int64)
    for j in range(len(start)):
        at, end = start[j], stop[j]
        if at < 0:
            continue
        while end > at and data[end - 1] <= 32:
            end -= 1
        if end > at and data[at] == _QUOTE:
            at, end = at + 1, end - 1
        negative = end > at and data[at] == _MINUS
        at += negative
        if not 0 < end - at <= 18:
            continue
        number = 0
        for k in range(at, end):
            if not _ZERO <= data[k] <= _NINE:
                number = -1
                break
            number = 10 * number + (int(data[k]) - _ZERO)
        if number >= 0:
            numbers[j] = -number if negative else number
    return numbers


@jit
def _copy_texts(data: Array, start: Array, stop: Array, target: Array, offsets: Array) -> None:
    for j in range(len(start)):
        target[offsets[j] : offsets[j + 1]] = data[start[j] : stop[j]]


class ArgumentSets:
    """The distinct sets of arguments that are used, each a JSON object. of: by index of a text its row or NO_ID."""

    def __init__(self, events: TraceEvents, used: Array) -> None:
        """used: the arguments that are needed, indices of texts."""
        self.of, places = compact_ids(used, len(events.texts))
        self._texts = [events.texts[place] for place in places.tolist()]
        texts = [text.encode("utf-8", "replace") for text in self._texts]
        self._bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(one) for one in texts], out=self._bounds[1:])
        self._data = np.frombuffer(b"".join(texts), np.uint8)

    def __len__(self) -> int:
        return len(self._texts)

    def get_rows(self, arguments: Array) -> Array:
        """The rows of `argument_sets` (int32) for indices of texts, NO_ID for none."""
        return np.append(self.of, np.int32(NO_ID))[arguments]

    def parse(self, rows: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The arguments of these rows."""
        return {row: parse_arguments(self._texts[row]) for row in rows}

    def get_numbers(self, *members: str) -> list[Array]:
        """The whole numbers (int64) of a member in each row, MISSING if there is none, with one more MISSING at the
        end."""
        start, stop = self._find_places(members)
        return [np.append(_parse_ints(self._data, *place, MISSING), MISSING) for place in zip(start, stop, strict=True)]

    def _find_places(self, members: Iterable[str]) -> tuple[Array, Array]:
        names = [member.encode() for member in members]
        bounds = np.cumsum([0, *(len(name) for name in names)])
        start, stop = (np.empty((len(names), len(self)), np.int64) for _ in range(2))
        _find_members(self._data, self._bounds, np.frombuffer(b"".join(names), np.uint8), bounds, start, stop)
        return start, stop

    def to_table(self, members: Mapping[str, str]) -> pa.Table:
        """The table `argument_sets`. members: the member of each column."""
        start, stop = self._find_places(members)
        first, last = (np.full((len(_COLUMNS), len(self)), -1, np.int64) for _ in range(2))
        for member, column in enumerate(members.values()):
            there = start[member] >= 0
            at = _COLUMNS.index(column)
            first[at, there], last[at, there] = start[member, there], stop[member, there]
        columns = {name: self._read_column(*place) for name, *place in zip(_COLUMNS, first, last, strict=True)}
        return build_table("argument_sets", text=self._take_texts(self._bounds[:-1], self._bounds[1:], None), **columns)

    def _read_column(self, start: Array, stop: Array) -> pa.Array | pa.ChunkedArray:
        """The values at these positions: strings without their quotes, others as written."""
        there = start >= 0
        if not there.any():
            return pa.nulls(len(start), pa.string())
        quoted = there & (self._data[start] == _QUOTE)
        # null is not a value.
        there &= ~((stop - start == 4) & (self._data[start] == ord("n")))
        start, stop = np.where(there, start + quoted, 0), np.where(there, stop - quoted, 0)
        return self._take_texts(start, stop, there, quoted)

    def _take_texts(
        self, start: Array, stop: Array, there: Array | None, quoted: Array | None = None
    ) -> pa.Array | pa.ChunkedArray:
        """The texts at these positions. there: null if false. quoted: which were strings."""
        offsets = np.zeros(len(start) + 1, np.int64)
        np.cumsum(stop - start, out=offsets[1:])
        if offsets[-1] >= MAX_BYTES and len(start) > 1:
            middle = len(start) // 2
            halves = [
                self._take_texts(
                    start[part],
                    stop[part],
                    None if there is None else there[part],
                    None if quoted is None else quoted[part],
                )
                for part in (slice(None, middle), slice(middle, None))
            ]
            return pa.chunked_array([chunk for half in halves for chunk in getattr(half, "chunks", [half])])
        target = np.empty(int(offsets[-1]), np.uint8)
        _copy_texts(self._data, start, stop, target, offsets)
        nulls = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
        values = pa.StringArray.from_buffers(
            len(start), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(target), nulls
        )
        if quoted is None or not quoted.any() or not (target == _ESCAPE).any():
            return values
        texts = values.to_pylist()
        for row in np.flatnonzero(quoted).tolist():
            if texts[row] is not None and "\\" in texts[row]:
                texts[row] = parse_arguments(f'{{"text":"{texts[row]}"}}').get("text", texts[row])
        return pa.array(texts, pa.string())
