"""/results/<id>/ratios: a flame graph that a formula colors, and functions by two metrics."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.flame_groups import FlameGroup, groups_of
from ....analysis.core.functions import base_name
from ....analysis.ratios.function_sums import BY
from ....analysis.ratios.metrics import RatioMetric, has_ratios
from ....analysis.ratios.scatter import COLUMNS, Scatter, ScatterSpec, build_scatter, scatter_rows
from ....analysis.stacks.flamegraph import SiblingOrder
from ....domain.profile import Profile
from ....domain.symbols.short_names import shorten_distinct
from ...rendering import Page, render
from ..results.flame_controls import (
    DEFAULT_WIDTH,
    PAGE_POLICY,
    FlameControls,
    FlameGraphView,
    build_controls,
    build_direction_switch,
    build_group_choice,
    build_invert_switch,
    build_order_choice,
    build_part_choice,
    build_recursion_switch,
    current_url,
)
from ..results.functions import has_modules, sandwich_urls
from ..results.missing_data import explain_no_ratios
from ..results.result_frame import ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, SortOrder, table_file_response, table_file_url
from ..stacks.flamegraph import build_whole_graph
from .chart import ScatterChart, build_chart
from .choices import ScatterForm, build_color_choice, build_form
from .parameters import BOX_PARAMETERS, RatioRequest, parse_request

blueprint = Blueprint("ratios", __name__)


@dataclass(frozen=True)
class RatiosPage(Page):
    """bar, graph: of the flame graph. form: the choices of the scatter. chart: the scatter. All are None without
    ratios. notes: on the values. download: the flame graph as SVG."""

    template: ClassVar[str] = "results/ratios.html"
    frame: ResultFrame
    bar: FlameControls | None
    graph: FlameGraphView | None
    form: ScatterForm | None
    chart: ScatterChart | None
    sheet: Sheet | None
    notes: tuple[str, ...]
    download: str
    empty_text: str
    csv: str


@blueprint.get("/results/<id>/ratios")
def show(id: str) -> Response:
    """The page."""
    frame, profile = open_result_frame(id, "ratios")
    empty = explain_no_ratios(profile)
    if not has_ratios(profile):
        return render(RatiosPage(frame, None, None, None, None, None, (), "", empty, ""))
    asked = parse_request(profile, frame.event, list_groupings(profile))
    scatter = build_scatter(profile, frame.selection, asked.spec, asked.coloring.metric)
    rows, order, total = _rows(frame, profile, asked, scatter, complete=False)
    metrics = (asked.coloring.metric, asked.spec.x, asked.spec.y)
    response = render(
        RatiosPage(
            frame=frame,
            bar=_bar(profile, frame, asked),
            graph=_graph(frame, profile, asked),
            form=build_form(profile, asked, scatter, list_groupings(profile)),
            chart=build_chart(frame, profile, asked, scatter),
            sheet=build_sheet(
                "Functions",
                rows,
                _columns(frame, profile, asked),
                order,
                noun="function" if asked.spec.by == BY[0] else "dot",
                total_rows=total,
                url=_link(frame),
                wide=False,
            ),
            notes=tuple(dict.fromkeys(f"{m.text}: {m.note}." for m in metrics if m.note)),
            download=current_url(f"/results/{id}/flamegraph.svg", colour=asked.coloring.metric.text, download="1"),
            empty_text=empty,
            csv=table_file_url("ratios.csv"),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@blueprint.get(f"/results/<id>/ratios.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All dots that the search and the box leave, in the order of the page."""
    frame, profile = open_result_frame(id, "ratios")
    name = f"{frame.name} ratios"
    if not has_ratios(profile):
        none = pd.DataFrame({column.name: [] for column in COLUMNS})
        return table_file_response(name, file_format, none, profile, columns=COLUMNS)
    asked = parse_request(profile, frame.event, list_groupings(profile))
    scatter = build_scatter(profile, frame.selection, asked.spec, asked.coloring.metric)
    rows, _, _ = _rows(frame, profile, asked, scatter, complete=True)
    return table_file_response(name, file_format, rows, profile, columns=COLUMNS)


def list_groupings(profile: Profile) -> tuple[str, ...]:
    """What dots can be of: functions, or functions and each of several ranks, processes, threads or hosts."""
    several = [by for by in BY[1:] if len(groups_of(profile, FlameGroup(by)).labels) > 1]
    return (BY[0], *several)


def _bar(profile: Profile, frame: ResultFrame, asked: RatioRequest) -> FlameControls:
    color = build_color_choice(profile, asked.coloring)
    return build_controls(
        f"/api/v1/results/{frame.id}/flamegraph/search",
        "",
        [
            color,
            build_part_choice(),
            build_order_choice(SiblingOrder.WEIGHT, SiblingOrder.NAME),
            build_group_choice(profile),
        ],
        [
            build_invert_switch(frame.selection.invert),
            build_recursion_switch(frame.selection.recursion),
            build_direction_switch(),
        ],
        reloads=True,
        dropped=(*BOX_PARAMETERS, "dots", "page"),
    )


def _graph(frame: ResultFrame, profile: Profile, asked: RatioRequest) -> FlameGraphView:
    color = asked.coloring.metric.text
    static = current_url(f"/results/{frame.id}/flamegraph.svg", width=str(DEFAULT_WIDTH), colour=color)
    return replace(build_whole_graph(frame, profile), color=color, static_url=static)


def _link(frame: ResultFrame) -> Any:
    link = sandwich_urls(frame)
    return lambda row: link(row["name"] or "")


def _rows(
    frame: ResultFrame, profile: Profile, asked: RatioRequest, scatter: Scatter, *, complete: bool
) -> tuple[pd.DataFrame, SortOrder, int]:
    """(the rows of the table, their order, how many there are without the search). complete: as in a file."""
    color = asked.coloring.metric
    rows = scatter_rows(profile, scatter, asked.spec, color, frame.event, complete=complete).to_frame()
    if asked.only_apart:
        rows = rows[~scatter.on_axes]
    elif asked.box:
        rows = rows[scatter.inside(asked.box)]
    found, order = filter_and_sort(rows, _columns(frame, profile, asked), "-weight", ("name", "module", "place"))
    return found, order, len(rows)


def _columns(frame: ResultFrame, profile: Profile, asked: RatioRequest) -> tuple[ColumnView, ...]:
    spec, color = asked.spec, asked.coloring.metric
    found = (
        ColumnView("name", "Function", "name", shorten_page=shorten_distinct),
        *((ColumnView("place", spec.by.capitalize(), "text"),) if spec.by != BY[0] else ()),
        *((ColumnView("module", "Module", "text", shorten=base_name),) if has_modules(profile) else ()),
        _metric_column("x", spec.x, spec, spec.scales[0]),
        _metric_column("y", spec.y, spec, spec.scales[1]),
        *((_metric_column("color", color, None, ""),) if color.text not in (spec.x.text, spec.y.text) else ()),
        ColumnView("weight", f"{frame.event} (color)", "value", unit=frame.unit),
    )
    return inherit_descriptions(COLUMNS, found)


def _metric_column(column: str, metric: RatioMetric, spec: ScatterSpec | None, scale: str) -> ColumnView:
    label = metric.text if column == "color" else f"{column}: {metric.text}"
    if spec is not None and spec.reference and scale == "log":
        return ColumnView(column, f"{label} ÷ reference", "ratio", unit_label="")
    if spec is not None and spec.reference:
        label += " − reference"
    if metric.is_event:
        return ColumnView(column, label, "value", unit=metric.unit or "count")
    return ColumnView(column, label, "ratio", unit_label=metric.unit)
