"""The flame graph of a selection: upright, inverted, by time, as a sandwich; and search in it.

What of a stack is shown (focus, ignore, hide, recursion, invert) is the selection's; how it is laid out (groups,
order of siblings) is the graph's. Nothing is drawn here: `charts.flamegraph` makes the wire form of it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, ROOT, texts
from .functions import NAMES, function_id, functions_matching, functions_of
from .grouping import Group, Groups, groups_of
from .layout import LABEL_KIND, Order, Runs, laid_out, reordered, sibling_order, starts, subtree_totals
from .picking import (
    Rows,
    below,
    calls_kept,
    event_id,
    event_names,
    picked,
    samples_of,
    weights_of,
    weights_on,
)
from .reshaping import nearest_above
from .shapes import Shape, sandwich_shapes, shape_of
from .timeorder import in_time

Array = np.ndarray[Any, Any]
ROOT_LABEL = "all"
CELLS = 1 << 22
"""How many cells the table group × frame may have at a time."""

__all__ = ["FlameTree", "Group", "Matches", "Order", "flame_tree", "sandwich", "search"]


@dataclass(frozen=True, eq=False)
class FlameTree:
    """A flame graph as arrays, one row a frame, in preorder, siblings in the order drawn; row 0 is the root.

    id: stays the same for one result, reshaping (hide, recursion, invert), group and order, whatever else is
    selected (int64). parent, end: rows; the frames of row i's subtree are [i, end[i]). function: a row of
    `functions`, or -1-g for label g of `labels`: of the root (label 0) and of groups. kind: FrameKind, -1 for
    labels. self_weight, total_weight: in the event's unit (int64). start: where the frame starts, in weight from
    the left edge; exact with order "time", else siblings are packed to the left.

    total: the weight of all that is selected. zoom: the row that was zoomed to. pruned: frames that were left out
    for being too narrow, at least. base_self, base_total: of a difference, what the same frame weighed in the base.
    base_sum: the weight of all of the base, as it was measured.
    """

    event: str
    unit: str
    total: int
    labels: tuple[str, ...]
    group: Group
    order: Order
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
    base_sum: int | None = None


@dataclass(frozen=True)
class Matches:
    """What a search found. functions: rows of `functions`. matched: weight of the samples with a match on their
    stack, each counted once. percent: of all that is selected.
    """

    functions: tuple[int, ...]
    matched: int
    percent: float


@dataclass(frozen=True, eq=False)
class _View:
    """Runs chosen to be drawn, and how their frames are found. row: of the shape, or -1-g for a label.

    zoom: the id zoomed to.
    """

    runs: Runs
    row: Array
    zoom: int
    pruned: int


def flame_tree(
    profile: Profile,
    selection: Selection,
    *,
    group: Group = Group.COMM,
    order: Order = Order.WEIGHT,
    zoom: int | None = None,
    least: float = 0.0,
) -> FlameTree:
    """The flame graph of a selection.

    zoom: the id of a frame: only it, the frames below it and the path to it are in the tree. An id that is not there
    means the root; one without weight in this selection, the nearest frame above it that has some. least: frames
    narrower than this share (0–1) of the zoomed one are left out; their weight stays in the totals above them.

    Raises InvalidRequest for a selection that this profile cannot answer.
    """
    event = event_id(profile, selection.event)
    shape = shape_of(profile, selection)
    return _drawn(profile, selection, event, shape, group, order, zoom or 0, least)


def sandwich(
    profile: Profile,
    selection: Selection,
    function: int | str,
    *,
    order: Order = Order.WEIGHT,
    zoom: tuple[int | None, int | None] = (None, None),
    least: float = 0.0,
) -> tuple[FlameTree, FlameTree]:
    """(callers, callees) of a function, given by its row or its name. `invert` of the selection changes nothing.

    zoom: of the callers, of the callees; as in `flame_tree`.

    Both hang on the outermost call of the function in each stack, so both weigh the function's total, with recursion
    counted once: who called it from outside, and all it called, itself included. Frames are found as in
    `flame_tree`. Raises NotFound, InvalidRequest.
    """
    event = event_id(profile, selection.event)
    callers, callees = sandwich_shapes(profile, selection, function_id(profile, function))
    if order is Order.TIME:
        order = Order.WEIGHT
    return (
        _drawn(profile, selection, event, callers, Group.NONE, order, zoom[0] or 0, least),
        _drawn(profile, selection, event, callees, Group.NONE, order, zoom[1] or 0, least),
    )


def search(profile: Profile, selection: Selection, pattern: str) -> Matches:
    """The functions whose name matches an RE2 pattern, and what the stacks they are on weigh.

    Hidden frames are not found. Raises InvalidRequest for a pattern that is none.
    """
    event = event_id(profile, selection.event)
    found = functions_matching(profile, pattern, "search", NAMES)
    if selection.hide is not None:
        found = found & ~functions_matching(profile, selection.hide, "hide")
    weights = weights_of(profile, selection, picked(profile, selection, event))
    matched = int(weights[below(profile, found)].sum())
    total = int(weights.sum())
    functions = np.unique(functions_of(profile).canonical[found])
    return Matches(tuple(functions.tolist()), matched, 100.0 * matched / total if total else 0.0)


def _drawn(
    profile: Profile,
    selection: Selection,
    event: int,
    shape: Shape,
    group: Group,
    order: Order,
    zoom: int,
    least: float,
) -> FlameTree:
    groups = None if group is Group.NONE else groups_of(profile, group)
    labels = (ROOT_LABEL, *(groups.labels if groups else ()))
    rows = picked(profile, selection, event)
    facts: dict[str, Any] = {
        "event": event_names(profile)[event] if event != NO_ID else "",
        "unit": texts(profile.events, "unit")[event] if event != NO_ID else "count",
        "labels": labels,
        "group": group,
        "order": order,
    }
    lift = 1 if groups else 0
    if order is Order.TIME:
        boxes = in_time(profile, selection, rows, shape, groups, zoom, least)
        row = np.where(boxes.depth > 0, boxes.row, -1)
        row[boxes.depth == 0] = -2 - boxes.group[boxes.depth == 0] if groups else -1
        function, kind = _named(shape, row, boxes.depth)
        return FlameTree(
            **facts,
            total=int(boxes.total[0]),
            id=boxes.id,
            parent=boxes.parent,
            end=boxes.end,
            depth=boxes.depth + lift,
            function=function,
            kind=kind,
            self_weight=boxes.own,
            total_weight=boxes.total,
            start=boxes.start,
            zoom=boxes.zoom,
            pruned=boxes.pruned,
        )
    if groups:
        view = _grouped(profile, selection, rows, shape, groups, zoom, least)
    else:
        view = _ungrouped(profile, selection, rows, shape, zoom, least)
    frames = laid_out(view.runs)
    row = view.row[frames.run]
    function, kind = _named(shape, row, frames.depth - lift)
    at = int(np.searchsorted(frames.id, view.zoom))
    own = np.where(np.arange(len(frames.id)) < at, 0, frames.own)
    place = reordered(frames.parent, frames.end, sibling_order(profile, order, function, frames.total, labels))
    new = np.empty(len(place), np.int64)
    new[place] = np.arange(len(place))
    parent = np.where(place == 0, -1, new[frames.parent[place]])
    end = np.arange(len(place)) + (frames.end - np.arange(len(place)))[place]
    total = frames.total[place]
    return FlameTree(
        **facts,
        total=int(total[0]),
        id=frames.id[place],
        parent=parent,
        end=end,
        depth=frames.depth[place],
        function=function[place],
        kind=kind[place],
        self_weight=own[place],
        total_weight=total,
        start=starts(parent, end, total),
        zoom=int(new[at]),
        pruned=view.pruned,
    )


def _named(shape: Shape, row: Array, depth: Array) -> tuple[Array, Array]:
    """Function and kind of frames. row: of the shape, or -1-g for label g; depth: in the shape."""
    node = shape.nodes(np.maximum(row, 0), np.where(row < 0, 0, depth))
    function = np.where(row < 0, row, shape.tree.function[node])
    return function, np.where(row < 0, LABEL_KIND, shape.tree.kind[node]).astype(np.int8)


def _ungrouped(profile: Profile, selection: Selection, rows: Rows, shape: Shape, zoom: int, least: float) -> _View:
    own = shape.weights(weights_of(profile, selection, rows))
    total = subtree_totals(own, shape.end)
    kept, zoom, _, pruned = _wide_enough(shape, total, zoom, least)
    runs = _runs(shape, kept, own[kept], total[kept])
    return _View(runs, np.where(kept == ROOT, -1, kept), zoom, pruned)


def _wide_enough(shape: Shape, total: Array, zoom: int, least: float) -> tuple[Array, int, int, int]:
    """(rows to draw, zoom, narrowest weight drawn, frames left out): the path to the zoom and what is below it."""
    row = shape.row_at(zoom) if 0 <= zoom < shape.frames else ROOT
    while row != ROOT and not total[row]:
        row = int(shape.parent[row])
        zoom = int(shape.place[row]) + int(shape.last[row] - shape.first[row])
    if row == ROOT:
        zoom = 0
    end = int(shape.end[row])
    narrowest = max(1, math.ceil(least * int(total[row])))
    below = total[row:end]
    wide = np.flatnonzero(below >= narrowest) + row
    narrow = np.flatnonzero((below > 0) & (below < narrowest)) + row
    path = []
    above = row
    while above != ROOT:
        above = int(shape.parent[above])
        path.append(above)
    if not len(wide):
        wide = np.array([row])
    pruned = int((shape.last[narrow] - shape.first[narrow] + 1).sum())
    return np.r_[np.array(path[::-1], np.int64), wide], zoom, narrowest, pruned


def _runs(shape: Shape, kept: Array, own: Array, total: Array) -> Runs:
    return Runs(
        parent=np.where(kept == ROOT, -1, np.searchsorted(kept, shape.parent[kept])),
        end=np.searchsorted(kept, shape.end[kept]),
        first=shape.first[kept],
        last=shape.last[kept],
        place=shape.place[kept],
        own=own,
        total=total,
    )


def _grouped(
    profile: Profile, selection: Selection, rows: Rows, shape: Shape, groups: Groups, zoom: int, least: float
) -> _View:
    """The root, below it the groups, and in each the tree of its samples without its root.

    Frame v of group g has the id 1 + g · frames + v; the group stands for the frame 0, the tree's root.
    """
    everything = weights_of(profile, selection, rows)
    group, inner = divmod(zoom - 1, shape.frames)
    if zoom > 0 and group < len(groups.labels):
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        mine = numbers[groups.of(profile, rows) == group]
        own = shape.weights(weights_of(profile, selection, mine))
        total = subtree_totals(own, shape.end)
        if total[ROOT]:
            kept, inner, _, pruned = _wide_enough(shape, total, inner, least)
            runs = _runs(shape, kept, own[kept], total[kept])
            runs, row = _under_root(shape, runs, kept, np.full(len(kept), group), int(everything.sum()))
            return _View(runs, row, 1 + group * shape.frames + inner, pruned)
    total = subtree_totals(shape.weights(everything), shape.end)
    kept, _, narrowest, pruned = _wide_enough(shape, total, ROOT, least)
    runs, kept, group_of, cut = _split(profile, selection, rows, shape, groups, kept, narrowest)
    runs, row = _under_root(shape, runs, kept, group_of, int(total[ROOT]))
    return _View(runs, row, 0, pruned + cut)


def _under_root(shape: Shape, runs: Runs, kept: Array, group: Array, everything: int) -> tuple[Runs, Array]:
    """(runs, row) with a root of that weight put above the trees of groups. kept: the row of the shape of each run."""
    top = kept == ROOT
    return (
        Runs(
            parent=np.r_[-1, np.where(top, 0, runs.parent + 1)],
            end=np.r_[len(kept) + 1, runs.end + 1],
            first=np.r_[0, runs.first + 1],
            last=np.r_[0, runs.last + 1],
            place=np.r_[0, 1 + group * shape.frames + runs.place],
            own=np.r_[0, runs.own],
            total=np.r_[everything, runs.total],
        ),
        np.r_[-1, np.where(top, -2 - group, kept)],
    )


def _split(
    profile: Profile, selection: Selection, rows: Rows, shape: Shape, groups: Groups, kept: Array, narrowest: int
) -> tuple[Runs, Array, Array, int]:
    """(runs, their rows of the shape, their groups, frames left out), group after group.

    Only the rows `kept`, which are wide enough without groups, can be so in a group. So one sum over group × kept
    row says it all, in which each sample counts for the innermost of these rows on its stack.
    """
    samples = samples_of(profile)
    wide = np.zeros(len(shape), bool)
    wide[kept] = True
    nearest = nearest_above(shape.end, wide)
    columns = 2 * len(kept) + 1
    # Two columns a row: what it weighs itself, and what lies in narrower rows below it. One more for all the rest.
    column = np.append(2 * np.searchsorted(kept, nearest) + ~wide, columns - 1)
    of_call = column if shape.row_of_call is None else column[shape.row_of_call]
    left = calls_kept(profile, selection)
    if shape.row_of_call is None:
        of_call = of_call[:-1]
    group, weight = groups.of(profile, rows), samples.weight[rows]
    if left is not None:
        of_call = np.where(left, of_call, columns - 1)
    of_sample = of_call[samples.call][samples.stack[rows]]
    if left is not None:
        weight = np.where(of_sample < columns - 1, weight, 0)
    of_group = weights_on(group, weight, len(groups.labels), samples.peak)
    some = np.flatnonzero(of_group >= narrowest)
    parts = []
    per_turn = max(1, CELLS // columns)
    for turn in range(0, len(some), per_turn):
        these = some[turn : turn + per_turn]
        number = np.full(len(groups.labels), -1, np.int64)
        number[these] = np.arange(len(these))
        mine = number[group]
        inside = slice(None) if len(some) == len(groups.labels) <= per_turn else mine >= 0
        cell = mine[inside] * columns + of_sample[inside]
        table = weights_on(cell, weight[inside], len(these) * columns, samples.peak).reshape(len(these), columns)
        parts.append(_cells(shape, kept, these, table, narrowest))
    runs, kept, of_run, cut = _joined(parts)
    return runs, kept, of_run, cut + int(((of_group > 0) & (of_group < narrowest)).sum())


def _cells(shape: Shape, kept: Array, groups: Array, table: Array, narrowest: int) -> tuple[Runs, Array, Array, int]:
    own, narrow = table[:, 0:-1:2], table[:, 1:-1:2]
    end = np.searchsorted(kept, shape.end[kept])
    total = subtree_totals(own + narrow, end)
    wide = total >= narrowest
    number = np.zeros((len(groups), len(kept) + 1), np.int64)
    np.cumsum(wide, axis=1, out=number[:, 1:])
    before = np.cumsum(number[:, -1]) - number[:, -1]
    at = number + before[:, None]
    group, slot = np.nonzero(wide)
    parent = np.maximum(np.searchsorted(kept, shape.parent[kept]), 0)
    runs = Runs(
        parent=at[group, parent[slot]],
        end=at[group, end[slot]],
        first=shape.first[kept][slot],
        last=shape.last[kept][slot],
        place=shape.place[kept][slot],
        own=own[group, slot],
        total=total[group, slot],
    )
    return runs, kept[slot], groups[group], int(((total > 0) & ~wide).sum())


def _joined(parts: list[tuple[Runs, Array, Array, int]]) -> tuple[Runs, Array, Array, int]:
    """The runs of several turns as one."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Runs(none, none, none, none, none, none, none), none, none, 0
    before = np.cumsum([0] + [len(kept) for _, kept, _, _ in parts])
    runs = Runs(
        parent=np.concatenate([part[0].parent + shift for part, shift in zip(parts, before, strict=False)]),
        end=np.concatenate([part[0].end + shift for part, shift in zip(parts, before, strict=False)]),
        first=np.concatenate([part[0].first for part in parts]),
        last=np.concatenate([part[0].last for part in parts]),
        place=np.concatenate([part[0].place for part in parts]),
        own=np.concatenate([part[0].own for part in parts]),
        total=np.concatenate([part[0].total for part in parts]),
    )
    return (
        runs,
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
        sum(part[3] for part in parts),
    )
