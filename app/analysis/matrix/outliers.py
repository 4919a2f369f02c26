"""Outliers among groups, and change points over time, with their errors. Arrays in, arrays out.

Weights of samples are random. Of the n samples of a group, a part p has a standard error of √(n·p·(1−p)) samples
(binomial: how many samples a group has in total is measured, not random). A group is an outlier only if its excess over
the mean of the others exceeds both this error and the differences among the others.
See docs/reference/definitions.md#outliers.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray, Float64Array
from ..core.sample_counts import MIN_COMPARED_SAMPLES

MIN_ERRORS = 4.0
"""A change, and the excess of one of up to four groups, has at least this many standard errors; see `min_errors`."""
MIN_SHARE = 0.05
"""An excess is at least this share of the mean weight of a group, whatever its samples did."""
MIN_EDGE_BINS = 3
"""A change is at least this many bins from the start and the end."""
MAX_EARLIER = 0.5
"""Before a change, the excess per time is less than this part of that after it."""
DROP = 9.0
"""Times of a change are as probable as the best one if their squared number of errors is at most this less."""


@dataclass(frozen=True, eq=False)
class Excess:
    """The greatest weight of each row compared with the others. groups: how many are compared, all of this role. total,
    squares, variance: sums of their weights, squares and sampling variances. mean, least: of the weights. top: the
    greatest, top_group: its group, -1 for none. excess: of the greatest over the mean of the others, error: its
    standard error. significant: whether it is an outlier."""

    groups: Array
    role: Array
    total: Float64Array
    squares: Float64Array
    variance: Float64Array
    mean: Float64Array
    least: Float64Array
    top: Float64Array
    top_group: Array
    excess: Float64Array
    error: Float64Array
    significant: BoolArray

    @property
    def imbalance_percent(self) -> Float64Array:
        """max ÷ mean − 1 in percent, NaN if the mean is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.mean > 0, 100.0 * (self.top / self.mean - 1), np.nan)


def sampling_variance(weight: Array, count: Array, whole: Array) -> Float64Array:
    """The variance of sums of weights of so many samples, out of all the weight of their group: weight² ÷ count · (1 −
    weight ÷ whole); 0 without samples."""
    value = weight.astype(np.float64)
    square = np.divide(value * value, count, out=np.zeros(len(value)), where=count > 0)
    share = np.divide(value, whole, out=np.zeros(len(value)), where=whole > 0)
    found: Float64Array = square * np.clip(1.0 - share, 0.0, 1.0)
    return found


def find_excess(
    row: Array, group: Array, weight: Array, count: Array, rows: int, role: Array, whole: Array, min_groups: int = 2
) -> Excess:
    """The greatest value of each of `rows` rows. row, group, weight, count: of cells, sorted by row and group; other
    cells are 0. role: of each group, -1: not compared; a row compares the groups of the role with most of its weight.
    whole: the weight of each group in all rows, computing and waiting. min_groups: fewer have no outlier."""
    roles = int(role.max(initial=-1)) + 1
    members = np.bincount(role[role >= 0], minlength=max(1, roles))
    means = np.bincount(role[role >= 0], whole[role >= 0], max(1, roles)) / np.maximum(1, members)
    kept = role[group] >= 0
    row, group, weight, count = row[kept], group[kept], weight[kept], count[kept]
    key = row * max(1, roles) + role[group]
    size, value = rows * max(1, roles), weight.astype(np.float64)
    total, squares = (np.bincount(key, part, size) for part in (value, value * value))
    cells = np.bincount(key, minlength=size)
    variances = sampling_variance(weight, count, whole[group])
    variance = np.bincount(key, variances, size)
    # The role with most of the weight of each row.
    best = total.reshape(rows, -1).argmax(axis=1) + np.arange(rows) * max(1, roles) if rows else np.zeros(0, np.int64)
    peers = members[best % max(1, roles)]
    place = _greatest_cell(key, value, size)[best]
    there = place >= 0
    safe = np.maximum(place, 0) if len(value) else np.zeros(rows, np.int64)
    picked = value[safe] if len(value) else np.zeros(rows)
    top = np.where(there, picked, 0.0)
    taken = np.where(there, count[safe] if len(value) else 0, 0)
    own = np.where(there, variances[safe] if len(value) else 0.0, 0.0)
    excess, error = measure_excess(top, own, total[best], squares[best], variance[best], peers)
    least = _least(key, value, size)[best]
    return Excess(
        groups=peers,
        role=best % max(1, roles),
        total=total[best],
        squares=squares[best],
        variance=variance[best],
        mean=total[best] / np.maximum(1, peers),
        least=np.where(cells[best] < peers, np.minimum(least, 0.0), least),
        top=top,
        top_group=np.where(there, group[safe] if len(value) else -1, -1),
        excess=excess,
        error=error,
        significant=is_significant(excess, error, taken, means[best % max(1, roles)], peers) & (peers >= min_groups),
    )


def measure_excess(
    top: Array, own: Array, total: Array, squares: Array, variance: Array, groups: Array
) -> tuple[Float64Array, Float64Array]:
    """(excess of `top` over the mean of the other groups, its standard error). own: the sampling variance of `top`;
    total, squares, variance: sums over all groups of the values, their squares and their sampling variances."""
    others = np.maximum(1, groups - 1)
    mean = (total - top) / others
    spread = np.maximum(0.0, squares - top * top - others * mean * mean) / np.maximum(1, others - 1)
    between = np.where(others > 1, spread * (others + 1) / others, 0.0)
    sampling = own + np.maximum(0.0, variance - own) / (others * others)
    return top - mean, np.sqrt(np.maximum(between, sampling))


def min_errors(groups: Array) -> Float64Array:
    """How many standard errors the excess of the greatest of so many groups must have: √(16 + 2 ln(n ÷ 4)), so that the
    greatest of many is not an outlier by chance more often than that of four (5.2 for 1,024)."""
    found: Float64Array = np.sqrt(MIN_ERRORS**2 + 2 * np.log(np.maximum(1.0, groups / 4)))
    return found


def is_significant(excess: Array, error: Array, count: Array, whole: Array, groups: Array) -> BoolArray:
    """Whether an excess is greater than its error allows, and material. count: samples of the greatest group; whole:
    the mean weight of a group in all rows; groups: how many are compared."""
    found: BoolArray = (
        (excess >= min_errors(groups) * error)
        & (excess > 0)
        & (excess >= MIN_SHARE * whole)
        & (count >= MIN_COMPARED_SAMPLES)
    )
    return found


@dataclass(frozen=True)
class Change:
    """When an excess began. at: the boundary before this bin. error_bins: how far the boundary may be from there."""

    at: int
    error_bins: int


def find_change(excess: Array, variance: Array) -> Change | None:
    """The bin since which an excess is greater; None if no change exceeds its error. excess: of each bin (float64);
    variance: its sampling variance.

    Of all splits of the bins in two parts, the one whose means differ by the most standard errors: the change point of
    a single step. Its error comes from the scatter around both means. It is at least half of the sampling error, as
    samples at regular intervals scatter less than random ones.
    """
    bins = len(excess)
    if bins < 2 * MIN_EDGE_BINS:
        return None
    before = np.arange(1, bins, dtype=np.float64)
    after = bins - before
    sums, errors = np.cumsum(excess)[:-1], np.cumsum(variance)[:-1]
    total, whole = float(excess.sum()), float(variance.sum())
    first, second = sums / before, (total - sums) / after
    scatter = float((excess * excess).sum()) - before * first * first - after * second * second
    scatter = np.maximum(0.0, scatter) / max(1, bins - 2) * (1 / before + 1 / after)
    error = np.sqrt(np.maximum((errors / before**2 + (whole - errors) / after**2) / 4, scatter))
    score = np.divide(second - first, error, out=np.zeros(bins - 1), where=error > 0)
    inside = (before >= MIN_EDGE_BINS) & (after >= MIN_EDGE_BINS)
    score = np.where(inside, score, 0.0)
    best = int(score.argmax())
    if score[best] < MIN_ERRORS or second[best] <= 0 or first[best] > MAX_EARLIER * second[best]:
        return None
    likely = np.flatnonzero(inside & (score > 0) & (score**2 >= score[best] ** 2 - DROP))
    return Change(best + 1, int(np.abs(likely - best).max(initial=0)))


def _greatest_cell(key: Array, value: Array, size: int) -> Array:
    """The index of the cell with the greatest value of each key, -1 without cells; of equal ones the first."""
    peak = np.full(size, -np.inf)
    np.maximum.at(peak, key, value)
    tops = np.flatnonzero(value == peak[key])[::-1]
    found = np.full(size, -1, np.int64)
    # Of repeated indices, the last assignment remains.
    found[key[tops]] = tops
    return found


def _least(key: Array, value: Array, size: int) -> Float64Array:
    found = np.full(size, np.inf)
    np.minimum.at(found, key, value)
    return np.where(np.isinf(found), 0.0, found)
