"""Sheets: a table of app/analysis as a page shows it, columns told in a line each.

A column names what it shows; units, digits, sorting, searching, pages and the bar in front follow from here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from flask import request

from ....analysis.core.schema import records
from ....domain.units import MISSING, Quantity, Scale, scale_for, signed
from .tables import (
    PAGE_SIZE,
    Heading,
    Order,
    Pager,
    asked_order,
    asked_page,
    asked_search,
    heading,
    keep_matching,
    pager,
)

NS_PER = {"_ns": 1, "_us": 1_000, "_ms": 1_000_000, "_s": 1_000_000_000}
"""How many ns the unit has that the name of a column of times ends in."""
UNITS = {"time": "ns", "bytes": "bytes", "percent": "percent", "count": "count"}
CSS = {"name": "name", "text": "name name--second", "code": "name name--second", "word": "fit", "flag": "fit"}
MOST_PLAIN, EXACT = 40, 1 << 53
SHORT = frozenset({"call", "delay"})
"""Scales of times of single calls."""


@dataclass(frozen=True)
class Shown:
    """A column. column: of the table. kind: name, text, code, word, flag, count, number, time, bytes, percent, rate or
    plain (a number of any size; where it is missing, what the column `text` of the row says).

    label: its heading, description: what it says when pointed at. scale: columns with the same word have one unit.
    missing: in place of a number that there is none of.
    short: makes the text that is shown of a name or text. leads: where the cell of a row leads that is no name.
    """

    column: str
    label: str
    kind: str = "count"
    description: str = ""
    scale: str = ""
    short: Callable[[str], str] | None = None
    leads: Callable[[dict[str, Any]], str] | None = None
    missing: str = MISSING

    @property
    def textual(self) -> bool:
        return self.kind in ("name", "text", "code", "word")

    @property
    def factor(self) -> int:
        """What its numbers are multiplied with before they are shown: times are, to be ns."""
        return NS_PER["_" + self.column.rsplit("_", 1)[-1]] if self.kind == "time" else 1


@dataclass(frozen=True)
class Cell:
    """What stands in a column of a row. title: the whole or exact of it. url: where it leads."""

    text: str
    title: str
    css: str
    url: str = ""
    heads: bool = False
    mark: str = ""


@dataclass(frozen=True)
class SheetRow:
    """cells: in the order of the columns. own, total: a bar, in percent; None for no bar."""

    cells: tuple[Cell, ...]
    own: float | None
    total: float | None


@dataclass(frozen=True)
class Sheet:
    """A page of a table. bar: whether rows have one. hidden: the words of the address that the search keeps.

    noun: what a row is. all: how many rows there are without the search.
    """

    label: str
    noun: str
    headings: tuple[Heading, ...]
    rows: tuple[SheetRow, ...]
    pager: Pager
    search: str
    hidden: tuple[tuple[str, str], ...]
    bar: bool
    all: int


def sheet(
    label: str,
    rows: pd.DataFrame,
    shown: Sequence[Shown],
    order: Order,
    *,
    noun: str,
    url: Callable[[dict[str, Any]], str] | None = None,
    bar: tuple[str, str] | None = None,
    mark: str = "",
    everything: int | None = None,
) -> Sheet:
    """A page of `rows`, which are searched and sorted already (`asked`).

    url: where the name of a row leads. bar: the columns (percent) of what is dark and what is pale in it. mark: the
    column whose word colors the mark before the name.
    """
    page = asked_page()
    scales = scales_of(rows, shown)
    part = rows.iloc[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return Sheet(
        label=label,
        noun=noun,
        headings=headings(shown, scales, order),
        rows=sheet_rows(part, shown, scales, url=url, bar=bar, mark=mark),
        pager=pager(page, len(rows), PAGE_SIZE, noun=noun),
        search=request.args.get("search", ""),
        hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
        bar=bar is not None,
        all=len(rows) if everything is None else everything,
    )


def asked(
    rows: pd.DataFrame, shown: Sequence[Shown], default: str, search: Sequence[str]
) -> tuple[pd.DataFrame, Order]:
    """The rows that the search of the request leaves, in the order it asks for. Raises InvalidRequest."""
    order = asked_order([column.column for column in shown], default)
    rows = keep_matching(rows, asked_search(), search)
    # Stable, so that rows alike keep the order of the table.
    return rows.sort_values(order.column, ascending=not order.descending, kind="stable", na_position="last"), order


def headings(shown: Sequence[Shown], scales: dict[str, Scale], order: Order | None) -> tuple[Heading, ...]:
    """The headings of columns; without an order they do not sort."""
    found = []
    for column in shown:
        css = {
            "name": "name",
            "text": "name name--second",
            "code": "name name--second",
            "word": "fit",
            "flag": "fit",
        }.get(column.kind, "")
        scale = scales.get(column.column)
        unit = "GB/s" if column.kind == "rate" else (scale.label if scale else "")
        unit = "" if unit == column.label else unit
        numeric = not column.textual and column.kind != "flag"
        if order is None:
            css = " ".join(part for part in ("num" if numeric else "", css) if part)
            found.append(Heading(column.label, unit=unit, css=css, description=column.description))
        else:
            found.append(
                heading(
                    order,
                    column.column,
                    column.label,
                    numeric=numeric,
                    unit=unit,
                    css=css,
                    description=column.description,
                )
            )
    return tuple(found)


def scales_of(rows: pd.DataFrame, shown: Sequence[Shown]) -> dict[str, Scale]:
    """The scale of each column of numbers with a unit."""
    largest: dict[str, float] = {}
    for column in shown:
        if column.kind in UNITS:
            word = column.scale or column.column
            values = rows[column.column].abs().max() if len(rows) else 0
            largest[word] = max(largest.get(word, 0.0), 0.0 if pd.isna(values) else float(values) * column.factor)
    return {
        column.column: _scale(column, largest[column.scale or column.column])
        for column in shown
        if column.kind in UNITS
    }


def _scale(column: Shown, largest: float) -> Scale:
    """Times stay in ms, and those of single calls in µs, for longer than elsewhere: beside a few long rows there are
    many short ones."""
    if column.kind == "time":
        limit, most = (10**9, 10**6 - 1) if column.scale in SHORT else (10**11, 10**9 - 1)
        largest = largest if largest >= limit else min(largest, most)
    return scale_for(largest, UNITS[column.kind])


def sheet_rows(
    rows: pd.DataFrame,
    shown: Sequence[Shown],
    scales: dict[str, Scale],
    *,
    url: Callable[[dict[str, Any]], str] | None = None,
    bar: tuple[str, str] | None = None,
    mark: str = "",
) -> tuple[SheetRow, ...]:
    """Rows of a table for a page."""
    return tuple(
        SheetRow(
            cells=tuple(_cell(column, row, scales, url, mark) for column in shown),
            own=_share(row[bar[0]]) if bar else None,
            total=_share(row[bar[1]]) if bar else None,
        )
        for row in records(rows)
    )


def _cell(
    column: Shown,
    row: dict[str, Any],
    scales: dict[str, Scale],
    url: Callable[[dict[str, Any]], str] | None,
    mark: str,
) -> Cell:
    value = row[column.column]
    if column.kind == "name":
        text = str(value or "")
        css = "name mono"
        shown = column.short(text) if column.short else text
        return Cell(shown, text, css, url(row) if url else "", True, (row[mark] or "") if mark else "")
    if column.textual:
        text = str(value or "")
        css = "fit" if column.kind == "word" else "name name--second muted" + (" mono" if column.kind == "code" else "")
        return Cell(column.short(text) if column.short and text else text, text, css)
    if column.kind == "flag":
        return Cell({True: "yes", False: "no"}.get(value, MISSING), "", "fit" if value else "fit faint")
    if column.kind == "plain":
        return Cell(*_plain(value, row.get("text")), "num")
    told = _number(column, value, scales)
    shown = column.missing if value is None else told.text
    return Cell(shown, told.exact, "num", column.leads(row) if column.leads else "")


def _plain(value: int | float | None, text: str | None) -> tuple[str, str]:
    """(what is shown of a number or text, the whole of it)."""
    if value is None:
        told = text or MISSING
        return (told if len(told) <= MOST_PLAIN else f"{told[:MOST_PLAIN]}…"), told
    if float(value).is_integer() and abs(value) < EXACT:
        return f"{int(value):,}", text or f"{int(value):,}"
    return (f"{value:,.2f}" if 1_000 <= abs(value) < EXACT else f"{value:.6g}"), text or f"{value!r}"


def _number(column: Shown, value: Any, scales: dict[str, Scale]) -> Quantity:
    if column.kind in ("number", "rate"):
        if value is None:
            return Quantity(None, MISSING, "not known")
        return Quantity(value, signed(f"{value:,.2f}"), signed(f"{value:,.6g}"))
    if column.kind == "time" and value is not None:
        value = round(value * column.factor, 3)
    return scales[column.column].quantity(value)


def _share(percent: float | None) -> float:
    return min(100.0, max(0.0, percent or 0.0))
