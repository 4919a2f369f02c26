"""Weights of a selection on a shape, and the runs of frames that are wide enough to be drawn."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import ROOT
from ..core.flame_groups import FlameGroups
from ..core.sample_rollup import (
    SampleRollup,
    roll_up_filtered_samples,
    roll_up_rows,
    sum_call_weights,
)
from ..core.sample_selection import filter_samples, sum_by_index
from ..core.trees import nearest_ancestor
from .layout import FrameRuns, subtree_totals
from .shapes import TreeShape

MAX_CELLS = 1 << 22
"""Maximum number of cells of the table group × frame."""


@dataclass(frozen=True, eq=False)
class VisibleRuns:
    """Runs to draw, and access to their frames. row: of the shape, or -1-g for a label.

    zoom: the id of the zoomed frame.
    """

    runs: FrameRuns
    row: Array
    zoom: int
    pruned_count: int


def select_visible_runs(
    profile: Profile, selection: Selection, event: int, shape: TreeShape, zoom: int, min_share: float
) -> VisibleRuns:
    weights = shape.weights(sum_call_weights(profile, selection, event))
    total = subtree_totals(weights, shape.end)
    kept, zoom, _, pruned = _wide_enough(shape, total, zoom, min_share)
    runs = _runs(shape, kept, weights[kept], total[kept])
    return VisibleRuns(runs, np.where(kept == ROOT, -1, kept), zoom, pruned)


def _wide_enough(shape: TreeShape, total: Array, zoom: int, least: float) -> tuple[Array, int, int, int]:
    """(rows to draw, zoom, narrowest weight drawn, omitted frames): the path to the zoom and the frames below it."""
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


def _runs(shape: TreeShape, kept: Array, own: Array, total: Array) -> FrameRuns:
    return FrameRuns(
        parent=np.where(kept == ROOT, -1, np.searchsorted(kept, shape.parent[kept])),
        end=np.searchsorted(kept, shape.end[kept]),
        first=shape.first[kept],
        last=shape.last[kept],
        place=shape.place[kept],
        own=own,
        total=total,
    )


def select_visible_grouped_runs(
    profile: Profile,
    selection: Selection,
    event: int,
    shape: TreeShape,
    groups: FlameGroups,
    zoom: int,
    min_share: float,
) -> VisibleRuns:
    """The root, below it the groups, and in each the tree of its samples without its root.

    Frame v of group g has the id 1 + g · frames + v; the group represents the frame 0, the tree's root.
    """
    everything = sum_call_weights(profile, selection, event)
    group, inner = divmod(zoom - 1, shape.frames)
    if zoom > 0 and group < len(groups.labels):
        found, of_pile = roll_up_groups(profile, selection, event, groups)
        mine = found.take(of_pile == group)
        weights = shape.weights(sum_by_index(mine.call, mine.weight, profile.calls.num_rows))
        total = subtree_totals(weights, shape.end)
        if total[ROOT]:
            kept, inner, _, pruned = _wide_enough(shape, total, inner, min_share)
            runs = _runs(shape, kept, weights[kept], total[kept])
            runs, row = _under_root(shape, runs, kept, np.full(len(kept), group), int(everything.sum()))
            return VisibleRuns(runs, row, 1 + group * shape.frames + inner, pruned)
    total = subtree_totals(shape.weights(everything), shape.end)
    kept, _, narrowest, pruned = _wide_enough(shape, total, ROOT, min_share)
    runs, kept, group_of, cut = _split(profile, selection, event, shape, groups, kept, narrowest)
    runs, row = _under_root(shape, runs, kept, group_of, int(total[ROOT]))
    return VisibleRuns(runs, row, 0, pruned + cut)


def _under_root(
    shape: TreeShape, runs: FrameRuns, kept: Array, group: Array, everything: int
) -> tuple[FrameRuns, Array]:
    """(runs, row) with a root of that weight above the trees of groups. kept: the row of the shape of each run."""
    top = kept == ROOT
    return (
        FrameRuns(
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


@dataclass(frozen=True, eq=False)
class GroupWeights:
    """The weights of some rows of a shape in each group.

    rows: the rows, ascending, with their ancestors; end: where their subtrees end among them. groups: number of groups.
    The rest is by sample: its group, its column in a table of group × column, its weight. A row has two columns: its
    self weight, and that of omitted rows below it; one more column is for everything not drawn.
    """

    rows: Array
    end: Array
    groups: int
    group: Array
    column: Array
    weight: Array

    def tables(self, narrowest: int = 1) -> Iterator[tuple[Array, Array, Array]]:
        """(numbers of groups, self, total: int64 by group and kept row), some groups at a time.

        If there are too many for one table, groups with a total below `narrowest` are omitted.
        """
        columns = 2 * len(self.rows) + 1
        if self.groups * columns <= MAX_CELLS:
            yield np.arange(self.groups), *self._table(self.groups, self.group, self.column, self.weight)
            return
        of_group = sum_by_index(self.group, self.weight, self.groups)
        rows = np.flatnonzero(of_group >= narrowest)
        per_turn = max(1, MAX_CELLS // columns)
        for turn in range(0, len(rows), per_turn):
            these = rows[turn : turn + per_turn]
            number = np.full(self.groups, -1, np.int32)
            number[these] = np.arange(len(these))
            group = number[self.group]
            inside = np.flatnonzero(group >= 0)
            yield these, *self._table(len(these), group[inside], self.column[inside], self.weight[inside])

    def _table(self, groups: int, group: Array, column: Array, weight: Array) -> tuple[Array, Array]:
        columns = 2 * len(self.rows) + 1
        cell = group.astype(np.int64) * columns
        cell += column
        table = sum_by_index(cell, weight, groups * columns).reshape(groups, columns)
        own = table[:, 0:-1:2]
        return own, subtree_totals(own + table[:, 1:-1:2], self.end)


def weigh_groups(
    profile: Profile,
    selection: Selection,
    event: int,
    shape: TreeShape,
    groups: FlameGroups,
    rows: Array,
    rollup: tuple[SampleRollup, Array] | None = None,
) -> GroupWeights:
    """The weights of these rows of a shape in each group: each sample counts for the innermost on its stack. rollup: of
    `roll_up_groups`, if it is known."""
    wide = np.zeros(len(shape), bool)
    wide[rows] = True
    elsewhere = 2 * len(rows)
    column = 2 * (np.cumsum(wide, dtype=np.int32) - 1)[nearest_ancestor(shape.parent, shape.end, wide)] + ~wide
    of_call = column if shape.row_of_call is None else np.append(column, elsewhere)[shape.row_of_call]
    found, group = rollup or roll_up_groups(profile, selection, event, groups)
    return GroupWeights(
        rows=rows,
        end=np.searchsorted(rows, shape.end[rows]),
        groups=len(groups.labels),
        group=group,
        column=of_call.take(found.call),
        weight=found.weight,
    )


def roll_up_groups(
    profile: Profile, selection: Selection, event: int, groups: FlameGroups
) -> tuple[SampleRollup, Array]:
    """(the selected samples of an event, rolled up; the group of each entry)."""
    if groups.sample_groups is None:
        found = roll_up_filtered_samples(profile, selection, event)
        return found, groups.thread_groups.take(found.thread)
    # Threads that change their names: one entry for each sample.
    rows = filter_samples(profile, selection, event)
    return roll_up_rows(profile, selection, rows), groups.for_samples(profile, rows)


def _split(
    profile: Profile,
    selection: Selection,
    event: int,
    shape: TreeShape,
    groups: FlameGroups,
    kept: Array,
    narrowest: int,
) -> tuple[FrameRuns, Array, Array, int]:
    """(runs, their rows of the shape, their groups, omitted frames), by group.

    kept: the rows that are wide enough without groups; others cannot be wide enough in a group.
    """
    found: list[tuple[Array, ...]] = [(np.zeros(0, np.int64),) * 4]
    split = weigh_groups(profile, selection, event, shape, groups, kept)
    cut = 0
    for these, own, total in split.tables(narrowest):
        wide = total >= narrowest
        cut += int(((total > 0) & ~wide).sum())
        number, slot = np.nonzero(wide)
        found.append((these[number], slot, own[wide], total[wide]))
    group, slot, own, total = (np.concatenate(columns) for columns in zip(*found, strict=True))
    stride = len(kept) + 1
    key = group * stride + slot
    above = np.searchsorted(kept, np.maximum(shape.parent[kept], ROOT))
    runs = FrameRuns(
        parent=np.searchsorted(key, group * stride + above[slot]),
        end=np.searchsorted(key, group * stride + split.end[slot]),
        first=shape.first[kept][slot],
        last=shape.last[kept][slot],
        place=shape.place[kept][slot],
        own=own,
        total=total,
    )
    return runs, kept[slot], group, cut
