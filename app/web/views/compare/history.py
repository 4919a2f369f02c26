"""/history: the results of a tag or a name over time, and where their level changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flask import Blueprint, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.compare.run_history import COLUMNS, MEASURES, RunHistory
from ....charts.history import draw_history, draw_history_labels, fit_history_axis
from ....charts.scatter import draw_y_labels
from ....domain.text import shorten
from ....domain.units import format_axis_labels, format_percent, format_quantity, format_utc
from ....store import Result
from ....store.run_history import collect_history, find_runs, list_common_events
from ...pages import result_url, with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.result_frame import PageLink
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, current_url_with, table_file_response, table_file_url, table_response

blueprint = Blueprint("history", __name__)
MEASURE_TITLES = dict(zip(MEASURES, ("Total", "Self"), strict=True))
SEARCHED_COLUMNS = ("name", "host")
MAX_CHOICES = 200
FIELDS = ("tag", "name", "command")


@dataclass(frozen=True)
class HistoryChoice:
    """A tag or name that has a history. url: of it. count: its results."""

    name: str
    url: str
    count: int


@dataclass(frozen=True)
class HistoryChart:
    """The chart: SVG without scripts."""

    svg: Markup
    x_labels: Markup
    y_labels: Markup
    y_title: str


@dataclass(frozen=True)
class HistoryPage(Page):
    """`/history`. tag, name, command: of the results; without any, there are tags, names and commands to choose from.
    events: to choose from. whole: this page of the whole instead of a function."""

    template: ClassVar[str] = "compare/history.html"
    tag: str
    name: str
    command: str
    tags: tuple[HistoryChoice, ...]
    names: tuple[HistoryChoice, ...]
    commands: tuple[HistoryChoice, ...]
    sentence: str = ""
    notes: tuple[str, ...] = ()
    event: str = ""
    events: tuple[str, ...] = ()
    function: str = ""
    measures: tuple[PageLink, ...] = ()
    measure: str = ""
    whole: str = ""
    chart: HistoryChart | None = None
    sheet: Sheet | None = None
    csv: str = ""

    @property
    def title(self) -> str:
        """What the history is of."""
        return " · ".join(filter(None, (self.tag, self.name, self.command)))


@blueprint.get("/history")
def show() -> Response:
    """The history, or what has one."""
    tag, name, command = (request.args.get(word, "") for word in FIELDS)
    results = current_services().store.results
    if not (tag or name or command):
        return render(
            HistoryPage(
                "",
                "",
                "",
                _list_choices("tag", results.tags()),
                _list_choices("name", results.repeated_values("name", MAX_CHOICES)),
                _list_choices("command", results.repeated_values("command", MAX_CHOICES)),
            )
        )
    found, history = _collect()
    urls = [_compare_url(history, at) for at in range(len(history.runs))]
    return render(
        HistoryPage(
            tag=tag,
            name=name,
            command=command,
            tags=(),
            names=(),
            commands=(),
            sentence=history.sentence(lambda one: f"“{shorten(one)}”") if history.runs else "",
            notes=history.left_out,
            event=history.event,
            events=tuple(dict.fromkeys(event for event, _ in list_common_events(found))),
            function=history.function,
            measures=tuple(
                PageLink(word, title, current_url_with(("of", None if word == "total" else word)), word == _measure())
                for word, title in MEASURE_TITLES.items()
            ),
            measure=_measure(),
            whole=current_url_with(("function", None), ("of", None)),
            chart=_build_chart(history, urls) if history.runs else None,
            sheet=_build_table(history, urls),
            csv=table_file_url("history.csv"),
        )
    )


@blueprint.get(f"/history.{FILE_RULE}")
def download_table(file_format: str) -> Response:
    """The runs with all columns of `perfloom history`."""
    _, history = _collect()
    return table_file_response("history", file_format, history.rows().to_frame(), columns=COLUMNS)


@blueprint.get("/api/v1/history")
def get_json() -> Response:
    """The runs as a list of objects; tag, name, event, function, of; format=csv|parquet: as a file."""
    _, history = _collect()
    return table_response("history", history.rows().to_frame(), columns=COLUMNS)


def _list_choices(word: str, found: Sequence[tuple[str, int]]) -> tuple[HistoryChoice, ...]:
    return tuple(
        HistoryChoice(value, with_query("/history", [(word, value)]), count) for value, count in found[:MAX_CHOICES]
    )


def _measure() -> str:
    return parse_choice("of", MEASURES, MEASURES[0])


def _collect() -> tuple[Sequence[Result], RunHistory]:
    results = current_services().store.results
    found = find_runs(results, **{word: request.args.get(word, "") for word in FIELDS})
    history = collect_history(
        results,
        found,
        event=request.args.get("event", ""),
        function=request.args.get("function", ""),
        measure=_measure(),
    )
    return found, history


def _compare_url(history: RunHistory, at: int) -> str:
    """The comparison with what was before; of counted values, which have no functions, with the run before."""
    base, other = history.compared_with(at)
    if not base:
        return ""
    if not all(run.variance for run in (*base, *other)):
        return with_query("/compare/counts", [("base", base[-1].id), ("other", other[0].id)])
    sides = [*(("base", run.id) for run in base), *(("other", run.id) for run in other)]
    # The history is of weights, whatever the commands are.
    return with_query("/compare/runs", [*sides, ("event", history.event), ("scale", "absolute")])


def _build_chart(history: RunHistory, urls: Sequence[str]) -> HistoryChart:
    value = np.array([run.value for run in history.runs], np.float64)
    low, high = history.intervals()
    axis = fit_history_axis(value, low, high, history.levels)
    changes = {change.at: change.ratio for change in history.levels.changes}
    tips = []
    for at, run in enumerate(history.runs):
        lines = [shorten(run.name), format_utc(run.recorded), format_quantity(run.value, history.unit).text]
        if at in changes:
            lines.append(f"level {'+' if changes[at] > 0 else '−'}{format_percent(abs(100 * changes[at]))}")
        tips.append("\n".join(filter(None, (*lines, shorten(run.host)))))
    days, times = zip(*(format_utc(run.recorded).split(" ")[:2] for run in history.runs), strict=True)
    labels = days if len(set(days)) > 1 else times
    # `charts.history` escapes every text and uses neither script nor style; tests check this.
    return HistoryChart(
        Markup(
            draw_history(
                f"{history.event} of each run",
                axis,
                value,
                low,
                high,
                history.levels,
                tips,
                urls,
            )
        ),
        Markup(draw_history_labels(labels)),
        Markup(draw_y_labels(axis, format_axis_labels(axis.ticks(), history.unit))),
        history.event,
    )


def _build_table(history: RunHistory, urls: Sequence[str]) -> Sheet:
    unit = history.unit

    def weight(column: str, label: str, **more: Any) -> ColumnView:
        return ColumnView(column, label, "value", scale="weight", unit=unit, **more)

    columns = inherit_descriptions(
        COLUMNS,
        (
            ColumnView("name", "Result", "name"),
            ColumnView("recorded", "Recorded (UTC)", "word"),
            ColumnView("host", "Host", "text"),
            weight("value", "Value"),
            weight("low", "From", extra=True),
            weight("high", "To", extra=True),
            weight("level", "Level"),
            ColumnView("change_percent", "Change", "percent", sort="change", signed=True),
            ColumnView("change_low_percent", "From", "percent", sort="change_low", signed=True),
            ColumnView("change_high_percent", "To", "percent", sort="change_high", signed=True),
            ColumnView(
                "compare",
                "Compare",
                "link",
                "Compare with the previous run, or level",
                sort="",
                link=lambda row: row["compare"],
            ),
        ),
    )
    rows = history.rows().to_frame()
    rows["url"] = [result_url(run.id) for run in history.runs]
    rows["compare"] = urls
    # Times are in minutes.
    rows["order"] = range(len(rows))
    shown, order = filter_and_sort(
        rows,
        columns,
        "-recorded",
        SEARCHED_COLUMNS,
        sort_columns={one.word: one.column for one in columns if one.word} | {"recorded": "order"},
    )
    return build_sheet(
        "Runs",
        shown,
        columns,
        order,
        noun="run",
        total_rows=len(rows),
        url=lambda row: row["url"],
        wide=False,
    )
