"""Call trees with frames removed and recursion collapsed, each built once per profile and cached.

A reshaped tree is arrays in preorder and a mapping from each node of `calls` to the node that gets its samples, so a
selection costs the same for every shape.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.call_tree import merge_children, merge_moved_nodes, to_preorder
from ...domain.profile import Profile
from ...domain.selection import ALL_FRAMES, FrameFilter
from ...domain.tables import NO_ID, FrameKind, get_column
from ..core.frame_filter import shown_nodes, simplify_filter, with_root
from ..core.functions import KIND_COUNT, functions_of
from ..core.memo import memoize
from ..core.trees import find_outermost, nearest_ancestor, sum_paths


@dataclass(frozen=True, eq=False)
class CallTree:
    """A tree of calls in preorder. parent, end, depth: int32. function: canonical function ids, -1 at the root.

    kind: FrameKind. node: for each node of `calls` the node of this tree (None: the same node).
    """

    parent: Array
    end: Array
    depth: Array
    function: Array
    kind: Array
    node: Array | None

    def __len__(self) -> int:
        return len(self.end)


def build_call_tree(
    profile: Profile, frames: FrameFilter = ALL_FRAMES, recursion: bool = False, kinds: bool = True
) -> CallTree:
    """The calling context tree, siblings of one function (and kind, unless `kinds` is false) merged.

    frames: those that are shown; the callees of others are attached to their callers. recursion: a frame whose function
    is already among its callers is merged with the outermost call of that function, which gets its callees:
    a → b → a → c becomes a → c. Each step of a collapsed path is a call that occurred, the innermost function remains
    the innermost, and no function is on a path twice.
    """
    frames = simplify_filter(profile, frames)

    if kinds and _has_kind_per_function(profile):
        return build_call_tree(profile, frames, recursion, kinds=False)

    def build() -> CallTree:
        if recursion:
            return _collapse(build_call_tree(profile, frames, False, kinds), kinds)
        if frames == ALL_FRAMES:
            return _plain(profile, kinds)
        tree = build_call_tree(profile, ALL_FRAMES, False, kinds)
        shown = shown_nodes(profile, frames, tree.function, tree.end)
        return tree if shown is None else _remove_nodes(tree, shown, kinds)

    return memoize(profile, ("tree", frames, recursion, kinds), build)


def build_shown_tree(profile: Profile, frames: FrameFilter = ALL_FRAMES) -> CallTree:
    """The calls that are shown. Siblings of one function, whose callers are not shown, are not merged, which takes most
    of the time of `build_call_tree` and makes no difference to sums by function."""
    frames = simplify_filter(profile, frames)

    def build() -> CallTree:
        tree = build_call_tree(profile)
        shown = shown_nodes(profile, frames, tree.function, tree.end)
        return tree if shown is None else _keep(tree, shown)

    return memoize(profile, ("shown tree", frames), build)


def _plain(profile: Profile, kinds: bool) -> CallTree:
    calls = profile.calls
    function = get_column(calls, "function")
    functions = functions_of(profile)
    tree = CallTree(
        parent=get_column(calls, "parent"),
        end=get_column(calls, "end"),
        depth=get_column(calls, "depth"),
        function=function,
        kind=get_column(calls, "kind"),
        node=None,
    )
    if not len(tree):
        return CallTree(
            parent=np.array([NO_ID], np.int32),
            end=np.array([1], np.int32),
            depth=np.zeros(1, np.int32),
            function=np.array([NO_ID], np.int32),
            kind=np.array([FrameKind.UNKNOWN], np.int8),
            node=np.zeros(0, np.int32),
        )
    if functions.distinct and (kinds or not _siblings_alike(tree.parent, function)):
        return tree
    canonical = np.where(function < 0, NO_ID, functions.canonical[function]) if len(functions.canonical) else function
    return merge_siblings(tree.parent, canonical.astype(np.int32), tree.kind, None, kinds)


def _has_kind_per_function(profile: Profile) -> bool:
    """Whether all calls of a function have the same kind, so that trees with and without kinds are equal."""

    def build() -> bool:
        function, kind = get_column(profile.calls, "function")[1:], get_column(profile.calls, "kind")[1:]
        canonical = functions_of(profile).canonical[function]
        kinds = np.zeros(profile.functions.num_rows, kind.dtype)
        kinds[canonical] = kind
        return bool((kinds[canonical] == kind).all())

    return memoize(profile, "kind per function", build, pin=True)


def _siblings_alike(parent: Array, function: Array) -> bool:
    """Whether a node has two children of the same function."""
    key = np.sort(parent[1:] * (int(function.max(initial=0)) + np.int64(1)) + function[1:])
    return bool((key[1:] == key[:-1]).any())


def keep_nodes(tree: CallTree, stays: Array, kinds: bool = False) -> CallTree:
    """The tree of only the nodes that stay and the root, siblings of one function (and kind) merged; the self weight of
    others goes to their callers."""
    kept = _keep(tree, stays)
    return merge_siblings(kept.parent, kept.function, kept.kind, kept.node, kinds)


def _remove_nodes(tree: CallTree, stays: Array, kinds: bool) -> CallTree:
    """As `keep_nodes`, of a tree in which siblings are merged. Then only callees of removed nodes have siblings of one
    function."""
    kept, stays = _keep(tree, stays), with_root(stays)
    moved = ~stays[tree.parent[np.flatnonzero(stays)]]
    moved[:1] = False
    if not moved.any():
        return kept
    label = _label_nodes(kept.function, kept.kind, kinds)
    order = merge_moved_nodes(kept.parent, kept.end, kept.depth, label, moved)
    if len(order.order) == len(kept):
        return kept
    return CallTree(
        parent=order.parent,
        end=order.end,
        depth=order.depth,
        function=kept.function[order.order],
        kind=kept.kind[order.order],
        node=_chain(kept.node, order.position),
    )


def _keep(tree: CallTree, stays: Array) -> CallTree:
    """As `keep_nodes`, but siblings are not merged."""
    stays = with_root(stays)
    nearest = nearest_ancestor(tree.parent, tree.end, stays)
    rows = np.flatnonzero(stays)
    before = np.zeros(len(stays) + 1, np.int32)
    np.cumsum(stays, out=before[1:])
    parent = before[nearest[tree.parent[rows]]]
    parent[0] = NO_ID
    end = before[tree.end[rows]]
    depth = (tree.depth - sum_paths((~stays).astype(tree.depth.dtype), tree.end))[rows]
    return CallTree(parent, end, depth, tree.function[rows], tree.kind[rows], _chain(tree.node, before[nearest]))


def _collapse(tree: CallTree, kinds: bool) -> CallTree:
    top = find_outermost(tree.end, tree.function.astype(np.int64) + 1)
    rows = np.flatnonzero(top == np.arange(len(top)))
    place = np.zeros(len(top), np.int64)
    place[rows] = np.arange(len(rows))
    parent = place[top[tree.parent[rows]]]
    parent[0] = NO_ID
    return merge_siblings(parent, tree.function[rows], tree.kind[rows], _chain(tree.node, place[top]), kinds)


def merge_siblings(parent: Array, function: Array, kind: Array, node: Array | None, kinds: bool) -> CallTree:
    """Merge siblings of one function and kind, and put the tree in preorder.

    parent: with parents before children, -1 at node 0. node: where each node of `calls` is (None: at itself).
    """
    into, new_parent, _ = merge_children(parent, _label_nodes(function, kind, kinds))
    first = np.zeros(len(new_parent), np.int64)
    first[into[::-1]] = np.arange(len(into))[::-1]
    order = to_preorder(new_parent)
    chosen = first[order.order]
    return CallTree(
        parent=order.parent,
        end=order.end,
        depth=order.depth,
        function=function[chosen],
        kind=kind[chosen],
        node=_chain(node, order.position[into]),
    )


def _label_nodes(function: Array, kind: Array, kinds: bool) -> Array:
    """What siblings that are merged have in common."""
    return function.astype(np.int64) * KIND_COUNT + kind if kinds else function.astype(np.int64)


def _chain(node: Array | None, then: Array) -> Array:
    return (then if node is None else then[node]).astype(np.int32)
