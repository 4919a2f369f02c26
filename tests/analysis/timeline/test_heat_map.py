"""The heat map of samples: equal to a naive computation, exact, of at most 600 columns, and fast."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.core.sample_rollup import sum_call_weights
from perfloom.analysis.tables import TABLES
from perfloom.analysis.timeline.heat_map import (
    MAX_COLUMNS,
    ROW_COUNTS,
    HeatMapGrid,
    build_grid,
    build_heat_map,
    default_width,
    has_heat_map,
    list_widths,
)
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import Meta
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import NO_ID
from perfloom.domain.timed_events import IN_ORDER
from perfloom.domain.units import NS_PER_MS, NS_PER_S
from tests.analysis.brute import all_samples, selected
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.cpu import limit_cpu_s
from tests.support.profiles import profile_of, profiles
from tests.support.traced import Trace

GRIDS = (HeatMapGrid(0, 100, 1, 10), HeatMapGrid(0, 10, 7, 10), HeatMapGrid(0, 20, 4, 20))
"""Over the times of `tests.support.profiles`, 0 to 60."""
HOUR = 3600 * NS_PER_S


def sampled_at(*times: int, weight: int = 1) -> Profile:
    return profile_of([("main", weight, 0, at) for at in times])


def cells(profile: Profile, selection: Selection, event: int, grid: HeatMapGrid) -> dict[int, tuple[int, int]]:
    found = build_heat_map(profile, selection, event, grid)
    assert found.cell.tolist() == sorted(set(found.cell.tolist())) and (found.samples + found.weight > 0).all()
    return dict(zip(found.cell.tolist(), zip(found.weight.tolist(), found.samples.tolist(), strict=True), strict=True))


def naive(profile: Profile, selection: Selection, event: str, grid: HeatMapGrid) -> dict[int, tuple[int, int]]:
    weight, count = Counter[int](), Counter[int]()
    for sample in selected(profile, selection, reshape=False, event=event):
        cell = (max(sample.time_ns, selection.start_ns or 0) - grid.first_ns) // grid.cell_ns
        weight[cell] += sample.weight
        count[cell] += 1
    return {cell: (weight[cell], count[cell]) for cell in count}


@given(st.data())
def test_cells_equal_the_naive_computation(data: st.DataObject) -> None:
    profile = data.draw(profiles())
    selection = data.draw(selections(profile))
    grid = data.draw(st.sampled_from(GRIDS))
    for event, name in enumerate(profile.events["name"].to_pylist()):
        found = cells(profile, selection, event, grid)
        assert found == naive(profile, selection, name, grid)
        assert sum(weight for weight, _ in found.values()) == int(sum_call_weights(profile, selection, event).sum())
    assert cells(profile, selection, NO_ID, grid) == {}


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=20), st.sampled_from(ROW_COUNTS))
def test_any_times_give_few_columns_with_every_sample(times: list[int], rows: int) -> None:
    profile = sampled_at(*times, weight=3)
    for width in (None, *list_widths(profile)):
        grid = build_grid(profile, rows, width)
        assert 1 <= grid.columns <= MAX_COLUMNS and grid.cell_ns * rows == grid.column_ns
        found = build_heat_map(profile, Selection(), 0, grid)
        assert found.weight.sum() == 3 * len(times) and found.samples.sum() == len(times)
        assert found.cell[0] == 0 and (grid.columns - 1) * rows <= found.cell[-1] < grid.columns * rows


@pytest.mark.parametrize(
    ("extent", "width"),
    [
        (0, NS_PER_S),
        (40 * NS_PER_S, NS_PER_S),
        (600 * NS_PER_S - 1, NS_PER_S),
        (600 * NS_PER_S, 2 * NS_PER_S),
        (3 * HOUR, 20 * NS_PER_S),
        (100 * 24 * HOUR, 6 * HOUR),
        (5000 * 24 * HOUR, 16 * 24 * HOUR),
        (1_999_999_999, 100 * NS_PER_MS),
        (300 * NS_PER_MS, 10 * NS_PER_MS),
        (7, 1000),
    ],
)
def test_a_column_is_a_second_or_as_wide_as_it_must_be(extent: int, width: int) -> None:
    assert default_width(extent) == width


def test_the_grid_is_the_same_for_every_selection() -> None:
    profile = profile_of([("a", 1, 0, 0), ("b", 1, 1, 5 * NS_PER_S), ("a", 1, 0, 5 * NS_PER_S + 990 * NS_PER_MS)])
    grid = build_grid(profile)
    assert (grid.columns, grid.column_ns, grid.rows) == (6, NS_PER_S, 50)
    assert cells(profile, Selection(), 0, grid) == {0: (1, 1), 250: (1, 1), 299: (1, 1)}
    assert cells(profile, Selection(threads=("thread 1",)), 0, grid) == {250: (1, 1)}
    assert cells(profile, Selection(focus="^a$"), 0, grid) == {0: (1, 1), 299: (1, 1)}
    assert cells(profile, Selection(start_ns=6 * NS_PER_S), 0, grid) == {}
    assert grid.start_of(299) == 5 * NS_PER_S + 980 * NS_PER_MS


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=6),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(41, 90),
    st.sampled_from((None, "step")),
)
def test_slices_are_spread_over_the_cells_they_cover(
    slices: list[tuple[int, int, int]], start: int | None, end: int | None, step: str | None
) -> None:
    made, free = Trace(), [0, 0, 0]
    for thread, gap, length in slices:
        made.slice(made.thread(thread + 1), free[thread] + gap, free[thread] + gap + length, "work")
        free[thread] += gap + length
    made.step("step", 7, 55)
    profile, selection = made.finish(), Selection(start_ns=start, end_ns=end, step=step)
    first = int(profile.samples["time_ns"][0].as_py())
    grid = HeatMapGrid(first, 100, 5, 20)
    expected = Counter[int]()
    for sample in all_samples(profile):
        for moment in range(sample.time_ns, sample.time_ns + sample.weight):
            inside = (step is None or 7 <= moment < 55) and (start or 0) <= moment < (end or 1 << 60)
            expected[(moment - first) // grid.cell_ns] += inside
    found = build_heat_map(profile, selection, 0, grid)
    weights = dict(zip(found.cell.tolist(), found.weight.tolist(), strict=True))
    assert {cell: weight for cell, weight in weights.items() if weight} == dict(+expected)
    assert found.samples.sum() == len(selected(profile, selection, reshape=False))
    whole = build_grid(profile)
    assert build_heat_map(profile, Selection(), 0, whole).cell.max() < whole.columns * whole.rows


def test_a_slice_that_reaches_into_the_window_is_counted_in_its_first_cell() -> None:
    made = Trace()
    made.slice(made.thread(1), 0, 2_500, "outer")
    made.slice(made.thread(1), 20_000, 21_000, "later")
    profile, grid = made.finish(), HeatMapGrid(0, 10_000, 3, 10)
    assert cells(profile, Selection(), 0, grid) == {0: (1000, 1), 1: (1000, 0), 2: (500, 0), 20: (1000, 1)}
    assert cells(profile, Selection(start_ns=1_500, end_ns=20_500), 0, grid) == {1: (500, 1), 2: (500, 0), 20: (500, 1)}


def test_large_weights_are_summed_exactly() -> None:
    weight = (1 << 60) + 1
    profile = profile_of([("a", weight, 0, 0), ("b", weight, 0, 1), ("b", 1, 0, 2)])
    assert cells(profile, Selection(), 0, build_grid(profile)) == {0: (2 * weight + 1, 3)}


def test_samples_without_times_have_no_heat_map() -> None:
    builder = ProfileBuilder("collapsed")
    thread, event = builder.intern_thread(pid=1, tid=1), builder.intern_event("samples", "count")
    builder.add_sample(0, thread, event, 0, 5)
    summed = builder.finish(Meta("collapsed", duration_ns=None))
    timed = sampled_at(0, 10)
    in_order = replace(timed, meta=replace(timed.meta, duration_ns=None, clock=IN_ORDER))
    assert [has_heat_map(p) for p in (summed, in_order, timed)] == [False, False, True]
    for profile in (summed, in_order, ProfileBuilder("test").finish()):
        assert len(TABLES["heatmap"].rows(profile, Selection())) == 0


def test_table_rows_add_up_for_each_event() -> None:
    profile = profile_of(
        [("a", 2, 0, 0, 0), ("a", 3, 0, 19_999_999, 0), ("a", 5, 0, 2_020_000_000, 0), ("b", 7, 0, 1_000_000_000, 1)],
        events=(("cycles", "count"), ("cpu-clock", "ns")),
    )
    rows = TABLES["heatmap"].rows(profile, Selection()).records()
    columns = ("event", "unit", "column_ms", "offset_ms", "cell_ms", "value", "percent", "samples")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("cycles", "count", 0, 0, 20, 5, 50, 2),
        ("cycles", "count", 2000, 20, 20, 5, 50, 1),
        ("cpu-clock", "ns", 1000, 0, 20, 7, 100, 1),
    ]
    (row,) = TABLES["heatmap"].rows(profile, Selection(event="cycles", start_ns=NS_PER_S)).records()
    assert (row["column_ms"], row["value"], row["percent"]) == (2000, 5, 100)


@pytest.mark.heavy
def test_ten_million_samples_are_summed_fast() -> None:
    few = profile_of([(f"main;f{n % 50}", 1000, n % 4, n) for n in range(2000)], events=(("cpu-clock", "ns"),))
    count = 10_000_000
    chance = np.random.default_rng(1)
    table = few.samples.take(pa.array(chance.integers(0, few.samples.num_rows, count)))
    times = pa.array(np.sort(chance.integers(0, 599 * NS_PER_S, count)))
    place = table.schema.get_field_index("time_ns")
    samples = table.set_column(place, table.schema.field(place), times).combine_chunks()
    profile = replace(few, samples=samples)
    grid = build_grid(profile, rows=100)
    build_heat_map(profile, Selection(), 0, grid)
    for selection in (Selection(end_ns=HOUR), Selection(threads=("thread 1",)), Selection(focus="f7$")):
        # 60 to 200 ms; the limit leaves room for a busy machine.
        with limit_cpu_s(1.5):
            found = build_heat_map(profile, selection, 0, grid)
        assert found.weight.sum() == 1000 * found.samples.sum()
    assert cells(profile, Selection(), 0, grid).keys() <= set(range(grid.columns * grid.rows))
