"""Shared by the pages of operators, kernels and modules: charts of the first rows, and pages of details."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import request
from markupsafe import Markup

from ....analysis.core.schema import records
from ....charts.table_charts import TopBar, build_histogram, draw_histogram, draw_top_bars
from ....domain.arrays import Array
from ....domain.profile import Profile
from ....domain.units import NS_PER_US, Quantity, format_quantity
from ...rendering import Page
from .functions import MAX_URL
from .result_frame import PageLink, ResultFrame
from .sheets import ColumnView, SheetRow, build_headings, build_rows, column_scales
from .tables import ColumnHeading, current_url_with

TOP_ROWS = 8


@dataclass(frozen=True)
class TopChart:
    """A chart of the first rows. svg: without script or style."""

    title: str
    total: Quantity
    svg: Markup


@dataclass(frozen=True)
class DetailTable:
    """A small table of a page of details. note: a sentence below its heading."""

    title: str
    headings: tuple[ColumnHeading, ...]
    rows: tuple[SheetRow, ...]
    note: str = ""
    more: int = 0


@dataclass(frozen=True)
class KeyFigure:
    """A key figure."""

    label: str
    text: str
    title: str


@dataclass(frozen=True)
class DetailPage(Page):
    """One operator or kernel. full_name: not shortened. back: URL of the list. flamegraph: URL of its callers and
    callees. related_link: URL and label of another page about it; empty for none."""

    template: ClassVar[str] = "results/detail.html"
    frame: ResultFrame
    kind: str
    name: str
    full_name: str
    back: str
    flamegraph: str
    figures: tuple[KeyFigure, ...]
    charts: tuple[TopChart, ...]
    tables: tuple[DetailTable, ...]
    related_link: tuple[str, str] = ("", "")


def has_several_ranks(rows: pd.DataFrame) -> bool:
    """Whether rows are of several ranks."""
    return bool(rows["rank"].notna().any())


def build_rank_links(profile: Profile) -> tuple[PageLink, ...]:
    """Links to combine or separate ranks, if there are several."""
    if len({rank for rank in profile.threads.column("rank").to_pylist() if rank is not None}) < 2:
        return ()
    each = is_by_rank()
    return (
        PageLink("", "Ranks together", current_url_with(("each", None), ("page", None)), not each),
        PageLink("1", "Each rank", current_url_with(("each", "1"), ("page", None)), each),
    )


def build_top_charts(
    rows: pd.DataFrame,
    wanted: Sequence[tuple[str, str, str]],
    short: Callable[[str], str] | None = None,
    url: Callable[[dict[str, Any]], str] | None = None,
) -> tuple[TopChart, ...]:
    """The first rows by each of (column of µs, column of its percentage or nothing, title). url: makes the link of a
    row."""
    top_charts = []
    for column, share, title in wanted:
        first = rows[rows[column].fillna(0) > 0].nlargest(TOP_ROWS, column)
        if not len(first):
            continue
        bars = [
            TopBar(
                short(row["name"]) if short else row["name"],
                row["name"],
                row[column] * NS_PER_US,
                row[share] if share else None,
                url(row) if url else "",
            )
            for row in records(first)
        ]
        # `draw_top_bars` escapes every name and uses neither script nor style; tests hold it to that.
        total = format_quantity(float(rows[column].sum()) * NS_PER_US, "ns")
        top_charts.append(TopChart(title, total, Markup(draw_top_bars(title, "ns", bars))))
    return tuple(top_charts)


def build_detail_table(
    title: str, rows: pd.DataFrame, columns: Sequence[ColumnView], *, note: str = "", url: Any = None, limit: int = 50
) -> DetailTable:
    """A small table of the first rows."""
    scales = column_scales(rows, columns)
    return DetailTable(
        title,
        build_headings(columns, scales, None),
        build_rows(rows.head(limit), columns, scales, url=url),
        note,
        max(0, len(rows) - limit),
    )


def build_distribution_chart(title: str, values: Array, noun: str, unit: str = "ns") -> tuple[TopChart, ...]:
    """The histogram of values; empty if there are too few."""
    histogram = build_histogram(values)
    if histogram is None:
        return ()
    mean = format_quantity(float(values.mean()), unit)
    title += " (logarithmic axis)" if histogram.logarithmic else ""
    # `draw_histogram` escapes every text and uses neither script nor style; tests hold it to that.
    return (TopChart(title, mean, Markup(draw_histogram(title, unit, histogram, noun))),)


def detail_url(frame: ResultFrame, key: str, name: str) -> str:
    """The URL of the details of a name; empty if it would be too long."""
    url = frame.url(key, None, ("name", name))
    return url if len(url) <= MAX_URL else ""


def flamegraph_url(frame: ResultFrame, name: str) -> str:
    """The callers and callees of a function in the flame graph."""
    url = frame.url("flamegraph", None, ("function", name))
    return url if len(url) <= MAX_URL else ""


def build_figure(label: str, value: float | int | None, unit: str) -> KeyFigure:
    """A key figure in its unit."""
    quantity = format_quantity(value, unit)
    return KeyFigure(label, quantity.text, quantity.exact)


def is_by_rank() -> bool:
    """Whether rows by rank are requested."""
    return request.args.get("each") == "1"
