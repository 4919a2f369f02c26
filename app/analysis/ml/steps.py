"""Steps of training or inference: start, end, and how their wall time was spent.

Definitions are those of torch-tb-profiler (event_parser.py and overall_parser.py of its last revision), so that
numbers can be compared; where they are misleading, another column has the exact value. docs/metrics.md has the reasons.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, IndexArray
from ...domain.arrow import functions as pc
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_column, get_strings
from ...domain.units import NS_PER_MS, NS_PER_US
from ..core.common_columns import RANK
from ..core.intervals import TIME_LIMIT_NS
from ..core.memo import memoize
from ..core.sample_selection import match_places, select_threads, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, slices_of
from ..core.windows import resolve_step
from .roles import STEP_PREFIX, RankTime, Role, rank_times
from .tokens import TokenRate, step_tokens, token_rates, tokens_per_second

ALL_STEP = "(all)"
"""The name of the one step of a recording without steps."""
MIN_COMPLETE_SHARE = 0.8
"""A last step with less than this share of the device work of the one before is not complete."""

STEPS = (
    Column("step", "", "Name of the step: the number after ProfilerStep#, or (all) without steps."),
    Column("kernel_us", "µs", "A kernel ran on a device.", "float64"),
    Column("memcpy_us", "µs", "No kernel ran, but something was copied from or to a device.", "float64"),
    Column("memset_us", "µs", "None of these, but memory of a device was set.", "float64"),
    Column("communication_us", "µs", "None of these, but the host was in a collective call.", "float64"),
    Column("runtime_us", "µs", "None of these, but the host was in a runtime call of the device.", "float64"),
    Column("dataloader_us", "µs", "None of these, but the host waited for a batch of a DataLoader.", "float64"),
    Column("cpu_exec_us", "µs", "None of these, but the host was in an operator or annotation.", "float64"),
    Column("other_us", "µs", "None of these.", "float64"),
    Column("total_us", "µs", "Duration on host and devices: the sum of all these.", "float64"),
    RANK,
    Column("idle_us", "µs", "No device worked; missing if none did in the whole recording.", "Float64"),
    Column(
        "communication_kernel_us",
        "µs",
        "Part of kernel_us in which only kernels of a communication library ran (NCCL, RCCL).",
        "float64",
    ),
    Column("start_ms", "ms", "Start, from the start of the profile.", "float64"),
    Column("device_work", "", "Number of kernels, memcpy and memset that it launched.", "int64"),
    Column("tokens", "", "For a language model: number of evaluated tokens, if known.", "Int64"),
    Column("tokens_per_s", "", "tokens ÷ total_us, per second.", "Float64"),
)


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps, in order of rank and time. rank: -1 none. name: without ProfilerStep#. start_ns, end_ns: with the device
    work that each launched; those of one rank do not overlap. host_start_ns, host_end_ns: as recorded. work:
    number of launches. complete: False for the last steps of a rank if the profiler missed device work."""

    rank: Array
    name: tuple[str, ...]
    start_ns: Array
    end_ns: Array
    host_start_ns: Array
    host_end_ns: Array
    work: Array
    complete: Array

    def __len__(self) -> int:
        return len(self.name)


@table_function
def compute_steps(profile: Profile, selection: Selection) -> TableRows:
    """One row for each step, in order of rank and time, clipped by the window. The last steps of a rank are
    omitted if the profiler missed device work, as in torch-tb-profiler, unless they are selected by name."""
    steps = steps_of(profile)
    rows = select_steps(profile, selection)
    start, end = clip_steps(steps, rows, selection)
    spent, idle = np.zeros((len(rows), len(Role)), np.int64), np.full(len(rows), np.nan)
    communicating = np.zeros(len(rows), np.int64)
    for time in rank_times(profile):
        mine = np.flatnonzero(steps.rank[rows] == time.rank)
        reached = np.array([one.length_within(start[mine], end[mine]) for one in time.exclusive])
        spent[mine] = np.diff(reached, axis=0, prepend=0).T
        communicating[mine] = reached[0] - time.computing.length_within(start[mine], end[mine])
        if len(time.device):
            idle[mine] = end[mine] - start[mine] - time.device.length_within(start[mine], end[mine])
    total = end - start
    tokens = _tokens(profile)[rows]
    return build_rows(
        STEPS,
        {
            "step": [steps.name[row] for row in rows.tolist()],
            **{f"{role.name.lower()}_us": spent[:, role] / NS_PER_US for role in Role},
            "other_us": (total - spent.sum(axis=1)) / NS_PER_US,
            "total_us": total / NS_PER_US,
            "rank": rank_column(steps.rank[rows]),
            "idle_us": nullable_column(idle / NS_PER_US),
            "communication_kernel_us": communicating / NS_PER_US,
            "start_ms": start / NS_PER_MS,
            "device_work": steps.work[rows],
            "tokens": nullable_column(tokens),
            "tokens_per_s": nullable_column(tokens_per_second(tokens, total)),
        },
    )


def sum_token_rates(profile: Profile, selection: Selection) -> dict[str, TokenRate]:
    """Tokens of the selected steps, by `prefill` and `decode`; empty if steps are not evaluations of a model."""
    if not profile.steps.num_rows:
        return {}
    known, rows = steps_of(profile), select_steps(profile, selection)
    return token_rates(
        [known.name[row] for row in rows.tolist()], *clip_steps(known, rows, selection), _tokens(profile)[rows]
    )


def _tokens(profile: Profile) -> Array:
    steps = steps_of(profile)
    return memoize(profile, "tokens of steps", lambda: step_tokens(profile, steps.name, steps.start_ns))


def rank_column(rank: Array) -> list[int | None]:
    """Ranks as values of a column of a table."""
    return [None if one < 0 else one for one in rank.tolist()]


def nullable_column(values: Array) -> list[float | None]:
    """Floats as values of a column of a table, NaN as missing."""
    return [None if value != value else value for value in values.tolist()]


def steps_of(profile: Profile) -> Steps:
    """The steps of a profile, complete or not; a rank without any has one step with all of its operators."""
    return memoize(profile, "steps", lambda: _build(profile), pin=True)


def select_steps(profile: Profile, selection: Selection) -> Array:
    """The rows of `steps_of` that are selected: of the ranks, in the window, of the name. Raises InvalidRequest."""
    steps = steps_of(profile)
    select_threads(profile, selection)
    chosen = steps.complete.copy()
    if selection.step is not None:
        wanted = resolve_step(profile, selection.step).removeprefix(STEP_PREFIX)
        chosen = np.array([name == wanted for name in steps.name], bool)
    chosen &= match_places(profile, selection, steps.rank)
    low, high = window_bounds(selection)
    chosen &= (steps.start_ns < high) & (steps.end_ns > low)
    rows: IndexArray = np.flatnonzero(chosen)
    return rows


def window_bounds(selection: Selection) -> tuple[int, int]:
    """The window of time of a selection, in ns."""
    return (
        -TIME_LIMIT_NS if selection.start_ns is None else selection.start_ns,
        TIME_LIMIT_NS if selection.end_ns is None else selection.end_ns,
    )


def clip_steps(steps: Steps, rows: Array, selection: Selection) -> tuple[Array, Array]:
    """Start and end of the observed time of each of these steps."""
    low, high = window_bounds(selection)
    return np.maximum(steps.start_ns[rows], low), np.minimum(steps.end_ns[rows], high)


def observed_windows(profile: Profile, selection: Selection) -> dict[int, tuple[Array, Array]]:
    """For each rank the selected part of the time windows (start, end) in which it was observed: from its first step to
    its last, split where the recording paused for longer than the adjacent steps."""
    known, rows = steps_of(profile), select_steps(profile, selection)
    start, end = clip_steps(known, rows, selection)
    found = {}
    for rank in np.unique(known.rank[rows]).tolist():
        mine = np.flatnonzero(known.rank[rows] == rank)
        begin, finish = start[mine], end[mine]
        length = finish - begin
        pause = begin[1:] - finish[:-1] > np.maximum(length[1:], length[:-1])
        found[rank] = begin[np.append(True, pause)], finish[np.append(pause, True)]
    return found


def _build(profile: Profile) -> Steps:
    table, times = profile.steps, rank_times(profile)
    rank = pc.fill_null(table.column("rank"), NO_ID).to_numpy().astype(np.int64)
    name = [text.removeprefix(STEP_PREFIX) for text in get_strings(table, "name")]
    start, end = get_column(table, "start_ns"), get_column(table, "end_ns")
    whole = [(time, _all_of(profile, time)) for time in times if not (rank == time.rank).any()]
    rank = np.append(rank, [time.rank for time, _ in whole]).astype(np.int64)
    name += [ALL_STEP for _ in whole]
    start = np.append(start, [first for _, (first, _) in whole]).astype(np.int64)
    end = np.append(end, [last for _, (_, last) in whole]).astype(np.int64)
    order = np.lexsort((start, rank))
    rank, start, end = rank[order], start[order], end[order]
    steps = Steps(
        rank=rank,
        name=tuple(name[row] for row in order.tolist()),
        start_ns=start.copy(),
        end_ns=end.copy(),
        host_start_ns=start,
        host_end_ns=end,
        work=np.zeros(len(order), np.int64),
        complete=np.ones(len(order), bool),
    )
    _add_device_work(profile, steps)
    return steps


def _all_of(profile: Profile, time: RankTime) -> tuple[int, int]:
    """From the first to the last operator of a rank; without operators, of its other slices."""
    slices = slices_of(profile)
    rows = np.flatnonzero(slices.is_kind("operator") & (threads_of(profile).rank == time.rank)[slices.thread])
    if len(rows):
        return int(slices.start[rows].min()), int((slices.start[rows] + slices.duration[rows]).max())
    ends = [one for one in (time.exclusive[-1], time.device) if len(one)]
    return (int(ends[0].start[0]), int(ends[0].end[-1])) if ends else (0, 0)


def _add_device_work(profile: Profile, steps: Steps) -> None:
    """Extend each step until its device work is done, and start it after the work of the previous step; find incomplete
    last steps. Fills the arrays of `steps`."""
    slices, work = slices_of(profile), device_work_of(profile)
    if not len(work):
        return
    ranks, work_end = threads_of(profile).rank[work.thread], work.start + work.duration
    called = slices.start[np.maximum(work.launch, 0)]
    returned = called + slices.duration[np.maximum(work.launch, 0)]
    for rank in np.unique(steps.rank).tolist():
        first, last = (int(at) for at in np.searchsorted(steps.rank, [rank, rank + 1]))
        rows = np.flatnonzero(ranks == rank)
        step = np.searchsorted(steps.host_start_ns[first:last], called[rows], "right") - 1
        inside = (step >= 0) & (work.launch[rows] >= 0) & (returned[rows] <= steps.host_end_ns[first:last][step])
        if not inside.any():
            continue
        done = np.full(last - first, -TIME_LIMIT_NS)
        np.maximum.at(done, step[inside], work_end[rows][inside])
        steps.work[first:last] = np.bincount(step[inside], minlength=last - first)
        before = int(steps.host_start_ns[first])
        if steps.work[first]:
            # Work that ran before that of the first step, launched before it, is not part of it.
            of_first = int(work.start[rows][inside][step[inside] == 0].min())
            outside = work_end[rows][~inside]
            before = max(before, int(outside[outside < of_first].max(initial=-TIME_LIMIT_NS)))
        for row in range(first, last):
            steps.start_ns[row] = max(before, int(steps.host_start_ns[row]))
            steps.end_ns[row] = before = max(
                int(steps.host_end_ns[row]), int(done[row - first]), int(steps.start_ns[row])
            )
        _mark_incomplete(steps, first, last)


def _mark_incomplete(steps: Steps, first: int, last: int) -> None:
    kept = first + int(np.flatnonzero(steps.work[first:last])[-1]) + 1
    if kept - first > 1 and steps.work[kept - 2] * MIN_COMPLETE_SHARE > steps.work[kept - 1]:
        kept -= 1
    steps.complete[kept:last] = False


TABLES = (Table("steps", "Steps", STEPS, compute_steps),)
"""The tables of this module."""
