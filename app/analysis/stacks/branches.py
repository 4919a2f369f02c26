"""Branch stacks (LBR): the branches that were taken, and the loops that they close.

A branch stack has the last branches that a CPU took before a sample, the newest first: 8 to 32 entries of branches that
were taken, those that were not taken are missing. Every entry counts once, whatever the period of its sample is.
After Andi Kleen, "An introduction to last branch records" and "Advanced usage of last branch records" (LWN, 2016), and
the LBR chapter of the Intel Software Developer's Manual, volume 3B: the cycles of an entry are those since the entry
before it. The cycles of an iteration are measured from one entry of a backward branch to the next, as Denis Bakhvalov
describes in "Precise timing of machine code with Linux perf" (easyperf.net, 2019).

After a backward branch, a branch stack shows the next iteration, that the loop was left, or neither because it ends.
Of the first two, e are exits and i iterations: so the share e / (i + e) of backward branches is the last of its run, a
run has (i + e) / e of them on average, and one iteration more. The end of the branch stack takes about as many of both.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, Float64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column, take_values
from ..core.common_columns import EVENT
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.sample_selection import event_names, select_events, select_threads, sum_by_index
from ..core.schema import Column, Table, TableRows, build_rows, concatenate_rows, memoize_table, table_function

_PLACE = "0x… is the address (with brstackoff: the offset in the module) if the text has no symbols."
_SHARE = "count in percent of all selected branches of this event."
_MISPREDICTED = "Share of the entries that the CPU had mispredicted, of those of which it says so."
BRANCH_COLUMNS = (
    EVENT,
    Column("source", "", f"Function that contains the branch. {_PLACE}"),
    Column("source_offset", "bytes", "Offset of the branch in that function, if known.", "Int64"),
    Column("source_module", "", "Program or library of that function, as named in the recording."),
    Column("target", "", f"Function to which it leads. {_PLACE}"),
    Column("target_offset", "bytes", "Offset of the target in that function, if known.", "Int64"),
    Column("target_module", "", "Program or library of that function, as named in the recording."),
    Column("type", "", "Type of the branch as named by perf (COND, CALL, RET …), if recorded."),
    Column("count", "", "Entries of branch stacks with this branch.", "int64"),
    Column("percent", "%", _SHARE, "float64"),
    Column("mispredicted_percent", "%", _MISPREDICTED, "Float64"),
    Column(
        "mean_cycles",
        "cycles",
        "Mean of the cycles since the branch before it: of the code from there to this branch. Missing if the CPU does "
        "not record cycles.",
        "Float64",
    ),
)
LOOP_COLUMNS = (
    EVENT,
    Column("function", "", "Function that contains the loop."),
    Column("module", "", "Program or library of the function, as named in the recording."),
    Column("start_offset", "bytes", "Offset of the first instruction: the target of the backward branch.", "Int64"),
    Column("end_offset", "bytes", "Offset of the backward branch, the last instruction.", "Int64"),
    Column("type", "", "Type of the branch as named by perf (COND, UNCOND …), if recorded."),
    Column("count", "", "Entries of branch stacks with the backward branch.", "int64"),
    Column("percent", "%", _SHARE, "float64"),
    Column(
        "iterations",
        "",
        "Estimated iterations each time that the loop was entered and not left in its first iteration: 2 + "
        "measured_iterations ÷ exits. Missing if no branch stack shows that the loop was left: it runs longer than "
        "they reach.",
        "Float64",
    ),
    Column("exits", "", "How often branch stacks show that the loop was left after the branch.", "int64"),
    Column(
        "cycles_per_iteration",
        "cycles",
        "Mean cycles from one run of the backward branch to the next, functions that it calls included. Missing if the "
        "CPU does not record cycles, or no branch stack has a complete iteration.",
        "Float64",
    ),
    Column("measured_iterations", "", "Complete iterations in branch stacks: branch to branch.", "int64"),
    Column("mispredicted_percent", "%", _MISPREDICTED, "Float64"),
)
_SUMS = ("count", "mispredicted", "predicted", "cycles", "iterations", "iteration_cycles", "exits")


@dataclass(frozen=True, eq=False)
class BranchSums:
    """The selected branches of an event with any entry, the most frequent first. edge: rows of `branch_edges`. The
    others, int64: see the table `branches`. timed, timed_iterations: entries and iterations whose cycles are known.
    whole: all entries."""

    edge: Array
    count: Array
    mispredicted: Array
    predicted: Array
    cycles: Array
    iterations: Array
    iteration_cycles: Array
    exits: Array
    timed: Array
    timed_iterations: Array
    whole: int


def has_branches(profile: Profile) -> bool:
    """Whether branch stacks were recorded."""
    return bool(profile.branches.num_rows)


def longest_interval_ns(profile: Profile) -> int:
    """The greatest length of time (ns) within which branches were added up; 0: those of each sample are separate."""
    interval = get_column(profile.branches, "interval_ns")
    return int(interval.max()) if len(interval) else 0


def select_branches(profile: Profile, selection: Selection) -> Array:
    """Which rows of `branches` are selected, as bools: by event, threads, ranks and time. A row is at the time of its
    first sample. Patterns concern call stacks, and do not apply."""
    table = profile.branches
    kept = np.ones(table.num_rows, bool)
    if selection.event is not None:
        kept &= np.isin(get_column(table, "event"), select_events(profile, selection))
    threads = select_threads(profile, selection)
    if threads is not None:
        kept &= threads[get_column(table, "thread")]
    time_ns = get_column(table, "time_ns")
    if selection.start_ns is not None:
        kept &= time_ns >= selection.start_ns
    if selection.end_ns is not None:
        kept &= time_ns < selection.end_ns
    return kept


def sum_branches(profile: Profile, selection: Selection, event: int) -> BranchSums:
    """The selected branches of an event."""
    chosen = selection.only_places().replace(
        event=event_names(profile)[event], start_ns=selection.start_ns, end_ns=selection.end_ns
    )
    return memoize(profile, ("branches", chosen), lambda: _sum(profile, chosen))


def _sum(profile: Profile, selection: Selection) -> BranchSums:
    table, size = profile.branches, profile.branch_edges.num_rows
    rows = np.flatnonzero(select_branches(profile, selection))
    edge = get_column(table, "edge")[rows]
    columns = {name: np.nan_to_num(get_column(table, name)[rows]).astype(np.int64) for name in _SUMS}
    is_timed = ~table.column("cycles").is_null().to_numpy()[rows]
    columns["timed"] = columns["count"] * is_timed
    columns["timed_iterations"] = columns["iterations"] * is_timed
    sums = {name: sum_by_index(edge, values, size) for name, values in columns.items()}
    shown = np.flatnonzero(sums["count"])
    order = shown[np.lexsort((shown, -sums["count"][shown]))]
    return BranchSums(
        edge=order, whole=int(sums["count"].sum()), **{name: values[order] for name, values in sums.items()}
    )


@table_function
def compute_branches(profile: Profile, selection: Selection) -> TableRows:
    """One row for each event and branch, the most frequent first."""
    return memoize_table("branches", profile, selection, lambda: _join(profile, selection, BRANCH_COLUMNS, _branches))


@table_function
def compute_loops(profile: Profile, selection: Selection) -> TableRows:
    """One row for each event and backward branch within a function, the most frequent first."""
    return memoize_table("loops", profile, selection, lambda: _join(profile, selection, LOOP_COLUMNS, _loops))


def _join(profile: Profile, selection: Selection, columns: tuple[Column, ...], build: Any) -> TableRows:
    events = select_events(profile, selection) if has_branches(profile) else []
    names = event_names(profile)
    parts = []
    for event in events:
        values = build(profile, sum_branches(profile, selection, event))
        parts.append(build_rows(columns, {"event": [names[event]] * len(values["count"])} | values))
    return concatenate_rows(columns, parts) if parts else build_rows(columns, {c.name: [] for c in columns})


def _branches(profile: Profile, sums: BranchSums) -> dict[str, Any]:
    edges = profile.branch_edges
    values: dict[str, Any] = {"type": take_values(edges, "kind", sums.edge), "count": sums.count}
    for end in ("source", "target"):
        function = get_column(edges, end)[sums.edge]
        values[end] = _name_places(profile, function, take_values(edges, f"{end}_address", sums.edge))
        values[f"{end}_offset"] = [_limit(offset) for offset in take_values(edges, f"{end}_offset", sums.edge)]
        values[f"{end}_module"] = functions_of(profile).modules_of(function)
    return values | {
        "percent": _divide(100.0 * sums.count, np.full(len(sums.count), sums.whole)),
        "mispredicted_percent": _mispredicted(sums),
        "mean_cycles": _divide(sums.cycles, sums.timed),
    }


def _loops(profile: Profile, sums: BranchSums) -> dict[str, Any]:
    edges = profile.branch_edges
    rows = np.flatnonzero(get_column(edges, "is_loop").astype(bool)[sums.edge])
    edge, count, exits = sums.edge[rows], sums.count[rows], sums.exits[rows]
    function = get_column(edges, "source")[edge]
    return {
        "function": functions_of(profile).names_of(function),
        "module": functions_of(profile).modules_of(function),
        "start_offset": [_limit(offset) for offset in take_values(edges, "target_offset", edge)],
        "end_offset": [_limit(offset) for offset in take_values(edges, "source_offset", edge)],
        "type": take_values(edges, "kind", edge),
        "count": count,
        "percent": _divide(100.0 * count, np.full(len(count), sums.whole)),
        "iterations": 2 + _divide(sums.iterations[rows], exits),
        "exits": exits,
        "cycles_per_iteration": _divide(sums.iteration_cycles[rows], sums.timed_iterations[rows]),
        "measured_iterations": sums.iterations[rows],
        "mispredicted_percent": _mispredicted(sums)[rows],
    }


def _name_places(profile: Profile, function: Array, addresses: list[int | None]) -> list[str]:
    names = functions_of(profile).names_of(function)
    return [name if address is None else f"0x{address:x}" for name, address in zip(names, addresses, strict=True)]


def _limit(offset: int | None) -> int | None:
    return offset if offset is None or offset < 1 << 63 else None


def _mispredicted(sums: BranchSums) -> Float64Array:
    return _divide(100.0 * sums.mispredicted, sums.mispredicted + sums.predicted)


def _divide(part: Array, whole: Array) -> Float64Array:
    """NaN where `whole` is 0."""
    ratio: Float64Array = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole != 0)
    return ratio


TABLES = (
    Table("branches", "Branches", BRANCH_COLUMNS, compute_branches),
    Table("loops", "Loops", LOOP_COLUMNS, compute_loops),
)
"""The tables of this module."""
