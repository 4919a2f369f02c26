"""The inverted call tree: hot functions at the top, their callers below.

The complete tree has a node for every distinct suffix of a stack: for deep stacks many times more than the call tree.
Nearly all of them are on unbranched runs with constant weight. So the tree is stored as chains: one row per run, at
most twice as many rows as distinct stacks, independent of their depth. Frames are laid out only if they are wide enough
to be visible.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, IndexArray, sort_rows
from .call_tree import CallTree


@dataclass(frozen=True, eq=False)
class InvertedTree:
    """Rows in preorder; row 0 is the root. parent, end: rows. first, last: depths of a row's frames, inclusive.

    leaf: a node of the call tree whose inverted path runs through the row's last frame. row_of: for each given leaf,
    the row at whose last frame its inverted path ends.
    """

    parent: Array
    end: Array
    first: Array
    last: Array
    leaf: Array
    row_of: Array


@dataclass
class _Rows:
    """Rows in order of discovery, level by level; converted to preorder at the end."""

    parent: list[Array]
    first: list[Array]
    low: list[Array]
    high: list[Array]
    leaf: list[Array]
    count: int = 0

    def add(self, parent: Array, first: int, low: Array, high: Array, leaf: Array) -> IndexArray:
        self.parent.append(parent)
        self.first.append(np.full(len(parent), first, np.int64))
        self.low.append(low)
        self.high.append(high)
        self.leaf.append(leaf)
        self.count += len(parent)
        return np.arange(self.count - len(parent), self.count)


def invert_tree(tree: CallTree, leaves: Array, label: Array) -> InvertedTree:
    """The inverted tree of the stacks that end at `leaves` (distinct nodes of `tree`).

    label: identifies a frame, by node of `tree`; siblings have different labels. Stacks are sorted by their inverted
    path one frame at a time, and only those still equal to another are processed further.
    """
    rows = _Rows([], [], [], [], [])
    n = len(leaves)
    width = int(label.max(initial=0)) + 2
    key_of = label.astype(np.int64) + 1
    key_of[0] = 0
    order = np.arange(n)
    slots = np.arange(n)
    here = leaves.astype(np.int64)
    root = rows.add(np.array([-1]), 0, np.array([0]), np.array([max(n, 1)]), leaves[:1] if n else np.zeros(1, np.int64))
    group = np.zeros(n, np.int64)
    row_of_group = root
    row_of = np.zeros(n, np.int64)
    last: list[tuple[Array, int]] = []
    depth = 0
    while len(slots):
        key = group * width + key_of[here]
        by_key = sort_rows(key)
        key, here, moved = key[by_key], here[by_key], order[slots[by_key]]
        order[slots] = moved
        start = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        size = np.diff(np.r_[start, len(key)])
        parts_group, ended = np.divmod(key[start], width)
        ended = ended == 0
        parts = np.bincount(parts_group, minlength=len(row_of_group))
        # A group whose members all continue with the same frame extends the run, except at the root.
        goes_on = (parts[parts_group] == 1) & ~ended & (depth > 0)
        splits = np.ones(len(row_of_group), bool)
        splits[parts_group[goes_on]] = False
        last.append((row_of_group[splits], depth))
        row_of[moved[start[ended]]] = row_of_group[parts_group[ended]]
        row = row_of_group[parts_group]
        new = ~goes_on & ~ended
        low = slots[start[new]]
        row[new] = rows.add(row[new], depth + 1, low, low + size[new], leaves[moved[start[new]]])
        single = new & (size == 1)
        row_of[moved[start[single]]] = row[single]
        stays = ~ended & (size > 1)
        if not stays.any():
            break
        keep = np.repeat(stays, size)
        row_of_group = row[stays]
        group = np.repeat(np.arange(len(row_of_group)), size[stays])
        slots, here = slots[keep], tree.parent[here[keep]]
        depth += 1
    return _sort_preorder(rows, last, row_of, tree.depth)


def _sort_preorder(rows: _Rows, lasts: list[tuple[Array, int]], row_of: Array, tree_depth: Array) -> InvertedTree:
    parent, first, low, high, leaf = (
        np.concatenate(parts) for parts in (rows.parent, rows.first, rows.low, rows.high, rows.leaf)
    )
    # If a single stack remains, its run ends with the stack.
    last = tree_depth[leaf].astype(np.int64)
    last[0] = 0
    for split, depth in lasts:
        last[split] = depth
    by_low = sort_rows(low * (int(first.max()) + 1) + first)
    place = np.empty(len(by_low), np.int64)
    place[by_low] = np.arange(len(by_low))
    new_parent = np.where(parent[by_low] < 0, -1, place[parent[by_low]])
    return InvertedTree(
        parent=new_parent.astype(np.int32),
        end=np.searchsorted(low[by_low], high[by_low]).astype(np.int32),
        first=first[by_low].astype(np.int32),
        last=last[by_low].astype(np.int32),
        leaf=leaf[by_low],
        row_of=place[row_of].astype(np.int32),
    )
