"""Rows assigned to groups once and aggregated for each selection, for tables with one row per group."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Float64Array
from .sample_selection import sum_by_index

MAX_LOOKUP_KEYS = 1 << 23
"""Up to this number of possible keys, a lookup table is faster than sorting."""


@dataclass(frozen=True, eq=False)
class GroupIndex:
    """code: the group of each row, from 0 (int32). first: the first row of each group, which identifies it."""

    code: Array
    first: Array

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False)
class SelectedGroups:
    """The selected rows of groups; groups without selected rows are omitted.

    groups: the remaining groups, ascending. rows: the selected rows, ascending; None for all. code: for each selected
    row the index of its group in `groups`.
    """

    groups: Array
    rows: Array | None
    code: Array

    def __len__(self) -> int:
        return len(self.groups)

    def count(self) -> Array:
        """Number of rows of each group: int64."""
        return np.bincount(self.code, minlength=len(self)).astype(np.int64)

    def sum(self, values: Array) -> Array:
        """Sum of values by group; exact for integers."""
        own = self._take_rows(values)
        if own.dtype.kind == "f":
            return np.bincount(self.code, own, len(self))
        return sum_by_index(self.code, own, len(self))

    def min(self, values: Array) -> Array:
        """The smallest value of each group."""
        own = self._take_rows(values)
        found = np.full(len(self), own.max() if len(own) else 0, own.dtype)
        np.minimum.at(found, self.code, own)
        return found

    def max(self, values: Array) -> Array:
        """The greatest value of each group."""
        own = self._take_rows(values)
        found = np.full(len(self), own.min() if len(own) else 0, own.dtype)
        np.maximum.at(found, self.code, own)
        return found

    def any(self, flags: Array) -> Array:
        """Whether any flag of the group is set, as bools."""
        found = np.zeros(len(self), bool)
        found[self.code[self._take_rows(flags)]] = True
        return found

    def mean(self, values: Array) -> Float64Array:
        """Mean of the values of each group: float64."""
        return self.sum(values) / self.count()

    def weighted_mean(self, values: Array, weights: Array) -> Array:
        """Σ value · weight ÷ Σ weight over the known values, NaN if there are none. If all their weights are
        0, their unweighted mean."""
        known = ~np.isnan(values)
        given = np.where(known, values, 0.0)
        weight = np.where(known, weights, 0).astype(np.float64)
        whole, count = self.sum(weight), self.sum(known.astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            plain = self.sum(given) / count
            found: Array = np.where(whole > 0, self.sum(given * weight) / whole, plain)
        return found

    def quantiles(self, values: Array, shares: Sequence[float]) -> list[Array]:
        """Quantiles of each group for each share (0 to 1): always a value that occurs ("inverted CDF")."""
        counts = self.count()
        own = self._take_rows(values)
        ranked = own[np.lexsort((own, self.code))]
        starts = np.cumsum(counts) - counts
        return [ranked[starts + np.maximum(0, np.ceil(share * counts).astype(np.int64) - 1)] for share in shares]

    def _take_rows(self, values: Array) -> Array:
        return values if self.rows is None else values[self.rows]


def group_by(*codes: Array) -> GroupIndex:
    """Rows are in the same group if all of these codes (ints, at least -1) are equal; groups are sorted by the
    codes."""
    key = codes[0].astype(np.int64) + 1
    size = int(key.max()) + 1 if len(key) else 1
    for code in codes[1:]:
        wide = int(code.max()) + 2 if len(code) else 1
        if size * wide >= 1 << 62:
            left, key = factorize(key, size)
            size = len(left)
        key = key * wide + code + 1
        size *= wide
    left, numbers = factorize(key, size)
    first = np.zeros(len(left), np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return GroupIndex(numbers.astype(np.int32), first)


def select_groups(groups: GroupIndex, mask: Array | None) -> SelectedGroups:
    """The rows of groups that `mask` selects (bools by row; None: all)."""
    if mask is None:
        return SelectedGroups(np.arange(len(groups)), None, groups.code)
    places = np.flatnonzero(mask)
    left, code = factorize(groups.code[places], len(groups))
    return SelectedGroups(left, places, code)


def factorize(key: Array, size: int) -> tuple[Array, Array]:
    """(the distinct keys, ascending; for each key its index among them). keys: int64, from 0, below `size`."""
    if size > max(MAX_LOOKUP_KEYS, len(key)):
        found, numbers = np.unique(key, return_inverse=True)
        return found, numbers
    there = np.zeros(size, bool)
    there[key] = True
    place = np.cumsum(there, dtype=np.int32) - 1
    return np.flatnonzero(there), place[key]
