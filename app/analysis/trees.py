"""Sums over trees in preorder, where the subtree of node i is the rows [i, end[i])."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def path_sums(value: Array, end: Array) -> Array:
    """Σ value over the path from the root to each node, the node itself included. Integers; wraps as they do."""
    opened = np.zeros(len(value) + 1, value.dtype)
    opened[:-1] = value
    busy = np.flatnonzero(value)
    np.subtract.at(opened, end[busy], value[busy])
    result: Array = np.cumsum(opened, dtype=value.dtype)[:-1]
    return result


def covered(end: Array, hit: Array) -> Array:
    """Which nodes are hit or lie below one that is, as bools."""
    return path_sums(hit.astype(np.int32), end) > 0


def outermost(end: Array, label: Array) -> Array:
    """For each node, the outermost node on its path that bears the same label (itself, where there is none above).

    label: ints from 0. int64 node ids.
    """
    n = len(end)
    by_label = np.argsort(label, kind="stable")
    node_end = end[by_label].astype(np.int64)
    sorted_label = label[by_label].astype(np.int64)
    # Ends of earlier labels must not reach into later ones: each label gets a stretch of numbers of its own.
    reach = np.maximum.accumulate(node_end + sorted_label * (n + 1))
    first = np.ones(n, bool)
    first[1:] = by_label[1:] + sorted_label[1:] * (n + 1) >= reach[:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    result = np.empty(n, np.int64)
    result[by_label] = by_label[starts]
    return result
