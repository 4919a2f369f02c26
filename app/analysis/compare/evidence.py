"""Whether values of two groups of runs differ by more than chance.

Values are compared as logarithms, so that a difference is a ratio. The variance of a value has two parts:

* of sampling: a weight W of samples with weights w has the relative variance Σw²/W²;
* between runs: the same program is not equally fast twice.

The whole of a run (its total time) varies together with everything in it, so the variance of the whole is estimated on
its own, and that of each item (function) as a share of the whole. Three runs a side say little about the variance of
one function, but many functions together do: the variances are moderated (Smyth, "Linear models and empirical Bayes
methods for assessing differential expression in microarray experiments", Statistical Applications in Genetics and
Molecular Biology 3, 2004): each is the expected one, weighted with d0 degrees of freedom, and its own. Items are tested
together with the procedure of Benjamini and Hochberg (Journal of the Royal Statistical Society B 57, 1995).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ...domain.arrays import Array, BoolArray
from .student import compute_quantile, compute_tail

MIN_RUNS = 3
"""With fewer runs on a side, the variance between runs is unknown."""
SIGNIFICANCE = 0.05
POWER = 0.8
NOISE_ERRORS = 2.576
"""Chance alone exceeds so many standard errors in 1 % of cases (normal distribution)."""
MIN_SHARE = 0.01
"""Items with less of the whole on both sides are not tested: each test makes the others weaker."""
MIN_MODERATED = 3
"""With fewer items, each has only its own variance."""
PRIOR_PART = 0.5
"""Of the prior degrees of freedom that are used. The fit assumes that variances have an inverse gamma distribution;
with a heavier tail, all of them give more false discoveries than intended (`benchmarks.diff_power`)."""
MAX_DEGREES_FACTOR = 2
"""How many times its own degrees of freedom an item has at most, because with few runs the fit is poor."""
MIN_REST = 0.05
"""Items that leave less of the whole to others, such as `main`, tell nothing about the variance of the others."""
PSEUDO_SAMPLES = 0.5
"""Added to each number of samples, so that an item without samples has a logarithm."""


@dataclass(frozen=True, eq=False)
class RunValues:
    """Values of a group of runs. weight: float64 [items, runs]; samples: their number of samples, NaN where a value was
    measured and not sampled. whole, whole_samples: float64 [runs]. spread: mean square of the weights of samples
    divided by the square of their mean, float64 [runs], 1 for equal weights."""

    weight: Array
    samples: Array
    whole: Array
    whole_samples: Array
    spread: Array

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.whole)

    def has_all_wholes(self) -> bool:
        """Whether every run has a positive whole."""
        return bool(self.runs and (self.whole > 0).all())


@dataclass(frozen=True, eq=False)
class Evidence:
    """The comparison of each item, or of the whole: arrays of float64 or bool [items].

    difference: mean logarithm of the ratio other ÷ base. error: its standard error, from sampling alone if the variance
    between runs is unknown. degrees: of freedom of the error. q: smallest rate of false discoveries at which the
    difference is found, NaN if it was not tested. critical: quantile of t for the interval.
    detectable: smallest difference that would be found with a probability of 80 % in a single test.
    """

    difference: Array
    error: Array
    degrees: Array
    q: Array
    critical: Array
    detectable: Array

    def take(self, rows: slice) -> "Evidence":
        """Of some items."""
        return Evidence(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def found(self) -> BoolArray:
        """Which items differ by more than chance."""
        found: BoolArray = np.nan_to_num(self.q, nan=1.0) <= SIGNIFICANCE
        return found

    @property
    def low(self) -> Array:
        """Lower end of the 95 % interval of the difference."""
        return np.asarray(self.difference - self.critical * self.error)

    @property
    def high(self) -> Array:
        """Upper end."""
        return np.asarray(self.difference + self.critical * self.error)


@dataclass(frozen=True, eq=False)
class _Contrast:
    """Differences of groups: of the means, the variance of one value, its part from sampling, degrees of freedom of the
    variance, and the factor from the variance of one value to that of the difference. rest: what items leave of the
    whole to others, from 0 to 1."""

    difference: Array
    variance: Array
    sampling: Array
    degrees: int
    factor: float
    rest: Array


def compare_values(
    base: RunValues,
    other: RunValues,
    *,
    as_shares: bool,
    paired: bool = False,
    variation: float | None = None,
    earlier: Sequence[RunValues] = (),
) -> tuple[Evidence, Evidence | None]:
    """The evidence that items differ, and that the wholes do: as they are, or the items as shares of the whole, and
    None.

    paired: the nth runs of both sides belong together, because they were interleaved; both have as many. variation: the
    coefficient of variation between runs, if it is known. earlier: groups of earlier runs of the same items, without a
    change within a group; where a side has fewer than `MIN_RUNS` runs, the variance between runs is that within all
    groups, of the sides and of these, and there are no pairs. Items below `MIN_SHARE` on both sides are not tested.
    With fewer than `MIN_RUNS` runs on a side, no `variation` and no `earlier` runs, only the variance of sampling is
    used. All tests are one family.
    """
    tested = find_tested(base, other)
    if variation is not None or has_enough_runs(base, other):
        earlier = ()
    elif earlier:
        paired = False
    else:
        variation = 0.0
    shares = _contrast(
        _log_shares(base), _log_shares(other), paired, shares=True, earlier=[_log_shares(one)[0] for one in earlier]
    )
    variance, degrees = _moderate(shares, tested) if variation is None else _known_or_own(shares, variation)
    if as_shares:
        return _test(shares.difference, variance * shares.factor, degrees, tested), None
    whole = _contrast(
        _log_wholes(base), _log_wholes(other), paired, shares=False, earlier=[_log_wholes(one)[0] for one in earlier]
    )
    whole_variance, whole_degrees = _known_or_own(whole, variation)
    # Of a sum of two estimates (Welch and Satterthwaite).
    both = variance + whole_variance
    with np.errstate(divide="ignore", invalid="ignore"):
        together = both**2 / (variance**2 / degrees + whole_variance**2 / whole_degrees)
    found = _test(
        np.concatenate((whole.difference, shares.difference + whole.difference)),
        np.concatenate((whole_variance, both)) * shares.factor,
        np.concatenate((whole_degrees, np.where(both > 0, together, np.inf))),
        np.concatenate((np.ones(1, bool), tested)),
    )
    return found.take(slice(1, None)), found.take(slice(0, 1))


def compare_measured(base: Array, other: Array, tested: BoolArray) -> Evidence:
    """The evidence that measured values differ, float64 [items, runs] of each side: t tests of their logarithms, each
    with its own variance, as one family. Items with a value that is not positive have no logarithm and are not tested,
    and with fewer than `MIN_RUNS` runs on a side none is."""
    positive: BoolArray = np.asarray((base > 0).all(axis=1) & (other > 0).all(axis=1))
    before, after = (np.log(np.where(positive[:, None], side, 1.0)) for side in (base, other))
    contrast = _contrast((before, np.zeros_like(before)), (after, np.zeros_like(after)), False, shares=False)
    variance, degrees = _known_or_own(contrast, None)
    enough = min(base.shape[1], other.shape[1]) >= MIN_RUNS
    return _test(contrast.difference, variance * contrast.factor, degrees, tested & positive & enough)


def compare_logarithms(
    base: tuple[Array, Array],
    other: tuple[Array, Array],
    tested: BoolArray,
    *,
    paired: bool = False,
    variation: float | None = None,
) -> Evidence:
    """The evidence that values of the whole, which is row 0, and of items differ, as one family. base, other:
    (logarithms, their variances from sampling), float64 [1 + items, runs]. paired, variation: as in `compare_values`.
    """
    enough = min(base[0].shape[1], other[0].shape[1]) >= MIN_RUNS
    variation = 0.0 if variation is None and not enough else variation
    contrast = _contrast(base, other, paired, shares=False)
    variance, degrees = (one.copy() for one in _known_or_own(contrast, variation))
    if variation is None:
        items = tested.copy()
        items[0] = False
        moderated = _moderate(contrast, items)
        variance[1:], degrees[1:] = (one[1:] for one in moderated)
    return _test(contrast.difference, variance * contrast.factor, degrees, tested)


def exceeds_sampling_noise(base: RunValues, other: RunValues, *, as_shares: bool) -> BoolArray:
    """Which items of one run a side differ by more than `NOISE_ERRORS` standard errors of sampling. The noise between
    runs is unknown. Tests are not corrected for their number, so that the answer for an item does not depend on which
    others are tested."""
    sides = _equal_samples(base), _equal_samples(other)
    (before, before_variance), (after, after_variance) = map(_log_shares, sides)
    difference, variance = after - before, before_variance + after_variance
    if not as_shares:
        (before, before_variance), (after, after_variance) = map(_log_wholes, sides)
        difference, variance = difference + after - before, variance + before_variance + after_variance
    found: BoolArray = np.abs(difference[:, 0]) > NOISE_ERRORS * np.sqrt(variance[:, 0])
    return found


def _equal_samples(side: RunValues) -> RunValues:
    """The same with as many samples of equal weight as have the same variance. The half of a sample that is added to
    each would otherwise weigh as much as the largest ones."""
    return replace(
        side,
        samples=side.samples / side.spread,
        whole_samples=side.whole_samples / side.spread,
        spread=np.ones_like(side.spread),
    )


def has_enough_runs(base: RunValues, other: RunValues) -> bool:
    """Whether the variance between runs can be estimated."""
    return min(base.runs, other.runs) >= MIN_RUNS


def find_tested(base: RunValues, other: RunValues) -> BoolArray:
    """Which items have at least `MIN_SHARE` of the whole on a side."""
    shares = [side.weight.sum(axis=1) / max(side.whole.sum(), 1e-300) for side in (base, other)]
    tested: BoolArray = np.maximum(*shares) >= MIN_SHARE
    return tested


def adjust_p(p: Array) -> Array:
    """The smallest rate of false discoveries at which each hypothesis is rejected (Benjamini and Hochberg), from the
    values of p, none of them NaN."""
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    # From the largest on: a hypothesis is rejected with every one that has a larger p and is rejected.
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def _log_wholes(side: RunValues) -> tuple[Array, Array]:
    """(logarithms, variances of sampling): float64 [1, runs]."""
    with np.errstate(divide="ignore"):
        variance = np.where(np.isnan(side.whole_samples), 0.0, side.spread / np.maximum(side.whole_samples, 1))
    return np.log(side.whole)[None, :], variance[None, :]


def _log_shares(side: RunValues) -> tuple[Array, Array]:
    """(logarithms of the shares, variances of sampling): float64 [items, runs]."""
    measured = np.isnan(side.samples)
    one = side.whole / np.maximum(np.nan_to_num(side.whole_samples, nan=1.0), 1)
    # A measured value that is missing has no size; it counts as a tenth of what is tested.
    added = np.where(measured, 0.1 * MIN_SHARE * side.whole * (side.weight <= 0), PSEUDO_SAMPLES * one)
    share = np.maximum(side.weight, 0) + added
    samples = np.where(measured, np.inf, np.nan_to_num(side.samples) + PSEUDO_SAMPLES)
    # A share of n samples is binomial: what belongs to the item does not belong to the rest.
    rest = 1 - np.clip(share / (side.whole + added), 0, 1)
    return np.log(share / (side.whole + added)), side.spread / samples * np.maximum(rest, 1e-9)


def _contrast(
    base: tuple[Array, Array],
    other: tuple[Array, Array],
    paired: bool,
    *,
    shares: bool,
    earlier: Sequence[Array] = (),
) -> _Contrast:
    (before, before_sampling), (after, after_sampling) = base, other
    means = [side.mean(axis=1) for side in (before, after)]
    # What an item varies by itself changes its share the less, the more of the whole it is.
    rest = 1 - np.exp((means[0] + means[1]) / 2) if shares else np.ones(len(before))
    # From the first run on, so that means of equal values are equal: sums of 9 and of 10 of them are rounded otherwise.
    first = before[:, :1]
    before, after = before - first, after - first
    difference = after.mean(axis=1) - before.mean(axis=1)
    if paired:
        each = after - before
        runs = each.shape[1]
        variance = each.var(axis=1, ddof=1) if runs > 1 else np.zeros(len(each))
        sampling = (before_sampling + after_sampling).mean(axis=1)
        return _Contrast(difference, variance, sampling, runs - 1, 1 / runs, rest)
    runs, other_runs = before.shape[1], after.shape[1]
    groups = (before, after, *(group - first for group in earlier))
    degrees = sum(group.shape[1] - 1 for group in groups)
    squares = sum(((group - group.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for group in groups)
    factor = 1 / runs + 1 / other_runs
    # Weighted as the runs are in the variance of the difference.
    sampling = (before_sampling.mean(axis=1) / runs + after_sampling.mean(axis=1) / other_runs) / factor
    return _Contrast(difference, np.asarray(squares / max(degrees, 1)), sampling, degrees, factor, rest)


def _known_or_own(contrast: _Contrast, variation: float | None) -> tuple[Array, Array]:
    """(variance of one value, degrees of freedom): with a known variation between runs, else as observed; at least that
    of sampling."""
    if variation is not None:
        known = contrast.sampling + variation**2
        return known, np.full(len(known), np.inf)
    if contrast.degrees < 1:
        return contrast.sampling, np.full(len(contrast.sampling), np.inf)
    return np.maximum(contrast.variance, contrast.sampling), np.full(len(contrast.variance), float(contrast.degrees))


def _moderate(contrast: _Contrast, tested: BoolArray) -> tuple[Array, Array]:
    """(moderated variances, degrees of freedom) of items."""
    degrees, fitted = contrast.degrees, tested & (contrast.rest >= MIN_REST)
    if fitted.sum() < MIN_MODERATED:
        return _known_or_own(contrast, None)
    part = contrast.rest**2
    between = max(float((contrast.variance - contrast.sampling)[fitted].sum() / part[fitted].sum()), 0.0)
    expected = contrast.sampling + between * part
    if not (expected[tested] > 0).all():
        return _known_or_own(contrast, None)
    ratio = contrast.variance / np.where(expected > 0, expected, 1.0)
    fit_degrees, scale = fit_scaled_f(ratio[fitted], degrees)
    prior_degrees = PRIOR_PART * fit_degrees
    total = float(min(prior_degrees + degrees, MAX_DEGREES_FACTOR * degrees))
    if math.isinf(prior_degrees):
        moderated = np.full(len(ratio), scale)
    else:
        moderated = (prior_degrees * scale + degrees * ratio) / (prior_degrees + degrees)
    return np.maximum(moderated * expected, contrast.sampling), np.full(len(ratio), total)


def fit_scaled_f(ratio: Array, degrees: int) -> tuple[float, float]:
    """(d0, s0²) for which the ratios are distributed as s0² · F(degrees, d0): the moments of their logarithms (Smyth
    2004, section 6.2). d0 is infinite if they vary no more than by chance."""
    from scipy.special import digamma, polygamma

    half = degrees / 2
    positive = np.maximum(ratio, 1e-5 * max(float(np.median(ratio)), 1e-300))
    logarithm = np.log(positive) - digamma(half) + math.log(half)
    mean = float(logarithm.mean())
    excess = float(logarithm.var(ddof=1) - polygamma(1, half))
    if excess <= 0:
        return math.inf, math.exp(mean)
    prior = invert_trigamma(excess)
    return 2 * prior, math.exp(mean + float(digamma(prior)) - math.log(prior))


def invert_trigamma(value: float) -> float:
    """x with trigamma(x) = value, which is positive: Newton's method for 1/trigamma, which is almost linear."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        now = float(polygamma(1, x))
        step = now * (1 - now / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x


def _test(difference: Array, variance: Array, degrees: Array, tested: BoolArray) -> Evidence:
    """variance: of the differences."""
    error = np.sqrt(variance)
    size = np.abs(difference)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(error > 0, size / error, np.where(size > 0, np.inf, 0.0))
    q = np.full(len(size), np.nan)
    q[tested] = adjust_p(np.minimum(2 * compute_tail(statistic[tested], degrees[tested]), 1.0))
    # Most degrees of freedom are equal, and quantiles of each take microseconds.
    distinct, which = np.unique(degrees, return_inverse=True)
    critical = compute_quantile(1 - SIGNIFICANCE / 2, distinct)[which]
    detectable = (critical + compute_quantile(POWER, distinct)[which]) * error
    return Evidence(difference, error, degrees, q, critical, detectable)
