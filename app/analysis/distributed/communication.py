"""Communication between ranks: its overlap with computation in steps, waiting times and stragglers.

The first columns of the table of steps are torch-tb-profiler's (overall_parser.py, run_generator.py, loader.py of its
last revision), so that numbers can be compared. There, a kernel is communication only if its External id is
that of one of five calls, and the calls themselves are communication: in modern traces it finds little. The other
columns count the kernels of communication libraries, as HolisticTraceAnalysis does. docs/metrics.md has both.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, IndexArray
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ...domain.units import NS_PER_US
from ..core.common_columns import RANK
from ..core.intervals import IntervalSet, merge_intervals, union_intervals
from ..core.memo import memoize
from ..core.sample_selection import match_places, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, slices_of
from ..ml.roles import RankTime, Role, communication_calls, external_ids, rank_times
from ..ml.steps import Steps, clip_steps, nullable_column, rank_column, select_steps, steps_of, window_bounds
from .collectives import Collectives, bus_factor, collectives_of
from .skew import within_skew

_WAITING = Column(
    "waiting_us",
    "µs",
    "Time in collectives until the last rank arrived; missing if ranks cannot be compared.",
    "Float64",
)
_UNCERTAIN = Column(
    "uncertain",
    "",
    "Whether the average of waiting_us per collective is shorter than the residual clock skew of the ranks; "
    "missing if one of them is unknown.",
    "boolean",
)
_TRANSFERRING = Column(
    "transferring_us",
    "µs",
    "Time in collectives after the last rank arrived; missing if ranks cannot be compared.",
    "Float64",
)
COMMUNICATION = (
    RANK,
    Column("step", "", "Name of the step."),
    Column("computation_us", "µs", "Only computation, as in torch-tb-profiler.", "float64"),
    Column("overlap_us", "µs", "Computation and communication, as in torch-tb-profiler.", "float64"),
    Column("communication_us", "µs", "Only communication, as in torch-tb-profiler.", "float64"),
    Column("other_us", "µs", "Neither, as in torch-tb-profiler.", "float64"),
    Column("transfer_us", "µs", "The part of the step's communication without waiting for another rank.", "Float64"),
    Column(
        "wait_us",
        "µs",
        "The part of the step's communication spent waiting for another rank.",
        "Float64",
    ),
    Column(
        "total_us", "µs", "Duration of the step: the sum of computation, overlap, communication and other.", "float64"
    ),
    Column("computing_us", "µs", "Only computation kernels ran.", "float64"),
    Column("both_us", "µs", "Kernels of computation and of communication libraries ran.", "float64"),
    Column("communicating_us", "µs", "Only kernels of communication libraries ran.", "float64"),
    Column("neither_us", "µs", "No kernel ran: the rest of total_us.", "float64"),
    Column("overlap_percent", "%", "both_us in percent of all communication.", "Float64"),
    _WAITING,
    _TRANSFERRING,
    Column("matched", "", "Number of its collectives that were also found on other ranks.", "int64"),
    _UNCERTAIN,
    Column("wait_uncertain", "", "As uncertain, for wait_us per call.", "boolean"),
)
COLLECTIVES = (
    Column("name", "", "Kind of collective, such as all_reduce or all_gather."),
    Column("group", "", "Process group, as named in the recording."),
    Column("size", "", "Number of ranks in the process group.", "Int64"),
    Column("dtype", "", "Element type."),
    Column("bytes", "bytes", "Size of one collective: the most that a rank sends or receives.", "Int64"),
    Column("collectives", "", "Number of collectives, each counted once for all ranks.", "int64"),
    Column("calls", "", "Number of calls on all ranks.", "int64"),
    Column("ranks", "", "Number of ranks of this result with calls.", "int64"),
    Column("total_bytes", "bytes", "bytes × collectives.", "Int64"),
    Column("total_us", "µs", "Duration of the calls on all ranks.", "float64"),
    Column("mean_us", "µs", "total_us ÷ calls: average duration of a call on one rank.", "float64"),
    Column("max_us", "µs", "The longest call.", "float64"),
    _WAITING,
    _TRANSFERRING,
    Column("matched", "", "Number of collectives that were found on several ranks.", "int64"),
    Column(
        "algorithm_gb_per_s",
        "GB/s",
        "bytes ÷ time of the transfer, or ÷ the whole time if ranks cannot be compared.",
        "Float64",
    ),
    Column(
        "bus_gb_per_s",
        "GB/s",
        "algorithm_gb_per_s times the factor of nccl-tests: the bandwidth used on the links.",
        "Float64",
    ),
    _UNCERTAIN,
)
STRAGGLERS = (
    RANK,
    Column("collectives", "", "Number of its collectives that were also found on other ranks.", "int64"),
    Column("last", "", "Number of these in which it was the last to arrive.", "int64"),
    Column("held_up_us", "µs", "Time that other ranks waited for it in these.", "float64"),
    Column("waiting_us", "µs", "Time that it waited for other ranks.", "float64"),
    Column("transferring_us", "µs", "Time that it spent in transfers.", "float64"),
    _UNCERTAIN,
    Column("held_up_uncertain", "", "As uncertain, for held_up_us per wait of another rank.", "boolean"),
)


@table_function
def compute_communication(profile: Profile, selection: Selection) -> TableRows:
    """One row for each rank and step, clipped by the window. The first four times, and computing, both, communicating
    and neither, are disjoint and add up to total_us."""
    known, rows = steps_of(profile), select_steps(profile, selection)
    start, end = clip_steps(known, rows, selection)
    total = end - start
    theirs, ours = (np.zeros((3, len(rows)), np.int64) for _ in range(2))
    for time in rank_times(profile):
        mine = np.flatnonzero(known.rank[rows] == time.rank)
        window = start[mine], end[mine]
        theirs[:, mine] = _overlap_ns(_pairs(profile, time)[0], *window)
        ours[:, mine] = _overlap_ns(_pairs(profile, time)[1], *window)
    transfer, wait, calls = (values[rows] for values in _waits(profile, known))
    collectives = collectives_of(profile)
    waiting, transferring, count = _by_step(collectives, _select_ranks(profile, collectives, rows, selection), rows)
    communicated = ours[1] + ours[2]
    with np.errstate(invalid="ignore", divide="ignore"):
        hidden = np.where(communicated > 0, 100.0 * ours[1] / communicated, np.nan)
    return build_rows(
        COMMUNICATION,
        {
            "rank": rank_column(known.rank[rows]),
            "step": [known.name[row] for row in rows.tolist()],
            **{
                name: values / NS_PER_US
                for name, values in zip(
                    ("computation_us", "overlap_us", "communication_us", "other_us"),
                    (*theirs, total - theirs.sum(axis=0)),
                    strict=True,
                )
            },
            "transfer_us": nullable_column(transfer / NS_PER_US),
            "wait_us": nullable_column(wait / NS_PER_US),
            "total_us": total / NS_PER_US,
            **{
                name: values / NS_PER_US
                for name, values in zip(
                    ("computing_us", "both_us", "communicating_us", "neither_us"),
                    (*ours, total - ours.sum(axis=0)),
                    strict=True,
                )
            },
            "overlap_percent": nullable_column(hidden),
            "waiting_us": nullable_column(waiting / NS_PER_US),
            "transferring_us": nullable_column(transferring / NS_PER_US),
            "matched": count,
            "uncertain": within_skew(profile, waiting, count),
            "wait_uncertain": within_skew(profile, wait, calls),
        },
    )


@table_function
def compute_collectives(profile: Profile, selection: Selection) -> TableRows:
    """One row for each name, group, type and size; sorted by time on all ranks, descending."""
    found, rows = _select_collectives(profile, selection)
    match, length, waiting = found.match[rows], (found.end - found.start)[rows], found.waiting_ns[rows]
    size = np.array([kind.bytes for kind in found.kinds] + [NO_ID])[found.kind[rows]]
    largest = np.full(int(match.max(initial=NO_ID)) + 2, NO_ID)
    np.maximum.at(largest, match, size)
    size = np.where(match >= 0, largest[match], size)
    alike: dict[tuple[Any, ...], int] = {}
    of_kind = [alike.setdefault((kind.name, kind.group, kind.size, kind.dtype), len(alike)) for kind in found.kinds]
    keys = np.stack((np.array([*of_kind, 0])[found.kind[rows]], size), 1)
    distinct, group = np.unique(keys, axis=0, return_inverse=True)
    names = list(alike)
    table = []
    for place, (kind, moved) in enumerate(distinct.tolist()):
        name, process_group, ranks, dtype = names[kind]
        mine = np.flatnonzero(group.ravel() == place)
        some, alone = mine[match[mine] >= 0], mine[match[mine] < 0]
        matches, first = np.unique(match[some], return_index=True)
        times = len(matches) + len(alone)
        took = int(found.transfer_ns[rows[some[first]]].sum() + length[alone].sum())
        rate = moved * times / took if moved >= 0 and took > 0 else None
        factor = bus_factor(name, ranks)
        table.append(
            {
                "name": name,
                "group": process_group or None,
                "size": ranks or None,
                "dtype": dtype or None,
                "bytes": moved if moved >= 0 else None,
                "collectives": times,
                "calls": len(mine),
                "ranks": len(np.unique(found.rank[rows[mine]])),
                "total_bytes": min(moved * times, (1 << 63) - 1) if moved >= 0 else None,
                "total_us": int(length[mine].sum()) / NS_PER_US,
                "mean_us": float(length[mine].mean()) / NS_PER_US,
                "max_us": int(length[mine].max()) / NS_PER_US,
                "waiting_us": int(waiting[some].sum()) / NS_PER_US if len(some) else None,
                "transferring_us": int((length - waiting)[some].sum()) / NS_PER_US if len(some) else None,
                "matched": len(matches),
                # Bytes per nanosecond are GB per second.
                "algorithm_gb_per_s": rate,
                "bus_gb_per_s": None if rate is None or factor is None else rate * factor,
                "uncertain": within_skew(profile, waiting[some].sum(keepdims=True), np.array([len(some)]))[0],
            }
        )
    table.sort(key=lambda row: (-row["total_us"], row["name"]))
    return build_rows(COLLECTIVES, {c.name: [row[c.name] for row in table] for c in COLLECTIVES})


@table_function
def compute_stragglers(profile: Profile, selection: Selection) -> TableRows:
    """One row per rank with collectives that were found on several ranks; the rank with the longest delays first."""
    found, rows = _select_collectives(profile, selection)
    rows = rows[found.match[rows] >= 0]
    length, waiting = (found.end - found.start)[rows], found.waiting_ns[rows]
    _, match = np.unique(found.match[rows], return_inverse=True)
    ranks, rank = np.unique(found.rank[rows], return_inverse=True)
    # The last to arrive is the one that waited least; the first of several.
    order = np.lexsort((found.start[rows] * -1, waiting, match))
    last = order[np.append(True, np.diff(match[order]) > 0)] if len(order) else order
    lost, members = np.bincount(match, waiting), np.bincount(match)
    size = len(ranks)
    held = np.bincount(rank[last], lost[match[last]] - waiting[last], size)
    waits = np.bincount(rank[last], members[match[last]] - 1, size)
    columns = {
        "collectives": np.bincount(rank, minlength=size),
        "last": np.bincount(rank[last], minlength=size),
        "held_up_us": held / NS_PER_US,
        "waiting_us": np.bincount(rank, waiting, size) / NS_PER_US,
        "transferring_us": np.bincount(rank, length - waiting, size) / NS_PER_US,
    }
    waited = columns["waiting_us"] * NS_PER_US
    uncertain = {
        "uncertain": within_skew(profile, waited, columns["collectives"]),
        "held_up_uncertain": within_skew(profile, held, waits),
    }
    by = np.lexsort((ranks, -held))
    return build_rows(
        STRAGGLERS,
        {"rank": rank_column(ranks[by])}
        | {name: values[by] for name, values in columns.items()}
        | {name: [values[place] for place in by.tolist()] for name, values in uncertain.items()},
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """Computation, communication and their union."""

    one: IntervalSet
    other: IntervalSet
    together: IntervalSet


def _pairs(profile: Profile, time: RankTime) -> tuple[_Pair, _Pair]:
    """Computation and communication of a rank as in torch-tb-profiler, and by kernels: without a device, by operators
    and calls of collectives."""

    def build() -> tuple[_Pair, _Pair]:
        # Without kernels, it counts operators as computation.
        kernels = time.roles[Role.KERNEL] if len(time.roles[Role.KERNEL]) else time.roles[Role.CPU_EXEC]
        theirs = kernels, time.roles[Role.COMMUNICATION]
        if len(time.device):
            ours = time.computation, time.communication
        else:
            collectives = collectives_of(profile)
            mine = collectives.rank == time.rank
            ours = time.roles[Role.CPU_EXEC], merge_intervals(collectives.start[mine], collectives.end[mine])
        return _Pair(*theirs, union_intervals(*theirs)), _Pair(*ours, union_intervals(*ours))

    return memoize(profile, ("computation and communication", time.rank), build)


def _overlap_ns(pair: _Pair, start: Array, end: Array) -> Array:
    """(only the one, both, only the other) in each window, in ns."""
    one, other, either = (times.length_within(start, end) for times in (pair.one, pair.other, pair.together))
    return np.stack((either - other, one + other - either, either - one))


def _select_collectives(profile: Profile, selection: Selection) -> tuple[Collectives, Array]:
    """The collectives, and which of them are selected: they begin in the window and step, on the ranks."""
    found = collectives_of(profile)
    return found, _select_ranks(profile, found, select_steps(profile, selection), selection)


def _select_ranks(profile: Profile, collectives: Collectives, rows: Array, selection: Selection) -> Array:
    low, high = window_bounds(selection)
    chosen = (collectives.start >= low) & (collectives.start < high)
    if selection.step is not None:
        chosen &= np.isin(collectives.step, rows)
    chosen &= match_places(profile, selection, collectives.rank)
    mine: IndexArray = np.flatnonzero(chosen)
    return mine


def _by_step(collectives: Collectives, mine: Array, rows: Array) -> tuple[Array, Array, Array]:
    """(waiting, transferring) in ns by step (rows of `steps_of`), NaN without matched collectives; and the number
    of matched collectives."""
    mine = mine[(collectives.match[mine] >= 0) & (collectives.step[mine] >= 0)]
    size = int(max(rows.max(initial=0), collectives.step.max(initial=0))) + 1
    length, waiting = (collectives.end - collectives.start)[mine], collectives.waiting_ns[mine]
    count = np.bincount(collectives.step[mine], minlength=size)[rows]
    sums = [np.bincount(collectives.step[mine], values, size)[rows] for values in (waiting, length - waiting)]
    first, second = (np.where(count > 0, values, np.nan) for values in sums)
    return first, second, count


def _waits(profile: Profile, steps: Steps) -> tuple[Array, Array, Array]:
    """(transfer, wait) in ns by step, as in torch-tb-profiler, NaN if ranks cannot be compared; and the number
    of calls.

    A call and its kernels on one rank are the same as those of another by their order in the step. The shortest
    duration over all ranks is the transfer, at its end; the rest is waiting.
    """

    def build() -> tuple[Array, Array, Array]:
        transfer, wait = np.full(len(steps), np.nan), np.full(len(steps), np.nan)
        count = np.zeros(len(steps), np.int64)
        ranks = set(steps.rank.tolist())
        nodes = _nodes(profile, steps) if len(ranks) > 1 else {}
        for name in nodes:
            by_step = nodes[name]
            calls = list(by_step.values())
            if {int(steps.rank[step]) for step in by_step} != ranks or len({len(call) for call in calls}) != 1:
                continue
            if any(len({len(ranges) for ranges in same}) != 1 for same in zip(*calls, strict=True)):
                continue
            joined = [np.concatenate(call) for call in calls]
            shortest = np.min([ranges[:, 1] - ranges[:, 0] for ranges in joined], axis=0)
            for step, ranges in zip(by_step, joined, strict=True):
                transfer[step] = merge_intervals(ranges[:, 1] - shortest, ranges[:, 1]).length
                wait[step] = merge_intervals(ranges[:, 0], ranges[:, 1]).length - transfer[step]
                count[step] = len(by_step[step])
        return transfer, wait, count

    return memoize(profile, "waits of communication", build)


def _nodes(profile: Profile, steps: Steps) -> dict[str, dict[int, list[Array]]]:
    """By the name of a step and its row, the times of its calls of collectives and of their kernels (by External id),
    sorted by time: its communication nodes."""
    slices, work, rank_of = slices_of(profile), device_work_of(profile), threads_of(profile).rank
    calls = communication_calls(profile)
    calls = calls[np.argsort(slices.start[calls], kind="stable")]
    by_id = np.sort(calls)
    ids = external_ids(profile, by_id)[np.searchsorted(by_id, calls)]
    kernels = work.slice[work.kind <= 1] if len(calls) else work.slice[:0]
    kernel_ids = external_ids(profile, kernels)
    hit = np.isin(kernel_ids, ids[ids > 0])
    of_id: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, number in zip(kernels[hit].tolist(), kernel_ids[hit].tolist(), strict=True):
        of_id[int(rank_of[slices.thread[row]]), number].append(row)
    node_of: dict[tuple[int, int, int], int] = {}
    for row, number in zip(calls.tolist(), ids.tolist(), strict=True):
        # The last call with an id represents all of them.
        node_of[int(rank_of[slices.thread[row]]), number, row if number < 0 else NO_ID] = row
    nodes: dict[str, dict[int, list[Array]]] = defaultdict(lambda: defaultdict(list))
    order = sorted(node_of.items(), key=lambda node: int(slices.start[node[1]]))
    for (rank, number, _), row in order:
        first, last = (int(at) for at in np.searchsorted(steps.rank, [rank, rank + 1]))
        begin, over = int(slices.start[row]), int(slices.start[row] + slices.duration[row])
        step = first + int(np.searchsorted(steps.start_ns[first:last], begin, "right")) - 1
        if step < first or over > steps.end_ns[step] or not steps.complete[step]:
            continue
        rows = np.array([row, *of_id.get((rank, number), ())])
        ranges = np.stack((slices.start[rows], slices.start[rows] + slices.duration[rows]), 1)
        nodes[steps.name[step]][step].append(ranges[np.lexsort((-ranges[:, 1], ranges[:, 0]))])
    return nodes


TABLES = (
    Table("communication", "Communication", COMMUNICATION, compute_communication),
    Table("collectives", "Collectives", COLLECTIVES, compute_collectives),
    Table("stragglers", "Stragglers", STRAGGLERS, compute_stragglers),
)
"""The tables of this module."""
