"""Rows put into groups once, and summed for every selection: the arithmetic of tables with a row for each group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Groups:
    """order: places, those of one group side by side and ascending within it. group: of each of them, from 0.
    first: a place of each group, to tell by what it is one."""

    order: Array
    group: Array
    first: Array

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Picked:
    """The places of groups that a selection picks, by group; groups that nothing is left of are left out.

    groups: which ones are left. places: of all, by group. starts: where in them each begins.
    """

    groups: Array
    places: Array
    starts: Array

    def __len__(self) -> int:
        return len(self.groups)

    def counts(self) -> Array:
        """How many places each group has: int64."""
        return np.diff(np.append(self.starts, len(self.places)))

    def sums(self, values: Array) -> Array:
        """Σ of values by place: exact for int64."""
        return self._reduced(np.add, values)

    def least(self, values: Array) -> Array:
        """The smallest value of each group."""
        return self._reduced(np.minimum, values)

    def greatest(self, values: Array) -> Array:
        """The greatest value of each group."""
        return self._reduced(np.maximum, values)

    def means(self, values: Array) -> Array:
        """Σ values ÷ how many: float64."""
        return self.sums(values) / self.counts()

    def weighted(self, values: Array, weights: Array) -> Array:
        """Σ value · weight ÷ Σ weight over the values that are known, NaN where none is. Where all weights of those
        are 0, their plain mean."""
        known = ~np.isnan(values)
        given = np.where(known, values, 0.0)
        weight = np.where(known, weights, 0).astype(np.float64)
        whole, count = self.sums(weight), self.sums(known.astype(np.int64))
        with np.errstate(invalid="ignore", divide="ignore"):
            plain = self.sums(given) / count
            found: Array = np.where(whole > 0, self.sums(given * weight) / whole, plain)
        return found

    def quantiles(self, values: Array, shares: Sequence[float]) -> list[Array]:
        """For each share (0–1) the value of each group below or at which that share of its values lies: the smallest
        such value there is (the "inverted CDF"), so it is one that occurs."""
        if not len(self):
            return [np.zeros(0, values.dtype) for _ in shares]
        counts = self.counts()
        own = values[self.places]
        order = np.lexsort((own, np.repeat(np.arange(len(self)), counts)))
        ranked = own[order]
        return [ranked[self.starts + np.maximum(0, np.ceil(share * counts).astype(np.int64) - 1)] for share in shares]

    def _reduced(self, function: np.ufunc, values: Array) -> Array:
        if not len(self):
            return np.zeros(0, values.dtype)
        found: Array = function.reduceat(values[self.places], self.starts)
        return found


def groups_by(*codes: Array) -> Groups:
    """Places are of one group where all of these codes (ints, at least -1) are equal; groups in the order of codes."""
    key = codes[0].astype(np.int64)
    for code in codes[1:]:
        low = code.astype(np.int64) + 1
        size = int(low.max()) + 1 if len(low) else 1
        top = int(key.max()) + 2 if len(key) else 1
        if top * size >= 1 << 62:
            key = np.unique(key, return_inverse=True)[1]
        key = (key + 1) * size + low
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = sorted_key[1:] != sorted_key[:-1]
    return Groups(order, np.cumsum(fresh) - 1, order[fresh])


def picked(groups: Groups, mask: Array | None) -> Picked:
    """What `mask` (bools by place; None: all) picks of groups."""
    if mask is None:
        places, group = groups.order, groups.group
    else:
        inside = mask[groups.order]
        places, group = groups.order[inside], groups.group[inside]
    fresh = np.ones(len(places), bool)
    fresh[1:] = group[1:] != group[:-1]
    starts = np.flatnonzero(fresh)
    return Picked(group[starts], places, starts)
