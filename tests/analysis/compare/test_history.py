"""Levels of many runs: what chance makes is no change, and changes are found where they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.compare.history import MIN_LEVEL, LevelChange, Levels, find_levels
from perfloom.analysis.compare.run_history import MAX_RUNS, HistoryRun, RunHistory, build_history


def noisy(random: np.random.Generator, factors: list[float], cv: float = 0.02) -> np.ndarray:
    return 1e9 * np.array(factors) * np.exp(random.normal(0, cv, len(factors)))


@pytest.mark.parametrize("count", [6, 10, 20, 40])
def test_chance_is_rarely_a_change(count: int) -> None:
    random = np.random.default_rng(count)
    found = sum(bool(find_levels(noisy(random, [1.0] * count)).changes) for _ in range(200))
    assert found <= 14


@pytest.mark.slow
def test_chance_with_long_tails_is_rarely_a_change() -> None:
    random = np.random.default_rng(5)
    values = [1e9 * np.exp(0.02 * random.standard_t(3, 40)) for _ in range(200)]
    assert sum(bool(find_levels(one).changes) for one in values) <= 20


@pytest.mark.parametrize(("before", "after"), [(3, 3), (5, 5), (12, 4), (20, 20)])
def test_a_change_is_found_where_it_is(before: int, after: int) -> None:
    random = np.random.default_rng(before)
    places, covered = [], 0
    for _ in range(50):
        levels = find_levels(noisy(random, [1.0] * before + [1.1] * after))
        places += [change.at for change in levels.changes[:1]]
        covered += any(change.low <= 0.1 <= change.high for change in levels.changes)
    assert len(places) >= 45 and places.count(before) >= 0.8 * len(places)
    assert covered >= 42


def test_a_change_that_was_reverted_is_two_changes() -> None:
    levels = find_levels(noisy(np.random.default_rng(1), [1.0] * 10 + [1.15] * 4 + [1.0] * 10))
    assert [change.at for change in levels.changes] == [10, 14]
    assert levels.changes[0].ratio > 0.1 and levels.changes[1].ratio < -0.1
    assert levels.variation == pytest.approx(0.02, rel=0.5)


def test_one_outlier_is_no_change() -> None:
    factors = [1.0] * 20
    factors[10] = 3.0
    assert find_levels(noisy(np.random.default_rng(2), factors)).changes == ()


def test_equal_counts_change_exactly() -> None:
    levels = find_levels(np.array([1000.0] * 8 + [1010.0] * 3))
    assert [(level.first, level.end) for level in levels.levels] == [(0, 8), (8, 11)]
    assert levels.changes[0].ratio == pytest.approx(0.01)
    assert find_levels(np.full(30, 7.0)).changes == ()


@given(st.lists(st.floats(min_value=1e-3, max_value=1e18), max_size=14))
def test_levels_divide_the_runs(values: list[float]) -> None:
    found = find_levels(np.array(values))
    assert [at for level in found.levels for at in range(level.first, level.end)] == list(range(len(values)))
    assert [change.at for change in found.changes] == [level.first for level in found.levels[1:]]
    assert all(level.end - level.first >= MIN_LEVEL for level in found.levels if len(found.levels) > 1)
    for level in found.levels:
        inside = values[level.first : level.end]
        assert min(inside) * (1 - 1e-9) <= level.mean <= max(inside) * (1 + 1e-9)


def runs_of(values: list[float]) -> list[HistoryRun]:
    return [
        HistoryRun(f"{at:012}", f"run {at}", 1e9 + 86400 * at, "node7", value, 1e-4) for at, value in enumerate(values)
    ]


def history_of(values: list[float], unit: str = "ns") -> RunHistory:
    return build_history(runs_of(values), "cycles" if unit == "count" else "cpu-clock", unit)


def test_the_sentence_names_the_first_run_of_the_last_level() -> None:
    factors = [1.0] * 8 + [1.2] * 6
    values = noisy(np.random.default_rng(3), factors).tolist()
    sentence = history_of(values).sentence()
    assert "slower" in sentence and "since run 8 of 2001-09-17" in sentence and "among 14 runs" in sentence
    assert "more cycles" in history_of(values, "count").sentence()
    assert "No change of cpu-clock among 8 runs, which vary by" in history_of(values[:8]).sentence()
    assert "from 6 runs on" in history_of(values[:5]).sentence()
    assert history_of([5.0]).sentence().startswith("1 run of cpu-clock")


def test_a_run_is_compared_with_what_was_before() -> None:
    history = history_of([1e9] * 8 + [2e9] * 3)
    assert [run.name for run in history.compared_with(3)[0]] == ["run 2"]
    base, other = history.compared_with(8)
    assert [run.name for run in base] == [f"run {at}" for at in range(8)]
    assert [run.name for run in other] == ["run 8", "run 9", "run 10"]
    assert history.compared_with(0) == ((), ())


def test_runs_without_a_value_and_old_ones_are_left_out() -> None:
    history = build_history(runs_of([0.0, -1.0, math.nan, *[5.0] * (MAX_RUNS + 2)]), "cycles", "count")
    assert len(history.runs) == MAX_RUNS and history.runs[-1].name == f"run {MAX_RUNS + 4}"
    assert history.left_out == (
        "3 without a value above 0 are left out.",
        f"Only the newest {MAX_RUNS} of {MAX_RUNS + 2} are shown.",
    )


def test_rows_have_the_change_at_the_first_run_of_a_level() -> None:
    rows = history_of([1e9] * 8 + [2e9] * 3).rows().records()
    assert [at for at, row in enumerate(rows) if row["change_percent"] is not None] == [8]
    assert rows[8]["change_percent"] == pytest.approx(100)
    assert rows[0]["low"] < rows[0]["value"] < rows[0]["high"]
    assert rows[10]["level"] == pytest.approx(2e9)


def test_extreme_values_are_finite() -> None:
    for values in ([1e-300] * 3 + [1e300] * 3, [1e-19, 1e12] * 4, [5e-324, 1.7e308] * 6):
        levels = find_levels(np.array(values))
        assert all(math.isfinite(level.mean) for level in levels.levels)
        assert not math.isinf(levels.variation) and all(math.isfinite(change.high) for change in levels.changes)


def test_an_interval_keeps_its_sign() -> None:
    levels = Levels((), (LevelChange(3, 0.0101, -0.045, 0.068),), 0.02, 0.1)
    history = RunHistory(tuple(runs_of([1.0] * 6)), "cycles", "count", "", "total", levels)
    assert "1.01 % more cycles (−4.50 % to 6.80 %)" in history.sentence().replace("\u00a0", " ")
    fewer = RunHistory(
        history.runs, "cycles", "count", "", "total", Levels((), (LevelChange(3, -0.1, -0.12, -0.08),), 0.02, 0.1)
    )
    assert "10.00 % less cycles (8.00 % to 12.00 %)" in fewer.sentence().replace("\u00a0", " ")
