"""Call stacks of a pprof file, as a tree."""

import numpy as np

from ...domain.arrays import Array, Int32Array
from ...ingest.jit.decorators import jit
from ...ingest.jit.hashing import HASH_FACTOR, grow, hash_slot
from .code import CodeTables


@jit
def _enlarge(values: Array, count: int) -> Array:
    more = np.empty(2 * count, values.dtype)
    more[:count] = values
    return more


@jit
def _add_nodes(
    location: Array,
    ends: Array,
    begin: Array,
    frames: Array,
    keys: Array,
    values: Array,
    parent: Array,
    label: Array,
    count: int,
    node_of: Array,
    factor: int,
) -> tuple[Array, Array, Array, Array, int]:
    """Walk each stack from its outermost frame inwards and add new nodes."""
    start = 0
    for i in range(len(ends)):
        node = 0
        for j in range(ends[i] - 1, start - 1, -1):
            row = location[j]
            if row < 0:
                continue
            for k in range(begin[row + 1] - 1, begin[row] - 1, -1):
                key = (np.int64(node) << 32) | np.int64(frames[k])
                mask = len(keys) - 1
                at = hash_slot(key, factor, mask)
                while values[at] >= 0 and keys[at] != key:
                    at = (at + 1) & mask
                if values[at] >= 0:
                    node = values[at]
                    continue
                if count == len(parent):
                    parent, label = _enlarge(parent, count), _enlarge(label, count)
                parent[count], label[count] = node, frames[k]
                keys[at], values[at] = key, count
                node = count
                count += 1
                if 2 * count > len(keys):
                    keys, values = grow(keys, values, factor)
        start = ends[i]
        node_of[i] = node
    return keys, values, parent, label, count


class StackTree:
    """The tree of all call stacks: node 0 is the root."""

    def __init__(self, code: CodeTables) -> None:
        self._begin, self._frames = code.begin, code.frames_of
        self._keys, self._values = np.zeros(1 << 10, np.int64), np.full(1 << 10, -1, np.int32)
        self._parent, self._label = (np.zeros(1 << 10, np.int32) for _ in range(2))
        self._count = 1

    def intern(self, location: Array, ends: Array) -> Int32Array:
        """The nodes of stacks given as rows of locations, innermost first, -1 for omitted ones: stack i ends before
        ends[i]."""
        node = np.zeros(len(ends), np.int32)
        self._keys, self._values, self._parent, self._label, self._count = _add_nodes(
            *(location, ends, self._begin, self._frames, self._keys, self._values, self._parent, self._label),
            *(self._count, node, HASH_FACTOR),
        )
        return node

    def get_tree(self) -> tuple[Array, Array]:
        """(parent, frame) of all nodes but the root, as `ProfileBuilder.stacks` takes them."""
        return self._parent[1 : self._count].astype(np.int64) - 1, self._label[1 : self._count]
