"""Ids for keys in large arrays: the same key has the same id whenever it occurs again.

A hash table of numpy arrays (open addressing, linear probing), so that a million keys are looked up without a Python
loop and without an object for each.
"""

import secrets

import numpy as np

from ..domain.arrays import Array, Int32Array, Int64Array

EMPTY = -1
MIN_BITS = 10


class KeyInterner:
    """Ids of keys (int64, not negative), from 0 in the order of first appearance."""

    def __init__(self) -> None:
        self._bits = MIN_BITS
        # An unpredictable multiplier, so that no file can be crafted whose keys all collide.
        self._factor = np.uint64(secrets.randbits(64) | 1)
        self._keys = np.full(1 << self._bits, EMPTY, np.int64)
        self._numbers = np.full(1 << self._bits, EMPTY, np.int32)
        self._known = [np.zeros(0, np.int64)]
        self.count = 0

    def intern(self, keys: Array) -> Int32Array:
        """The id of each key (int32); new keys get the next ids."""
        self._make_room(len(keys))
        slots = self._find_slots(keys)
        numbers = self._numbers[slots]
        new = np.flatnonzero(numbers < 0)
        if len(new):
            found, first = np.unique(slots[new], return_index=True)
            order = np.argsort(first)
            self._numbers[found[order]] = np.arange(self.count, self.count + len(found), dtype=np.int32)
            self._known.append(keys[new[first[order]]])
            self.count += len(found)
            numbers = self._numbers[slots]
        return numbers

    def keys(self) -> Int64Array:
        """Every key, by its id."""
        self._known = [np.concatenate(self._known)]
        return self._known[0]

    def _find_slots(self, keys: Array) -> Int64Array:
        """The slot of each key in the table; new keys are inserted."""
        slots = ((keys.astype(np.uint64) * self._factor) >> np.uint64(64 - self._bits)).astype(np.int64)
        last = len(self._keys) - 1
        left = np.arange(len(keys))
        while len(left):
            wanted, at = keys[left], slots[left]
            free = self._keys[at] == EMPTY
            # Of several keys that claim one slot the last gets it; all of them probe again.
            self._keys[at[free]] = wanted[free]
            left = left[self._keys[at] != wanted]
            slots[left] = (slots[left] + 1) & last
        return slots

    def _make_room(self, more: int) -> None:
        """Grow so that the table is at most half full with this many more keys."""
        bits = max(self._bits, int(2 * (self.count + more)).bit_length())
        if bits == self._bits:
            return
        self._bits = bits
        self._keys = np.full(1 << bits, EMPTY, np.int64)
        self._numbers = np.full(1 << bits, EMPTY, np.int32)
        known = self.keys()
        self._numbers[self._find_slots(known)] = np.arange(self.count, dtype=np.int32)
