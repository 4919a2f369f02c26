"""The differential flame graph: one profile's graph, and what each of its frames weighed in another."""

from dataclasses import replace

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.event_names import SAMPLED_ONLY
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, ROOT
from ..core.grouping import Group, groups_of, split_by
from ..core.picking import samples_kept, weights_in
from ..core.piles import call_weights, piles_kept
from ..core.sampled import FEW, call_samples
from ..stacks.drawing import FlameTree, drawn
from ..stacks.layout import Order, subtree_totals
from ..stacks.shapes import Shape, shape_of
from ..stacks.spread import by_group
from .functions import unknown_values
from .matching import NOWHERE, function_map, label_map, main_pair, places_of

LEAST_SHARE = 0.01


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
    of the whole; else weights are compared as they are, unless samples of either tell no total. Scaled weights are
    rounded one by one. reverse: the graph of
    `base` with what its frames weigh in `other` beside it, so that what vanished is seen; then it is `other` that is
    scaled. Frames of fewer than `FEW` samples in both are marked as such. Groups match by their label; where `grouped`
    is false there are none. Siblings cannot stand in order of time here: it counts as "weight".

    zoom, least: as in `flame_tree`; ids are not those of `flame_tree`. Raises InvalidRequest.
    """
    pair = main_pair(base, other, base_selection, other_selection)
    sides = [(base, base_selection, pair[0]), (other, other_selection, pair[1])]
    (shown, selection, event), (beside, beside_selection, beside_event) = sides if reverse else sides[::-1]
    shape = shape_of(shown, selection, kinds=False)
    order = Order.WEIGHT if order is Order.TIME else order
    if not grouped(base, other, base_selection, other_selection, group):
        group = Group.NONE
    tree = drawn(shown, selection, event, shape, group, order, zoom or 0, least)
    if unknown_values(base, other, *pair):
        tree, normalise = replace(tree, unit=SAMPLED_ONLY), True
    own, total, whole = _weights_beside(tree, shown, shape, beside, beside_selection, beside_event)
    factor = tree.total / whole if normalise and whole and tree.total else 1.0
    return replace(
        tree,
        base_self=own if factor == 1.0 else np.rint(own * factor).astype(np.int64),
        base_total=total if factor == 1.0 else np.rint(total * factor).astype(np.int64),
        base_sum=round(whole * factor),
        base_measured=whole,
        reversed=reverse,
        few=_few((shown, selection, event), tree.total_weight, tree.total)
        & _few((beside, beside_selection, beside_event), total, whole),
    )


def _few(side: tuple[Profile, Selection, int], weight: Array, whole: int) -> Array:
    """Which weights are of fewer than `FEW` samples, as bools: each sample taken to weigh as much as all do on average.
    None of what is not sampled."""
    samples = call_samples(*side)
    if samples is None:
        return np.zeros(len(weight), bool)
    few: BoolArray = np.abs(weight) * max(int(samples.sum()), 1) < FEW * max(abs(whole), 1)
    return few


def grouped(base: Profile, other: Profile, base_selection: Selection, other_selection: Selection, group: Group) -> bool:
    """Whether frames can be grouped. By names of threads they cannot where these differ: then all of one side would
    have vanished, and all of the other appeared. Names of threads with less than 1 % of the weight are passed over."""
    if group is not Group.COMM:
        return group is not Group.NONE
    pair = main_pair(base, other, base_selection, other_selection)
    sides = ((base, base_selection, pair[0]), (other, other_selection, pair[1]))
    one, two = (_thread_names(*side) for side in sides)
    return all(split_by(side[0], group) is group for side in sides) and one[1] <= two[0] and two[1] <= one[0]


def _thread_names(profile: Profile, selection: Selection, event: int) -> tuple[set[str], set[str]]:
    """(the names of all threads with some weight, those with at least `LEAST_SHARE` of all)."""
    groups = groups_of(profile, Group.COMM)
    if groups.of_sample is None or event == NO_ID:
        found = piles_kept(profile, selection, event)
        number, weight = groups.of_thread[found.thread], found.weight
    else:
        rows = samples_kept(profile, selection, event)
        number, weight = groups.of(profile, rows), weights_in(profile, selection, rows)
    share = np.bincount(number, np.abs(weight), len(groups.labels))
    least = LEAST_SHARE * share.sum()
    named = zip(groups.labels, share.tolist(), strict=True)
    some = [(label, weighs) for label, weighs in named if weighs > 0]
    return {label for label, _ in some}, {label for label, weighs in some if weighs >= least}


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
