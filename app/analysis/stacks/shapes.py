"""Shapes: the trees of a flame graph, plain or inverted, behind one interface.

A shape has rows in preorder, each a frame or an unbranched run of frames, and for every node of `calls` the row whose
last frame gets its weight. Weights are applied later, by selection.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...domain.arrays import Array, sort_rows
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, ROOT, FrameKind
from ..core.functions import KIND_COUNT
from ..core.memo import memoize
from ..core.sample_selection import samples_of, sum_by_index
from ..core.trees import find_outermost, mark_subtrees
from .call_tree import CallTree, build_call_tree, merge_siblings
from .inverted_tree import InvertedTree, invert_tree


@dataclass(frozen=True, eq=False)
class DepthIndex:
    """Finds the ancestor of a node at a depth. key: depth · n + node, ascending; node: the nodes in that order."""

    key: Array
    node: Array

    @classmethod
    def of(cls, depth: Array) -> "DepthIndex":
        n = len(depth)
        # numpy sorts 16-bit integers by radix.
        narrow = depth.astype(np.uint16) if n and int(depth.max()) < 1 << 16 else depth
        node = np.argsort(narrow, kind="stable")
        return cls(depth[node].astype(np.int64) * n + node, node)

    def ancestors(self, node: Array, depth: Array) -> Array:
        """The ancestor of each node at each depth, which is at most the node's own."""
        found: Array = self.node[np.searchsorted(self.key, depth.astype(np.int64) * len(self.node) + node, "right") - 1]
        return found


@dataclass(frozen=True, eq=False)
class TreeShape:
    """Rows in preorder: parent, end (int32); first, last: the depths of a row's frames (int32).

    place: the preorder number of a row's first frame among all frames, from which ids are derived; frames: the number
    of all frames. row_of_call: for each node of `calls` the row that gets its weight (len(self): none). tree: the
    source of frames. leaf: for each row a node of the tree whose inverted path contains it; None if rows are nodes of
    the tree.
    """

    parent: Array
    end: Array
    first: Array
    last: Array
    place: Array
    frames: int
    row_of_call: Array | None
    tree: CallTree = field(metadata={"shared": True})
    leaf: Array | None

    def __len__(self) -> int:
        return len(self.end)

    @cached_property
    def levels(self) -> DepthIndex:
        """Of the tree."""
        return DepthIndex.of(self.tree.depth)

    @cached_property
    def stride(self) -> int:
        """Greater than any function id: the factor of keys of row and function."""
        return int(self.tree.function.max(initial=0)) + 1

    @cached_property
    def children(self) -> tuple[Array, Array]:
        """(parent row · stride + function of the first frame, ascending; the rows in that order), without the root.

        Only valid if no two children of a row have the same function: for shapes built without kinds.
        """
        rows = np.arange(1, len(self))
        function = self.tree.function[self.nodes(rows, self.first[1:])].astype(np.int64)
        key = self.parent[1:] * np.int64(self.stride) + function
        order = sort_rows(key)
        return key[order], rows[order]

    def weights(self, calls: Array) -> Array:
        """The rows' own weights (int64) from those of the nodes of `calls`."""
        if self.row_of_call is None:
            return calls
        return sum_by_index(self.row_of_call, calls, len(self) + 1)[:-1]

    def nodes(self, row: Array, depth: Array) -> Array:
        """The nodes of `tree` that are the frames at these depths (at most a row's last) on the paths to these rows."""
        if self.leaf is None:
            exact = self.first[row] == depth
            return row if exact.all() else np.where(exact, row, self.levels.ancestors(row, depth))
        leaf = self.leaf[row]
        ancestors = self.levels.ancestors(leaf, self.tree.depth[leaf] - depth + 1)
        return np.where(depth == 0, ROOT, ancestors)

    def row_at(self, frame: int) -> int:
        """The row of the frame with this preorder number."""
        return int(np.searchsorted(self.place, frame, "right")) - 1


def upright_shape(tree: CallTree) -> TreeShape:
    """The shape of the tree, not inverted."""
    return TreeShape(
        parent=tree.parent,
        end=tree.end,
        first=tree.depth,
        last=tree.depth,
        place=np.arange(len(tree)),
        frames=len(tree),
        row_of_call=tree.node,
        tree=tree,
        leaf=None,
    )


def inverted_shape(tree: CallTree, leaves: Array, leaf_of_call: Array, kinds: bool) -> TreeShape:
    """The inverted tree of the stacks that end at `leaves`. leaf_of_call: an index into them, or -1."""
    label = tree.function.astype(np.int64)
    if kinds:
        label = label * KIND_COUNT + tree.kind
    chains: InvertedTree = invert_tree(tree, leaves, label)
    length = (chains.last - chains.first + 1).astype(np.int64)
    row_of = np.append(chains.row_of, np.int32(len(length)))
    return TreeShape(
        parent=chains.parent,
        end=chains.end,
        first=chains.first,
        last=chains.last,
        place=np.cumsum(length) - length,
        frames=int(length.sum()),
        row_of_call=row_of[leaf_of_call],
        tree=tree,
        leaf=chains.leaf,
    )


def shape_of(profile: Profile, selection: Selection, kinds: bool = True) -> TreeShape:
    """The shape for the frames shown, recursion and invert of the selection; built once."""
    frames, recursion, invert = selection.frame_filter, selection.recursion, selection.invert

    def build() -> TreeShape:
        tree = build_call_tree(profile, frames, recursion, kinds)
        if not invert:
            return upright_shape(tree)
        node = _nodes(tree, profile)
        occupied = np.zeros(len(tree), bool)
        occupied[node[list_sampled_nodes(profile)]] = True
        leaves = np.flatnonzero(occupied)
        leaf_of_node = np.full(len(tree), -1, np.int64)
        leaf_of_node[leaves] = np.arange(len(leaves))
        return inverted_shape(tree, leaves, leaf_of_node[node], kinds)

    return memoize(profile, ("shape", frames, recursion, invert, kinds), build)


def sandwich_shapes(
    profile: Profile, selection: Selection, functions: Array, kinds: bool = True
) -> tuple[TreeShape, TreeShape]:
    """(callers, callees) of functions given by canonical id. invert of the selection changes nothing.

    Both start at the outermost calls of the function in each stack, so that the weight of both is the function's total,
    with recursion counted once: callers are outside, recursive calls are among the callees.
    """
    frames, recursion = selection.frame_filter, selection.recursion

    def build() -> tuple[TreeShape, TreeShape]:
        tree = build_call_tree(profile, frames, recursion, kinds)
        node = _nodes(tree, profile)
        hit = np.isin(tree.function, functions)
        # One label for all of them, so that a stack with several functions of the name counts once.
        top = find_outermost(tree.end, np.where(hit, 0, np.arange(len(tree)) + 1))
        calls = np.flatnonzero(hit & (top == np.arange(len(tree))))
        under = mark_subtrees(tree.end, hit)
        call_of_node = np.full(len(tree), -1, np.int64)
        call_of_node[under] = np.searchsorted(calls, np.flatnonzero(under), "right") - 1
        callers = inverted_shape(tree, calls, call_of_node[node], kinds)
        return callers, upright_shape(_graft_subtrees(tree, calls, under, node, kinds))

    return memoize(profile, ("sandwich", frames, recursion, kinds, tuple(functions.tolist())), build)


def _graft_subtrees(tree: CallTree, calls: Array, under: Array, node: Array, kinds: bool) -> CallTree:
    """The subtrees of the nodes `calls` below one root; `under`: the nodes of those subtrees."""
    rows = np.flatnonzero(under)
    place = np.full(len(tree), NO_ID, np.int64)
    place[rows] = np.arange(1, len(rows) + 1)
    parent = np.r_[NO_ID, place[tree.parent[rows]]]
    parent[place[calls]] = ROOT
    function = np.r_[NO_ID, tree.function[rows]].astype(np.int32)
    kind = np.r_[int(FrameKind.UNKNOWN), tree.kind[rows]].astype(np.int8)
    rooted = merge_siblings(parent, function, kind, None, kinds)
    # `merge_siblings` maps only kept nodes.
    assert rooted.node is not None
    where = np.append(rooted.node, np.int32(len(rooted)))
    return CallTree(
        parent=rooted.parent,
        end=rooted.end,
        depth=rooted.depth,
        function=rooted.function,
        kind=rooted.kind,
        node=where[place[node]],
    )


def _nodes(tree: CallTree, profile: Profile) -> Array:
    """The node of the tree for each node of `calls`."""
    return np.arange(profile.calls.num_rows) if tree.node is None else tree.node


def list_sampled_nodes(profile: Profile) -> Array:
    """The nodes of `calls` at which some sample ends, ascending."""

    def build() -> Array:
        samples = samples_of(profile)
        stacks = np.zeros(len(samples.call), bool)
        stacks[samples.stack] = True
        found = np.zeros(profile.calls.num_rows, bool)
        found[samples.call[stacks]] = True
        return np.flatnonzero(found).astype(np.int32)

    return memoize(profile, "sampled nodes", build)
