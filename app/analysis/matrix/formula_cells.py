"""Formulas in the matrix: the formula of the sums of each cell, of each row and of each group."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...domain.arrays import Array, Float64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.group_by import factorize
from ..core.memo import memoize
from ..core.sample_selection import sum_by_index
from ..core.waiting_functions import waiting_pattern
from ..formulas.measures import evaluate_weights
from ..formulas.resolution import ResolvedFormula
from .cells import MatrixCells, build_cells
from .groups import matrix_groups


@dataclass(frozen=True, eq=False)
class FormulaMatrix:
    """The values of a formula, NaN where it has none. cells: with samples of any of its events; weight: of its first
    event, count: of all. value: of each cell. row_value, row_weight, row_count: by row of `cells.rows`; least, most: of
    its cells, and top_group: the group with most, -1 for none. place: the rows with samples, those with the most weight
    of the first event first. computing, waiting, whole: by group. all_computing, all_waiting, everything: of all
    groups.
    """

    cells: MatrixCells
    value: Float64Array
    row_value: Float64Array
    row_weight: Array
    row_count: Array
    least: Float64Array
    most: Float64Array
    top_group: Array
    place: Array
    computing: Float64Array
    waiting: Float64Array
    whole: Float64Array
    all_computing: float
    all_waiting: float
    everything: float


def build_formula_matrix(profile: Profile, selection: Selection, formula: ResolvedFormula, by: str) -> FormulaMatrix:
    """The matrix of a formula. Raises InvalidRequest for an unknown `by`."""
    chosen = selection.replace(event=None, invert=False, recursion=False)
    key = ("formula matrix", chosen, formula.formula, formula.steps, by, waiting_pattern())
    return memoize(profile, key, lambda: _build(profile, chosen, formula, by))


def _build(profile: Profile, selection: Selection, formula: ResolvedFormula, by: str) -> FormulaMatrix:
    groups = matrix_groups(profile, selection, by)
    parts = {event: build_cells(profile, selection, event, groups) for event in formula.parts}
    rows, size = parts[formula.lead].rows, max(1, len(groups))
    keys = [part.row.astype(np.int64) * size + part.group for part in parts.values()]
    known, places = factorize(np.concatenate(keys), max(1, len(rows)) * size)
    weight = {event: np.zeros(len(known), np.int64) for event in parts}
    row, group, count = (np.zeros(len(known), np.int64) for _ in range(3))
    for (event, part), place in zip(
        parts.items(), np.split(places, np.cumsum([len(key) for key in keys])[:-1]), strict=True
    ):
        row[place], group[place], weight[event][place] = part.row, part.group, part.weight
        count[place] += part.count
    lead = weight[formula.lead]
    sums = [part.totals for part in parts.values()]
    totals = replace(
        parts[formula.lead].totals,
        computing_count=np.sum([one.computing_count for one in sums], axis=0),
        waiting_count=np.sum([one.waiting_count for one in sums], axis=0),
    )
    cells = MatrixCells(rows, groups, row, group, lead, count, totals)

    def evaluate(sums: Mapping[int, Array]) -> Float64Array:
        return evaluate_weights(profile, formula, sums)

    value = evaluate(weight)
    by_row = {event: sum_by_index(row, part, len(rows)) for event, part in weight.items()}
    row_count = sum_by_index(row, count, len(rows))
    shown = np.flatnonzero(row_count)
    least, most, top_group = _find_extremes(row, group, value, len(rows))
    states = {event: (part.totals.computing, part.totals.waiting) for event, part in parts.items()}
    whole = {event: np.array([computing.sum(), waiting.sum()]) for event, (computing, waiting) in states.items()}
    all_computing, all_waiting = evaluate(whole).tolist()
    [everything] = evaluate({event: sums.sum(keepdims=True) for event, sums in whole.items()}).tolist()
    return FormulaMatrix(
        cells=cells,
        value=value,
        row_value=evaluate(by_row),
        row_weight=by_row[formula.lead],
        row_count=row_count,
        least=least,
        most=most,
        top_group=top_group,
        place=shown[np.lexsort((shown, -by_row[formula.lead][shown]))],
        computing=evaluate({event: computing for event, (computing, _) in states.items()}),
        waiting=evaluate({event: waiting for event, (_, waiting) in states.items()}),
        whole=evaluate({event: computing + waiting for event, (computing, waiting) in states.items()}),
        all_computing=all_computing,
        all_waiting=all_waiting,
        everything=everything,
    )


def _find_extremes(
    row: Array, group: Array, value: Float64Array, rows: int
) -> tuple[Float64Array, Float64Array, Array]:
    """(least, greatest, first group with the greatest) of the cells of each row. row: ascending."""
    least, most, top = np.full(rows, np.nan), np.full(rows, np.nan), np.full(rows, -1, np.int64)
    if len(row):
        first = np.flatnonzero(np.diff(row, prepend=-1))
        least[row[first]], most[row[first]] = np.fmin.reduceat(value, first), np.fmax.reduceat(value, first)
        # The last assignment remains.
        found = np.flatnonzero(value == most[row])[::-1]
        top[row[found]] = group[found]
    return least, most, top
