"""Ids for keys with two halves, and rows by key: hash tables of plain arrays for compiled loops.

Open addressing with linear probing. A table is at most half full. The hash multiplier is random in each process, so
that no file can be crafted whose keys all collide.
"""

import secrets
from typing import Any

import numpy as np

from ...domain.arrays import Array, Int32Array
from .decorators import jit

NONE = -1
HASH_FACTOR = secrets.randbits(31) | (1 << 30) | 1
"""Odd and below 2^31, so that its product with a 31-bit number fits an int64."""


@jit
def hash_slot(key: Any, factor: int, mask: int) -> Any:
    """The first slot of a key (int64), in a table of mask + 1 slots."""
    low = (key & 0x7FFFFFFF) * factor
    high = ((key >> 31) & 0x7FFFFFFF) * (factor ^ 0x2A3B5C6C)
    mixed = (low ^ (high >> 3) ^ (key >> 62)) & 0x7FFFFFFFFFFFFFFF
    mixed ^= mixed >> 32
    mixed = (mixed & 0x7FFFFFFF) * factor
    return (mixed ^ (mixed >> 29)) & mask


@jit
def grow(keys: Array, values: Array, factor: int) -> tuple[Array, Array]:
    """A table four times as large with the same content."""
    size = len(keys) * 4
    mask = size - 1
    new_keys = np.zeros(size, np.int64)
    new_values = np.full(size, -1, np.int32)
    for old in range(len(keys)):
        if values[old] >= 0:
            at = hash_slot(keys[old], factor, mask)
            while new_values[at] >= 0:
                at = (at + 1) & mask
            new_keys[at] = keys[old]
            new_values[at] = values[old]
    return new_keys, new_values


@jit
def _number_pairs(at: Array, first: Array, second: Array, size: int, factor: int) -> tuple[Array, Array]:
    codes = np.empty(len(at), np.int32)
    shown = np.empty(16, np.int32)
    count = 0
    keys = np.zeros(64, np.int64)
    values = np.full(64, -1, np.int32)
    # The last key of each second half; the next is mostly the same.
    before, code_before = np.full(size, -2, np.int32), np.empty(size, np.int32)
    for i in range(len(at)):
        one, other = first[at[i]], second[at[i]]
        known = 0 <= other < size
        if known and before[other] == one:
            codes[i] = code_before[other]
            continue
        key = (np.int64(one) << 32) | (np.int64(other) & 0xFFFFFFFF)
        mask = len(keys) - 1
        place_ = hash_slot(key, factor, mask)
        while values[place_] >= 0 and keys[place_] != key:
            place_ = (place_ + 1) & mask
        code = values[place_]
        if code < 0:
            code = np.int32(count)
            keys[place_] = key
            values[place_] = code
            if count == len(shown):
                more = np.empty(4 * count, np.int32)
                more[:count] = shown
                shown = more
            shown[count] = i
            count += 1
            if 2 * count > len(keys):
                keys, values = grow(keys, values, factor)
        if known:
            before[other] = one
            code_before[other] = code
        codes[i] = code
    return codes, shown[:count].copy()


def factorize_pairs(at: Array, first: Array, second: Array, size: int = 0) -> tuple[Array, Array]:
    """Ids of the pairs (first[i], second[i]) of int32 for each i of `at`: from 0 in the order of first appearance
    (int32), and the first index of each in `at`. size: faster if the second half is below it."""
    at, first, second = (values.astype(np.int32, copy=False) for values in (at, first, second))
    return _number_pairs(at, first, second, size, HASH_FACTOR)


@jit
def _number_keys(given: Array, factor: int) -> tuple[Array, Array]:
    codes = np.empty(len(given), np.int32)
    shown = np.empty(16, np.int32)
    count = code = 0
    keys = np.zeros(64, np.int64)
    values = np.full(64, -1, np.int32)
    for i in range(len(given)):
        key = given[i]
        if i and key == given[i - 1]:
            codes[i] = code
            continue
        mask = len(keys) - 1
        at = hash_slot(key, factor, mask)
        while values[at] >= 0 and keys[at] != key:
            at = (at + 1) & mask
        if values[at] < 0:
            keys[at] = key
            values[at] = count
            if count == len(shown):
                more = np.empty(4 * count, np.int32)
                more[:count] = shown
                shown = more
            shown[count] = i
            count += 1
            code = count - 1
            if 2 * count > len(keys):
                keys, values = grow(keys, values, factor)
        else:
            code = values[at]
        codes[i] = code
    return codes, shown[:count].copy()


def factorize(keys: Array) -> tuple[Array, Array]:
    """Ids of whole numbers, from 0 in the order of first appearance (int32), and the first index of each."""
    return _number_keys(keys.astype(np.int64, copy=False), HASH_FACTOR)


@jit
def _assign_ids(codes: Array, size: int) -> tuple[Array, Array]:
    number = np.full(size, -1, np.int32)
    shown = np.empty(size, np.int32)
    count = 0
    for code in codes:
        if code >= 0 and number[code] < 0:
            number[code] = count
            shown[count] = code
            count += 1
    return number, shown[:count].copy()


def compact_ids(codes: Array, size: int) -> tuple[Array, Array]:
    """The ids below `size` that occur: by id its number in the order of appearance or NONE, and by number its id.

    Ids below 0 are skipped.
    """
    return _assign_ids(codes.astype(np.int32, copy=False), size)


@jit
def _index(keys: Array, rows: Array, factor: int) -> tuple[Array, Array, bool]:
    size = 64
    while size < 2 * len(keys):
        size *= 2
    mask = size - 1
    table = np.zeros(size, np.int64)
    values = np.full(size, -1, np.int32)
    twice = False
    for i in range(len(keys)):
        key = keys[i]
        at = hash_slot(key, factor, mask)
        while values[at] >= 0 and table[at] != key:
            at = (at + 1) & mask
        if values[at] < 0:
            table[at] = key
            values[at] = rows[i]
        else:
            twice = True
    return table, values, twice


@jit
def _look_up(table: Array, values: Array, keys: Array, factor: int) -> Int32Array:
    found = np.empty(len(keys), np.int32)
    mask = len(table) - 1
    for i in range(len(keys)):
        key = keys[i]
        at = hash_slot(key, factor, mask)
        while values[at] >= 0 and table[at] != key:
            at = (at + 1) & mask
        found[i] = values[at]
    return found


class RowIndex:
    """Rows (int32, not negative) by key (int64). Of several rows with one key the first is found.

    twice: whether some key occurred more than once. keys, rows: the table, for compiled loops that probe it.
    """

    def __init__(self, keys: Array, rows: Array) -> None:
        keys = np.ascontiguousarray(keys, np.int64)
        self.keys, self.rows, self.twice = _index(keys, rows.astype(np.int32, copy=False), HASH_FACTOR)

    def lookup(self, keys: Array) -> Array:
        """The row of each key (int32), NONE if there is none."""
        return _look_up(self.keys, self.rows, keys.astype(np.int64, copy=False), HASH_FACTOR)
