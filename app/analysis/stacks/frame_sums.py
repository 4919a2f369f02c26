"""The sums of another event in the frames of a flame graph."""

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import ROOT
from ..core.flame_groups import FlameGroup, groups_of
from ..core.sample_rollup import sum_call_weights
from ..core.sample_selection import event_id
from .flame_tree import FlameTree
from .layout import subtree_totals
from .shapes import TreeShape
from .visible_runs import weigh_groups


def sum_frames(
    profile: Profile, selection: Selection, event: int, shape: TreeShape, tree: FlameTree
) -> tuple[Array, Array]:
    """(self, total) of the samples of an event in each frame of a tree, int64 in the unit of the event.

    shape: on which the tree was built, of the event of the selection; not in time order, where frames are runs of
    samples.
    """
    if event == event_id(profile, selection.event) and not tree.zoom:
        return tree.self_weight, tree.total_weight
    count = len(tree.id)
    own, total = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if tree.group is FlameGroup.NONE:
        row = _rows(shape, tree.id)
        by_row = shape.weights(sum_call_weights(profile, selection, event))
        own, total = by_row[row], subtree_totals(by_row, shape.end)[row]
        depth = tree.depth
    else:
        groups = groups_of(profile, tree.group)
        group, place = np.divmod(tree.id - 1, shape.frames)
        group[ROOT], place[ROOT] = -1, ROOT
        row, depth = _rows(shape, place), tree.depth - 1
        kept = np.unique(np.append(row, ROOT))
        split = weigh_groups(profile, selection, event, shape, groups, kept)
        slot = np.searchsorted(kept, row)
        for these, own_of, total_of in split.tables():
            number = np.full(len(groups.labels) + 1, -1, np.int64)
            number[these] = np.arange(len(these))
            inside = np.flatnonzero(number[group] >= 0)
            cell = number[group[inside]], slot[inside]
            own[inside], total[inside] = own_of[cell], total_of[cell]
        own[ROOT], total[ROOT] = 0, int(split.weight.sum())
    # A row of a shape can be a run of frames, whose own weight is that of the last one.
    own[shape.last[row] != depth] = 0
    return own, total


def _rows(shape: TreeShape, frame: Array) -> Array:
    """The rows of the frames with these preorder numbers."""
    rows: Array = np.searchsorted(shape.place, frame, "right") - 1
    return rows
