"""The differential flame graph: one profile's graph, and what each of its frames weighed in another."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import ROOT
from .drawing import FlameTree, drawn
from .grouping import Group, groups_of, split_by
from .layout import Order, subtree_totals
from .matching import NOWHERE, function_map, label_map, main_pair, places_of
from .piles import call_weights
from .shapes import Shape, shape_of
from .spread import by_group

Array = np.ndarray[Any, Any]


def flame_diff(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    *,
    group: Group = Group.COMM,
    order: Order = Order.WEIGHT,
    zoom: int | None = None,
    least: float = 0.0,
    normalise: bool = True,
    reverse: bool = False,
) -> FlameTree:
    """The flame graph of `other` with what every frame weighed in `base` beside it.

    normalise: the base is scaled so that its selection weighs as much as the other's, so what differs is the share
    of the whole; else weights are compared as they are. Scaled weights are rounded one by one. reverse: the graph of
    `base` with what its frames weigh in `other` beside it, so that what vanished is seen; then it is `other` that is
    scaled. Groups match by their label. Siblings cannot stand in order of time here: it counts as "weight".

    zoom, least: as in `flame_tree`; ids are not those of `flame_tree`. Raises InvalidRequest.
    """
    pair = main_pair(base, other, base_selection, other_selection)
    sides = [(base, base_selection, pair[0]), (other, other_selection, pair[1])]
    (shown, selection, event), (beside, beside_selection, beside_event) = sides if reverse else sides[::-1]
    shape = shape_of(shown, selection, kinds=False)
    order = Order.WEIGHT if order is Order.TIME else order
    tree = drawn(shown, selection, event, shape, split_by(beside, group), order, zoom or 0, least)
    own, total, whole = _weights_beside(tree, shown, shape, beside, beside_selection, beside_event)
    factor = tree.total / whole if normalise and whole and tree.total else 1.0
    return replace(
        tree,
        base_self=own if factor == 1.0 else np.rint(own * factor).astype(np.int64),
        base_total=total if factor == 1.0 else np.rint(total * factor).astype(np.int64),
        base_sum=round(whole * factor),
        base_measured=whole,
        reversed=reverse,
    )


def _weights_beside(
    tree: FlameTree, shown: Profile, shape: Shape, beside: Profile, selection: Selection, event: int
) -> tuple[Array, Array, int]:
    """(self, total, all) of the frames of a tree, weighed in another profile."""
    there = shape_of(beside, selection, kinds=False)
    distinct, which = np.unique(tree.function, return_inverse=True)
    mapped = np.full(len(distinct), NOWHERE, np.int64)
    mapped[distinct >= 0] = function_map(shown, beside, distinct[distinct >= 0])
    calls = call_weights(beside, selection, event)
    count, whole = len(tree.id), int(calls.sum())
    if tree.group is Group.NONE:
        places = places_of(there, tree.parent, tree.depth, mapped[which], np.ones(count, bool))
        by_row = there.weights(calls)
        own, total = by_row[places.row], subtree_totals(by_row, there.end)[places.row]
    else:
        groups = groups_of(beside, tree.group)
        # The root, which is in no group, comes out as -1: the place appended to the labels.
        of_label = np.append(label_map(tree.labels[1:], groups.labels), NOWHERE)
        group = of_label[(tree.id - 1) // shape.frames]
        places = places_of(there, tree.parent, tree.depth - 1, mapped[which], group != NOWHERE)
        kept = np.unique(np.append(places.row[places.row >= 0], ROOT))
        split = by_group(beside, selection, event, there, groups, kept)
        own, total = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for these, own_of, total_of in split.tables():
            number = np.full(len(groups.labels) + 1, NOWHERE, np.int64)
            number[these] = np.arange(len(these))
            mine = np.flatnonzero((number[group] >= 0) & (places.row >= 0))
            cell = number[group[mine]], np.searchsorted(kept, places.row[mine])
            own[mine], total[mine] = own_of[cell], total_of[cell]
    own[(places.row < 0) | (there.last[places.row] != places.depth)] = 0
    total[places.row < 0] = 0
    total[ROOT] = whole
    return own, total, whole
