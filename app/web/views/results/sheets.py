"""Sheets: tables of app/analysis on pages, with one line of code per column.

A column view names what it shows; units, digits, sorting, searching, paging and bars are derived from it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd
from flask import request
from markupsafe import Markup

from ....analysis.core.schema import Column, records
from ....charts.flamegraph_svg import KIND_TITLES
from ....domain.text import shorten
from ....domain.units import (
    MISSING,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    Quantity,
    Scale,
    choose_scale,
    format_quantity,
    format_ratio,
    use_minus_sign,
)
from .column_choice import ColumnChoice, ColumnOption, build_choice, parse_columns, unambiguous_labels
from .tables import (
    AS_LISTED,
    PAGE_SIZE,
    ColumnHeading,
    Pager,
    SortOrder,
    build_heading,
    build_pager,
    filter_rows,
    parse_order,
    parse_page,
    parse_search,
)

NS_PER = {"_ns": 1, "_us": NS_PER_US, "_ms": NS_PER_MS, "_s": NS_PER_S}
"""Nanoseconds of the unit in the suffix of the name of a column."""
UNITS = {"time": "ns", "bytes": "bytes", "percent": "percent", "count": "count"}
CSS_CLASSES = {
    "name": "name",
    "text": "name name--second",
    "code": "name name--second",
    "word": "fit",
    "status": "fit",
    "link": "fit",
    "flag": "fit",
    "id": "num fit",
}
"""CSS classes of columns that are not numbers, by kind."""
NAME, NUMBER = Markup("name mono"), Markup("num")
"""Classes of most cells. Markup, because escaping them would take longer than creating the cell."""
MAX_PLAIN, MAX_EXACT_INT = 40, 1 << 53
INVARIABLE_NOUNS = frozenset({"call", "delay"})
"""Scales of the times of single calls."""

Texts = Callable[[dict[str, Any]], str]
"""Makes a text from a row."""


@dataclass(frozen=True)
class ColumnView:
    """A column. column: of the table. kind:

    * name, text, code, word: texts; flag: yes or no; status: the status of a row
    * id: an integer that is only a name, as a pid; missing is blank
    * count, number, time, bytes, percent, rate; value: in `unit`, once multiplied by `times`; amount: each in the unit
      of its row
    * ratio: a number of four digits
    * plain: a number of any size; where it is missing, what the column `text` of the row says
    * link: only the address that `link` gives

    label: its heading. description: its tooltip, empty for that of the table (`inherit_descriptions`).
    scale: columns with the same word have one unit.
    missing: shown instead of a missing number. shorten: makes the displayed text of a name or text; shorten_page:
    makes it for the texts of a page, so that different ones stay different. link: the URL of a
    cell that is not a name. sort: the value of the parameter `sort`, "" for a column that cannot be sorted; by default
    its name. signed: with a plus. unit_label: in the heading instead of the unit. title: the tooltip of a text. caveat:
    short text next to a number; tag: next to a name. tone: the CSS class of a number's color. unnamed: instead of a
    missing text. fixed: it distinguishes the rows and cannot be hidden, like the first column. extra: hidden at first.
    """

    column: str
    label: str
    kind: str = "count"
    description: str = ""
    scale: str = ""
    shorten: Callable[[str], str] | None = None
    shorten_page: Callable[[Iterable[str]], Callable[[str], str]] | None = None
    link: Texts | None = None
    missing: str | Texts = MISSING
    unit: str = ""
    times: int = 1
    sort: str | None = None
    signed: bool = False
    unit_label: str | None = None
    title: Texts | None = None
    caveat: Texts | None = None
    tag: Texts | None = None
    tone: Texts | None = None
    unnamed: Texts | None = None
    fixed: bool = False
    extra: bool = False

    @property
    def word(self) -> str:
        """The value of the parameter `sort` for this column."""
        return self.column if self.sort is None else self.sort

    @property
    def measure(self) -> str:
        """The unit of its numbers, which have one scale; "" without one."""
        return self.unit if self.kind == "value" else UNITS.get(self.kind, "")

    @property
    def is_text(self) -> bool:
        return self.kind in CSS_CLASSES

    @property
    def factor(self) -> int:
        """The factor of its numbers for display."""
        return NS_PER["_" + self.column.rsplit("_", 1)[-1]] if self.kind == "time" else self.times


# Named tuples: a page has hundreds of cells, and creating a frozen dataclass takes four times as long.
class TableCell(NamedTuple):
    """A cell of a table. title: its full text or exact number. url: of its link. is_heading: whether it names
    the row. mark, tag: before and after a name. status: of the row. caveat: a limitation of the number."""

    text: str
    title: str
    css: str
    url: str = ""
    is_heading: bool = False
    mark: str = ""
    tag: str = ""
    status: str = ""
    caveat: str = ""


class Bar(NamedTuple):
    """The bar of a row. total: pale, own: dark in front of it, in percent; own None for a bar of one color. change: to
    either side of a middle axis, total from -100 to 100. faint: not significant."""

    total: float
    own: float | None = None
    change: bool = False
    faint: bool = False


Bars = tuple[str, str] | Callable[[dict[str, Any]], Bar] | None


class SheetRow(NamedTuple):
    """cells: in the order of the columns. bar: None for no bar. note: a sentence below the row."""

    cells: tuple[TableCell, ...]
    bar: Bar | None
    note: str = ""


@dataclass(frozen=True)
class Sheet:
    """A page of a table. has_bars: the label of the bars of rows, "" without bars. hidden_fields: the parameters that
    the search preserves.

    noun: of a row. columns: those to choose from. total_rows: number of rows without the search. wide: whether it has
    many columns and scrolls horizontally, with names and bars on the left; else names shrink, and bars are on the
    right. kinds: what the colors of the marks before names mean: (kind, title).
    """

    label: str
    noun: str
    columns: ColumnChoice
    headings: tuple[ColumnHeading, ...]
    rows: tuple[SheetRow, ...]
    pager: Pager
    search: str
    hidden_fields: tuple[tuple[str, str], ...]
    has_bars: str
    total_rows: int
    wide: bool = True
    kinds: tuple[tuple[str, str], ...] = ()


def build_sheet(
    label: str,
    rows: pd.DataFrame,
    columns: Sequence[ColumnView],
    order: SortOrder | None,
    *,
    noun: str,
    total_rows: int,
    url: Texts | None = None,
    bar: Bars = None,
    bar_label: str = "Share",
    mark: str = "",
    note: Texts | None = None,
    wide: bool = True,
    scales: dict[str, Scale] | None = None,
    complete: Callable[[pd.DataFrame, slice], pd.DataFrame] | None = None,
) -> Sheet:
    """A page of `rows`, which are filtered and sorted already (`filter_and_sort`); without an order it cannot be
    sorted. It has the columns that the request asks for.

    total_rows: number of rows without the search. url: makes the link of the name of a row. bar: the columns (percent)
    of its dark and pale part, or a function that makes it. bar_label: what it shows. mark: the column whose value
    colors the mark before the name. note: makes the sentence below a row. scales: of the columns, if they are known.
    complete: adds columns to the rows of the page, given their slice.
    """
    # Of all columns, so that the units stay when a column is hidden.
    scales = column_scales(rows, columns) if scales is None else scales
    shown, choice = choose_columns(columns, order)
    page = parse_page()
    window = slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)
    part = rows.iloc[window] if complete is None else complete(rows.iloc[window], window)
    kinds = dict.fromkeys(part[mark].dropna()) if mark else ()
    return Sheet(
        label=label,
        noun=noun,
        columns=choice,
        headings=build_headings(shown, scales, order),
        rows=build_rows(part, shown, scales, url=url, bar=bar, mark=mark, note=note),
        pager=build_pager(page, len(rows), PAGE_SIZE, noun=noun),
        search=request.args.get("search", ""),
        hidden_fields=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
        has_bars=bar_label if bar else "",
        total_rows=total_rows,
        wide=wide,
        kinds=tuple((kind, KIND_TITLES.get(kind, kind)) for kind in kinds if kind),
    )


def choose_columns(
    columns: Sequence[ColumnView], order: SortOrder | None
) -> tuple[tuple[ColumnView, ...], ColumnChoice]:
    """The columns that the request asks for, by default all but the extra ones, and what to choose them with."""
    asked = parse_columns()
    options = [
        ColumnOption(
            name=column.column,
            label=label,
            description=column.description,
            shown=fixed or (not column.extra if asked is None else column.column in asked),
            fixed=fixed,
        )
        for column, label, fixed in zip(
            columns,
            unambiguous_labels([column.label for column in columns]),
            [place == 0 or column.fixed for place, column in enumerate(columns)],
            strict=True,
        )
    ]
    sorting = next((column.column for column in columns if order and column.word == order.column), "")
    shown = tuple(column for column, option in zip(columns, options, strict=True) if option.shown)
    return shown, build_choice(options, sorting)


def filter_and_sort(
    rows: pd.DataFrame,
    columns: Sequence[ColumnView],
    default: str,
    search: Sequence[str],
    *,
    sort_columns: Mapping[str, str] | None = None,
    magnitudes: Collection[str] = (),
) -> tuple[pd.DataFrame, SortOrder]:
    """The rows that match the search of the request, in the requested order. Raises InvalidRequest.

    default: the order without one in the request. search: the searched columns. sort_columns: for a value of `sort`
    the column with its values, if not the one of that name. magnitudes: columns sorted by absolute value.
    """
    order = parse_order(words(columns), default)
    rows = filter_rows(rows, parse_search(), search)
    if order is AS_LISTED:
        return rows, order
    # Stable, so that equal rows keep the order of the table.
    rows = rows.sort_values(
        (sort_columns or {}).get(order.column, order.column),
        ascending=not order.descending,
        kind="stable",
        na_position="last",
        key=(lambda values: values.abs()) if order.column in magnitudes else None,
    )
    return rows, order


_BY_REMARK = re.compile(r"; only by=\w+(?=\.$)")
"""In the description of a column: the grouping that has it. A page shows the column only for that grouping."""
_COLUMN_NAME = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")


def inherit_descriptions(columns: Sequence[Column], views: Sequence[ColumnView]) -> tuple[ColumnView, ...]:
    """The views, with the descriptions of the table's columns if they have none; links have none. Names of columns such
    as total_us become the labels that the page shows."""
    descriptions = {column.name: column.description for column in columns}
    labels = {view.column: view.label for view in views}

    def label(name: re.Match[str]) -> str:
        return f"“{labels[name[0]]}”" if name[0] in labels else name[0]

    return tuple(
        view
        if view.description or view.kind == "link" or view.column not in descriptions
        else replace(view, description=_COLUMN_NAME.sub(label, _BY_REMARK.sub("", descriptions[view.column])))
        for view in views
    )


PLACES = (
    ColumnView("host", "Host", "word"),
    ColumnView("rank", "Rank", "id"),
    ColumnView("run", "Run", "id"),
    ColumnView("pid", "PID", "id"),
    ColumnView("tid", "TID", "id"),
    ColumnView("cpu", "CPU", "id"),
)
"""Where something was measured."""


def places_of(rows: pd.DataFrame) -> tuple[ColumnView, ...]:
    """The columns of `PLACES` with values; the run only if there are several."""
    return tuple(
        place
        for place in PLACES
        if place.column in rows
        and (rows["run"].nunique() > 1 if place.column == "run" else rows[place.column].notna().any())
    )


def words(column_views: Sequence[ColumnView]) -> list[str]:
    """The values of `sort` of a table."""
    return [column.word for column in column_views if column.word]


def build_headings(
    columns: Sequence[ColumnView], scales: dict[str, Scale], order: SortOrder | None
) -> tuple[ColumnHeading, ...]:
    """The headings of columns; without an order they cannot be sorted."""
    headings = []
    for column in columns:
        css = CSS_CLASSES.get(column.kind, "")
        scale = scales.get(column.column)
        unit = "GB/s" if column.kind == "rate" else (scale.label if scale else "")
        unit = unit if column.unit_label is None else column.unit_label
        unit = "" if unit == column.label else unit
        hidden = column.kind == "link"
        if order is None or not column.word:
            css = css or "num"
            headings.append(
                ColumnHeading(column.label, unit=unit, css=css, description=column.description, hidden=hidden)
            )
        else:
            numeric = column.kind not in CSS_CLASSES
            description = column.description
            headings.append(
                build_heading(
                    order, column.word, column.label, numeric=numeric, unit=unit, css=css, description=description
                )
            )
    return tuple(headings)


def column_scales(rows: pd.DataFrame, columns: Sequence[ColumnView]) -> dict[str, Scale]:
    """The scale of each column of numbers with a unit."""
    largest: dict[str, float] = {}
    for column in columns:
        # Percentages always have the same scale.
        if column.measure not in ("", "percent"):
            word = column.scale or column.column
            values = rows[column.column].abs().max() if len(rows) else 0
            largest[word] = max(largest.get(word, 0.0), 0.0 if pd.isna(values) else float(values) * column.factor)
    return {
        column.column: _scale(column, largest.get(column.scale or column.column, 0.0))
        for column in columns
        if column.measure
    }


def _scale(column: ColumnView, largest: float) -> Scale:
    """Times remain in ms, and those of single calls in µs, up to larger values than elsewhere: next to a few long rows
    there are many short ones."""
    if column.kind == "time":
        limit, most = (10**9, 10**6 - 1) if column.scale in INVARIABLE_NOUNS else (10**11, 10**9 - 1)
        largest = largest if largest >= limit else min(largest, most)
    return choose_scale(largest, column.measure)


def build_rows(
    rows: pd.DataFrame,
    columns: Sequence[ColumnView],
    scales: dict[str, Scale],
    *,
    url: Texts | None = None,
    bar: Bars = None,
    mark: str = "",
    note: Texts | None = None,
) -> tuple[SheetRow, ...]:
    """Rows of a table for a page."""
    columns = [
        replace(column, shorten=column.shorten_page(text for text in rows[column.column] if text))
        if column.shorten_page
        else column
        for column in columns
    ]
    return tuple(
        SheetRow(
            cells=tuple(_cell(column, row, scales, url, mark) for column in columns),
            bar=_bar(row, bar),
            note=note(row) if note else "",
        )
        for row in records(rows)
    )


def largest_bar(rows: pd.DataFrame, column: str, group: str = "") -> Callable[[dict[str, Any]], Bar]:
    """Makes bars of one color: the value of a row as a share of the largest, of the rows with its `group` where there
    is one."""
    sizes = rows.groupby(group)[column] if group else [("", rows[column])]
    largest = {key: float(values.max()) for key, values in sizes if values.notna().any()}

    def bar(row: dict[str, Any]) -> Bar:
        whole = largest.get(row[group] if group else "", 0.0)
        return Bar(100.0 * max(0, row[column] or 0) / whole if whole else 0.0)

    return bar


def _bar(row: dict[str, Any], bar: Bars) -> Bar | None:
    if isinstance(bar, tuple):
        total, own = (min(100.0, max(0.0, row[name] or 0.0)) for name in reversed(bar))
        return Bar(total, own)
    return None if bar is None else bar(row)


def _cell(column: ColumnView, row: dict[str, Any], scales: dict[str, Scale], url: Texts | None, mark: str) -> TableCell:
    value = row[column.column]
    leads = column.link(row) if column.link else ""
    if column.is_text:
        text = str(value) if value not in (None, "") else column.unnamed(row) if column.unnamed else ""
        shown = column.shorten(text) if column.shorten and text else text
        title = column.title(row) if column.title else text
        if column.kind == "name":
            tag = column.tag(row) if column.tag else ""
            return TableCell(shown, title, NAME, url(row) if url else "", True, (row[mark] or "") if mark else "", tag)
        if column.kind == "link":
            return TableCell(column.label if leads else "", "", "fit row-actions", leads)
        if column.kind == "status":
            return TableCell(shown, column.title(row) if column.title else "", "fit status", status=text)
        if column.kind == "flag":
            return TableCell({True: "yes", False: "no"}.get(value, MISSING), "", "fit" if value else "fit faint")
        if column.kind == "id":
            return TableCell(text, "", "num")
        css = CSS_CLASSES[column.kind] + {"word": "", "text": " muted", "code": " muted mono"}[column.kind]
        return TableCell(shown, title, css, leads)
    if column.kind == "ratio":
        return TableCell(MISSING if value is None else format_ratio(value, ""), "", "num")
    if column.kind == "plain":
        return TableCell(*_plain(value, row.get("text")), "num")
    number = _number(column, value, row, scales)
    text = number.text
    if value is None:
        text = column.missing if isinstance(column.missing, str) else column.missing(row)
    css = Markup(f"num {column.tone(row)}".rstrip()) if column.tone else NUMBER
    return TableCell(text, number.exact, css, leads, caveat=column.caveat(row) if column.caveat else "")


def _plain(value: int | float | None, text: str | None) -> tuple[str, str]:
    """(displayed text, full text) of a number or text."""
    if value is None:
        whole = text or MISSING
        return shorten(whole, MAX_PLAIN), whole
    if float(value).is_integer() and abs(value) < MAX_EXACT_INT:
        return f"{int(value):,}", text or f"{int(value):,}"
    return (f"{value:,.2f}" if 1_000 <= abs(value) < MAX_EXACT_INT else f"{value:.6g}"), text or f"{value!r}"


def _number(column: ColumnView, value: Any, row: dict[str, Any], scales: dict[str, Scale]) -> Quantity:
    if column.kind in ("number", "rate") and value is None:
        return Quantity(None, MISSING, "unknown")
    if column.kind in ("number", "rate"):
        return Quantity(value, use_minus_sign(f"{value:,.2f}"), use_minus_sign(f"{value:,.6g}"))
    if column.kind == "time" and value is not None:
        value = round(value * column.factor, 3)
    elif column.times != 1 and value is not None:
        value *= column.times
    amount = column.kind == "amount"
    number = format_quantity(value, row["unit"] or "count") if amount else scales[column.column].format(value)
    if column.signed and value is not None and value > 0:
        return Quantity(value, f"+{number.text}", f"+{number.exact}")
    return number
