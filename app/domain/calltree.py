"""Trees as arrays, in preorder.

A tree of n nodes is an array `parent` (int32, -1 for the root, node 0). In preorder a node's subtree is one run of
rows, [i, end[i]), so the totals of all subtrees are one running sum and one difference.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Preorder:
    """The preorder of a tree. order[k]: the old id at new place k. place[i]: the new place of old node i.

    parent, end, depth: of the new places (int32).
    """

    order: Array
    place: Array
    parent: Array
    end: Array
    depth: Array


def depths(parent: Array) -> Array:
    """Depth of each node (root 0), int32. Node 0 is the root; the others' parents are nodes of the same tree."""
    jump = parent.astype(np.int64)
    jump[:1] = 0
    depth = np.ones(len(parent), np.int32)
    depth[:1] = 0
    # Pointer doubling: after k rounds every node knows its depth up to 2**k levels above it.
    for _ in range(64):
        if not jump.any():
            return depth
        depth += depth[jump]
        jump = jump[jump]
    raise ValueError("parent does not describe one tree rooted at node 0")


def _stable_order(depth: Array) -> Array:
    """The nodes ordered by depth. numpy sorts 16-bit integers in linear time."""
    narrow = len(depth) and int(depth.max()) < 1 << 15
    return np.argsort(depth.astype(np.int16) if narrow else depth, kind="stable")


def preorder(parent: Array, key: Array | None = None) -> Preorder:
    """Put a tree in preorder; siblings in ascending `key`, else in the order of their ids.

    `parent`: ints, -1 at node 0; parents before children.
    """
    n = len(parent)
    depth = depths(parent)
    by_depth = _stable_order(depth)
    bounds = np.searchsorted(depth[by_depth], np.arange((int(depth.max()) if n else 0) + 2))
    size = np.ones(n, np.int64)
    for d in range(len(bounds) - 2, 0, -1):
        nodes = by_depth[bounds[d] : bounds[d + 1]]
        np.add.at(size, parent[nodes], size[nodes])
    # Siblings side by side, then the sizes of the earlier ones summed within each family.
    family = np.lexsort((key, parent)) if key is not None else np.argsort(parent, kind="stable")
    before = np.cumsum(size[family]) - size[family]
    first = np.r_[True, parent[family][1:] != parent[family][:-1]] if n else np.zeros(0, bool)
    start_of_family = np.maximum.accumulate(np.where(first, np.arange(n), 0)) if n else np.zeros(0, int)
    offset = np.empty(n, np.int64)
    offset[family] = before - before[start_of_family]
    place = np.zeros(n, np.int64)
    for d in range(1, len(bounds) - 1):
        nodes = by_depth[bounds[d] : bounds[d + 1]]
        place[nodes] = place[parent[nodes]] + 1 + offset[nodes]
    order = np.empty(n, np.int64)
    order[place] = np.arange(n)
    new_parent = np.where(order == 0, -1, place[parent[order]]) if n else np.zeros(0, np.int64)
    return Preorder(
        order=order,
        place=place,
        parent=new_parent.astype(np.int32),
        end=(np.arange(n) + size[order]).astype(np.int32),
        depth=depth[order],
    )


def totals(self_weight: Array, end: Array) -> Array:
    """Weight of every subtree (root first) of a tree in preorder: Σ self_weight over [i, end[i]). Same dtype."""
    running = np.concatenate((np.zeros(1, self_weight.dtype), np.cumsum(self_weight)))
    result: Array = running[end] - running[:-1]
    return result


def merge_children(parent: Array, label: Array) -> tuple[Array, Array, Array]:
    """Merge nodes that have the same label under the same (merged) parent.

    parent: int array, -1 at node 0; parents before children. label: ints from 0 (what node i is); node 0's is ignored.
    Returns (merged, new_parent, new_label): merged[i] is the new node of old node i; new nodes again have parents
    before children, in order of first appearance within their depth.
    """
    n = len(parent)
    depth = depths(parent)
    by_depth = _stable_order(depth)
    bounds = np.searchsorted(depth[by_depth], np.arange((int(depth.max()) if n else 0) + 2))
    merged = np.zeros(n, np.int64)
    parents = [np.array([-1], np.int64)]
    labels = [np.array([-1], np.int64)]
    count = 1
    width = int(label.max()) + 2 if n else 1
    for d in range(1, len(bounds) - 1):
        nodes = by_depth[bounds[d] : bounds[d + 1]]
        # Hashing beats sorting here, and keeps the order of first appearance.
        encoded = pa.array(merged[parent[nodes]] * width + label[nodes]).dictionary_encode()
        merged[nodes] = count + encoded.indices.to_numpy()
        distinct = encoded.dictionary.to_numpy()
        parents.append(distinct // width)
        labels.append(distinct % width)
        count += len(distinct)
    return merged, np.concatenate(parents), np.concatenate(labels)
