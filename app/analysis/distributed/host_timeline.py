"""The activity of the host for each rank as one timeline: at each time that of the most relevant thread.

A training loop switches between threads (the backward pass runs on an autograd thread while the main thread waits), so
no single thread shows the activity of the host. The timeline shows the thread that is in an operator or runtime call,
by priority the thread with the steps; else the activity of the thread with the steps (Python code, annotations), then
that of any other.
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
    """Consecutive intervals, from -EDGE to EDGE ns. thread, call (a node of `calls`): the activity of the host, both -1
    if idle."""

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
"""For a rank without host activity."""


def host_timelines(profile: Profile) -> dict[int, HostTimeline]:
    """The timeline of each rank (-1: none) with host activity; built once."""
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
    # The arrays are large: free each as soon as possible.
    layer = (np.where(at_work, np.int32(0), np.int32(2)) + ~stepping[thread]) * np.int32(len(ranks)) + thread
    del at_work
    order = np.argsort(layer, kind="stable").astype(np.int32)
    begins = np.flatnonzero(np.diff(layer[order], prepend=NO_ID))
    del layer
    lines: dict[int, _Line] = {}
    # Intervals of one thread do not overlap, so neither does a layer. Layers are ordered by priority.
    for part in np.split(order, begins[1:]) if len(order) else []:
        rank = int(ranks[thread[part[0]]])
        line = (start[part], end[part], part)
        lines[rank] = _fill_gaps(lines.pop(rank), line) if rank in lines else line
    return {rank: _with_idle_intervals(lines[rank], thread, call) for rank in sorted(lines)}


def _fill_gaps(line: _Line, layer: _Line) -> _Line:
    """A line, with the parts of a layer that it does not cover."""
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
    """The line with idle intervals in its gaps."""
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
    """(index, start, end, other index) of all nonempty intersections of intervals with others, which are ascending and
    do not overlap."""
    first = np.searchsorted(other_end, start, "right")
    counts = np.maximum(np.searchsorted(other_start, end, "left") - first, 0)
    place = np.repeat(np.arange(len(start)), counts)
    other = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    low, high = np.maximum(start[place], other_start[other]), np.minimum(end[place], other_end[other])
    some = high > low
    return place[some], low[some], high[some], other[some]
