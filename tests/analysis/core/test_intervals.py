"""Sets of time against sets of numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.core import intervals
from perfloom.analysis.core.intervals import IntervalSet, merge_intervals, union_intervals

ROWS = st.lists(st.tuples(st.integers(-20, 60), st.integers(-3, 25)), max_size=12)


def points(rows: list[tuple[int, int]]) -> set[int]:
    return {point for start, length in rows for point in range(start, start + max(0, length))}


def made(rows: list[tuple[int, int]]) -> IntervalSet:
    start = np.array([start for start, _ in rows], np.int64)
    return merge_intervals(start, start + np.array([length for _, length in rows], np.int64))


@given(ROWS, ROWS, st.integers(-30, 70), st.integers(-5, 60), st.booleans())
def test_they_are_the_sets_of_their_points(
    one: list[tuple[int, int]], other: list[tuple[int, int]], start: int, length: int, runs: bool
) -> None:
    before = intervals.MAX_JOINED_RUNS
    intervals.MAX_JOINED_RUNS = before if runs else 0
    try:
        first, second = made(one), made(other)
    finally:
        intervals.MAX_JOINED_RUNS = before
    both = union_intervals(first, second)
    window = set(range(start, start + length))
    for found, wanted in ((first, points(one)), (second, points(other)), (both, points(one) | points(other))):
        assert found.length == len(wanted)
        assert {point for s, e in zip(found.start, found.end, strict=True) for point in range(s, e)} == wanted
        assert (found.end > found.start).all() and (found.start[1:] > found.end[:-1]).all()
        assert found.length_within(np.array([start]), np.array([start + length])).tolist() == [len(wanted & window)]
