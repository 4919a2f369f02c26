"""Evidence for differences of groups of runs: how often chance passes for a change, and which changes are found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from perfloom.analysis.compare import evidence
from perfloom.analysis.compare.evidence import Evidence, RunValues, compare_values
from perfloom.analysis.compare.runs import divide_at_changes

SAMPLES = 20_000
CELLS = 60


def simulate(
    chance: np.random.Generator,
    shares: np.ndarray,
    runs: int,
    *,
    run_variation: float = 0.0,
    item_variation: float | np.ndarray = 0.0,
) -> RunValues:
    """Runs of a program: a factor of each run, one of each item of each run, and samples (Poisson)."""
    rates = shares[:, None] * np.exp(chance.normal(0, run_variation, runs))
    rates = rates * np.exp(chance.normal(0, 1, rates.shape) * np.reshape(item_variation, (-1, 1)))
    samples = chance.poisson(SAMPLES * rates).astype(float)
    weight = 1e6 * samples
    return RunValues(weight, samples, weight.sum(axis=0), samples.sum(axis=0), np.ones(runs))


def compare_items(base: RunValues, other: RunValues, *, as_shares: bool = False, **how: Any) -> Evidence:
    return compare_values(base, other, as_shares=as_shares, **how)[0]


def compare_wholes(base: RunValues, other: RunValues, **how: Any) -> Evidence:
    whole = compare_values(base, other, as_shares=False, **how)[1]
    assert whole is not None
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("as_shares", [True, False])
@pytest.mark.parametrize(
    ("runs", "run_variation", "item_variation"), [(3, 0.02, 0.02), (5, 0.02, 0.0), (5, 0.0, 0.03), (10, 0.05, 0.01)]
)
def test_chance_is_no_change(
    runs: int, run_variation: float, item_variation: float, as_shares: bool, paired: bool
) -> None:
    """At most 7 % of comparisons of equal programs contain a false row (`benchmarks.diff_power` has more)."""
    chance, count, wrong = np.random.default_rng(7), 200, 0
    for _ in range(count):
        shares = chance.dirichlet(np.full(CELLS, 0.3))
        base, other = (
            simulate(chance, shares, runs, run_variation=run_variation, item_variation=item_variation) for _ in range(2)
        )
        items, whole = compare_values(base, other, as_shares=as_shares, paired=paired)
        wrong += int(items.found.any() or (whole is not None and whole.found[0]))
    assert wrong <= 0.07 * count


@pytest.mark.parametrize(("earlier", "item_variation"), [(5, 0.02), (12, 0.0)])
def test_chance_is_no_change_where_earlier_runs_tell_the_noise(earlier: int, item_variation: float) -> None:
    """At most 7 % of 400 comparisons of one run a side contain a false row, also if the level changed before."""
    chance, count, wrong, missed = np.random.default_rng(11), 400, 0, 0
    for number in range(count):
        shares = chance.dirichlet(np.full(CELLS, 0.3))
        base, other, slower, before, long_before = (
            simulate(chance, level * shares, runs, run_variation=0.02, item_variation=item_variation)
            for level, runs in ((1, 1), (1, 1), (1.2, 1), (1, earlier), (1.3, earlier))
        )
        groups = [before] if number % 8 else divide_at_changes(join_runs(long_before, before))
        items, whole = compare_values(base, other, as_shares=False, earlier=groups)
        wrong += bool(items.found.any() or (whole is not None and whole.found[0]))
        if number < 40:
            missed += not compare_wholes(base, slower, earlier=groups).found[0]
    assert wrong <= 0.07 * count and missed <= (2 if earlier > 5 else 24)


def join_runs(first: RunValues, second: RunValues) -> RunValues:
    """The runs of both."""
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return RunValues(*(np.concatenate(pair, axis=-1) for pair in pairs))


@pytest.mark.parametrize(("run_variation", "item_variation"), [(0.02, 0.0), (0.0, 0.02)])
def test_ten_percent_of_a_fifth_is_found(run_variation: float, item_variation: float) -> None:
    chance, count, found = np.random.default_rng(3), 100, 0
    for _ in range(count):
        shares = np.r_[0.2, 0.8 * chance.dirichlet(np.full(CELLS - 1, 0.3))]
        slower = shares * np.r_[1.1, np.ones(CELLS - 1)]
        base, other = (
            simulate(chance, one, 5, run_variation=run_variation, item_variation=item_variation)
            for one in (shares, slower)
        )
        result = compare_items(base, other, as_shares=False)
        found += int(result.found[0] and result.difference[0] > 0)
    assert found >= 0.9 * count


def test_one_run_of_one_function_that_is_noisy_is_no_evidence() -> None:
    """Three runs of which one is an outlier: each other estimate of its variance would be too small."""
    chance = np.random.default_rng(5)
    base, other = (simulate(chance, np.full(20, 0.05), 3) for _ in range(2))
    other.weight[4, 1] *= 1.6
    other.samples[4, 1] *= 1.6
    result = compare_items(base, other, as_shares=True)
    assert not result.found[4]


def test_exchanged_sides_have_the_opposite_difference() -> None:
    chance = np.random.default_rng(2)
    shares = chance.dirichlet(np.full(CELLS, 0.3))
    base, other = (simulate(chance, shares, runs, run_variation=0.02) for runs in (4, 6))
    for as_shares in (True, False):
        one = compare_items(base, other, as_shares=as_shares)
        two = compare_items(other, base, as_shares=as_shares)
        assert one.difference == pytest.approx(-two.difference)
        assert one.error == pytest.approx(two.error)
        assert one.low == pytest.approx(-two.high)


def test_runs_compared_with_themselves_do_not_differ() -> None:
    base = simulate(np.random.default_rng(1), np.full(20, 0.05), 3, run_variation=0.05)
    for paired in (False, True):
        result = compare_items(base, base, as_shares=False, paired=paired)
        assert not result.found.any() and not result.difference.any()
        assert not compare_wholes(base, base, paired=paired).found.any()


def test_pairs_remove_what_both_runs_share() -> None:
    """A machine that becomes slower during the measurement hides a change, unless the runs are paired."""
    chance = np.random.default_rng(4)
    drift = np.array([1.0, 1.1, 1.25, 1.4, 1.6])
    sides = []
    for factor in (1.0, 1.05):
        samples = chance.poisson(SAMPLES * 0.05 * factor * np.ones((20, 1)) * drift).astype(float)
        sides.append(RunValues(1e6 * samples, samples, 1e6 * samples.sum(axis=0), samples.sum(axis=0), np.ones(5)))
    assert not compare_wholes(*sides).found[0]
    assert compare_wholes(*sides, paired=True).found[0]


def test_single_runs_have_only_the_noise_of_sampling() -> None:
    """The error of a share p of n samples is √((1 − p)/(p n)); a known variation between runs adds to it."""
    samples = np.array([[2000.0], [18000.0]])
    side = RunValues(1e6 * samples, samples, 1e6 * samples.sum(axis=0), samples.sum(axis=0), np.ones(1))
    result = compare_items(side, side, as_shares=True)
    assert result.error[0] == pytest.approx(math.sqrt(2 * 0.9 / 2000), rel=0.01)
    known = compare_items(side, side, as_shares=True, variation=0.05)
    assert known.error[0] == pytest.approx(math.sqrt(2 * (0.9 / 2000 + 0.05**2)), rel=0.01)


def test_unequal_weights_count_as_fewer_samples() -> None:
    samples = np.array([[2000.0], [18000.0]])
    whole = 1e6 * samples.sum(axis=0)
    equal, unequal = (
        RunValues(1e6 * samples, samples, whole, samples.sum(axis=0), np.array([spread])) for spread in (1.0, 4.0)
    )
    errors = [compare_items(side, side, as_shares=True).error[0] for side in (equal, unequal)]
    assert errors[1] == pytest.approx(2 * errors[0])


def test_measured_values_have_no_noise_of_sampling() -> None:
    weight = np.array([[100.0, 102.0, 98.0], [300.0, 299.0, 301.0], [50.0, 51.0, 52.0]])
    unknown = np.full(weight.shape, np.nan)
    side = RunValues(weight, unknown, weight.sum(axis=0), unknown[0], np.ones(3))
    faster = RunValues(weight * 0.5, unknown, 0.5 * weight.sum(axis=0), unknown[0], np.ones(3))
    assert compare_wholes(side, faster).found[0]
    assert (compare_items(side, faster, as_shares=False).difference < 0).all()
    assert not compare_items(side, faster, as_shares=True).found.any()


def test_new_and_vanished_items_are_found() -> None:
    chance = np.random.default_rng(8)
    base = simulate(chance, np.r_[0.0, 0.1, np.full(18, 0.05)], 3)
    other = simulate(chance, np.r_[0.1, 0.0, np.full(18, 0.05)], 3)
    result = compare_items(base, other, as_shares=True)
    assert result.found[:2].all() and result.difference[0] > 2 and result.difference[1] < -2
    assert np.isfinite(result.difference).all()


@pytest.mark.parametrize("value", [1e-8, 1e-3, 0.4, 3.0, 1e4, 1e9])
def test_trigamma_is_inverted(value: float) -> None:
    from scipy.special import polygamma

    assert float(polygamma(1, evidence.invert_trigamma(value))) == pytest.approx(value, rel=1e-3)


def test_prior_is_estimated() -> None:
    """From ratios with a scale of 2 and 12 prior degrees of freedom; without additional variance, infinite ones."""
    chance = np.random.default_rng(9)
    ratios = 2.0 * chance.f(4, 12, 20_000)
    degrees, scale = evidence.fit_scaled_f(ratios, 4)
    assert degrees == pytest.approx(12, rel=0.2) and scale == pytest.approx(2.0, rel=0.05)
    degrees, scale = evidence.fit_scaled_f(3.0 * chance.chisquare(4, 2000) / 4, 4)
    assert degrees > 100 and scale == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("runs", [(1, 1), (2, 2), (5, 1)])
def test_too_few_runs_have_only_the_noise_of_sampling(runs: tuple[int, int]) -> None:
    """Also of the whole, and although two runs have a variance."""
    chance = np.random.default_rng(6)
    base, other = (simulate(chance, np.full(20, 0.05), count, run_variation=0.3) for count in runs)
    items, whole = compare_values(base, other, as_shares=False)
    assert whole is not None and np.isinf(items.degrees).all() and np.isinf(whole.degrees).all()
    assert whole.error[0] == pytest.approx(math.sqrt(sum(1 / (SAMPLES * count) for count in runs)), rel=0.4)
