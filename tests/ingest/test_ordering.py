"""Samples of many files in order of time, compared with sorting."""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.chunked_tables import SpillFile
from perfloom.ingest.jit.sample_merge import STEP, SampleRun, merge_runs


def put(spill: SpillFile, run: int, time_ns: list[int]) -> SampleRun:
    """A run whose threads are its own number, and whose weights are the row numbers."""
    rows = np.arange(len(time_ns))
    columns = dict.fromkeys(("weight", "cpu", "event", "stack"), rows) | {"thread": np.full(len(rows), run)}
    return SampleRun(spill, {"time_ns": np.array(time_ns, np.int64)} | columns)


def check(times: list[list[int]], offsets: list[int], stretch: int) -> list[int]:
    """Compare with sorting; returns the lengths of the chunks."""
    spill = SpillFile(io.BytesIO())
    runs = [put(spill, run, one) for run, one in enumerate(times)]
    wanted = sorted(
        (time + offset, run, row)
        for run, (one, offset) in enumerate(zip(times, offsets, strict=True))
        for row, time in enumerate(one)
    )
    found: list[tuple[int, int, int]] = []
    sizes = []
    for rows in merge_runs(runs, offsets, stretch):
        sizes.append(len(rows))
        found += zip(*(rows[name].tolist() for name in ("time_ns", "thread", "weight")), strict=True)
    assert found == wanted
    return sizes


@given(st.lists(st.lists(st.integers(0, 30), max_size=40).map(sorted), max_size=5), st.data())
def test_small_files(times: list[list[int]], data: st.DataObject) -> None:
    check(times, [data.draw(st.integers(-20, 20)) for _ in times], 1)


def test_large_files_are_merged_in_bounded_chunks() -> None:
    random = np.random.default_rng(1)
    for span in (10**9, 1000, 1):
        times = [np.sort(random.integers(0, span, random.integers(0, 4000))).tolist() for _ in range(9)]
        sizes = check(times, random.integers(0, span, 9).tolist(), 4 * STEP)
        assert max(sizes) <= 4 * STEP + 9 * STEP
        assert len(sizes) > 8
