"""Sums over trees in preorder, where the subtree of node i is the rows [i, end[i])."""

import numpy as np

from ...domain.arrays import Array, BoolArray, Int64Array, sort_rows


def sum_paths(value: Array, end: Array) -> Array:
    """Sum of values over the path from the root to each node, inclusive. Integers; overflow wraps around."""
    opened = np.zeros(len(value) + 1, value.dtype)
    opened[:-1] = value
    busy = np.flatnonzero(value)
    np.subtract.at(opened, end[busy], value[busy])
    result: Array = np.cumsum(opened, dtype=value.dtype)[:-1]
    return result


def mark_subtrees(end: Array, hit: Array) -> BoolArray:
    """Mask of the nodes for which `hit` holds for the node or an ancestor."""
    # A marked node before a node is its ancestor if its subtree ends after that node.
    reach = np.maximum.accumulate(hit * end)
    # Of the same type, else numpy would convert both.
    marked: BoolArray = reach > np.arange(len(end), dtype=reach.dtype)
    return marked


def find_outermost(end: Array, label: Array) -> Int64Array:
    """For each node, the outermost node on its path with the same label (the node itself if no ancestor has it).

    label: ints from 0. int64 node ids.
    """
    n = len(end)
    # numpy sorts numbers several times faster than it computes an argsort.
    bits = n.bit_length()
    key = label.astype(np.int64) << bits
    key |= np.arange(n)
    key.sort()
    by_label = key & ((1 << bits) - 1)
    # Ends of earlier labels must not overlap later labels: each label has its own range of numbers.
    ends = key - by_label
    ends += end[by_label]
    reach = np.maximum.accumulate(ends)
    first = np.ones(n, bool)
    first[1:] = key[1:] >= reach[:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    result = np.empty(n, np.int64)
    result[by_label] = by_label[starts]
    return result


def nearest_ancestor(parent: Array, end: Array, mask: Array) -> Array:
    """For each node, the nearest node on its path for which `mask` holds, itself included. mask[0] must hold."""
    rows = np.flatnonzero(mask)
    if len(rows) < len(mask) // 16:
        jump = np.zeros(len(end), np.int64)
        jump[rows] = rows - reduced_parents(rows, end[rows])
        return sum_paths(jump, end)
    nearest = np.arange(len(mask), dtype=parent.dtype)
    left = np.flatnonzero(~mask)
    nearest[left] = parent[left]
    while len(left):
        left = left[~mask[nearest[left]]]
        nearest[left] = nearest[nearest[left]]
    return nearest


def reduced_parents(kept: Array, end: Array) -> Array:
    """Parents in the tree of only the nodes `kept`: node ids of the old tree, 0 for node 0.

    kept: ascending node ids of a tree in preorder, node 0 among them; end: where their subtrees end.
    """
    closing = np.searchsorted(kept, end)
    depth = np.arange(1, len(kept) + 1) - np.searchsorted(np.sort(closing), np.arange(len(kept)), "right")
    # In preorder, a node's parent is the last node before it that is one level higher.
    n = len(kept) + 1
    keys = depth * n + np.arange(len(kept))
    by_depth = sort_rows(keys)
    above = np.searchsorted(keys[by_depth], keys - n) - 1
    result: Array = np.where(depth <= 1, 0, kept[by_depth[np.maximum(above, 0)]])
    return result
