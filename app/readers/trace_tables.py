"""The tables that every trace has: slices, their arguments and numbers, samples, instants, counters, flows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..domain.tables import NO_ID, NUMBERED, SCHEMAS
from .compiled import compiled
from .hashing import dense
from .trace_events import MISSING, TraceEvents
from .trace_slices import Rows
from .trace_words import dumped, parsed

Array = np.ndarray[Any, Any]
COLUMNS = ("shapes", "types", "strides", "values", "call_stack")


def table(name: str, /, **columns: Sequence[Any] | Array | pa.Array) -> pa.Table:
    """The table `name` of whole columns, arrays without a copy where they are of the right type."""
    schema = SCHEMAS[name]
    return pa.Table.from_arrays([_column(columns[field.name], field.type) for field in schema], schema=schema)


def _column(values: Sequence[Any] | Array | pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), kind)
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def with_nulls(values: Array, missing: int = MISSING) -> pa.Array:
    """Whole numbers as a column in which `missing` is null."""
    return pa.array(values, mask=values == missing)


class ArgumentSets:
    """The distinct sets of arguments. of: by place of a text its row of `argument_sets` or NO_ID."""

    def __init__(self, events: TraceEvents, used: Array) -> None:
        """used: the arguments that are wanted, places of texts."""
        self.of, self._places = dense(used, len(events.texts))
        self._texts = [events.texts[place] for place in self._places.tolist()]

    def __len__(self) -> int:
        return len(self._texts)

    def rows(self, arguments: Array) -> Array:
        """The rows of `argument_sets` for places of texts, NO_ID for none."""
        return np.where(arguments < 0, NO_ID, self.of[arguments]) if len(self.of) else np.full(len(arguments), NO_ID)

    def parsed(self, rows: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The arguments of these rows."""
        return {row: parsed(self._texts[row]) for row in rows}

    def table(self, members: Mapping[str, str]) -> pa.Table:
        """The table `argument_sets`. members: which member stands in which column."""
        columns: dict[str, list[str | None]] = {name: [None] * len(self) for name in COLUMNS}
        # No text without one of these words need be understood.
        words = tuple(f'"{member}"' for member in members)
        for row, text in enumerate(self._texts):
            if any(word in text for word in words):
                found = parsed(text)
                for member, column in members.items():
                    value = found.get(member)
                    if value is not None:
                        columns[column][row] = value if isinstance(value, str) else dumped(value)
        return table("argument_sets", text=self._texts, **columns)


def categories_table(rows: Rows, more: Sequence[tuple[str, str]] = ()) -> pa.Table:
    """The table `categories`: those of slices, then some more."""
    listed = [*rows.codes.categories, *more]
    return table("categories", name=[name for name, _ in listed], kind=[kind for _, kind in listed])


def slices_table(rows: Rows, zero: int, stack: Array, arguments: ArgumentSets) -> pa.Table:
    """The table `slices`. stack: the row of `stacks` of each slice."""
    code = rows.code
    return table(
        "slices",
        start_ns=rows.start_ns - zero,
        duration_ns=rows.stop_ns - rows.start_ns,
        self_ns=rows.own,
        thread=rows.line,
        function=rows.codes.function[code],
        category=rows.codes.category[code],
        depth=rows.depth,
        parent=rows.parent,
        end=rows.end,
        stack=stack,
        arguments=arguments.rows(rows.arguments),
    )


@compiled
def _counted(event: Array, row: Array, counts: Array) -> None:
    for i in range(len(event)):
        at = row[event[i]]
        if at >= 0:
            counts[at + 1] += 1


@compiled
def _filled(
    event: Array, value: Array, row: Array, key: int, free: Array, slices: Array, keys: Array, values: Array
) -> None:
    for i in range(len(event)):
        at = row[event[i]]
        if at >= 0:
            to = free[at]
            free[at] = to + 1
            slices[to] = at
            keys[to] = key
            values[to] = value[i]


def numbers_table(rows: Rows) -> pa.Table:
    """The table `slice_numbers`."""
    given = rows.events.numbers
    free = np.zeros(len(rows) + 1, np.int64)
    for numbers in given.values():
        _counted(numbers.event, rows.row, free)
    free = np.cumsum(free)
    slices, keys, values = (np.empty(int(free[-1]), kind) for kind in (np.int32, np.int8, np.int64))
    for key, name in enumerate(NUMBERED):
        if name in given:
            _filled(given[name].event, given[name].value, rows.row, key, free, slices, keys, values)
    return table("slice_numbers", slice=slices, key=keys, value=values)
