"""The tables `matrix`, one row for each function, and `matrix-cells`, one for each function and group."""

from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_strings
from ...domain.units import NS_PER_MS
from ..core.common_columns import EVENT, HOST, MPI_RANK, SAMPLES
from ..core.functions import functions_of
from ..core.measurements import absolute_totals, find_share_only_events
from ..core.sample_selection import event_names, select_events
from ..core.schema import Column, Table, TableRows, build_rows, concatenate_rows, memoize_table, table_function
from ..core.waiting_functions import waiting_pattern
from ..formulas.measures import name_table, selected_formula
from ..formulas.resolution import ResolvedFormula
from .cells import MatrixCells
from .formula_cells import FormulaMatrix, build_formula_matrix
from .groups import BY, default_by
from .matrix import NO_STACK, Matrix, build_matrix

COMPUTING, WAITING = "computing", "waiting"
_UNKNOWN = f"missing for an event that was {SAMPLED_ONLY}"
_FUNCTION = (
    Column("name", "", "The function, as in the hotspots; kernel functions count for the function that they run for."),
    Column("module", "", "Program or library of the function, as named in the recording."),
    Column("state", "", "computing or waiting. Samples that wait count for the outermost function that waits."),
    EVENT,
    Column("unit", "", "The unit of the values: count, ns or bytes."),
)
COLUMNS = (
    *_FUNCTION,
    Column("value", "event", f"Weight of the samples, of all groups; {_UNKNOWN}.", "number"),
    Column("percent", "%", "Weight of the samples in percent of all samples of these groups.", "float64"),
    Column("groups", "", "Number of groups that are compared: ranks, processes, threads or hosts.", "int64"),
    Column("min", "event", f"The least value of a group; {_UNKNOWN}.", "Float64"),
    Column("mean", "event", f"The mean of the groups; {_UNKNOWN}.", "Float64"),
    Column("max", "event", f"The greatest value of a group; {_UNKNOWN}.", "Float64"),
    Column("imbalance_percent", "%", "max ÷ mean − 1, in percent; missing for one group.", "Float64"),
    Column("most", "", "The group with the greatest value."),
    Column(
        "outlier",
        "",
        "Whether its value is greater than the mean of the others by more than its error, and material.",
        "bool",
    ),
    Column("since_ms", "ms", "Since when it is an outlier; missing if from the start, or if unknown.", "Float64"),
    Column("since_error_ms", "ms", "How far the change may be from there.", "Float64"),
    SAMPLES,
)
CELL_COLUMNS = (
    *_FUNCTION,
    Column("group", "", "The rank, process, thread or host."),
    MPI_RANK,
    HOST,
    Column("key", "", "The key of the thread, or of the first thread of the process, as in the table threads."),
    Column("value", "event", f"Weight of the samples; {_UNKNOWN}.", "number"),
    Column("percent", "%", "Weight of the samples in percent of all samples of the group.", "float64"),
    SAMPLES,
)


@table_function
def compute_matrix(profile: Profile, selection: Selection, by: str = "") -> TableRows:
    """One row for each event and function with samples, those with the most weight first. by: rank, process, thread or
    host; by default the first of rank, process and thread with several groups. A formula has no percentages, mean and
    outliers; its rows are in the order of its first event."""
    by = by or default_by(profile)

    def build() -> TableRows:
        formula = selected_formula(profile, selection)
        if formula is not None:
            return formula_table_rows(profile, formula, build_formula_matrix(profile, selection, formula, by))
        parts = [
            matrix_table_rows(profile, event, build_matrix(profile, selection, event, by))
            for event in select_events(profile, selection)
        ]
        return parts[0] if len(parts) == 1 else concatenate_rows(COLUMNS, parts)

    name = name_table(f"matrix by {by} {waiting_pattern()}", profile, selection)
    return memoize_table(name, profile, selection, build)


@table_function
def compute_cells(profile: Profile, selection: Selection, by: str = "") -> TableRows:
    """One row for each event, function and group with samples, in the order of `matrix` and of its columns."""
    by = by or default_by(profile)
    formula = selected_formula(profile, selection)
    if formula is not None:
        return _formula_cell_rows(profile, formula, build_formula_matrix(profile, selection, formula, by))
    parts = []
    for event in select_events(profile, selection):
        matrix = build_matrix(profile, selection, event, by)
        parts.append(_cell_rows(profile, event, matrix))
    return parts[0] if len(parts) == 1 else concatenate_rows(CELL_COLUMNS, parts)


def matrix_table_rows(profile: Profile, event: int, matrix: Matrix) -> TableRows:
    """The rows of the table of one event."""
    cells, excess, place = matrix.cells, matrix.excess, matrix.place
    whole = int(cells.totals.whole.sum())
    unknown = event in find_share_only_events(profile)
    total = matrix.total[place]
    compared = excess.groups[place] > 1

    def amount(values: Array) -> list[float | None]:
        return [None] * len(place) if unknown else values[place].tolist()

    since = [matrix.since.get(row) for row in place.tolist()]
    return build_rows(
        COLUMNS,
        {
            **_describe(profile, event, cells, place),
            "value": absolute_totals(profile, event, total),
            "percent": 100.0 * total / whole if whole else np.zeros(len(place)),
            "groups": excess.groups[place].astype(np.int64),
            "min": amount(excess.least),
            "mean": amount(excess.mean),
            "max": amount(excess.top),
            "imbalance_percent": np.where(compared, excess.imbalance_percent[place], np.nan),
            "most": [cells.groups.labels[group] if group >= 0 else None for group in excess.top_group[place].tolist()],
            "outlier": [matrix.is_outlier(row) for row in place.tolist()],
            "since_ms": [None if change is None else change.at_ns / NS_PER_MS for change in since],
            "since_error_ms": [None if change is None else change.error_ns / NS_PER_MS for change in since],
            "samples": matrix.count[place],
        },
    )


def formula_table_rows(profile: Profile, formula: ResolvedFormula, matrix: FormulaMatrix) -> TableRows:
    """The rows of the table of a formula."""
    place, labels = matrix.place, matrix.cells.groups.labels
    groups = np.bincount(matrix.cells.row[~np.isnan(matrix.value)], minlength=len(matrix.cells.rows))
    unknown = np.full(len(place), np.nan)
    return build_rows(
        COLUMNS,
        {
            **_describe(profile, formula.lead, matrix.cells, place),
            **_name_formula(formula, len(place)),
            "value": matrix.row_value[place],
            "groups": groups[place],
            "min": matrix.least[place],
            "max": matrix.most[place],
            "most": [labels[group] if group >= 0 else None for group in matrix.top_group[place].tolist()],
            "outlier": [False] * len(place),
            "samples": matrix.row_count[place],
            **dict.fromkeys(("percent", "mean", "imbalance_percent", "since_ms", "since_error_ms"), unknown),
        },
    )


def _formula_cell_rows(profile: Profile, formula: ResolvedFormula, matrix: FormulaMatrix) -> TableRows:
    order = _order_cells(matrix.cells, matrix.place)
    values: dict[str, Any] = {
        **_cell_values(profile, formula.lead, matrix.cells, order),
        **_name_formula(formula, len(order)),
        "value": matrix.value[order],
        "percent": np.full(len(order), np.nan),
    }
    return build_rows(CELL_COLUMNS, values)


def _name_formula(formula: ResolvedFormula, rows: int) -> dict[str, list[Any]]:
    return {"event": [formula.name] * rows, "unit": [formula.formula.unit] * rows}


def _cell_rows(profile: Profile, event: int, matrix: Matrix) -> TableRows:
    order = _order_cells(matrix.cells, matrix.place)
    return build_rows(CELL_COLUMNS, _cell_values(profile, event, matrix.cells, order))


def _order_cells(cells: MatrixCells, place: Array) -> Array:
    """The cells in the order of the rows, then of the groups."""
    rank = np.full(len(cells.rows), len(place), np.int64)
    rank[place] = np.arange(len(place))
    return np.lexsort((cells.group, rank[cells.row]))


def _cell_values(profile: Profile, event: int, cells: MatrixCells, order: Array) -> dict[str, Any]:
    groups = cells.groups
    group, whole = cells.group[order].tolist(), cells.totals.whole[cells.group[order]]
    keys = groups.key
    return {
        **_describe(profile, event, cells, cells.row[order]),
        "group": [groups.labels[one] for one in group],
        "rank": [groups.rank[one] for one in group],
        "host": [groups.hosts[one] or None for one in group],
        "key": [keys[one] if groups.by in ("thread", "process") else None for one in group],
        "value": absolute_totals(profile, event, cells.weight[order]),
        "percent": np.divide(100.0 * cells.weight[order], whole, out=np.zeros(len(group)), where=whole > 0),
        "samples": cells.count[order],
    }


def _describe(profile: Profile, event: int, cells: MatrixCells, place: Array) -> dict[str, list[Any]]:
    functions, rows = functions_of(profile), cells.rows.function[place]
    known = rows >= 0
    names, modules = functions.names_of(rows[known]), functions.modules_of(rows[known])
    name, module = np.full(len(rows), NO_STACK, object), np.full(len(rows), "", object)
    name[known], module[known] = names, modules
    # Without an event there are no rows.
    about = (event_names(profile)[event], get_strings(profile.events, "unit")[event]) if event != NO_ID else ("", "")
    return {
        "name": name.tolist(),
        "module": module.tolist(),
        "state": [WAITING if waits else COMPUTING for waits in cells.rows.waits[place].tolist()],
        "event": [about[0]] * len(rows),
        "unit": [about[1]] * len(rows),
    }


TABLES = (
    Table("matrix", "Matrix", COLUMNS, compute_matrix, by=BY, takes_formulas=True),
    Table("matrix-cells", "Cells of the matrix", CELL_COLUMNS, compute_cells, by=BY, takes_formulas=True),
)
"""The tables of this module."""
