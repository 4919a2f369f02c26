"""Interval sets: the union of intervals, and how much of it is in time windows.

Times are int64 ns, intervals are half open: [start, end). Operations take one sort and running maxima: milliseconds
for millions of intervals.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...domain.arrays import Array

TIME_LIMIT_NS = 1 << 62
"""Greater than the absolute value of any time of a profile."""
MAX_JOINED_RUNS = 1_000
"""If there are more ascending runs, they are not merged separately before all intervals are sorted."""


@dataclass(frozen=True, eq=False)
class IntervalSet:
    """An interval set: ascending, disjoint intervals, none of them empty."""

    start: Array
    end: Array

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def _before(self) -> Array:
        """The covered time before each interval, then the total, in ns."""
        return np.concatenate(([0], np.cumsum(self.end - self.start)))

    @property
    def length(self) -> int:
        """The covered time, in ns."""
        return int(self._before[-1])

    def length_until(self, time: Array) -> Array:
        """The covered time before each of these times, in ns."""
        after = np.searchsorted(self.start, time, "left")
        covered: Array = self._before[after]
        if len(self):
            # Subtract the part of the open interval after the time.
            covered = covered - np.where(after > 0, np.maximum(self.end[after - 1] - time, 0), 0)
        return covered

    def length_within(self, start: Array, end: Array) -> Array:
        """The covered time in each window [start, end), in ns."""
        return self.length_until(np.maximum(end, start)) - self.length_until(start)

    def gaps(self) -> "IntervalSet":
        """The gaps between the first and the last interval."""
        return IntervalSet(self.end[:-1], self.start[1:])

    def clip(self, start: int, end: int) -> "IntervalSet":
        """The part in the window [start, end)."""
        first = int(np.searchsorted(self.end, start, "right"))
        last = max(first, int(np.searchsorted(self.start, end, "left")))
        return IntervalSet(np.maximum(self.start[first:last], start), np.minimum(self.end[first:last], end))


EMPTY = IntervalSet(np.zeros(0, np.int64), np.zeros(0, np.int64))


def merge_intervals(start: Array, end: Array) -> IntervalSet:
    """The union of these intervals, in any order. Fast for long ascending runs, such as slices by thread."""
    some = end > start
    if not some.all():
        start, end = start[some], end[some]
    if not len(start):
        return EMPTY
    bounds = np.flatnonzero(start[1:] < start[:-1]) + 1
    if len(bounds):
        if len(bounds) <= MAX_JOINED_RUNS:
            start, end = _without_runs(start, end, bounds)
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return IntervalSet(*_join_touching(start, end))


def union_intervals(*covers: IntervalSet) -> IntervalSet:
    """The union of these interval sets."""
    some = [one for one in covers if len(one)]
    if len(some) < 2:
        return some[0] if some else EMPTY
    start, end = (np.concatenate(times) for times in zip(*((one.start, one.end) for one in some), strict=True))
    order = np.argsort(start, kind="stable")
    return IntervalSet(*_join_touching(start[order], end[order]))


def _without_runs(start: Array, end: Array, bounds: Array) -> tuple[Array, Array]:
    """The same set in fewer intervals: each ascending run is merged separately. bounds: where runs begin."""
    joined = [_join_touching(*run) for run in zip(np.split(start, bounds), np.split(end, bounds), strict=True)]
    first, last = (np.concatenate(times) for times in zip(*joined, strict=True))
    return first, last


def _join_touching(start: Array, end: Array) -> tuple[Array, Array]:
    """Ascending intervals, with those that touch or overlap merged."""
    reached = np.maximum.accumulate(end)
    first = np.ones(len(start), bool)
    np.greater(start[1:], reached[:-1], out=first[1:])
    last = np.ones(len(start), bool)
    last[:-1] = first[1:]
    return start[first], reached[last]
