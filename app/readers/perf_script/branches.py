"""Branch stacks of samples as tables: distinct branches, and how often each was taken by thread, event and time.

A text has up to 32 entries for each sample. They are added up while it is read: first for each sample; once there are
more than `MAX_ROWS` rows, for intervals of time, which double until the rows fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, Int64Array
from ...domain.builder import ProfileBuilder
from ...domain.profile import Profile
from ...domain.tables import SCHEMAS
from ...ingest.facts import FIRST_SAMPLE_FACT
from ...ingest.perf_text.branch_entries import BranchPlace
from ...ingest.perf_text.branch_loops import LoopTrace, trace_loops
from ...ingest.perf_text.branch_stacks import EDGE_BITS, MAX_EDGES, BranchStackFilter, unpack_codes
from ...ingest.perf_text.losses import RARE_BRANCH

MAX_ROWS = 1 << 19
FIRST_INTERVAL_NS = 1 << 20
MAX_INTERVAL_NS = 1 << 62
MAX_TRACES = 1 << 16
"""Distinct branch stacks whose loops are remembered: a hot loop repeats them."""
SUMS = ("count", "mispredicted", "predicted", "cycles", "iterations", "iteration_cycles", "exits")
Columns = dict[str, Array]


class BranchCollector:
    """Collects the branch stacks of one text, which a filter takes out of it."""

    def __init__(self, source: BranchStackFilter) -> None:
        self._source = source
        self._read_parts = 0
        self._traces: dict[tuple[int, ...], LoopTrace] = {}
        self._parts: list[Columns] = []
        self._rows = 0
        self._interval_ns = 0
        self._functions: list[list[int]] = [[], []]

    def feed(self, columns: Mapping[str, Sequence[Array]]) -> None:
        """Add the branch stacks of the samples that were added to these columns: parts, in the order of the text."""
        names = ("order", "time_ns", "thread", "event")
        new = {name: columns[name][self._read_parts :] for name in names}
        self._read_parts = len(columns["order"])
        if not self._source.stacks or not new["order"]:
            return
        samples = {name: np.concatenate(parts) for name, parts in new.items()}
        # Others are of samples that were not read yet.
        last, stacks = int(samples["order"].max()), []
        while self._source.stacks and self._source.stacks[0][0] <= last:
            stacks.append(self._source.stacks.popleft())
        if not stacks:
            return
        by_line = np.argsort(samples["order"], kind="stable")
        lines = np.array([line for line, _ in stacks], np.int64)
        place = np.searchsorted(samples["order"], lines, sorter=by_line)
        sample = by_line[np.minimum(place, len(by_line) - 1)]
        # Samples that do not count, such as those of perf itself, have branch stacks, too.
        counted = np.flatnonzero(samples["order"][sample] == lines)
        rows = self._sum_stacks([stacks[at][1] for at in counted.tolist()], sample[counted])
        for name in names[1:]:
            rows[name] = samples[name][rows["sample"]].astype(np.int64)
        del rows["sample"]
        self._parts.append(rows)
        self._rows += len(rows["edge"])
        if self._rows > MAX_ROWS:
            self._coarsen()

    def add_to(self, builder: ProfileBuilder) -> None:
        """Add the functions of the branches to a builder, before it is finished."""
        table = self._source.table
        self._functions = [
            [builder.intern_function(place.symbol, place.module) for place in places]
            for places in (table.from_place, table.to_place)
        ]

    def extend(self, profile: Profile) -> Profile:
        """The finished profile with the branches."""
        if not self._parts:
            return profile
        zero = profile.meta.facts.get(FIRST_SAMPLE_FACT, "").removesuffix(" ns")
        rows = _group(_concatenate(self._parts), 0)
        if not rows["cycles"].any():
            # No hardware counts cycles and has none at all.
            unknown = np.ones(len(rows["edge"]), bool)
            known: dict[str, Array | None] = {"cycles": unknown, "iteration_cycles": unknown}
        else:
            known = {}
        # Without times, no window can be selected.
        rows["time_ns"] = np.maximum(0, rows["time_ns"] - int(zero)) if zero else rows["time_ns"] * 0
        rows["interval_ns"] = np.full(len(rows["edge"]), self._interval_ns)
        table = self._source.table
        edges: dict[str, Sequence[object]] = {
            "source": self._functions[0],
            "target": self._functions[1],
            **_list_places("source", table.from_place),
            **_list_places("target", table.to_place),
            "kind": [kind or None for kind in table.kind],
            "is_loop": [place.is_backward for place in table.places],
        }
        return replace(
            profile,
            branch_edges=_make_table("branch_edges", edges),
            branches=_make_table("branches", rows, known),
        )

    def _sum_stacks(self, stacks: Sequence[Sequence[int]], sample: Int64Array) -> Columns:
        """The sums by sample and edge. sample: of each stack."""
        codes = np.array([code for stack in stacks for code in stack], np.int64)
        owner = np.repeat(sample, [len(stack) for stack in stacks])
        good = codes >= 0
        edge, mispredicted, predicted, cycles = unpack_codes(codes[good])
        loops = [row for at, stack in enumerate(stacks) for row in self._find_loops(int(sample[at]), stack)]
        of_loops = np.array(loops, np.int64).reshape(-1, 5)
        none = np.zeros(len(edge), np.int64)
        no_loops = np.zeros(len(of_loops), np.int64)
        rows = {
            "sample": np.concatenate((owner[good], of_loops[:, 0])),
            "edge": np.concatenate((edge, of_loops[:, 1])),
            "count": np.concatenate((none + 1, no_loops)),
            "mispredicted": np.concatenate((mispredicted, no_loops)),
            "predicted": np.concatenate((predicted, no_loops)),
            "cycles": np.concatenate((cycles, no_loops)),
            "iterations": np.concatenate((none, of_loops[:, 2])),
            "iteration_cycles": np.concatenate((none, of_loops[:, 3])),
            "exits": np.concatenate((none, of_loops[:, 4])),
        }
        order = np.argsort(rows["sample"] << EDGE_BITS | rows["edge"], kind="stable")
        return _sum_equal({name: values[order] for name, values in rows.items()}, ("sample", "edge"))

    def _find_loops(self, sample: int, stack: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
        """(sample, edge, iterations, their cycles, exits) of the loops in a stack."""
        edges = tuple(code & (MAX_EDGES - 1) if code >= 0 else -1 for code in stack)
        trace = self._traces.get(edges)
        if trace is None:
            if len(self._traces) >= MAX_TRACES:
                self._traces.clear()
            trace = self._traces[edges] = trace_loops(edges, self._source.table.places)
        if not trace.iterations and not trace.exits:
            return []
        before = [0, *accumulate(code >> EDGE_BITS + 2 if code >= 0 else 0 for code in stack)]
        rows = [(sample, edge, 1, before[older] - before[newer], 0) for edge, older, newer in trace.iterations]
        return rows + [(sample, edge, 0, 0, 1) for edge in trace.exits]

    def _coarsen(self) -> None:
        """Add up rows of longer intervals until they are half as many as are kept; at last drop the rarest."""
        rows = _concatenate(self._parts)
        while len(rows["edge"]) > MAX_ROWS // 2 and self._interval_ns < MAX_INTERVAL_NS:
            self._interval_ns = max(FIRST_INTERVAL_NS, self._interval_ns * 2)
            rows = _group(rows, self._interval_ns)
        if len(rows["edge"]) > MAX_ROWS // 2:
            order = np.argsort(-rows["count"], kind="stable")
            kept, rare = np.sort(order[: MAX_ROWS // 2]), order[MAX_ROWS // 2 :]
            self._source.lose(RARE_BRANCH, f"{len(rare):,} rows", int(rows["count"][rare].sum()))
            rows = {name: values[kept] for name, values in rows.items()}
        self._parts, self._rows = [rows], len(rows["edge"])


def _concatenate(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _group(rows: Columns, interval_ns: int) -> Columns:
    """The sums by interval (0: by time), thread, event and edge, in order of time. time_ns: of the first one."""
    interval = rows["time_ns"] // interval_ns if interval_ns else rows["time_ns"]
    order = np.lexsort((rows["time_ns"], rows["edge"], rows["event"], rows["thread"], interval))
    sorted_rows = {name: values[order] for name, values in (rows | {"interval": interval}).items()}
    summed = _sum_equal(sorted_rows, ("interval", "thread", "event", "edge"))
    del summed["interval"]
    return summed


def _sum_equal(rows: Columns, keys: Sequence[str]) -> Columns:
    """The sums of neighbors with equal keys; the first one's other values."""
    if not len(rows["edge"]):
        return rows
    first = np.ones(len(rows["edge"]), bool)
    first[1:] = np.logical_or.reduce([rows[key][1:] != rows[key][:-1] for key in keys])
    starts = np.flatnonzero(first)
    return {name: np.add.reduceat(values, starts) if name in SUMS else values[starts] for name, values in rows.items()}


def _list_places(end: str, places: Sequence[BranchPlace]) -> dict[str, list[int | None]]:
    return {
        f"{end}_offset": [place.offset for place in places],
        f"{end}_address": [place.address for place in places],
    }


def _make_table(
    name: str, columns: Mapping[str, Array | Sequence[object]], unknown: Mapping[str, Array | None] | None = None
) -> pa.Table:
    """unknown: which values of a column are not known."""
    arrays = [
        pa.array(columns[field.name], type=field.type, mask=(unknown or {}).get(field.name)) for field in SCHEMAS[name]
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMAS[name])
