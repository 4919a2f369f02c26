"""What the host did for a rank at each moment, as one line of time: of its threads, the one that mattered.

A training loop hands on from thread to thread (the backward pass runs on a thread of autograd while the main thread
waits), so no single thread shows the activity of the host. At each moment the line shows the thread that is in an
operator or a call of the runtime, the one that takes the steps before all others; where none is, what the step's
thread does (Python code, annotations), then what any other does.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import HOST_TIME, NO_ID, FrameKind, get_column
from ..core.intervals import TIME_LIMIT_NS
from ..core.memo import memoize
from ..core.sample_selection import event_names, samples_of, threads_of

WORK_KINDS = (FrameKind.OPERATOR, FrameKind.RUNTIME)
_Line = tuple[Array, Array, Array]
"""start, end, row."""


@dataclass(frozen=True, eq=False)
class HostTimeline:
    """Stretches of time that follow one another, from -EDGE to EDGE ns. thread, call (a node of `calls`): what the host
    was in, both -1 where it was in nothing."""

    start: Array
    thread: Array
    call: Array

    @property
    def end(self) -> Array:
        return np.append(self.start[1:], TIME_LIMIT_NS)

    def clip(self, start: Array, end: Array) -> tuple[Array, Array, Array, Array]:
        """(window, start, end, row of the line) of all parts of windows, none of which is empty."""
        return _intersect(start, end, self.start, self.end)


UNKNOWN_TIMELINE = HostTimeline(np.array([-TIME_LIMIT_NS]), np.array([NO_ID]), np.array([NO_ID]))
"""Of a rank of which nothing is known on the host."""


def host_timelines(profile: Profile) -> dict[int, HostTimeline]:
    """The line of each rank (-1: none) of which anything is known on the host; built once."""
    return memoize(profile, "host lines", lambda: _build(profile))


def _build(profile: Profile) -> dict[int, HostTimeline]:
    names = event_names(profile)
    if HOST_TIME not in names:
        return {}
    samples = samples_of(profile)
    rows = np.flatnonzero((samples.event == names.index(HOST_TIME)) & (samples.weight > 0))
    thread, call = samples.thread[rows], samples.call[samples.stack[rows]]
    start = samples.time_ns[rows]
    end = start + samples.weight[rows]
    ranks = threads_of(profile).rank
    at_work = np.isin(get_column(profile.calls, "kind"), WORK_KINDS)[call]
    stepping = np.zeros(len(ranks), bool)
    stepping[get_column(profile.steps, "thread")] = True
    # They are many: each array is let go as soon as may be.
    layer = (np.where(at_work, np.int32(0), np.int32(2)) + ~stepping[thread]) * np.int32(len(ranks)) + thread
    del at_work
    order = np.argsort(layer, kind="stable").astype(np.int32)
    begins = np.flatnonzero(np.diff(layer[order], prepend=NO_ID))
    del layer
    lines: dict[int, _Line] = {}
    # Stretches of one thread do not overlap, so each layer is free of overlaps. The layers come in order.
    for part in np.split(order, begins[1:]) if len(order) else []:
        rank = int(ranks[thread[part[0]]])
        line = (start[part], end[part], part)
        lines[rank] = _fill_gaps(lines.pop(rank), line) if rank in lines else line
    return {rank: _with_idle_intervals(lines[rank], thread, call) for rank in sorted(lines)}


def _fill_gaps(line: _Line, layer: _Line) -> _Line:
    """A line with what of a layer is not covered by it."""
    gap_start, gap_end = np.concatenate(([-TIME_LIMIT_NS], line[1])), np.concatenate((line[0], [TIME_LIMIT_NS]))
    which, start, end, _ = _intersect(layer[0], layer[1], gap_start, gap_end)
    del gap_start, gap_end
    row = layer[2][which]
    del which, layer
    starts = np.concatenate((line[0], start))
    order = np.argsort(starts, kind="stable").astype(np.int32)
    starts = starts[order]
    return starts, np.concatenate((line[1], end))[order], np.concatenate((line[2], row))[order]


def _with_idle_intervals(line: _Line, thread: Array, call: Array) -> HostTimeline:
    """The line with stretches of nothing between its own."""
    start, end, row = line
    begins = np.concatenate(([-TIME_LIMIT_NS], end))
    empty = begins < np.concatenate((start, [TIME_LIMIT_NS]))
    starts = np.concatenate((start, begins[empty]))
    order = np.argsort(starts, kind="stable")
    nothing = np.full(int(empty.sum()), NO_ID)
    return HostTimeline(
        starts[order],
        np.concatenate((thread[row], nothing))[order],
        np.concatenate((call[row], nothing))[order],
    )


def _intersect(start: Array, end: Array, other_start: Array, other_end: Array) -> tuple[Array, Array, Array, Array]:
    """(place, start, end, other place) of all that intervals have in common with others, which are ascending and do
    not overlap; nothing of no length."""
    first = np.searchsorted(other_end, start, "right")
    counts = np.maximum(np.searchsorted(other_start, end, "left") - first, 0)
    place = np.repeat(np.arange(len(start)), counts)
    other = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    low, high = np.maximum(start[place], other_start[other]), np.minimum(end[place], other_end[other])
    some = high > low
    return place[some], low[some], high[some], other[some]
