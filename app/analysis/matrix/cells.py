"""The cells of the matrix: the weight of samples by function and group, computing and waiting apart.

A sample that waits (see `waiting_calls`) counts for the outermost function of its stack that waits: spinning below
MPI_Barrier is MPI_Barrier. Any other counts for its innermost function that is not in the kernel: what the kernel does
for a function, interrupts included, is part of it. So each sample is in one cell.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import FrameFilter, Selection
from ...domain.tables import NO_ID, ROOT, FrameKind
from ..core.group_by import MAX_LOOKUP_KEYS, factorize
from ..core.memo import memoize
from ..core.sample_rollup import SampleRollup, roll_up_filtered_samples
from ..core.sample_selection import sum_by_index
from ..core.trees import nearest_ancestor
from ..core.waiting_calls import waiting_calls_of
from ..core.waiting_functions import waiting_pattern
from ..stacks.call_tree import build_shown_tree
from .groups import MatrixGroups


@dataclass(frozen=True, eq=False)
class MatrixRows:
    """The rows of a matrix. function: row of `functions`, -1 for samples without a stack. waits: whether it has the
    samples that wait. of_call: the row of each node of `calls` (int32)."""

    function: Array
    waits: Array
    of_call: Array

    def __len__(self) -> int:
        return len(self.function)


@dataclass(frozen=True, eq=False)
class GroupTotals:
    """Sums by group. computing, waiting: weight; computing_count, waiting_count: samples. All int64."""

    computing: Array
    waiting: Array
    computing_count: Array
    waiting_count: Array

    @classmethod
    def of(
        cls, rows: MatrixRows, groups: MatrixGroups, row: Array, group: Array, weight: Array, count: Array
    ) -> "GroupTotals":
        """The sums of cells or of other parts of them."""
        key = group * 2 + (rows.waits.take(row) if len(rows) else 0)
        sums = [sum_by_index(key, values, 2 * len(groups)).reshape(-1, 2) for values in (weight, count)]
        return cls(sums[0][:, 0], sums[0][:, 1], sums[1][:, 0], sums[1][:, 1])

    @property
    def whole(self) -> Array:
        """The weight of each group."""
        found: Array = self.computing + self.waiting
        return found

    @property
    def count(self) -> Array:
        """The samples of each group."""
        found: Array = self.computing_count + self.waiting_count
        return found


@dataclass(frozen=True, eq=False)
class MatrixCells:
    """The cells with samples, by row and then by group. weight: in the unit of the event. count: of samples. All
    int64. totals: of each group."""

    rows: MatrixRows = field(metadata={"shared": True})
    groups: MatrixGroups = field(metadata={"shared": True})
    row: Array
    group: Array
    weight: Array
    count: Array
    totals: GroupTotals

    def __len__(self) -> int:
        return len(self.row)


def matrix_rows(profile: Profile, frames: FrameFilter) -> MatrixRows:
    """The rows for all samples of a profile with some frames shown: samples of others count for the callers."""
    return memoize(profile, ("matrix rows", frames, waiting_pattern()), lambda: _build_rows(profile, frames))


def build_cells(profile: Profile, selection: Selection, event: int, groups: MatrixGroups) -> MatrixCells:
    """The cells of the selected samples of an event (NO_ID: none)."""
    rows = matrix_rows(profile, selection.frame_filter)
    found = roll_up_filtered_samples(profile, selection, event)
    size = max(1, len(groups))
    key = rows.of_call.take(found.call).astype(np.int64) * size + groups.of_thread.take(found.thread)
    known, weight, count = _sum_keys(key, found, max(1, len(rows)) * size)
    row, group = np.divmod(known, size)
    totals = _keep_totals(
        profile, selection, event, groups, lambda: GroupTotals.of(rows, groups, row, group, weight, count)
    )
    return MatrixCells(rows, groups, row, group, weight, count, totals)


def sum_groups(profile: Profile, selection: Selection, event: int, groups: MatrixGroups) -> GroupTotals:
    """The sums of the cells by group, and those of rows that wait, faster than all cells."""

    def build() -> GroupTotals:
        rows = matrix_rows(profile, selection.frame_filter)
        found = roll_up_filtered_samples(profile, selection, event)
        row, group = rows.of_call.take(found.call), groups.of_thread.take(found.thread)
        return GroupTotals.of(rows, groups, row, group, found.weight, found.count)

    return _keep_totals(profile, selection, event, groups, build)


def _keep_totals(
    profile: Profile, selection: Selection, event: int, groups: MatrixGroups, build: Callable[[], GroupTotals]
) -> GroupTotals:
    """Kept, because a page with all cells needs them for its sentences, too."""
    chosen = selection.replace(event=None, invert=False, recursion=False)
    key = ("group totals", chosen, event, len(groups), groups.of_thread.tobytes(), waiting_pattern())
    return memoize(profile, key, build)


def _sum_keys(key: Array, found: SampleRollup, size: int) -> tuple[Array, Array, Array]:
    """(the distinct keys, ascending, the weight and the count of each)."""
    if size > max(MAX_LOOKUP_KEYS, len(key)):
        known, code = factorize(key, size)
        weight = sum_by_index(code, found.weight, len(known))
        return known, weight, sum_by_index(code, found.count, len(known))
    count = np.bincount(key, found.count, size)
    known = np.flatnonzero(count)
    return known, sum_by_index(key, found.weight, size)[known], count[known].astype(np.int64)


def _build_rows(profile: Profile, frames: FrameFilter) -> MatrixRows:
    tree, waiting = build_shown_tree(profile, frames), waiting_calls_of(profile)
    size = len(waiting.waits)
    node = np.arange(size) if tree.node is None else tree.node.astype(np.int64)
    if not size:
        none = np.zeros(0, np.int64)
        return MatrixRows(none, np.zeros(0, bool), none.astype(np.int32))
    # Where the function that waits and its callers are not shown, the innermost function remains.
    top = node[waiting.call]
    place = np.where(waiting.waits & (top != ROOT), top, _skip_kernel(tree.parent, tree.end, tree.kind)[node])
    function = np.where(place == ROOT, NO_ID, tree.function[place]).astype(np.int64)
    key = (function + 1) * 2 + waiting.waits
    known, code = factorize(key, 2 * (profile.functions.num_rows + 1))
    return MatrixRows(known // 2 - 1, known % 2 == 1, code.astype(np.int32))


def _skip_kernel(parent: Array, end: Array, kind: Array) -> Array:
    """For each node of a tree, the innermost node of its path that is not in the kernel; itself if there is none."""
    user = kind != FrameKind.KERNEL
    user[ROOT] = True
    nearest = nearest_ancestor(parent, end, user)
    found: Array = np.where(nearest == ROOT, np.arange(len(nearest)), nearest)
    return found
