"""The tables that every trace has: slices, their arguments and numbers, samples, instants, counters, flows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array
from ...domain.arrow import functions as pc
from ...domain.tables import NUMERIC_ARGUMENTS, SCHEMAS
from ..jit.decorators import jit
from .slices import SliceTable


def build_table(name: str, /, **columns: Sequence[Any] | Array | pa.Array) -> pa.Table:
    """The table `name` from whole columns, without a copy of arrays of the right type."""
    schema = SCHEMAS[name]
    return pa.Table.from_arrays([_make_column(columns[field.name], field.type) for field in schema], schema=schema)


def _make_column(values: Sequence[Any] | Array | pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), kind)
    return pc.cast(values, kind) if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)


def to_nullable(values: Array, missing: int = MISSING) -> pa.Array:
    """Whole numbers as a column in which `missing` is null."""
    return pa.array(values, mask=values == missing)


def build_categories_table(rows: SliceTable, more: Sequence[tuple[str, str]] = ()) -> pa.Table:
    """The table `categories`: those of slices, then some more."""
    listed = [*rows.codes.categories, *more]
    return build_table("categories", name=[name for name, _ in listed], kind=[kind for _, kind in listed])


def build_slices_table(rows: SliceTable, zero: int, stack: Array, arguments: Array) -> pa.Table:
    """The table `slices`. stack, arguments: the row of `stacks` and of `argument_sets` of each slice."""
    code = rows.code
    return build_table(
        "slices",
        start_ns=rows.start_ns - zero,
        duration_ns=rows.stop_ns - rows.start_ns,
        self_ns=rows.self_ns,
        thread=rows.track,
        function=rows.codes.function[code],
        category=rows.codes.category[code],
        depth=rows.depth,
        parent=rows.parent,
        end=rows.end,
        stack=stack,
        arguments=arguments,
    )


@jit
def _count_rows(event: Array, row: Array, counts: Array) -> None:
    for i in range(len(event)):
        at = row[event[i]]
        if at >= 0:
            counts[at + 1] += 1


@jit
def _fill_rows(
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


def build_slice_numbers_table(rows: SliceTable) -> pa.Table:
    """The table `slice_numbers`."""
    given = rows.events.numbers
    free = np.zeros(len(rows) + 1, np.int64)
    for numbers in given.values():
        _count_rows(numbers.event, rows.row, free)
    free = np.cumsum(free)
    slices, keys, values = (np.empty(int(free[-1]), kind) for kind in (np.int32, np.int8, np.int64))
    for key, name in enumerate(NUMERIC_ARGUMENTS):
        if name in given:
            _fill_rows(given[name].event, given[name].value, rows.row, key, free, slices, keys, values)
    return build_table("slice_numbers", slice=slices, key=keys, value=values)
