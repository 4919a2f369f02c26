"""A flame graph as arrays, from a shape and the weights of the selection on it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.flame_groups import FlameGroup, FlameGroups, effective_group, groups_of
from ..core.measurements import weight_unit
from ..core.sample_selection import event_names, select_samples
from .layout import (
    LABEL_KIND,
    FrameColumns,
    SiblingOrder,
    frame_starts,
    lay_out,
    reorder_siblings,
    sibling_keys,
)
from .shapes import TreeShape
from .time_order import TimeOrderBoxes, build_time_order
from .visible_runs import VisibleRuns, select_visible_grouped_runs, select_visible_runs

ROOT_LABEL = "all"


@dataclass(frozen=True, eq=False)
class FrameValues:
    """The value of a formula in each frame of a tree, and how its color shows it.

    name: of the formula; expression, unit: of it. part: "self" or "total", the sums that it is of. value: float64 by
    frame, NaN is missing. place: from -1 (the low end of the scale) over 0 (the mean) to 1 (the high end), NaN where
    there is no value. mean: the formula of the whole selection, low, high: the ends of the scale; NaN without a scale.
    is_log: whether the scale is logarithmic. note: what a reader must know, or "".
    """

    name: str
    expression: str
    unit: str
    part: str
    value: Array
    place: Array
    mean: float
    low: float
    high: float
    is_log: bool
    note: str


class FrameEvidence(IntEnum):
    """Whether a frame differs from the base by more than chance. FEW_SAMPLES: in both. NOISE: the difference is within
    the noise of sampling."""

    FOUND = 0
    FEW_SAMPLES = 1
    NOISE = 2


EVIDENCE_TEXTS = {
    FrameEvidence.FEW_SAMPLES: "Fewer than 30 samples in both: too few to compare",
    FrameEvidence.NOISE: "Within the noise of sampling: no evidence of a change",
}


@dataclass(frozen=True, eq=False)
class FlameTree:
    """A flame graph as arrays, one row per frame, in preorder, siblings in drawing order; row 0 is the root.

    id (int64): constant for a result, reshaping (hide, recursion, invert), group and order, independent of the rest of
    the selection. parent, end: rows; the frames of row i's subtree are [i, end[i]). function: a row of
    `functions`, or -1-g for label g of `labels`: of the root (label 0) and of groups. kind: FrameKind, -1 for
    labels. self_weight, total_weight: in the event's unit (int64). start: where the frame starts, in weight from
    the left edge; exact with order "time", else siblings are packed to the left.

    total: the weight of the selection. zoom: the zoomed row. pruned: lower bound of the number of frames omitted
    because they are too narrow. Frames on the path to the zoomed one have only a total; their self weight is 0.

    In a difference: base_self, base_total: the weights of the same frame in the base. base_weight: the total weight of
    the base. All three are scaled to `total` if the difference is normalized; base_measured: the unscaled base_weight.
    reversed: widths are those of the base, and base_… are those of the newer profile. evidence (int8): one of
    `FrameEvidence` for each frame.

    values: of the formula that colors the frames, None without one.
    """

    event: str
    unit: str
    total: int
    labels: tuple[str, ...]
    group: FlameGroup
    order: SiblingOrder
    id: Array
    parent: Array
    end: Array
    depth: Array
    function: Array
    kind: Array
    self_weight: Array
    total_weight: Array
    start: Array
    zoom: int = 0
    pruned: int = 0
    base_self: Array | None = None
    base_total: Array | None = None
    base_weight: int | None = None
    evidence: Array | None = None
    base_measured: int | None = None
    reversed: bool = False
    values: FrameValues | None = None


def build_flame_tree(
    profile: Profile,
    selection: Selection,
    event: int,
    shape: TreeShape,
    group: FlameGroup,
    order: SiblingOrder,
    zoom: int,
    min_share: float,
    groups: FlameGroups | None = None,
) -> FlameTree:
    """The flame graph of the samples of an event (NO_ID: of none) on a shape; see `flamegraph.flame_tree`. groups:
    other ones than those of `groups_of`."""
    group = effective_group(profile, group)
    groups = None if group is FlameGroup.NONE else groups or groups_of(profile, group)
    labels = (ROOT_LABEL, *(groups.labels if groups else ()))
    facts: dict[str, Any] = {
        "event": event_names(profile)[event] if event != NO_ID else "",
        "unit": weight_unit(profile, event) if event != NO_ID else "count",
        "labels": labels,
        "group": group,
        "order": order,
    }
    if order is SiblingOrder.TIME:
        return FlameTree(
            **facts,
            **_by_time(
                build_time_order(
                    profile, selection, select_samples(profile, selection, event), shape, groups, zoom, min_share
                ),
                shape,
                groups,
            ),
        )
    if groups:
        view = select_visible_grouped_runs(profile, selection, event, shape, groups, zoom, min_share)
    else:
        view = select_visible_runs(profile, selection, event, shape, zoom, min_share)
    frames = lay_out(view.runs)
    function, kind = _resolve_functions(shape, view.row[frames.run], frames.depth - (1 if groups else 0))
    place = reorder_siblings(frames.parent, frames.end, sibling_keys(profile, order, function, frames.total, labels))
    return FlameTree(**facts, **_pack(view, frames, function, kind, place))


def _pack(view: VisibleRuns, frames: FrameColumns, function: Array, kind: Array, place: Array) -> dict[str, Any]:
    """The columns of a tree whose frames are in the order `place`, siblings packed to the left."""
    count = len(place)
    at = int(np.searchsorted(frames.id, view.zoom))
    own = np.where(np.arange(count) < at, 0, frames.own)
    new = np.empty(count, np.int64)
    new[place] = np.arange(count)
    parent = np.where(place == 0, -1, new[frames.parent[place]])
    end = np.arange(count) + (frames.end - np.arange(count))[place]
    total = frames.total[place]
    return {
        "total": int(total[0]),
        "id": frames.id[place],
        "parent": parent,
        "end": end,
        "depth": frames.depth[place],
        "function": function[place],
        "kind": kind[place],
        "self_weight": own[place],
        "total_weight": total,
        "start": frame_starts(parent, end, total),
        "zoom": int(new[at]),
        "pruned": view.pruned_count,
    }


def _by_time(boxes: TimeOrderBoxes, shape: TreeShape, groups: FlameGroups | None) -> dict[str, Any]:
    """The columns of a tree of boxes, which already have positions."""
    row = np.where(boxes.depth > 0, boxes.row, -1)
    if groups:
        label = boxes.depth == 0
        row[label] = -2 - boxes.group[label]
    function, kind = _resolve_functions(shape, row, boxes.depth)
    return {
        "total": int(boxes.total[0]),
        "id": boxes.id,
        "parent": boxes.parent,
        "end": boxes.end,
        "depth": boxes.depth + (1 if groups else 0),
        "function": function,
        "kind": kind,
        "self_weight": boxes.own,
        "total_weight": boxes.total,
        "start": boxes.start,
        "zoom": boxes.zoom,
        "pruned": boxes.pruned,
    }


def _resolve_functions(shape: TreeShape, row: Array, depth: Array) -> tuple[Array, Array]:
    """Function and kind of frames. row: of the shape, or -1-g for label g; depth: in the shape."""
    node = shape.nodes(np.maximum(row, 0), np.where(row < 0, 0, depth))
    function = np.where(row < 0, row, shape.tree.function[node])
    return function, np.where(row < 0, LABEL_KIND, shape.tree.kind[node]).astype(np.int8)
