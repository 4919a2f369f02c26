"""The course of a value over many runs: levels between change points, and how sure they are.

Values are compared as logarithms, so that a change is a ratio. The runs, in the order in which they were recorded, are
divided into levels of constant mean by circular binary segmentation (Olshen et al., "Circular binary segmentation for
the analysis of array-based DNA copy number data", Biostatistics 5, 2004): into the part whose mean differs most from
that of the rest, and the rest, if that is more than chance; then each part again. A part is at the end, or in the
middle, as a change that was reverted. It has at least `MIN_LEVEL` runs, so that one outlier is no change.

Chance is measured by permutation: how often another order of the same runs has as large a difference anywhere. That
needs no assumption about the noise, whose tails are long on shared machines. Fewer than `MIN_PERMUTED` runs have too
few orders: there it is a t test, its p multiplied by the number of parts (Bonferroni).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array
from .evidence import POWER, SIGNIFICANCE

MIN_LEVEL = 3
"""Runs of a level."""
NEXT_RUNS = 3
"""Runs after which a change of the last level could be found."""
MIN_PERMUTED = 12
"""Runs from which on their order is permuted."""
PERMUTATIONS = 499
MAX_LOGARITHM = 300.0
"""Of a level or ratio: larger ones are infinite for all purposes."""
BLOCK_CELLS = 1 << 21
"""Differences computed at a time."""
_LEAST_VARIANCE = 1e-24
"""Counts that are equal in all runs still have a level."""


@dataclass(frozen=True)
class Level:
    """Runs [first, end) without a change. mean: geometric. low, high: of its 95 % interval, NaN if it is unknown."""

    first: int
    end: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class LevelChange:
    """The change of the level from run `at` on. ratio: new ÷ old − 1. low, high: of its 95 % interval."""

    at: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Levels:
    """All levels, and the changes between them. variation: coefficient of variation between runs, NaN if it is unknown.
    detectable: the smallest change of the level that `NEXT_RUNS` more runs would show, NaN if it is unknown."""

    levels: tuple[Level, ...]
    changes: tuple[LevelChange, ...]
    variation: float
    detectable: float


def find_levels(values: Array) -> Levels:
    """The levels of positive values, float64 [runs] in the order of the runs."""
    logs = np.log(values)
    count = len(logs)
    if not count:
        return Levels((), (), math.nan, math.nan)
    ends = [*_divide(logs), count]
    firsts = [0, *ends[:-1]]
    degrees = count - len(ends)
    if degrees < 1 or count < MIN_LEVEL:
        mean = _exp(float(logs.mean()))
        return Levels((Level(0, count, mean, math.nan, math.nan),), (), math.nan, math.nan)
    from scipy.special import stdtrit

    variance = _pool_variance(logs, ends)
    critical = float(stdtrit(degrees, 1 - SIGNIFICANCE / 2))
    levels, changes, means = [], [], []
    for first, end in zip(firsts, ends, strict=True):
        mean, error = float(logs[first:end].mean()), critical * math.sqrt(variance / (end - first))
        means.append(mean)
        levels.append(Level(first, end, _exp(mean), _exp(mean - error), _exp(mean + error)))
    for number in range(1, len(levels)):
        before, after = levels[number - 1], levels[number]
        difference = means[number] - means[number - 1]
        error = critical * math.sqrt(variance * (1 / (before.end - before.first) + 1 / (after.end - after.first)))
        changes.append(
            LevelChange(after.first, _expm1(difference), _expm1(difference - error), _expm1(difference + error))
        )
    return Levels(tuple(levels), tuple(changes), math.sqrt(_expm1(variance)), _detectable(levels, variance, degrees))


def _divide(logs: Array, first: int = 0) -> list[int]:
    """The places of changes among runs from the place `first` on, in order."""
    count = len(logs)
    if count < 2 * MIN_LEVEL:
        return []
    centered, (starts, ends) = logs - logs.mean(), _list_parts(count)
    sizes = _difference_sizes(centered[None, :], starts, ends)[0]
    best = int(np.argmax(sizes))
    start, end = int(starts[best]), int(ends[best])
    p = (
        _permute(centered, starts, ends)
        if count >= MIN_PERMUTED
        else _test(logs[start:end], np.delete(logs, slice(start, end)), len(starts))
    )
    if p > SIGNIFICANCE:
        return []
    bounds = sorted({0, start, end, count})
    found = [first + at for at in bounds[1:-1]]
    for low, high in pairwise(bounds):
        found += _divide(logs[low:high], first + low)
    return sorted(found)


def _list_parts(count: int) -> tuple[Array, Array]:
    """(starts, ends) of the parts of so many runs that may have another level than the rest."""
    starts, ends = (part.ravel() for part in np.meshgrid(np.arange(count), np.arange(count + 1), indexing="ij"))
    inner = (starts >= MIN_LEVEL) & (count - ends >= MIN_LEVEL)
    # A part at the beginning is the same as the rest at the end.
    last = (starts >= MIN_LEVEL) & (ends == count)
    kept = (ends - starts >= MIN_LEVEL) & (inner | last)
    return starts[kept], ends[kept]


def _difference_sizes(logs: Array, starts: Array, ends: Array) -> Array:
    """The difference of the mean of each part from that of the rest, in units of its standard error. logs: rows of
    values with the mean 0."""
    count, length = logs.shape[1], ends - starts
    sums = np.concatenate((np.zeros((len(logs), 1)), np.cumsum(logs, axis=1)), axis=1)
    sizes: Array = np.abs(sums[:, ends] - sums[:, starts]) * np.sqrt(count / (length * (count - length)))
    return sizes


def _permute(centered: Array, starts: Array, ends: Array) -> float:
    """How often another order of these values has a part with as large a difference."""
    random = np.random.default_rng(PERMUTATIONS)
    least = float(_difference_sizes(centered[None, :], starts, ends).max()) * (1 - 1e-9)
    block = max(1, BLOCK_CELLS // len(starts))
    found = 1
    for done in range(0, PERMUTATIONS, block):
        orders = random.permuted(np.tile(centered, (min(block, PERMUTATIONS - done), 1)), axis=1)
        found += int((_difference_sizes(orders, starts, ends).max(axis=1) >= least).sum())
        if found > 2 * SIGNIFICANCE * PERMUTATIONS:
            return 1.0
    return found / (PERMUTATIONS + 1)


def _test(part: Array, rest: Array, places: int) -> float:
    """The p of a t test, for the largest of the differences of so many parts."""
    from scipy.special import stdtr

    degrees = len(part) + len(rest) - 2
    squares = float(((part - part.mean()) ** 2).sum() + ((rest - rest.mean()) ** 2).sum())
    error = math.sqrt(max(squares / degrees, _LEAST_VARIANCE) * (1 / len(part) + 1 / len(rest)))
    return 2 * places * float(stdtr(degrees, -abs(part.mean() - rest.mean()) / error))


def _pool_variance(logs: Array, ends: Sequence[int]) -> float:
    """The variance within levels."""
    squares = sum(
        float(((logs[first:end] - logs[first:end].mean()) ** 2).sum())
        for first, end in zip([0, *ends[:-1]], ends, strict=True)
    )
    return max(squares / (len(logs) - len(ends)), _LEAST_VARIANCE)


def _detectable(levels: Sequence[Level], variance: float, degrees: int) -> float:
    from scipy.special import stdtrit

    last = levels[-1]
    count = last.end + NEXT_RUNS
    places = max(1, count - 2 * MIN_LEVEL + 1)
    quantiles = stdtrit(degrees, 1 - SIGNIFICANCE / 2 / places) + stdtrit(degrees, POWER)
    return _expm1(float(quantiles) * math.sqrt(variance * (1 / (last.end - last.first) + 1 / NEXT_RUNS)))


def _exp(logarithm: float) -> float:
    return math.exp(max(-MAX_LOGARITHM, min(MAX_LOGARITHM, logarithm)))


def _expm1(logarithm: float) -> float:
    return math.expm1(max(-MAX_LOGARITHM, min(MAX_LOGARITHM, logarithm)))
