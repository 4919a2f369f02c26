"""What pages about operators, kernels and modules share: charts of the first rows, and the page about one thing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import request
from markupsafe import Markup

from ....analysis.core.schema import records
from ....charts.small import Bar, distribution, draw_distribution, top_bars
from ....domain.arrays import Array
from ....domain.profile import Profile
from ....domain.units import Quantity, quantity
from ...rendering import Page
from .frame import Frame, Link
from .functions import LONGEST_URL
from .sheets import SheetRow, Shown, headings, scales_of, sheet_rows
from .tables import Heading, here

TOP = 8
NS_PER_US = 1_000


@dataclass(frozen=True)
class Chart:
    """A chart of the first rows. svg: without script or style of its own."""

    title: str
    total: Quantity
    svg: Markup


@dataclass(frozen=True)
class Part:
    """A small table of a page about one thing. note: a sentence below its heading."""

    title: str
    headings: tuple[Heading, ...]
    rows: tuple[SheetRow, ...]
    note: str = ""
    more: int = 0


@dataclass(frozen=True)
class Figure:
    """A number that stands out."""

    label: str
    text: str
    title: str


@dataclass(frozen=True)
class DetailPage(Page):
    """One operator or kernel. full: its whole name. back: the list it is from. flamegraph: its place there. beside: a
    further page about it, as its address and what it is called; empty for none."""

    template: ClassVar[str] = "results/detail.html"
    frame: Frame
    what: str
    name: str
    full: str
    back: str
    flamegraph: str
    figures: tuple[Figure, ...]
    charts: tuple[Chart, ...]
    parts: tuple[Part, ...]
    beside: tuple[str, str] = ("", "")


def several_ranks(rows: pd.DataFrame) -> bool:
    """Whether rows are of several ranks."""
    return bool(rows["rank"].notna().any())


def rank_links(profile: Profile) -> tuple[Link, ...]:
    """Ranks together or each by itself, where there are several."""
    if len({rank for rank in profile.threads.column("rank").to_pylist() if rank is not None}) < 2:
        return ()
    each = each_rank()
    return (
        Link("", "Ranks together", here(("each", None), ("page", None)), not each),
        Link("1", "Each rank", here(("each", "1"), ("page", None)), each),
    )


def charts_of(
    rows: pd.DataFrame, wanted: Sequence[tuple[str, str, str]], short: Callable[[str], str] | None = None
) -> tuple[Chart, ...]:
    """The first rows by each of (column of µs, column of its percentage or nothing, title)."""
    found = []
    for column, share, title in wanted:
        first = rows[rows[column].fillna(0) > 0].nlargest(TOP, column)
        if not len(first):
            continue
        bars = [
            Bar(
                short(row["name"]) if short else row["name"],
                row["name"],
                row[column] * NS_PER_US,
                row[share] if share else None,
            )
            for row in records(first)
        ]
        # `top_bars` escapes every name and uses neither script nor style; tests hold it to that.
        total = quantity(float(rows[column].sum()) * NS_PER_US, "ns")
        found.append(Chart(title, total, Markup(top_bars(title, "ns", bars))))
    return tuple(found)


def part(
    title: str, rows: pd.DataFrame, shown: Sequence[Shown], *, note: str = "", url: Any = None, most: int = 50
) -> Part:
    """A small table of the first rows."""
    scales = scales_of(rows, shown)
    return Part(
        title,
        headings(shown, scales, None),
        sheet_rows(rows.head(most), shown, scales, url=url),
        note,
        max(0, len(rows) - most),
    )


def distribution_chart(title: str, values: Array, noun: str, unit: str = "ns") -> tuple[Chart, ...]:
    """How values are distributed; nothing where there are too few."""
    found = distribution(values)
    if found is None:
        return ()
    mean = quantity(float(values.mean()), unit)
    return (Chart(title, mean, Markup(draw_distribution(title, unit, found, noun))),)


def detail_url(frame: Frame, key: str, name: str) -> str:
    """The page of one thing by its name; empty where the address would be too long."""
    url = frame.url(key, None, ("name", name))
    return url if len(url) <= LONGEST_URL else ""


def flamegraph_url(frame: Frame, name: str) -> str:
    """The callers and callees of a function in the flame graph."""
    url = frame.url("flamegraph", None, ("function", name))
    return url if len(url) <= LONGEST_URL else ""


def figure(label: str, value: float | int | None, unit: str) -> Figure:
    """A number that stands out, in its unit."""
    told = quantity(value, unit)
    return Figure(label, told.text, told.exact)


def each_rank() -> bool:
    """Whether the rows are asked for of each rank."""
    return request.args.get("each") == "1"
