"""/results/<id>/counts: totals of every event by process and thread, sampled or counted, as bars and as a table."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.sample_selection import hosts_of, ranks_of
from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....charts.bars import BY, NARROW_LAYOUT, WIDE_LAYOUT, BarData, build_bars, draw_bars
from ....domain.profile import Profile
from ....domain.units import MISSING, Quantity, format_caveat, format_quantity
from ...parameters import parse_choice
from ...rendering import Page, render
from .functions import sandwich_urls
from .result_frame import PageLink, ResultFrame, open_result_frame
from .run_notes import list_run_notes
from .sheets import (
    PLACES,
    ColumnView,
    Sheet,
    build_sheet,
    filter_and_sort,
    inherit_descriptions,
    largest_bar,
    places_of,
)
from .tables import FILE_RULE, SortOrder, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("counts", __name__)
RUNNING = ColumnView("running_percent", "Counted %", "percent", missing="", unit_label="")
MAX_CHARTS = 8
MAX_METRICS = 200


@dataclass(frozen=True)
class EventChart:
    """Bars of one event. svg: without script or style, for wide and for narrow pages."""

    event: str
    total: Quantity
    caveat: str
    svg: Markup


@dataclass(frozen=True)
class MetricRow:
    """A metric of perf stat. target: the CPU, thread or group, empty for all. value: for several intervals the range;
    intervals: their number, 0 for the complete run."""

    name: str
    event: str
    target: str
    value: str
    intervals: int


@dataclass(frozen=True)
class CountsPage(Page):
    """`/results/<id>/counts`. explanation: of the colors of bars. notes: on events that were measured in several
    runs."""

    template: ClassVar[str] = "results/counts.html"
    frame: ResultFrame
    charts: tuple[EventChart, ...]
    explanation: str
    notes: tuple[str, ...]
    left_out: int
    by: str
    choices: tuple[PageLink, ...]
    sheet: Sheet
    csv: str
    metrics: tuple[MetricRow, ...]
    metrics_left_out: int
    metrics_csv: str


@blueprint.get("/results/<id>/counts")
def show(id: str) -> Response:
    """Charts and a page of the table: of the event selected, else of all."""
    frame, profile = open_result_frame(id, "counts")
    bar_choices = _list_bar_choices(profile)
    usual = "rank" if "rank" in bar_choices else BY[0]
    by = _by(usual)
    every = TABLES["counts"].frame(profile, frame.selection)
    rows, order = _filter_and_sort(every)
    keys = [frame.event] if frame.selection.event is not None else [link.key for link in frame.events if link.key]
    bars = {event: build_bars(profile, frame.selection.replace(event=event), by) for event in keys[:MAX_CHARTS]}
    metrics = _metrics(frame, profile)
    return render(
        CountsPage(
            frame=frame,
            charts=tuple(_chart(frame, event, data, rows) for event, data in bars.items()),
            notes=list_run_notes(profile, frame.selection.replace(event=None)),
            explanation=_reading(list(bars.values())),
            left_out=max(0, len(keys) - MAX_CHARTS),
            by=by,
            choices=tuple(
                PageLink(
                    word,
                    f"By {word}",
                    current_url_with(("by", None if word == usual else word), ("page", None)),
                    word == by,
                )
                for word in BY
                if word in bar_choices or word == by
            ),
            sheet=build_sheet(
                "Totals",
                rows,
                _columns(_says_something(rows)),
                order,
                noun="total",
                total_rows=len(every),
                bar=largest_bar(rows, "value", "event"),
                bar_label="Relative to the largest of the event",
                wide=False,
            ),
            csv=table_file_url("counts.csv"),
            metrics=metrics[:MAX_METRICS],
            metrics_left_out=max(0, len(metrics) - MAX_METRICS),
            metrics_csv=table_file_url("count-metrics.csv"),
        )
    )


@blueprint.get(f"/results/<id>/count-metrics.{FILE_RULE}")
def download_metrics(id: str, file_format: str) -> Response:
    """The metrics of perf stat, each interval by itself."""
    frame, profile = open_result_frame(id, "counts")
    return table_file_response(
        f"{frame.name} metrics", file_format, TABLES["count-metrics"].frame(profile, frame.selection), profile
    )


@blueprint.get(f"/results/<id>/counts.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows that the search leaves, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "counts")
    rows, _ = _filter_and_sort(TABLES["counts"].frame(profile, frame.selection))
    return table_file_response(f"{frame.name} counts", file_format, rows, profile)


def _list_bar_choices(profile: Profile) -> tuple[str, ...]:
    """The groupings of bars: ranks and hosts only if there are several."""
    several = {"rank": len(ranks_of(profile)) > 1, "host": len(hosts_of(profile)) > 1}
    return tuple(word for word in BY if several.get(word, True))


def _by(usual: str) -> str:
    return parse_choice("by", BY, usual)


def _chart(frame: ResultFrame, event: str, data: BarData, rows: pd.DataFrame) -> EventChart:
    url = sandwich_urls(frame, event)
    row = rows[rows["event"] == event]
    deviation = row["deviation_percent"].iloc[0] if len(row) == 1 else None
    total = format_quantity(data.total, data.unit)
    return EventChart(
        event=event,
        total=total._replace(text=data.note) if data.note else total,
        # Without a value, the text of the total contains the reason.
        caveat=""
        if data.total is None
        else format_caveat(
            data.running_percent, None if pd.isna(deviation) else deviation, int(row["missing"].fillna(0).sum())
        ),
        # `draw_bars` escapes every name and uses neither script nor style; tests hold it to that.
        svg=Markup("").join(Markup(draw_bars(data, room, url)) for room in (WIDE_LAYOUT, NARROW_LAYOUT)),
    )


def _reading(charts: list[BarData]) -> str:
    sampled, counted = (
        any(data.labels and data.by_function is by_function for data in charts) for by_function in (True, False)
    )
    if not (counted or sampled) and any(data.note for data in charts):
        return ""
    if counted and not sampled:
        return "Counted, not sampled: totals without functions."
    stacked = "Each bar is divided by its top functions"
    return f"{stacked}; bars of counted events have one color." if counted else f"{stacked}."


def _filter_and_sort(rows: pd.DataFrame) -> tuple[pd.DataFrame, SortOrder]:
    rows, order = filter_and_sort(rows, _columns((*PLACES, RUNNING)), "event", ("event", "process", "thread", "host"))
    # Unsorted, the table is by event as recorded, then by value.
    return (rows.sort_index() if order.param == "event" else rows), order


def _metrics(frame: ResultFrame, profile: Profile) -> tuple[MetricRow, ...]:
    """The range over several intervals of a metric: a mean of ratios is not the ratio of the total."""
    rows = TABLES["count-metrics"].frame(profile, frame.selection)
    keys = ["metric", "unit", "event", "thread", "cpu", "host", "rank", "run"]
    groupby = rows.groupby(keys, dropna=False, sort=False)
    found = groupby["value"].agg(["min", "max"]).join(groupby["start_ms"].count().rename("intervals")).reset_index()
    metrics = []
    for row in records(found):
        places = [row["thread"], None if row["cpu"] is None else f"CPU {row['cpu']}", row["host"]]
        places.append(None if row["rank"] is None else f"rank {row['rank']}")
        if profile.runs.num_rows > 1:
            places.append(f"run {row['run']}")
        low, high = (_metric(row[name], row["unit"]) for name in ("min", "max"))
        metrics.append(
            MetricRow(
                name=row["metric"],
                event=row["event"] or "",
                target=" · ".join(place for place in places if place),
                value=low if low == high else f"{low} … {high}",
                intervals=row["intervals"],
            )
        )
    return tuple(metrics)


def _metric(value: float | None, unit: str) -> str:
    if value is None:
        return MISSING
    text = f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{text} %" if unit == "percent" else text


def _says_something(rows: pd.DataFrame) -> tuple[ColumnView, ...]:
    """The columns with information: the host only if there are several."""
    places = tuple(place for place in places_of(rows) if place.column != "host" or rows["host"].nunique() > 1)
    return (*places, RUNNING) if rows["running_percent"].notna().any() else places


def _columns(optional: tuple[ColumnView, ...]) -> tuple[ColumnView, ...]:
    def counted(row: dict[str, Any]) -> str:
        return "" if row["source"] == "sampled" else "counted"

    def limits(row: dict[str, Any]) -> str:
        if row["status"] not in (None, "ok"):
            return ""
        return format_caveat(row["running_percent"], row["deviation_percent"], row["missing"] or 0)

    found = (
        ColumnView("event", "Event", "name", tag=counted),
        ColumnView("process", "Process", "text", unnamed=lambda _: "all"),
        ColumnView("thread", "Thread", "text", unnamed=lambda _: "all"),
        *optional,
        ColumnView("value", "Value", "amount", missing=_reason, caveat=limits),
    )
    return inherit_descriptions(TABLES["counts"].columns, found)


def _reason(row: dict[str, Any]) -> str:
    """Why there is no value."""
    return MISSING if row["status"] in (None, "ok") else str(row["status"])
