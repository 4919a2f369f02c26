"""The types of numpy arrays, each defined once, and numbers for the distinct values of large arrays. Annotations name
the element type if it never varies.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = np.iinfo(np.int64).min
"""The value of a missing number or time in an int64 column."""
Array = NDArray[Any]
"""Elements of several types, or of a type that depends on the data."""
IndexArray = NDArray[np.intp]
"""Indices into another array."""
BoolArray = NDArray[np.bool_]
Float64Array = NDArray[np.float64]
Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

_HALF = np.uint64(32)
_FEW_VALUES = 1 << 18
_FACTOR = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
"""Random, so that no file can be made whose values have the same upper bits."""


def sort_distinct(values: Array) -> Array:
    """The different values in ascending order: `np.unique` without masked arrays, which it loads in 17 ms."""
    ordered = np.sort(values, axis=None)
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    distinct: Array = ordered[is_first]
    return distinct


def is_among(values: Array, candidates: Array) -> BoolArray:
    """Whether each value is one of the candidates, which ascend: `np.isin` without masked arrays."""
    if not len(candidates):
        return np.zeros(len(values), bool)
    place = np.searchsorted(candidates, values)
    same: BoolArray = candidates[np.minimum(place, len(candidates) - 1)] == values
    return same


_MOST_SMALL = 1 << 16
"""A table with so many numbers fits into the cache of a CPU."""


def sort_rows(key: Array) -> IndexArray:
    """The rows in ascending order of `key` (ints, none negative), equal ones in their own order: as a stable argsort,
    but numpy sorts numbers several times faster than it does that."""
    bits = len(key).bit_length()
    if int(key.max(initial=0)) >> (62 - bits):
        return np.argsort(key, kind="stable")
    packed = key.astype(np.int64) << bits
    packed |= np.arange(len(key))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def rank_values(values: Array) -> tuple[Array, IndexArray]:
    """(the different values in ascending order, the place of each value among them). values: whole numbers, less than
    2^63 apart if they are signed."""
    if not len(values):
        return values, np.zeros(0, np.int64)
    order = sort_rows(values - values.min())
    ordered = values[order]
    is_first = np.ones(len(values), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    place = np.empty(len(values), np.int64)
    place[order] = np.cumsum(is_first) - 1
    return ordered[is_first], place


def number_values(*columns: Array) -> tuple[Array, Int64Array]:
    """(number of each row (int32), the row where each number is first), in order of appearance. Rows with the same
    whole numbers in all columns have the same number.

    Values are scattered, then sorted as words of their upper bits and their row, which numpy does several times faster
    than sorting rows by values, or looking values up in a table that is larger than the cache of a CPU.
    """
    if len(columns) == 1 and len(columns[0]) < _FEW_VALUES and "pyarrow.compute" in sys.modules:
        return _number_by_table(columns[0])
    if (packed := _pack_small(columns)) is not None:
        return _number_small(*packed)
    return number_keys(scatter(columns))


def _pack_small(columns: Sequence[Array]) -> tuple[Array, int] | None:
    """(a number for each row that differs for different rows, above all of these); None if some are large."""
    packed, size = np.zeros(len(columns[0]), np.int64), 1
    if not len(packed):
        return None
    for column in columns:
        low = column.min()
        width = int(column.max()) - int(low) + 1
        if width > _MOST_SMALL:
            return None
        if width == 1:
            continue
        # As int64, a number above its range is one below zero, but differences are right.
        small = column.astype(np.int64) - low.astype(np.int64)
        if size * width > _MOST_SMALL:
            packed, size = _close_gaps(packed, size)
        if size * width > _MOST_SMALL:
            small, width = _close_gaps(small, width)
        if size * width > _MOST_SMALL:
            return None
        packed *= width
        packed += small
        size *= width
    return packed, size


def _close_gaps(values: Array, size: int) -> tuple[Array, int]:
    """(values below `size` numbered without gaps, above all of these)."""
    occurs = np.zeros(size, bool)
    occurs[values] = True
    number = np.cumsum(occurs) - 1
    return number[values], int(number[-1]) + 1


def _number_small(values: Array, size: int) -> tuple[Array, Int64Array]:
    """Like `number_values`, for values below `size`."""
    at = np.full(size, -1, np.int64)
    at[values[::-1]] = np.arange(len(values) - 1, -1, -1)
    occurring = np.flatnonzero(at >= 0)
    first = at[occurring]
    order = np.argsort(first)
    number = np.empty(size, np.int32)
    number[occurring[order]] = np.arange(len(order), dtype=np.int32)
    return number[values], first[order]


def _number_by_table(values: Array) -> tuple[Array, Int64Array]:
    """Like `number_values`, with a hash table of Arrow. It is faster for few values, but takes longer to load."""
    import pyarrow as pa

    # The bytes are shared, because the conversion functions of Arrow import pandas.
    keys = np.ascontiguousarray(values, np.int64)
    encoded = pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(keys)]).dictionary_encode()
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(keys)) if len(keys) else np.zeros(0, np.int32)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(keys) - 1, -1, -1)
    return codes, first


def scatter(columns: Sequence[Array]) -> Array:
    """Scattered numbers (uint64), which differ for rows with different whole numbers."""
    keys = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        keys ^= column.astype(np.uint64)
        keys *= _FACTOR
        keys ^= keys >> _HALF
        keys *= _FACTOR
    return keys


def number_keys(keys: Array) -> tuple[Array, Int64Array]:
    """(number of each key (int32), the row where each number is first), in order of appearance. keys: scattered
    numbers (uint64)."""
    count = len(keys)
    if not count:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    bits = np.uint64(max(1, (count - 1).bit_length()))
    packed = keys >> bits
    packed <<= bits
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    packed &= (np.uint64(1) << bits) - np.uint64(1)
    row = packed.view(np.int64)
    found = keys[row]
    begins = np.ones(count, bool)
    np.not_equal(found[1:], found[:-1], out=begins[1:])
    found >>= bits
    # Different keys with the same upper bits, which may alternate.
    if (alike := begins[1:] & (found[1:] == found[:-1])).any():
        mixed = np.flatnonzero(np.isin(found, found[1:][alike]))
        rows = row[mixed]
        row[mixed] = rows[np.lexsort((rows, keys[rows]))]
        found = keys[row]
        np.not_equal(found[1:], found[:-1], out=begins[1:])
    del found
    starts = np.flatnonzero(begins)
    first = row[starts]
    order = np.argsort(first)
    rank = np.empty(len(first), np.int32)
    rank[order] = np.arange(len(first), dtype=np.int32)
    codes = np.empty(count, np.int32)
    codes[row] = np.repeat(rank, np.diff(starts, append=count))
    return codes, first[order]
