"""Numbers for keys that come in large arrays: the same key has the same number whenever it comes again.

A hash table of numpy arrays (open addressing, linear probing), so that a million keys are looked up without a loop over
them, and without an object for each.
"""

import secrets

import numpy as np

from ..domain.arrays import Array, Int32Array, Int64Array

EMPTY = -1
MIN_BITS = 10


class KeyInterner:
    """Numbers of keys (int64, not negative), from 0 in the order in which keys first came."""

    def __init__(self) -> None:
        self._bits = MIN_BITS
        # A multiplier that cannot be foreseen: no file can be made up so that all of its keys meet in one place.
        self._factor = np.uint64(secrets.randbits(64) | 1)
        self._keys = np.full(1 << self._bits, EMPTY, np.int64)
        self._numbers = np.full(1 << self._bits, EMPTY, np.int32)
        self._known = [np.zeros(0, np.int64)]
        self.count = 0

    def intern(self, keys: Array) -> Int32Array:
        """The number of each key (int32); those that are new get the next ones."""
        self._make_room(len(keys))
        slots = self._slots(keys)
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
        """Every key, by its number."""
        self._known = [np.concatenate(self._known)]
        return self._known[0]

    def _slots(self, keys: Array) -> Int64Array:
        """Where each key is in the table, put there where it was not."""
        slots = ((keys.astype(np.uint64) * self._factor) >> np.uint64(64 - self._bits)).astype(np.int64)
        last = len(self._keys) - 1
        left = np.arange(len(keys))
        while len(left):
            wanted, at = keys[left], slots[left]
            free = self._keys[at] == EMPTY
            # Of several that want one place the last has it; all look again.
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
        self._numbers[self._slots(known)] = np.arange(self.count, dtype=np.int32)
