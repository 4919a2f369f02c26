"""What hangs on slices, of several profiles being brought together: ids become those of the whole, rows are put aside.

Which column holds the ids of which table says `validity.REFERENCES`; a new table needs no word here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..domain.pieces import Pieces, Spill
from ..domain.profile import Profile
from ..domain.tables import NO_ID, SCHEMAS, column
from ..domain.validity import REFERENCES

Array = np.ndarray[Any, Any]
TABLES = (
    "categories",
    "argument_sets",
    "configurations",
    "devices",
    "slices",
    "slice_numbers",
    "instants",
    "device_work",
    "flows",
    "steps",
    "series",
    "counters",
    "allocations",
    "segments",
)
"""Those that are brought together here, each after the ones it refers to."""
DISTINCT = ("categories", "argument_sets", "configurations")
"""Tables of which no two rows are the same."""
TIMES = ("start_ns", "end_ns", "time_ns")
ORDERED = {"instants": "time_ns", "allocations": "start_ns"}
"""Tables whose rows are in order of time over all parts."""


@dataclass(frozen=True)
class _Held:
    """Rows put aside. part: whose times they have."""

    at: int
    size: int
    part: int


class MergingTables:
    """Not for use after `pieces`."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._held: dict[str, list[_Held]] = {name: [] for name in TABLES}
        self._rows = dict.fromkeys(TABLES, 0)
        self._known: dict[str, dict[tuple[Any, ...], int]] = {name: {} for name in DISTINCT}

    def add(self, profile: Profile, part: int, rank: int | None, ids: Mapping[str, Array]) -> None:
        """Take in the tables of a profile. ids: what its ids of threads, functions and stacks are in the whole.

        rank: where the profile does not know it. Raises OSError where nothing can be put aside.
        """
        ids = dict(ids)
        before = dict(self._rows)
        for name in TABLES:
            table = profile.tables()[name]
            if name in DISTINCT:
                ids[name] = self._distinct(name, table)
            else:
                ids[name] = np.arange(before[name], before[name] + max(1, table.num_rows))
                self._rows[name] += table.num_rows
            if table.num_rows and name not in DISTINCT:
                table = self._changed(name, table, rank, ids, before[name])
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                data = sink.getvalue()
                self._held[name].append(_Held(self._spill.put(data), data.size, part))

    def pieces(self, added: Sequence[int], stacks: Array) -> dict[str, Pieces]:
        """The tables. added: what is added to the times of each part. stacks: what became of the ids of stacks."""
        return {
            name: Pieces(name, len(self._known[name]) if name in DISTINCT else self._rows[name], each)
            for name in TABLES
            for each in [self._each(name, added, stacks)]
        }

    def _distinct(self, name: str, table: pa.Table) -> Array:
        known = self._known[name]
        rows = zip(*(table.column(of).to_pylist() for of in table.column_names), strict=True)
        return np.array([known.setdefault(row, len(known)) for row in rows] or [0], np.int64)

    def _changed(self, name: str, table: pa.Table, rank: int | None, ids: Mapping[str, Array], before: int) -> pa.Table:
        columns = {of: table.column(of) for of in table.column_names}
        for of, (target, _) in REFERENCES.get(name, {}).items():
            kind = SCHEMAS[name].field(of).type
            mine = column(table, of)
            known = ids[target][np.maximum(mine, 0)]
            columns[of] = pa.array(np.where(mine >= 0, known, NO_ID).astype(kind.to_pandas_dtype()), kind)
        if name == "slices":
            columns["end"] = pa.array((column(table, "end") + before).astype(np.int32))
        if rank is not None and "rank" in columns:
            columns["rank"] = columns["rank"].fill_null(rank)
        return pa.Table.from_arrays(list(columns.values()), schema=SCHEMAS[name])

    def _each(self, name: str, added: Sequence[int], stacks: Array) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            if name in DISTINCT:
                schema = SCHEMAS[name]
                rows = list(zip(*self._known[name], strict=True)) or [()] * len(schema)
                arrays = [pa.array(values, field.type) for values, field in zip(rows, schema, strict=True)]
                yield from pa.Table.from_arrays(arrays, schema=schema).to_batches()
                return
            tables: Iterator[pa.Table] = (self._moved(name, held, added, stacks) for held in self._held[name])
            if name in ORDERED:
                whole = pa.concat_tables([SCHEMAS[name].empty_table(), *tables])
                of = ORDERED[name]
                order = pa.compute.sort_indices(whole, sort_keys=[(of, "ascending", "at_start")])
                tables = iter([whole.take(order)])
            for table in tables:
                yield from table.combine_chunks().to_batches()

        return batches

    def _moved(self, name: str, held: _Held, added: Sequence[int], stacks: Array) -> pa.Table:
        table = pa.ipc.open_stream(pa.py_buffer(self._spill.get(held.at, held.size))).read_all()
        for of in table.column_names:
            place = table.schema.get_field_index(of)
            if of in TIMES and added[held.part]:
                moved = pa.compute.add(table.column(of), pa.scalar(added[held.part], pa.int64()))
                table = table.set_column(place, SCHEMAS[name].field(of), moved)
            elif of == "stack":
                known = pa.array(stacks[column(table, of)].astype(np.int32))
                table = table.set_column(place, SCHEMAS[name].field(of), known)
        return table
