"""/results/<id>/counts: totals of every event by process, thread, rank or host, sampled or counted, as bars of
functions and as a table."""

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

import pandas as pd
from flask import Blueprint, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.sample_selection import hosts_of, ranks_of
from ....analysis.core.schema import records
from ....analysis.counts.participants import Changes, list_labels, list_selected_labels, select_participants
from ....analysis.counts.shares import (
    BY,
    COUNT_SHARES,
    EventShares,
    build_shares,
    compute_count_shares,
    selected_seconds,
    sum_reference,
)
from ....analysis.tables import TABLES
from ....charts.bars import (
    MAX_BARS,
    TOP_FUNCTIONS,
    BarData,
    BarScale,
    BarSeries,
    color_class,
    describe_bars,
    draw_bar,
    format_series,
    list_drawn_series,
)
from ....domain.errors import InvalidRequest
from ....domain.list_text import abbreviate_names
from ....domain.profile import Profile
from ....domain.text import shorten
from ....domain.units import MISSING, Quantity, format_caveat, format_quantity
from ...parameters import parse_choice
from ...rendering import Page, render
from .functions import MAX_URL, append_query, function_query, sandwich_urls
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
from .tables import (
    FILE_RULE,
    Pager,
    SortOrder,
    build_pager,
    current_url_with,
    parse_page,
    table_file_response,
    table_file_url,
)

blueprint = Blueprint("counts", __name__)
RUNNING = ColumnView("running_percent", "Counted %", "percent", missing="", unit_label="")
MAX_CHARTS = 8
MAX_METRICS = 200
MAX_IDLE = 6
"""How many participants without a bar are named."""
NOUNS = {"process": "processes"}
ABSOLUTE, PERCENT, PER_S = "absolute", "percent", "per-s"
BARS_PAGE, FUNCTIONS_PAGE = "bars-page", "functions-page"


@dataclass(frozen=True)
class BarRow:
    """A bar. url: selects its participant, reference: makes it 100 %; empty for none. svg: without script or style."""

    label: str
    url: str
    svg: Markup
    value: Quantity
    reference: str
    is_reference: bool


@dataclass(frozen=True)
class LegendEntry:
    """A color of bars. url: of the function's callers and callees; empty for none."""

    css: str
    name: str
    url: str


@dataclass(frozen=True)
class EventChart:
    """Bars of one event. value_label: heading of their values. empty_text: why there are none. note: on the values."""

    event: str
    total: Quantity
    caveat: str
    value_label: str
    rows: tuple[BarRow, ...]
    legend: tuple[LegendEntry, ...]
    empty_text: str
    note: str


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
    runs. bar_pager, function_pager: None if there is one page. reference: what is 100 %, no_reference: the page without
    it; empty for none."""

    template: ClassVar[str] = "results/counts.html"
    frame: ResultFrame
    charts: tuple[EventChart, ...]
    explanation: str
    notes: tuple[str, ...]
    left_out: int
    by: str
    choices: tuple[PageLink, ...]
    values: tuple[PageLink, ...]
    reference: str
    no_reference: str
    bar_pager: Pager | None
    function_pager: Pager | None
    shares_csv: str
    sheet: Sheet
    csv: str
    metrics: tuple[MetricRow, ...]
    metrics_left_out: int
    metrics_csv: str


@dataclass(frozen=True)
class _CountsView:
    """What the parameters of the page ask for."""

    by: str
    values: str
    reference: str | None
    bars_page: int
    functions_page: int


@blueprint.get("/results/<id>/counts")
def show(id: str) -> Response:
    """Charts and a page of the table: of the event selected, else of all."""
    frame, profile = open_result_frame(id, "counts")
    view = _parse_view(profile)
    every = TABLES["counts"].frame(profile, frame.selection)
    rows, order = _filter_and_sort(every)
    keys = [frame.event] if frame.selection.event is not None else [link.key for link in frame.events if link.key]
    selections = {event: frame.selection.replace(event=event) for event in keys[:MAX_CHARTS]}
    shares = {event: build_shares(profile, selection, view.by) for event, selection in selections.items()}
    bars = {
        event: describe_bars(
            profile,
            found,
            first_bar=(view.bars_page - 1) * MAX_BARS,
            first_function=(view.functions_page - 1) * TOP_FUNCTIONS,
        )
        for event, found in shares.items()
    }
    count, functions = (max((getattr(d, name) for d in bars.values()), default=0) for name in ("bars", "functions"))
    metrics = _metrics(frame, profile)
    return render(
        CountsPage(
            frame=frame,
            charts=tuple(_chart(frame, profile, view, shares[event], data, rows) for event, data in bars.items()),
            notes=list_run_notes(profile, frame.selection.replace(event=None)),
            explanation=_reading(list(bars.values())),
            left_out=max(0, len(keys) - MAX_CHARTS),
            by=view.by,
            choices=_by_links(profile, view),
            values=_value_links(frame, profile, view),
            reference=view.reference or "",
            no_reference=current_url_with(("reference", None)) if view.reference else "",
            bar_pager=_pager(view.bars_page, count, MAX_BARS, BARS_PAGE, view.by),
            function_pager=_pager(view.functions_page, functions, TOP_FUNCTIONS, FUNCTIONS_PAGE, "function"),
            shares_csv=table_file_url("count-shares.csv"),
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
    return table_file_response(f"{frame.name} metrics", file_format, _metric_rows(frame, profile), profile)


@blueprint.get(f"/results/<id>/count-shares.{FILE_RULE}")
def download_shares(id: str, file_format: str) -> Response:
    """All bars and all their functions, with the reference of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "counts")
    view = _parse_view(profile)
    rows = compute_count_shares.rows(profile, frame.selection, view.by, view.reference).to_frame()
    return table_file_response(f"{frame.name} counts by {view.by}", file_format, rows, profile, columns=COUNT_SHARES)


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


def _usual_grouping(profile: Profile) -> str:
    return "rank" if "rank" in _list_bar_choices(profile) else BY[0]


def _parse_view(profile: Profile) -> _CountsView:
    by = parse_choice("by", BY, _usual_grouping(profile))
    reference = request.args.get("reference") or None
    if reference is not None and reference not in list_labels(profile, by):
        raise InvalidRequest(
            f"This result has no {by} {shorten(reference)!r} to compare with; choose one on the page of event counts.",
            "reference",
        )
    return _CountsView(
        by=by,
        values=parse_choice("values", (ABSOLUTE, PERCENT, PER_S), ABSOLUTE),
        reference=reference,
        bars_page=parse_page(BARS_PAGE),
        functions_page=parse_page(FUNCTIONS_PAGE),
    )


def _by_links(profile: Profile, view: _CountsView) -> tuple[PageLink, ...]:
    usual, choices = _usual_grouping(profile), _list_bar_choices(profile)
    # A reference is a participant of one grouping.
    reset = [(name, None) for name in ("page", BARS_PAGE, FUNCTIONS_PAGE, "reference")]
    return tuple(
        PageLink(word, f"By {word}", current_url_with(("by", None if word == usual else word), *reset), word == view.by)
        for word in BY
        if word in choices or word == view.by
    )


def _value_links(frame: ResultFrame, profile: Profile, view: _CountsView) -> tuple[PageLink, ...]:
    labels = {ABSOLUTE: "Absolute", PERCENT: "Percent", PER_S: "Per second"}
    has_times = selected_seconds(profile, frame.selection) is not None
    return tuple(
        PageLink(word, label, current_url_with(("values", None if word == ABSOLUTE else word)), word == view.values)
        for word, label in labels.items()
        if word != PER_S or has_times or view.values == PER_S
    )


def _pager(page: int, total: int, size: int, word: str, noun: str) -> Pager | None:
    """None if everything is on one page."""
    if page == 1 and total <= size:
        return None
    return build_pager(page, total, size, noun=noun, nouns=NOUNS.get(noun, ""), word=word)


def _chart(
    frame: ResultFrame, profile: Profile, view: _CountsView, shares: EventShares, data: BarData, rows: pd.DataFrame
) -> EventChart:
    event = data.event
    row = rows[rows["event"] == event]
    deviation = row["deviation_percent"].iloc[0] if len(row) == 1 else None
    total = format_quantity(data.total, data.unit)
    scale, value_label, note = _scale(frame, profile, view, shares, data)
    selections = select_participants(profile, view.by, data.labels)
    url = sandwich_urls(frame, event)
    # Made once for all bars.
    queries = {series.name: function_query(event, series.name) for series in data.series if not series.other}
    return EventChart(
        event=event,
        total=total._replace(text=data.note) if data.note else total,
        # Without a value, the text of the total contains the reason.
        caveat=""
        if data.total is None
        else format_caveat(
            data.running_percent, None if pd.isna(deviation) else deviation, int(row["missing"].fillna(0).sum())
        ),
        value_label=value_label,
        rows=tuple(
            _bar_row(frame, view, data, bar, scale, selections.get(label, {}), queries)
            for bar, label in enumerate(data.labels)
        ),
        legend=tuple(
            LegendEntry(
                color_class(data, number),
                format_series(data.series[number]),
                "" if data.series[number].other else url(data.series[number].name),
            )
            for number in list_drawn_series(data)
        ),
        empty_text=_empty_text(data),
        note=note or _idle_note(profile, frame, shares, data),
    )


def _idle_note(profile: Profile, frame: ResultFrame, shares: EventShares, data: BarData) -> str:
    """The selected participants that have no bar."""
    if not data.by_function or not data.bars:
        return ""
    known = set(shares.participants)
    idle = [label for label in list_selected_labels(profile, frame.selection, data.by) if label not in known]
    return f"Without {data.event}: {abbreviate_names(idle, MAX_IDLE)}." if idle else ""


def _empty_text(data: BarData) -> str:
    if data.bars:
        return "This page is after the last bar."
    return f"{data.event}: {data.note}." if data.note else f"The selection has no {data.event}."


def _scale(
    frame: ResultFrame, profile: Profile, view: _CountsView, shares: EventShares, data: BarData
) -> tuple[BarScale, str, str]:
    """(how values are written, their heading, a note)."""
    absolute = BarScale(data.unit), "Value" if data.is_formula else "Total", ""
    if data.is_formula and (view.values == PER_S or (view.values == PERCENT and view.reference is None)):
        return *absolute[:2], "Values of a formula have no sum and no rate. Choose one as 100 % to compare."
    if view.values == PERCENT:
        selection = frame.selection.replace(event=data.event)
        reference = sum_reference(profile, selection, shares, view.reference)
        if reference is None:
            note = f"{view.reference or 'The selection'} has no {data.event}, so these values are not percentages."
            return BarScale(data.unit), "Total", note if shares.participants else ""
        return BarScale(data.unit, reference=reference), f"% of {view.reference or 'all'}", ""
    if view.values == PER_S:
        seconds = selected_seconds(profile, frame.selection)
        if seconds is None:
            return BarScale(data.unit), "Total", "The length of the selected time is not known, so these are totals."
        return BarScale(data.unit, per_s=seconds), "Per second", ""
    return absolute


def _bar_row(
    frame: ResultFrame,
    view: _CountsView,
    data: BarData,
    bar: int,
    scale: BarScale,
    changes: Changes,
    queries: dict[str, str],
) -> BarRow:
    label, selection = data.labels[bar], frame.selection
    # Made once for the links of a bar, because a page has hundreds.
    address = frame.url(None, selection.replace(**changes, event=None), *frame.page_params)
    link = append_query(address, urlencode([("event", selection.event)] if selection.event else [])) if changes else ""
    reference = current_url_with(("reference", label), ("values", PERCENT))

    def part_url(series: BarSeries) -> str:
        query = queries[series.name]
        return append_query(address, query) if query else ""

    return BarRow(
        label=label,
        url=link,
        # `draw_bar` escapes every name and uses neither script nor style; tests hold it to that.
        svg=Markup(draw_bar(data, bar, scale, part_url)),
        value=scale.format(data.totals[bar]),
        reference=reference if len(reference) <= MAX_URL else "",
        is_reference=view.values == PERCENT and label == view.reference,
    )


def _reading(charts: list[BarData]) -> str:
    sampled, counted = (
        any(data.labels and data.by_function is by_function for data in charts) for by_function in (True, False)
    )
    if not (counted or sampled) and any(data.note for data in charts):
        return ""
    if any(data.is_formula for data in charts):
        return "A formula of the sums of each bar, which has no parts."
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
    if not profile.count_metrics.num_rows:
        return ()
    rows = _metric_rows(frame, profile)
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


def _metric_rows(frame: ResultFrame, profile: Profile) -> pd.DataFrame:
    """Of the selected event; perf knows no formulas."""
    selection = frame.selection.replace(event=None) if frame.formula else frame.selection
    return TABLES["count-metrics"].frame(profile, selection)


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
