"""/results/<id>/counts: totals of every event by process and thread, sampled or counted, as bars and as a table."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.picking import hosts_of, ranks_of
from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....charts.bars import BY, NARROW, WIDE, BarData, count_bars, draw
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.units import MISSING, Quantity, quantity
from ...rendering import Page, render
from .caveats import caveat
from .frame import Frame, Link, open_frame
from .run_notes import run_notes
from .sheets import PLACES, Sheet, Shown, largest_bar, places_of, sheet, words
from .tables import FILE, Order, asked_order, asked_search, here, keep_matching, table_file

blueprint = Blueprint("counts", __name__)
RUNNING = Shown(
    "running_percent",
    "Counted %",
    "percent",
    "Share of the time in which the event had a counter",
    missing="",
    unit_label="",
)
MOST_CHARTS = 8
MOST_METRICS = 200


@dataclass(frozen=True)
class Chart:
    """Bars of one event. svg: without script or style of its own, for wide and for narrow pages."""

    event: str
    total: Quantity
    caveat: str
    svg: Markup


@dataclass(frozen=True)
class MetricRow:
    """A metric of perf stat. of: the CPU, thread or group, empty for all. value: of several intervals the least and the
    greatest, intervals: how many these are, 0 for the whole run."""

    name: str
    event: str
    of: str
    value: str
    intervals: int


@dataclass(frozen=True)
class CountsPage(Page):
    """`/results/<id>/counts`. reading: what the colors of the bars say. notes: what is to be said of events that were
    measured in several runs."""

    template: ClassVar[str] = "results/counts.html"
    frame: Frame
    charts: tuple[Chart, ...]
    reading: str
    notes: tuple[str, ...]
    left_out: int
    by: str
    choices: tuple[Link, ...]
    sheet: Sheet
    csv: str
    metrics: tuple[MetricRow, ...]
    metrics_left_out: int
    metrics_csv: str


@blueprint.get("/results/<id>/counts")
def show(id: str) -> Response:
    """Charts and a page of the table: of the event selected, else of all."""
    frame, profile = open_frame(id, "counts")
    offered = _offered(profile)
    usual = "rank" if "rank" in offered else BY[0]
    by, order = _by(usual), _order()
    rows = _rows(frame, profile, order)
    chosen = [frame.event] if frame.selection.event is not None else [link.key for link in frame.events if link.key]
    bars = {event: count_bars(profile, frame.selection.only(event=event), by) for event in chosen[:MOST_CHARTS]}
    metrics = _metrics(frame, profile)
    return render(
        CountsPage(
            frame=frame,
            charts=tuple(_chart(event, data, rows) for event, data in bars.items()),
            notes=run_notes(profile, frame.selection.only(event=None)),
            reading=_reading(list(bars.values())),
            left_out=max(0, len(chosen) - MOST_CHARTS),
            by=by,
            choices=tuple(
                Link(word, f"By {word}", here(("by", None if word == usual else word), ("page", None)), word == by)
                for word in BY
                if word in offered or word == by
            ),
            sheet=sheet(
                "Totals",
                rows,
                _columns(_says_something(rows)),
                order,
                noun="total",
                bar=largest_bar(rows, "value", "event"),
                bar_label="Of the largest of its event",
                wide=False,
            ),
            csv=here(("page", None)).replace(f"/results/{id}/counts", f"/results/{id}/counts.csv", 1),
            metrics=metrics[:MOST_METRICS],
            metrics_left_out=max(0, len(metrics) - MOST_METRICS),
            metrics_csv=here(("page", None)).replace(f"/results/{id}/counts", f"/results/{id}/count-metrics.csv", 1),
        )
    )


@blueprint.get(f"/results/<id>/count-metrics.{FILE}")
def metrics_as_file(id: str, form: str) -> Response:
    """The metrics of perf stat, each interval by itself."""
    frame, profile = open_frame(id, "counts")
    return table_file(f"{frame.name} metrics", form, TABLES["count-metrics"].rows(profile, frame.selection))


@blueprint.get(f"/results/<id>/counts.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All rows that the search leaves, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "counts")
    return table_file(f"{frame.name} counts", form, _rows(frame, profile, _order()))


def _offered(profile: Profile) -> tuple[str, ...]:
    """What bars can be of: ranks and hosts where there are several."""
    several = {"rank": len(ranks_of(profile)) > 1, "host": len(hosts_of(profile)) > 1}
    return tuple(word for word in BY if several.get(word, True))


def _by(usual: str) -> str:
    by = request.args.get("by") or usual
    if by not in BY:
        raise InvalidRequest(f"by is one of {', '.join(BY)}, not {by[:40]!r}.", "by")
    return by


def _chart(event: str, data: BarData, rows: pd.DataFrame) -> Chart:
    mine = rows[rows["event"] == event]
    deviation = mine["deviation_percent"].iloc[0] if len(mine) == 1 else None
    total = quantity(data.total, data.unit)
    return Chart(
        event=event,
        total=replace(total, text=data.note) if data.note else total,
        # Where there is no value its place says why.
        caveat=""
        if data.total is None
        else caveat(
            data.running_percent, None if pd.isna(deviation) else deviation, int(mine["missing"].fillna(0).sum())
        ),
        # `draw` escapes every name and uses neither script nor style; tests hold it to that.
        svg=Markup("").join(Markup(draw(data, room)) for room in (WIDE, NARROW)),
    )


def _reading(charts: list[BarData]) -> str:
    sampled, counted = (
        any(data.labels and data.by_function is by_function for data in charts) for by_function in (True, False)
    )
    if not (counted or sampled) and any(data.note for data in charts):
        return ""
    if counted and not sampled:
        return "Counted, not sampled: how much in all, but not in which functions."
    stacked = "Each bar is stacked by the functions that took most of it"
    return f"{stacked}; those of what was counted, not sampled, have one color." if counted else f"{stacked}."


def _rows(frame: Frame, profile: Profile, order: Order) -> pd.DataFrame:
    rows = TABLES["counts"].rows(profile, frame.selection)
    rows = keep_matching(rows, asked_search(), ("event", "process", "thread", "host"))
    # The table's own order is by event as recorded, the greatest value first; every other order keeps it among equals.
    if order.word == "event":
        return rows
    return rows.sort_values(order.column, ascending=not order.descending, kind="stable", na_position="last")


def _metrics(frame: Frame, profile: Profile) -> tuple[MetricRow, ...]:
    """Of several intervals of one metric the range: a mean of ratios would be none of the whole."""
    rows = TABLES["count-metrics"].rows(profile, frame.selection)
    keys = ["metric", "unit", "event", "thread", "cpu", "host", "rank", "run"]
    grouped = rows.groupby(keys, dropna=False, sort=False)
    found = grouped["value"].agg(["min", "max"]).join(grouped["start_ms"].count().rename("intervals")).reset_index()
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
                of=" · ".join(place for place in places if place),
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


def _says_something(rows: pd.DataFrame) -> tuple[Shown, ...]:
    """The columns that are worth their place: of hosts, too, there must be more than one."""
    places = tuple(place for place in places_of(rows) if place.column != "host" or rows["host"].nunique() > 1)
    return (*places, RUNNING) if rows["running_percent"].notna().any() else places


def _columns(optional: tuple[Shown, ...]) -> tuple[Shown, ...]:
    def counted(row: dict[str, Any]) -> str:
        return "" if row["source"] == "sampled" else "counted"

    def limits(row: dict[str, Any]) -> str:
        if row["status"] not in (None, "ok"):
            return ""
        return caveat(row["running_percent"], row["deviation_percent"], row["missing"] or 0)

    return (
        Shown("event", "Event", "name", tag=counted),
        Shown("process", "Process", "text", unnamed=lambda _: "all"),
        Shown("thread", "Thread", "text", unnamed=lambda _: "all"),
        *optional,
        Shown("value", "Value", "amount", missing=_reason, caveat=limits),
    )


def _reason(row: dict[str, Any]) -> str:
    """Why there is no value."""
    return MISSING if row["status"] in (None, "ok") else str(row["status"])


def _order() -> Order:
    return asked_order(words(_columns((*PLACES, RUNNING))), "event")
