"""Which call stacks of two profiles are the same."""

from dataclasses import dataclass
from weakref import ref

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import ALL_FRAMES, Selection
from ...domain.tables import get_column
from ..core.frame_filter import shown_calls
from ..core.memo import memoize
from ..core.trees import mark_subtrees
from ..stacks.call_tree import CallTree, build_call_tree
from ..stacks.shapes import shape_of
from .matching import NOT_FOUND, locate_frames, map_functions


@dataclass(frozen=True, eq=False)
class StackMatch:
    """The stacks of the other in the base. place: for each node of its tree that of the base, `NOT_FOUND` for none.
    node, base_node: the nodes that match. alone: the nodes of the base that match none."""

    place: Array
    node: Array
    base_node: Array
    alone: Array


def get_stack_tree(profile: Profile, selection: Selection) -> CallTree:
    """The tree of the stacks that are compared."""
    return build_call_tree(profile, selection.frame_filter, selection.recursion, kinds=False)


def match_stacks(base: Profile, other: Profile, base_selection: Selection, other_selection: Selection) -> StackMatch:
    """The match of both trees. It is kept, because it is the same for all windows, threads and events."""

    def build() -> StackMatch:
        tree = get_stack_tree(other, other_selection)
        function = np.append(NOT_FOUND, map_functions(other, base, tree.function[1:]))
        shape = shape_of(base, base_selection.replace(invert=False), kinds=False)
        known = _match_whole_stacks(base, other, base_selection, other_selection)
        all_nodes = np.ones(len(tree), bool)
        place = locate_frames(shape, tree.parent, tree.depth, function, all_nodes, known).row.astype(np.int32)
        node = np.flatnonzero(place >= 0).astype(np.int32)
        alone = np.ones(len(shape), bool)
        alone[place[node]] = False
        return StackMatch(place, node, place[node], np.flatnonzero(alone))

    shapes = [(side.frame_filter, side.recursion) for side in (base_selection, other_selection)]
    # A value kept for a profile must not keep another one.
    return memoize(other, ("stacks in", ref(base), *shapes), build)


def _match_whole_stacks(
    base: Profile, other: Profile, base_selection: Selection, other_selection: Selection
) -> Array | None:
    """As `StackMatch.place`, of the stacks whose frames that are hidden match too; None if none is known."""
    frames, base_frames = other_selection.frame_filter, base_selection.frame_filter
    tree, base_tree = get_stack_tree(other, other_selection), get_stack_tree(base, base_selection)
    plain = Selection()
    is_own_tree = get_stack_tree(other, plain).node is None and get_stack_tree(base, plain).node is None
    if ALL_FRAMES == frames == base_frames or not is_own_tree or base_selection.recursion != other_selection.recursion:
        return None
    whole = match_stacks(base, other, plain, plain)
    sides = (other, frames), (base, base_frames)
    shown, base_shown = (
        np.ones(profile.calls.num_rows, bool) if (found := shown_calls(profile, of)) is None else found
        for profile, of in sides
    )
    differs = np.zeros(len(whole.place), bool)
    differs[whole.node] = shown[whole.node] != base_shown[whole.base_node]
    # The root is shown in neither.
    differs[:1] = False
    alike = np.ones(len(whole.node), bool)
    if differs.any():
        alike = ~mark_subtrees(get_column(other.calls, "end"), differs)[whole.node]
    node, base_node = whole.node[alike], whole.base_node[alike]
    place = np.full(len(tree), NOT_FOUND, np.int32)
    place[node if tree.node is None else tree.node[node]] = (
        base_node if base_tree.node is None else base_tree.node[base_node]
    )
    return place
