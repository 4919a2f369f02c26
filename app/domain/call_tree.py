"""Trees as arrays, in preorder.

A tree of n nodes is an array `parent` (int32, -1 for the root, node 0). In preorder a node's subtree is one run of
rows, [i, end[i]), so the totals of all subtrees are one running sum and one difference.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, BoolArray, Int32Array, number_values

_MOST_STEPS = 64
"""Longer paths are followed for all nodes at once."""
MAX_LEVELS = 5000
"""Up to this number of levels, it is worth checking whether nodes are already ordered by depth."""


@dataclass(frozen=True)
class Preorder:
    """The preorder of a tree (int32). order[k]: the old id of the node at new index k. position[i]: the new index of
    old node i. parent, end, depth: by new index.
    """

    order: Array
    position: Array
    parent: Array
    end: Array
    depth: Array


def compute_depths(parent: Array) -> Int32Array:
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
    raise ValueError("parent does not describe a single tree rooted at node 0")


@dataclass(frozen=True)
class _Levels:
    """The nodes of a tree by depth. bounds: level d is order[bounds[d]:bounds[d+1]]. order None: it is the identity."""

    depth: Array
    order: Array | None
    bounds: Array

    def nodes(self, d: int) -> Any:
        """What indexes an array for the nodes of level d."""
        level = slice(int(self.bounds[d]), int(self.bounds[d + 1]))
        return level if self.order is None else self.order[level]

    @property
    def deepest(self) -> int:
        return len(self.bounds) - 2


def _compute_levels(parent: Array) -> _Levels:
    bounds = _find_bounds_if_ordered(parent)
    if bounds is not None:
        depth = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
        if (depth[parent[1:]] + 1 == depth[1:]).all():
            return _Levels(depth, None, bounds)
    return _sort_by_depth(compute_depths(parent))


def _sort_by_depth(depth: Array) -> _Levels:
    most = int(depth.max()) if len(depth) else 0
    # numpy sorts 16-bit integers in linear time.
    order = np.argsort(depth.astype(np.int16) if most < 1 << 15 else depth, kind="stable")
    return _Levels(depth, order, np.searchsorted(depth[order], np.arange(most + 2)))


def _find_bounds_if_ordered(parent: Array) -> Array | None:
    """The bounds of the levels if nodes are ordered by depth, by a binary search for each; None if they cannot be. Does
    not check that all nodes are in that order."""
    n = len(parent)
    bounds = [0, 1]
    # The last node is one of the deepest.
    most, node = 2, n - 1
    while node > 0 and most < MAX_LEVELS:
        most, node = most + 1, int(parent[node])
    while bounds[-1] < n and len(bounds) < most:
        low, high, start = bounds[-1], n, bounds[-1]
        while low < high:
            middle = (low + high) // 2
            if parent[middle] >= start:
                high = middle
            else:
                low = middle + 1
        if low == start:
            return None
        bounds.append(low)
    return np.array(bounds) if bounds[-1] == n else None


def to_preorder(parent: Array, key: Array | None = None) -> Preorder:
    """Put a tree in preorder; siblings are in ascending `key`, by default in the order of their ids.

    `parent`: ints, -1 at node 0; parents before children.
    """
    n = len(parent)
    levels = _compute_levels(parent)
    size = np.ones(n, np.int32)
    for d in range(levels.deepest, 0, -1):
        nodes = levels.nodes(d)
        above = parent[nodes]
        low = int(above.min())
        # Sizes are far below 2**53, the limit up to which bincount with weights is exact.
        sums = np.bincount(above - low, size[nodes])
        size[low : low + len(sums)] += sums.astype(np.int32)
    offset = _sum_earlier_siblings(parent, key, size)
    place = np.zeros(n, np.int32)
    for d in range(1, levels.deepest + 1):
        nodes = levels.nodes(d)
        place[nodes] = place[parent[nodes]] + 1 + offset[nodes]
    order = np.empty(n, np.int32)
    order[place] = np.arange(n, dtype=np.int32)
    del offset
    new_parent = place[parent[order]]
    new_parent[:1] = -1
    end = size[order]
    end += np.arange(n, dtype=np.int32)
    return Preorder(order=order, position=place, parent=new_parent, end=end, depth=levels.depth[order])


def _sum_earlier_siblings(parent: Array, key: Array | None, size: Array) -> Array:
    """For each node the sum of the sizes of the siblings before it."""
    n = len(parent)
    family = np.lexsort((key, parent)) if key is not None else np.argsort(parent, kind="stable")
    before = size[family]
    # The sum of all sizes may overflow, but differences of sums are below n, and so right.
    np.cumsum(before, dtype=np.int32, out=before)
    before -= size[family]
    first = np.ones(n, bool)
    above = parent[family]
    np.not_equal(above[1:], above[:-1], out=first[1:])
    del above
    starts = np.flatnonzero(first)
    before -= np.repeat(before[starts], np.diff(starts, append=n))
    offset = np.empty(n, np.int32)
    offset[family] = before
    return offset


def sum_subtrees(self_weight: Array, end: Array) -> Array:
    """Weight of every subtree (root first) of a tree in preorder: Σ self_weight over [i, end[i]). Same dtype."""
    running = np.concatenate((np.zeros(1, self_weight.dtype), np.cumsum(self_weight)))
    result: Array = running[end] - running[:-1]
    return result


def merge_children(parent: Array, label: Array) -> tuple[Array, Array, Array]:
    """Merge nodes that have the same label under the same (merged) parent.

    parent: int array, -1 at node 0; parents before children. label: ints from 0 that identify what a node represents;
    node 0's is ignored. Returns (merged, new_parent, new_label): merged[i] is the new node of old node i; new nodes
    again have parents before children, in order of first appearance within their depth.
    """
    n = len(parent)
    levels = _compute_levels(parent)
    merged = np.zeros(n, np.int64)
    parents = [np.array([-1], np.int64)]
    labels = [np.array([-1], np.int64)]
    count = 1
    width = int(label.max()) + 2 if n else 1
    for d in range(1, levels.deepest + 1):
        nodes = levels.nodes(d)
        keys = (merged[parent[nodes]] * width + label[nodes]).astype(np.int64, copy=False)
        codes, first = number_values(keys)
        merged[nodes] = count + codes
        distinct = keys[first]
        parents.append(distinct // width)
        labels.append(distinct % width)
        count += len(distinct)
    return merged, np.concatenate(parents), np.concatenate(labels)


def merge_moved_nodes(parent: Array, end: Array, depth: Array, label: Array, moved: Array) -> Preorder:
    """Merge nodes as `merge_children` does, and put them in preorder, where only nodes that were moved to another
    parent can have the label of a sibling. Then it takes a fraction of the time.

    parent, end, depth: of a tree in preorder. moved: bools. order of the result: the first of the nodes that are one.
    """
    count = len(parent)
    rows = np.arange(count, dtype=np.int32)
    into = _find_merged(parent, end, depth, label, moved)
    repeated = np.flatnonzero(into != rows)
    if not len(repeated):
        return Preorder(order=rows, position=rows, parent=parent, end=end, depth=depth)
    # Among the nodes that stay, the number of those before each.
    is_first = np.ones(count, bool)
    is_first[repeated] = False
    before = np.zeros(count + 1, np.int32)
    np.cumsum(is_first, out=before[1:])
    size = before[end] - before[:-1]
    np.add.at(size, into[repeated], size[repeated])
    place = before[:-1] + _find_shifts(parent, end, depth, into, before, size, is_first)
    order = np.empty(int(before[-1]), np.int32)
    first = np.flatnonzero(is_first)
    order[place[first]] = first
    place[repeated] = place[into[repeated]]
    new_parent = place[parent[order]]
    new_parent[:1] = -1
    new_end = size[order]
    new_end += rows[: len(order)]
    return Preorder(order=order, position=place, parent=new_parent, end=new_end, depth=depth[order])


def _find_merged(parent: Array, end: Array, depth: Array, label: Array, moved: Array) -> Array:
    """The node that each becomes: int32."""
    count = len(parent)
    into = np.arange(count, dtype=np.int32)
    width = int(label.max()) + 2
    # The parents of which two children may have one label.
    is_open = np.zeros(count, bool)
    is_open[parent[np.flatnonzero(moved)]] = True
    nodes = np.flatnonzero(is_open[parent])
    codes, _ = number_values(parent[nodes].astype(np.int64) * width + label[nodes])
    alike = nodes[np.bincount(codes)[codes] > 1]
    # Other nodes can only be one if they are below these.
    reach = np.zeros(count, end.dtype)
    reach[alike] = end[alike]
    below = np.flatnonzero(np.maximum.accumulate(reach) > into)
    levels = _sort_by_depth(depth[below])
    for d in range(1, levels.deepest + 1):
        nodes = below[levels.nodes(d)]
        nodes = nodes[is_open[parent[nodes]]]
        if not len(nodes):
            continue
        codes, first = number_values(into[parent[nodes]].astype(np.int64) * width + label[nodes])
        one = nodes[first[codes]]
        into[nodes] = one
        repeated = one != nodes
        is_open[nodes[repeated]] = True
        is_open[one[repeated]] = True
    return into


def _find_nearest(parent: Array, marked: BoolArray) -> Array:
    """The nearest marked node above each, itself included; 0 for none. Takes as many passes as the depth has bits."""
    nearest = np.where(marked, np.arange(len(parent), dtype=parent.dtype), parent)
    nearest[:1] = 0
    while not np.array_equal(further := nearest[nearest], nearest):
        nearest = further
    return nearest


def _find_shifts(
    parent: Array, end: Array, depth: Array, into: Array, before: Array, size: Array, is_first: BoolArray
) -> Array:
    """How far each node that stays moves among them. It is as far as its parent moves, except for the children of a
    node of which some are one, which are placed after their siblings. size: of the merged subtrees."""
    count = len(parent)
    repeated = np.flatnonzero(~is_first)
    changes = np.zeros(count, bool)
    changes[into[repeated]] = True
    changes[into[parent[repeated]]] = True
    above = into[parent]
    is_placed = changes[above]
    is_placed &= is_first
    is_placed[0] = False
    placed = np.flatnonzero(is_placed)
    # The nearest node above that moves otherwise than its parent, itself included.
    asked = np.zeros(count, bool)
    asked[parent[placed]] = True
    asked[above[placed]] = True
    nearest = into.copy()
    climbing = asked = np.flatnonzero(asked)
    found = asked.copy()
    at = np.arange(len(asked))
    for _ in range(_MOST_STEPS):
        goes_on = ~is_placed[climbing] & (climbing > 0)
        found[at] = climbing
        at, climbing = at[goes_on], parent[climbing[goes_on]]
        if not len(at):
            break
    else:
        found[at] = _find_nearest(parent, is_placed)[climbing]
    nearest[asked] = found
    shift = np.zeros(count, np.int32)
    levels = _sort_by_depth(depth[placed])
    for d in range(1, levels.deepest + 1):
        those = placed[levels.nodes(d)]
        family = np.argsort(above[those], kind="stable")
        those = those[family]
        parents = above[those]
        earlier = np.cumsum(size[those]) - size[those]
        starts = np.flatnonzero(np.diff(parents, prepend=-1))
        earlier -= np.repeat(earlier[starts], np.diff(starts, append=len(those)))
        shift[those] = before[parents] + shift[nearest[parents]] + 1 + earlier - before[those]
    # The sum over the path of the differences from the parent.
    more = shift[placed] - shift[nearest[parent[placed]]]
    opened = np.zeros(count + 1, np.int32)
    opened[placed] = more
    np.subtract.at(opened, end[placed], more)
    moved: Array = np.cumsum(opened, dtype=np.int32)[:-1]
    return moved
