"""Tables that refer to slices, merged: ids become those of the result, rows are spooled.

`validation.REFERENCES` defines which column contains ids of which table; a new table needs no change here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, Int64Array
from ...domain.profile import Profile
from ...domain.tables import NO_ID, SCHEMAS, get_column
from ...domain.validation import REFERENCES
from ..chunked_tables import ChunkedTable, SpillFile
from ..number_limits import number_category
from .spans import SliceBlocks, SliceOrder

TABLES = (
    "count_metrics",
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
    "profiled_kernels",
    "metrics",
    "metric_values",
    "hints",
    "source_lines",
    "source_values",
    "branch_edges",
    "branches",
)
"""The tables that are merged here, each after the ones it refers to."""
DISTINCT = ("categories", "argument_sets", "configurations", "metrics", "branch_edges")
"""Tables whose rows are distinct."""
OF_PROCESS = ("devices", "series")
"""Tables whose rows are distinct within a process."""
TIMES = ("start_ns", "end_ns", "time_ns")
ORDERED = {"instants": "time_ns", "allocations": "start_ns"}
"""Tables whose rows are ordered by time over all parts."""
OF_SLICES = ("slices", "slice_numbers", "device_work")
"""Tables in the order of the slices."""


@dataclass(frozen=True)
class _SpilledRows:
    """Spooled rows. part: whose times they have. first: the number of the first one in the merged table."""

    at: int
    size: int
    part: int
    first: int


class TableMerger:
    """Not for use after `finish`."""

    def __init__(self, spill: SpillFile) -> None:
        self._spill = spill
        self._held: dict[str, list[_SpilledRows]] = {name: [] for name in TABLES}
        self._rows = dict.fromkeys(TABLES, 0)
        self._known: dict[str, dict[tuple[Any, ...], int]] = {name: {} for name in (*DISTINCT, *OF_PROCESS)}
        self._blocks = SliceBlocks()
        self._process: list[int] = []
        self._ranks = True

    def add(self, profile: Profile, process: int, rank: int | None, ids: Mapping[str, Array]) -> None:
        """Add the tables of a profile. ids: the merged ids of its runs, threads, events, functions and stacks.

        process: its number. rank: if the profile does not contain it. Raises OSError if nothing can be spooled.
        """
        ids, part = dict(ids), len(self._process)
        self._process.append(process)
        before = dict(self._rows)
        for name in TABLES:
            table = profile.tables()[name]
            if name in DISTINCT:
                ids[name] = self._remove_duplicates(name, self._remap(name, table, rank, ids, 0))
            elif name in OF_PROCESS:
                ids[name] = self._remove_duplicates(name, self._remap(name, table, rank, ids, 0), process)
            else:
                ids[name] = np.arange(before[name], before[name] + max(1, table.num_rows))
                self._rows[name] += table.num_rows
            if table.num_rows and name not in self._known:
                table = self._remap(name, table, rank, ids, before[name])
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                data = sink.getvalue()
                self._held[name].append(_SpilledRows(self._spill.put(data), data.size, part, before[name]))
                if name == "slices":
                    self._blocks.add(part, get_column(table, "thread"), before[name])

    def finish(self, added: Sequence[int], stacks: Array, *, ranks: bool = True) -> dict[str, ChunkedTable]:
        """The merged tables. added: what is added to the times of each part. stacks: the new ids of stacks. ranks:
        whether they contain ranks."""
        self._ranks = ranks
        places = self._blocks.compute_order(added)
        return {
            name: ChunkedTable(name, len(self._known[name]) if name in self._known else self._rows[name], each)
            for name in TABLES
            for each in [self._iterate_parts(name, added, stacks, places)]
        }

    def _remove_duplicates(self, name: str, table: pa.Table, process: int = 0) -> Array:
        known = self._known[name]
        columns = (table.column(of).to_pylist() for of in table.column_names)
        rows = [(process, *row) for row in zip(*columns, strict=True)]
        if name == "categories":
            return np.array([number_category(known, row) for row in rows] or [0], np.int64)
        return np.array([known.setdefault(row, len(known)) for row in rows] or [0], np.int64)

    def _remap(self, name: str, table: pa.Table, rank: int | None, ids: Mapping[str, Array], before: int) -> pa.Table:
        columns = {of: table.column(of) for of in table.column_names}
        for of, (target, _) in REFERENCES.get(name, {}).items():
            kind = SCHEMAS[name].field(of).type
            column = get_column(table, of)
            known = ids[target][np.maximum(column, 0)]
            columns[of] = pa.array(np.where(column >= 0, known, NO_ID).astype(kind.to_pandas_dtype()), kind)
        if name == "slices":
            columns["end"] = pa.array((get_column(table, "end") + before).astype(np.int32))
        if rank is not None and "rank" in columns:
            columns["rank"] = columns["rank"].fill_null(rank)
        return pa.Table.from_arrays(list(columns.values()), schema=SCHEMAS[name])

    def _iterate_parts(self, name: str, added: Sequence[int], stacks: Array, places: SliceOrder | None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            if name in self._known:
                schema = SCHEMAS[name]
                # The first column is the process.
                rows = list(zip(*self._known[name], strict=True))[1:] or [()] * len(schema)
                arrays = [pa.array(values, field.type) for values, field in zip(rows, schema, strict=True)]
                yield from self._set_rank_column(pa.Table.from_arrays(arrays, schema=schema)).to_batches()
                return
            if places is not None and name in OF_SLICES:
                tables = self._order_by_slice(name, added, stacks, places)
            else:
                parts = self._held[name]
                if name == "steps":
                    parts = sorted(parts, key=lambda one: (self._process[one.part], added[one.part]))
                tables = (self._shift(name, self._get(one), one.part, added, stacks, places) for one in parts)
            keys = self._order_of(name)
            if keys:
                merged = pa.concat_tables([SCHEMAS[name].empty_table(), *tables])
                tables = iter([merged.take(pa.compute.sort_indices(merged, sort_keys=keys))])
            for table in tables:
                yield from self._set_rank_column(table).combine_chunks().to_batches()

        return batches

    def _set_rank_column(self, table: pa.Table) -> pa.Table:
        """With ranks, or without."""
        at = table.schema.get_field_index("rank")
        if self._ranks or at < 0:
            return table
        return table.set_column(at, table.schema.field(at), pa.nulls(table.num_rows, pa.int32()))

    def _order_of(self, name: str) -> list[tuple[str, str, str]]:
        """The columns by which a table is sorted."""
        if name == "counters":
            several = len(set(self._process)) < len(self._process)
            return [(of, "ascending", "at_start") for of in ("series", "time_ns") if several]
        return [(ORDERED[name], "ascending", "at_start")] if name in ORDERED else []

    def _order_by_slice(self, name: str, added: Sequence[int], stacks: Array, places: SliceOrder) -> Iterator[pa.Table]:
        """A table in the order of the slices, if that is not the order of the parts."""
        by_part = {held.part: held for held in self._held[name]}
        known: dict[int, tuple[Array, pa.Table]] = {}
        for part, first, end, last in places.iterate_ranges():
            if part not in by_part:
                continue
            if part not in known:
                held, table = by_part[part], self._get(by_part[part])
                rows = np.arange(held.first, held.first + table.num_rows)
                slices = rows if name == "slices" else get_column(table, "slice")
                known[part] = slices, self._shift(name, table, part, added, stacks, places)
            slices, table = known[part]
            low, high = np.searchsorted(slices, [first, end]).tolist()
            if high > low:
                yield table.slice(low, high - low)
            if last:
                del known[part]

    def _find_work_rows(self, places: SliceOrder) -> Int64Array:
        """The new row of each `device_work`."""
        slices = [np.zeros(0, np.int64), *(get_column(self._get(held), "slice") for held in self._held["device_work"])]
        order = np.argsort(places.map_rows(np.concatenate(slices)), kind="stable")
        found = np.zeros(max(1, len(order)), np.int64)
        found[order] = np.arange(len(order))
        return found

    def _get(self, held: _SpilledRows) -> pa.Table:
        return pa.ipc.open_stream(pa.py_buffer(self._spill.get(held.at, held.size))).read_all()

    def _shift(
        self, name: str, table: pa.Table, part: int, added: Sequence[int], stacks: Array, places: SliceOrder | None
    ) -> pa.Table:
        """With the times, stacks and slices of the result."""
        references = REFERENCES.get(name, {})
        for of in table.column_names:
            if of in TIMES and added[part]:
                rows = pa.compute.add(table.column(of), pa.scalar(added[part], pa.int64()))
            elif of == "stack":
                rows = pa.array(stacks[get_column(table, of)].astype(np.int32))
            elif places is not None and references.get(of, ("",))[0] == "slices":
                rows = pa.array(places.map_rows(get_column(table, of)).astype(np.int32))
            elif places is not None and references.get(of, ("",))[0] == "device_work":
                known, mine = self._find_work_rows(places), get_column(table, of)
                rows = pa.array(np.where(mine >= 0, known[np.maximum(mine, 0)], NO_ID).astype(np.int32))
            elif places is not None and (name, of) == ("slices", "end"):
                rows = pa.array((places.map_rows(get_column(table, of) - 1) + 1).astype(np.int32))
            else:
                continue
            table = table.set_column(table.schema.get_field_index(of), SCHEMAS[name].field(of), rows)
        return table
