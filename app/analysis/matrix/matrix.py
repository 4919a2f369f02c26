"""The matrix: its cells, statistics of each row, and since when outliers are ones."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.memo import memoize
from ..core.waiting_functions import waiting_pattern
from .cells import MatrixCells, build_cells
from .changes import Since, find_since
from .groups import matrix_groups
from .outliers import Excess, find_excess

NO_STACK = "[no call stack]"
"""The name of the row of samples without a stack."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """The matrix of one event. place: the rows with samples in `cells.rows`, those with the most weight first. count,
    total: samples and weight of each row of `cells.rows`. excess: the same rows. since: of outliers with a change, by
    row."""

    cells: MatrixCells
    place: Array
    count: Array
    total: Array
    excess: Excess
    since: dict[int, Since]

    def is_outlier(self, row: int) -> bool:
        """Whether a row computes and has an outlier."""
        return bool(self.excess.significant[row]) and not self.cells.rows.waits[row]


def build_matrix(profile: Profile, selection: Selection, event: int, by: str) -> Matrix:
    """The matrix of the selected samples of an event (NO_ID: none). Raises InvalidRequest for an unknown `by`."""
    chosen = selection.replace(event=None, invert=False, recursion=False)
    key = ("matrix", chosen, event, by, waiting_pattern())
    return memoize(profile, key, lambda: _build(profile, chosen, event, by))


def _build(profile: Profile, selection: Selection, event: int, by: str) -> Matrix:
    groups = matrix_groups(profile, selection, by)
    cells = build_cells(profile, selection, event, groups)
    size = len(cells.rows)
    excess = find_excess(
        cells.row, cells.group, cells.weight, cells.count, size, groups.role, cells.totals.whole, groups.least
    )
    count = np.bincount(cells.row, cells.count, size).astype(np.int64)
    total = np.rint(np.bincount(cells.row, cells.weight, size)).astype(np.int64)
    shown = np.flatnonzero(count)
    place = shown[np.lexsort((shown, -total[shown]))]
    rows = np.flatnonzero(excess.significant & ~cells.rows.waits).tolist()
    outliers = [(row, int(excess.top_group[row])) for row in rows]
    changes = find_since(profile, selection, event, groups, cells.rows, outliers)
    since = {row: change for row, change in zip(rows, changes, strict=True) if change is not None}
    return Matrix(cells, place, count, total, excess, since)
