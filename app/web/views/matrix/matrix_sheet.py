"""The table of the matrix: functions with their statistics, and a column for each of some groups."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pandas as pd
import re2

from ....analysis.core.flame_groups import FlameGroup, groups_of
from ....analysis.core.schema import TableRows
from ....analysis.counts.participants import name_threads, select_process
from ....analysis.matrix.balance import find_balances
from ....analysis.matrix.cells import MatrixCells
from ....analysis.matrix.formula_cells import FormulaMatrix
from ....analysis.matrix.groups import MatrixGroups
from ....analysis.matrix.matrix import Matrix
from ....analysis.matrix.rows import COMPUTING, WAITING, formula_table_rows, matrix_table_rows
from ....analysis.tables import TABLES
from ....domain.arrays import Array, Float64Array
from ....domain.profile import Profile
from ....domain.selection import MAX_PATTERN_CHARS, UNKNOWN_HOST
from ....domain.symbols.short_names import shorten_symbol
from ....domain.text import shorten
from ....domain.units import NS_PER_MS, Scale, format_duration
from ..results.result_frame import ResultFrame
from ..results.sheets import (
    ColumnView,
    Sheet,
    SheetRow,
    build_rows,
    build_sheet,
    choose_columns,
    column_scales,
    filter_and_sort,
    inherit_descriptions,
)
from ..results.tables import Pager, SortOrder, current_url_with, parse_page

GROUP_PAGE = 20
"""How many columns of groups a page has."""
ALL = "all"
SHOWN = (ALL, COMPUTING, WAITING)
VALUE = "value"
VALUES = (VALUE, "percent")
SHADES = ("table", "row")
NUMBER = "number"
ORDERS = (NUMBER, "most")
FORMULA_COLUMNS = ("name", "value", "min", "max")
"""The columns of a formula: it has no shares, and its values no mean."""
FRAME_COLUMNS = (
    *("name", "module", "state", "value", "percent", "min", "mean", "max", "imbalance_percent"),
    *("most", "outlier", "since_ms"),
)
"""The columns of the table that the page needs: there are tens of thousands of rows."""
LEVELS = 10
"""How many shades there are."""
_PLACE = "FUNCTION-OF-THE-ROW"
MAX_LABEL = 24


@dataclass(frozen=True)
class MatrixChoice:
    """The parameters of the page: what the groups are, which functions are shown, what cells show, what their shade is
    relative to, and the order of the groups. is_formula: whether the values are of a formula, which has no shares."""

    by: str
    shown: str
    value: str
    shade: str
    order: str
    shares_only: bool
    is_formula: bool


def build_matrix_sheet(
    frame: ResultFrame, profile: Profile, event: int, matrix: Matrix | FormulaMatrix, choice: MatrixChoice
) -> tuple[Sheet, Pager]:
    """A page of the table, and the position in the groups. Raises InvalidRequest."""
    cells, groups = matrix.cells, matrix.cells.groups
    page = parse_page("group-page")
    order = np.arange(len(groups))
    if choice.order != NUMBER:
        order = np.lexsort((order, -cells.totals.computing))
    shown = order[(page - 1) * GROUP_PAGE : page * GROUP_PAGE]
    every = _table(frame, profile, event, matrix).select(FRAME_COLUMNS).to_frame()
    every["place"] = matrix.place
    every["outlier_text"] = ""
    outliers = every.loc[every["outlier"], ["most", "since_ms"]]
    every.loc[outliers.index, "outlier_text"] = [_outlier_text(*row) for row in outliers.itertuples(index=False)]
    if choice.shown != ALL:
        every = every[every["state"] == choice.shown]
    total = len(every)
    statistics, group_columns = _columns(frame, profile, cells, choice, shown)
    rows, sort = filter_and_sort(
        every,
        statistics,
        # Small functions have the most extreme values of a formula.
        "" if choice.is_formula else "-percent" if choice.shares_only else "-value",
        ("name", "module", "state"),
    )
    values = matrix.value if isinstance(matrix, FormulaMatrix) else cells.weight.astype(np.float64)
    dense = _dense(cells, values, rows["place"].to_numpy(), shown, choice.value)
    by_row = np.fmax.reduce(dense, axis=1, initial=np.nan)
    rows = rows.assign(largest_cell=by_row)
    # The columns of groups have one scale.
    scales = column_scales(rows, (*statistics, *(replace(one, column="largest_cell") for one in group_columns[:1])))
    scales |= {one.column: scales["largest_cell"] for one in group_columns if one.measure}

    def add_groups(part: pd.DataFrame, window: slice) -> pd.DataFrame:
        """The rows of a page with the columns that only they need."""
        groups = {f"group{n}": dense[window, n] for n in range(len(shown))}
        focus = [quote_plus(focus_on(name)) for name in part["name"]]
        return pd.concat([part, pd.DataFrame(groups | {"focus": focus}, index=part.index)], axis=1)

    if isinstance(matrix, FormulaMatrix):
        totals = _formula_totals(matrix, shown)
    else:
        totals = _totals(profile, frame, event, cells, choice, shown)
    peaks = rows["place"].to_numpy(), by_row if choice.shade == "row" else _peaks_of_states(rows["state"], by_row)
    columns = (*statistics, *_with_shades(group_columns, dict(zip(*(one.tolist() for one in peaks), strict=True))))
    before, _, after = frame.url("flamegraph", frame.selection.focus_on(_PLACE)).partition(_PLACE)
    sheet = build_sheet(
        "Matrix",
        rows,
        columns,
        sort,
        noun="function",
        total_rows=total,
        url=lambda row: f"{before}{row['focus']}{after}" if row["focus"] else "",
        scales=scales,
        complete=add_groups,
    )
    sheet = _with_group_links(sheet, frame, profile, groups, columns, shown)
    if len(rows):
        sheet = replace(sheet, rows=_total_rows(totals, columns, sort, scales) + sheet.rows)
    return sheet, _build_group_pager(page, groups, choice.by)


def _table(frame: ResultFrame, profile: Profile, event: int, matrix: Matrix | FormulaMatrix) -> TableRows:
    if isinstance(matrix, FormulaMatrix):
        assert frame.formula is not None
        return formula_table_rows(profile, frame.formula, matrix)
    return matrix_table_rows(profile, event, matrix)


def focus_on(name: str) -> str:
    """The pattern of `focus` for a function, "" if it would be too long."""
    pattern = f"^{re2.escape(name)}$"
    return pattern if name and not name.startswith("[") and len(pattern) <= MAX_PATTERN_CHARS else ""


def _outlier_text(group: str, since_ms: Any) -> str:
    return group + ("" if pd.isna(since_ms) else f" since {format_duration(round(since_ms * NS_PER_MS))}")


def _columns(
    frame: ResultFrame, profile: Profile, cells: MatrixCells, choice: MatrixChoice, shown: Array
) -> tuple[tuple[ColumnView, ...], tuple[ColumnView, ...]]:
    """The columns of statistics, and those of groups."""
    kind = "percent" if choice.value == "percent" else "value"

    def amount(column: str, label: str, **more: Any) -> ColumnView:
        return ColumnView(column, label, "value", unit=frame.unit, scale="cells", **more)

    statistics: tuple[ColumnView, ...] = (
        ColumnView(
            "name", "Function", "name", shorten=shorten_symbol, tag=lambda r: "waiting" * (r["state"] == WAITING)
        ),
        amount("value", "All", extra=choice.shares_only),
        ColumnView("percent", "%", "percent", extra=not choice.shares_only),
        amount("min", "Min", extra=choice.shares_only),
        amount("mean", "Mean", extra=choice.shares_only),
        amount("max", "Max", extra=choice.shares_only),
        ColumnView("imbalance_percent", "Imbalance", "percent"),
        ColumnView(
            "outlier_text", "Outlier", "word", sort="", description="Which group is an outlier, and since when."
        ),
    )
    if choice.is_formula:
        statistics = tuple(column for column in statistics if column.column in FORMULA_COLUMNS)
    groups = tuple(
        ColumnView(
            f"group{place}",
            shorten(cells.groups.labels[group], MAX_LABEL),
            kind,
            sort="",
            unit=frame.unit,
            scale="cells",
            missing="",
            fixed=True,
            unit_label="",
            description=_group_title(cells, group),
            link=_cell_link(frame, profile, cells.groups, group),
        )
        for place, group in enumerate(shown.tolist())
    )
    return inherit_descriptions(TABLES["matrix"].columns, statistics), groups


def _group_title(cells: MatrixCells, group: int) -> str:
    host = cells.groups.hosts[group]
    whole = int(cells.totals.whole[group])
    waits = f", {100 * int(cells.totals.waiting[group]) / whole:.0f} % waiting" if whole > 0 else ", no samples"
    return f"{cells.groups.labels[group]}{f' on {host}' if host and cells.groups.by != 'host' else ''}{waits}"


def select_group(profile: Profile, groups: MatrixGroups, group: int) -> dict[str, object] | None:
    """What of the selection selects a group; None where that would be too long."""
    key = groups.key[group]
    if groups.by == "rank":
        return {"ranks": ((key, key),)} if key >= 0 else None
    if groups.by == "host":
        return {"hosts": (key or UNKNOWN_HOST,)}
    if groups.by == "thread":
        return {"threads": (key,)}
    # All threads of the process, also those that the selection leaves out: it stays.
    of = groups_of(profile, FlameGroup.PROCESS).thread_groups
    inside = np.flatnonzero(groups.of_thread == group)
    chosen = np.flatnonzero(of == of[inside[0]]).tolist() if len(inside) else []
    changes = select_process(profile, chosen) if chosen else None
    if changes is None and (names := name_threads(profile, chosen)):
        changes = {"threads": names}
    return None if changes is None else dict(changes)


def _cell_link(
    frame: ResultFrame, profile: Profile, groups: MatrixGroups, group: int
) -> Callable[[dict[str, Any]], str] | None:
    changes = select_group(profile, groups, group)
    if changes is None:
        return None
    # A page has thousands of links that differ only in the group and the function.
    before, _, after = frame.url("flamegraph", frame.selection.replace(**changes).focus_on(_PLACE)).partition(_PLACE)
    return lambda row: f"{before}{row['focus']}{after}" if row["focus"] else ""


def _dense(cells: MatrixCells, values: Array, place: Array, shown: Array, value: str) -> Array:
    """The values of the cells of some rows and groups: float64, NaN without samples."""
    found = np.full((len(cells.rows), len(shown)), np.nan) if len(shown) else np.zeros((len(cells.rows), 0))
    column = np.full(len(cells.groups) + 1, -1, np.int64)
    column[shown] = np.arange(len(shown))
    inside = column[cells.group] >= 0
    weight = values[inside]
    if value == "percent":
        whole = cells.totals.whole[cells.group[inside]]
        weight = np.divide(100.0 * weight, whole, out=np.zeros(len(weight)), where=whole > 0)
    found[cells.row[inside], column[cells.group[inside]]] = weight
    result: Array = found[place]
    return result


def _peaks_of_states(states: "pd.Series[str]", by_row: Float64Array) -> Float64Array:
    """The greatest cell of the rows of the same state, for each row."""
    waits, peaks = states.to_numpy() == WAITING, np.full(len(by_row), np.nan)
    for these in (waits, ~waits):
        peaks[these] = np.fmax.reduce(by_row[these], initial=np.nan)
    return peaks


def _with_shades(columns: tuple[ColumnView, ...], peaks: dict[int, float]) -> tuple[ColumnView, ...]:
    """The columns of groups with the class of their shade: relative to the greatest cell shown of the same state, or of
    the row. peaks: these, by place of the row."""

    def shade(name: str) -> Callable[[dict[str, Any]], str]:
        def tone(row: dict[str, Any]) -> str:
            value, most = row[name], peaks[row["place"]]
            if not value or not most > 0:
                return ""
            return f"shade-{row['state']} shade-{max(1, min(LEVELS, math.ceil(LEVELS * value / most)))}"

        return tone

    return tuple(replace(column, tone=shade(column.column)) for column in columns)


def _totals(
    profile: Profile, frame: ResultFrame, event: int, cells: MatrixCells, choice: MatrixChoice, shown: Array
) -> pd.DataFrame:
    """A row for all functions that compute and one for all that wait."""
    compared = cells.groups.role >= 0
    balances = find_balances(profile, frame.selection, event, choice.by)
    whole = float(cells.totals.whole.sum())
    records = []
    for place, (state, values) in enumerate(((COMPUTING, cells.totals.computing), (WAITING, cells.totals.waiting))):
        some = values[compared].astype(np.float64)
        known = len(some) > 0 and not choice.shares_only
        outlier = next((one for one in balances if one.outlier), None) if state == COMPUTING else None
        part = values[shown].astype(np.float64)
        if choice.value == "percent":
            group = cells.totals.whole[shown]
            part = np.divide(100.0 * part, group, out=np.zeros(len(part)), where=group > 0)
        mean = float(some.mean()) if len(some) else 0.0
        records.append(
            {
                "name": f"All {state}",
                "focus": "",
                "state": state,
                "place": -1 - place,
                "value": None if choice.shares_only else int(values.sum()),
                "percent": 100.0 * float(values.sum()) / whole if whole else 0.0,
                "min": float(some.min()) if known else None,
                "mean": mean if known else None,
                "max": float(some.max()) if known else None,
                "imbalance_percent": 100.0 * (float(some.max()) / mean - 1) if mean and len(some) > 1 else None,
                "outlier_text": cells.groups.labels[outlier.most] if outlier else "",
                **{f"group{n}": value for n, value in enumerate(part.tolist())},
            }
        )
    return pd.DataFrame(records).astype({"name": "str"})


def _formula_totals(matrix: FormulaMatrix, shown: Array) -> pd.DataFrame:
    """A row for all functions that compute and one for all that wait: the formula of their sums."""
    compared = matrix.cells.groups.role >= 0
    records = []
    for place, (state, values, whole) in enumerate(
        ((COMPUTING, matrix.computing, matrix.all_computing), (WAITING, matrix.waiting, matrix.all_waiting))
    ):
        known = values[compared & ~np.isnan(values)]
        records.append(
            {
                "name": f"All {state}",
                "focus": "",
                "state": state,
                "place": -1 - place,
                "value": whole,
                "min": known.min() if len(known) else None,
                "max": known.max() if len(known) else None,
                **{f"group{n}": value for n, value in enumerate(values[shown].tolist())},
            }
        )
    return pd.DataFrame(records).astype({"name": "str"})


def _total_rows(
    totals: pd.DataFrame, columns: tuple[ColumnView, ...], sort: SortOrder, scales: dict[str, Scale]
) -> tuple[SheetRow, ...]:
    """The rows of totals, in the units of the others."""
    shown, _ = choose_columns(columns, sort)
    # The tag is only for functions: the name says it.
    plain = [
        replace(c, tag=None, tone=lambda row: "matrix-total") if c.column != "name" else replace(c, tag=None)
        for c in shown
    ]
    return build_rows(totals, plain, scales)


def _with_group_links(
    sheet: Sheet,
    frame: ResultFrame,
    profile: Profile,
    groups: MatrixGroups,
    columns: tuple[ColumnView, ...],
    shown: Array,
) -> Sheet:
    """The headings of groups select them."""
    first, found = len(sheet.headings) - len(shown), list(sheet.headings)
    for place, group in enumerate(shown.tolist(), start=first):
        changes = select_group(profile, groups, group)
        url = frame.url(None, frame.selection.replace(**changes), *frame.page_params) if changes else None
        found[place] = replace(found[place], url=url, css="num matrix-group")
    headings = tuple(found)
    return replace(sheet, headings=headings)


def _build_group_pager(page: int, groups: MatrixGroups, by: str) -> Pager:
    total = len(groups)
    first, last = (page - 1) * GROUP_PAGE + 1, min(page * GROUP_PAGE, total)
    noun = {"process": "processe"}.get(by, by) + "s"
    if first > total:
        text = f"No page {page}; {total:,} {noun} in total" if total else f"No {noun}"
    else:
        text = f"{noun.capitalize()} {first:,}–{last:,} of {total:,}"
    return Pager(
        text,
        current_url_with(("group-page", str(page - 1) if page > 2 else None)) if page > 1 else None,
        current_url_with(("group-page", str(page + 1))) if last < total else None,
        first > total > 0,
    )
