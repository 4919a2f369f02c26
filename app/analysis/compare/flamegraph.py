"""The differential flame graph: the graph of one profile, with the weight of each frame in another."""

from dataclasses import replace

import numpy as np

from ...domain.arrays import Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import ROOT
from ..core.flame_groups import FlameGroup, FlameGroups, groups_of
from ..core.sample_counts import MIN_COMPARED_SAMPLES, count_call_samples, weight_spread
from ..core.sample_rollup import sum_call_weights
from ..stacks.flame_tree import FlameTree, FrameEvidence, build_flame_tree
from ..stacks.layout import SiblingOrder, subtree_totals
from ..stacks.shapes import TreeShape, shape_of
from ..stacks.visible_runs import weigh_groups
from .evidence import RunValues, exceeds_sampling_noise
from .functions import unknown_columns
from .matching import NOT_FOUND, locate_frames, main_event_pair, map_functions, map_labels
from .role_groups import RoleGroups, group_by_role


def flame_diff(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    *,
    group: FlameGroup = FlameGroup.COMM,
    order: SiblingOrder = SiblingOrder.WEIGHT,
    zoom: int | None = None,
    min_share: float = 0.0,
    normalize: bool = True,
    reverse: bool = False,
) -> FlameTree:
    """The flame graph of `other` with the weight of every frame in `base`.

    normalize: the base is scaled so that the selections of both have the same weight, to compare shares; else weights
    are compared unscaled, unless the samples of either give no total. Scaled weights are rounded individually. reverse:
    the graph of `base` with the weights of its frames in `other`, to show what vanished; then `other` is scaled. Frames
    with fewer than `MIN_COMPARED_SAMPLES` samples in both, or with a difference within the noise of sampling, are
    marked. Groups match by their label; threads by name are grouped by role, if there are roles
    (`find_thread_roles`), else not at all. Time order is not supported: it is treated as "weight".

    zoom, least: as in `flame_tree`; ids are not those of `flame_tree`. Raises InvalidRequest.
    """
    pair = main_event_pair(base, other, base_selection, other_selection)
    sides = [(base, base_selection, pair[0]), (other, other_selection, pair[1])]
    (shown, selection, event), (beside, beside_selection, beside_event) = sides if reverse else sides[::-1]
    shape = shape_of(shown, selection, kinds=False)
    order = SiblingOrder.WEIGHT if order is SiblingOrder.TIME else order
    roles = group_by_role(base, other, pair) if group is FlameGroup.COMM else None
    if group is FlameGroup.COMM and roles is None:
        group = FlameGroup.NONE
    # As above: those of the graph, then those beside it.
    role_groups = (None, None) if roles is None else (roles.base, roles.other)[:: 1 if reverse else -1]
    tree = build_flame_tree(shown, selection, event, shape, group, order, zoom or 0, min_share, role_groups[0])
    if unknown_columns(base, other, *pair):
        tree, normalize = replace(tree, unit=SAMPLED_ONLY), True
    own, total, whole = _weights_beside(tree, shown, shape, beside, beside_selection, beside_event, role_groups[1])
    factor = tree.total / whole if normalize and whole and tree.total else 1.0
    return replace(
        tree,
        base_self=own if factor == 1.0 else np.rint(own * factor).astype(np.int64),
        base_total=total if factor == 1.0 else np.rint(total * factor).astype(np.int64),
        base_weight=round(whole * factor),
        base_measured=whole,
        reversed=reverse,
        evidence=_find_evidence(
            _sample_frames((beside, beside_selection, beside_event), total, whole),
            _sample_frames((shown, selection, event), tree.total_weight, tree.total),
            as_shares=normalize,
        ),
    )


def _sample_frames(side: tuple[Profile, Selection, int], weight: Array, whole: int) -> RunValues:
    """The frames as items of one run. A frame has as many samples as have its weight on average; NaN if nothing was
    sampled."""
    counts = count_call_samples(*side)
    count = np.nan if counts is None else float(counts.sum())
    profile, _, event = side
    return RunValues(
        weight=weight[:, np.newaxis].astype(np.float64),
        samples=np.abs(weight[:, np.newaxis]) * count / max(abs(whole), 1),
        whole=np.array([float(whole)]),
        whole_samples=np.array([count]),
        spread=np.array([1.0 if counts is None else weight_spread(profile, event)]),
    )


def _find_evidence(beside: RunValues, shown: RunValues, *, as_shares: bool) -> Array:
    """Whether the difference of each frame is more than chance: one of `FrameEvidence`, int8."""
    found = np.full(len(shown.weight), FrameEvidence.FOUND, np.int8)
    few = (shown.samples < MIN_COMPARED_SAMPLES) & (beside.samples < MIN_COMPARED_SAMPLES)
    is_measured = bool(np.isnan(shown.whole_samples[0]) and np.isnan(beside.whole_samples[0]))
    if shown.has_all_wholes() and beside.has_all_wholes() and not is_measured:
        found[~exceeds_sampling_noise(beside, shown, as_shares=as_shares)] = FrameEvidence.NOISE
    # What is equal is no difference.
    wholes = (beside.whole[0], shown.whole[0]) if as_shares else (1.0, 1.0)
    found[shown.weight[:, 0] * wholes[0] == beside.weight[:, 0] * wholes[1]] = FrameEvidence.FOUND
    found[few[:, 0]] = FrameEvidence.FEW_SAMPLES
    return found


def find_thread_roles(
    base: Profile, other: Profile, base_selection: Selection, other_selection: Selection
) -> RoleGroups | None:
    """The roles by which `flame_diff` groups threads; None if it does not. Raises InvalidRequest."""
    return group_by_role(base, other, main_event_pair(base, other, base_selection, other_selection))


def _weights_beside(
    tree: FlameTree,
    shown: Profile,
    shape: TreeShape,
    beside: Profile,
    selection: Selection,
    event: int,
    groups: FlameGroups | None,
) -> tuple[Array, Array, int]:
    """(self, total, sum) of the frames of a tree with the weights of another profile. groups: of its threads, if they
    are not those of `groups_of`."""
    there = shape_of(beside, selection, kinds=False)
    distinct, which = np.unique(tree.function, return_inverse=True)
    mapped = np.full(len(distinct), NOT_FOUND, np.int64)
    mapped[distinct >= 0] = map_functions(shown, beside, distinct[distinct >= 0])
    calls = sum_call_weights(beside, selection, event)
    count, whole = len(tree.id), int(calls.sum())
    if tree.group is FlameGroup.NONE:
        places = locate_frames(there, tree.parent, tree.depth, mapped[which], np.ones(count, bool))
        by_row = there.weights(calls)
        own, total = by_row[places.row], subtree_totals(by_row, there.end)[places.row]
    else:
        groups = groups or groups_of(beside, tree.group)
        # The root is in no group and gets -1: the element appended to the labels.
        of_label = np.append(map_labels(tree.labels[1:], groups.labels), NOT_FOUND)
        group = of_label[(tree.id - 1) // shape.frames]
        places = locate_frames(there, tree.parent, tree.depth - 1, mapped[which], group != NOT_FOUND)
        kept = np.unique(np.append(places.row[places.row >= 0], ROOT))
        split = weigh_groups(beside, selection, event, there, groups, kept)
        own, total = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for these, own_of, total_of in split.tables():
            number = np.full(len(groups.labels) + 1, NOT_FOUND, np.int64)
            number[these] = np.arange(len(these))
            rows = np.flatnonzero((number[group] >= 0) & (places.row >= 0))
            cell = number[group[rows]], np.searchsorted(kept, places.row[rows])
            own[rows], total[rows] = own_of[cell], total_of[cell]
    own[(places.row < 0) | (there.last[places.row] != places.depth)] = 0
    total[places.row < 0] = 0
    total[ROOT] = whole
    return own, total, whole
