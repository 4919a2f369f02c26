"""Rows put into groups once, and summed for every selection: the arithmetic of tables with a row for each group."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Float64Array
from .sample_selection import sum_by_index

MAX_LOOKUP_KEYS = 1 << 23
"""Up to so many possible keys it is faster to look them up than to sort."""


@dataclass(frozen=True, eq=False)
class GroupIndex:
    """code: the group of each place, from 0 (int32). first: the first index of each group, which identifies it."""

    code: Array
    first: Array

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False)
class SelectedGroups:
    """What a selection leaves of groups; those of which nothing is left are left out.

    groups: which ones are left, ascending. rows: of all, ascending; None for every one. code: of each place, which of
    `groups` it is in.
    """

    groups: Array
    rows: Array | None
    code: Array

    def __len__(self) -> int:
        return len(self.groups)

    def count(self) -> Array:
        """How many places each group has: int64."""
        return np.bincount(self.code, minlength=len(self)).astype(np.int64)

    def sum(self, values: Array) -> Array:
        """Σ of values by place; exact for whole numbers."""
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
        """Σ values ÷ how many: float64."""
        return self.sum(values) / self.count()

    def weighted_mean(self, values: Array, weights: Array) -> Array:
        """Σ value · weight ÷ Σ weight over the values that are known, NaN where none is. Where all weights of those
        are 0, their plain mean."""
        known = ~np.isnan(values)
        given = np.where(known, values, 0.0)
        weight = np.where(known, weights, 0).astype(np.float64)
        whole, count = self.sum(weight), self.sum(known.astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            plain = self.sum(given) / count
            found: Array = np.where(whole > 0, self.sum(given * weight) / whole, plain)
        return found

    def quantiles(self, values: Array, shares: Sequence[float]) -> list[Array]:
        """For each share (0–1) the smallest value of each group that this share of its values is not above (the
        "inverted CDF"), so it is one that occurs."""
        counts = self.count()
        own = self._take_rows(values)
        ranked = own[np.lexsort((own, self.code))]
        starts = np.cumsum(counts) - counts
        return [ranked[starts + np.maximum(0, np.ceil(share * counts).astype(np.int64) - 1)] for share in shares]

    def _take_rows(self, values: Array) -> Array:
        return values if self.rows is None else values[self.rows]


def group_by(*codes: Array) -> GroupIndex:
    """Places are of one group where all of these codes (ints, at least -1) are equal; groups in the order of codes."""
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
    """What `mask` (bools by place; None: all) picks of groups."""
    if mask is None:
        return SelectedGroups(np.arange(len(groups)), None, groups.code)
    places = np.flatnonzero(mask)
    left, code = factorize(groups.code[places], len(groups))
    return SelectedGroups(left, places, code)


def factorize(key: Array, size: int) -> tuple[Array, Array]:
    """Which keys (int64, from 0, below `size`) there are, ascending, and for each key which of them it is."""
    if size > max(MAX_LOOKUP_KEYS, len(key)):
        found, numbers = np.unique(key, return_inverse=True)
        return found, numbers
    there = np.zeros(size, bool)
    there[key] = True
    place = np.cumsum(there, dtype=np.int32) - 1
    return np.flatnonzero(there), place[key]
