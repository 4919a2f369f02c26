"""/results/<id>/nsight: measurements of launches by Nsight Compute; with `launch` those of one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.ml.kernel_names import shorten_kernel_name
from ....analysis.nsight.reports import GLOBAL, compute_nsight, compute_nsight_hints, metrics_of, report_launches_of
from ....analysis.nsight.source import has_source, source_of
from ....analysis.tables import TABLES
from ....charts.table_charts import TopBar, draw_top_bars
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.units import MISSING, NS_PER_US, format_percent
from ....ingest.nsight.summary_metrics import TIMES_FACT
from ...pages import with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.detail import KeyFigure, build_figure, detail_url
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import (
    FILE_RULE,
    PAGE_SIZE,
    Pager,
    SortOrder,
    build_pager,
    current_url_with,
    parse_page,
    parse_search,
    table_file_response,
    table_file_url,
)

blueprint = Blueprint("nsight", __name__)
VIEWS = {"launches": "Launches", "hints": "Hints", "metrics": "Metrics", "source": "Instructions"}
LAUNCH_VIEWS = {"metrics": "Metrics and hints", "source": "Instructions"}
NOUNS = {"launches": "row", "hints": "hint", "metrics": "metric", "source": "instruction"}
KINDS = {"OPT": ("optimization", "warn"), "WRN": ("warning", "bad"), "INF": ("information", "")}
SPEED_OF_LIGHT = (
    ("sm_percent", "Compute (SM)"),
    ("memory_percent", "Memory"),
    ("l1_percent", "L1/TEX cache"),
    ("l2_percent", "L2 cache"),
    ("dram_percent", "DRAM"),
)
_KERNEL = ColumnView("name", "Kernel", "name", shorten=shorten_kernel_name)
_KERNEL_TEXT = ColumnView("name", "Kernel", "text", shorten=shorten_kernel_name)
_ID = ColumnView("launch", "ID", "plain")
_LAUNCHES = (
    _KERNEL,
    _ID,
    ColumnView("grid", "Grid", "word"),
    ColumnView("block", "Block", "word"),
    ColumnView("duration_us", "Duration", "time", "Duration of the launch, measured separately", "call"),
    ColumnView("estimated_speedup_percent", "Est. speedup", "percent"),
    ColumnView("sm_percent", "Compute", "percent"),
    ColumnView("memory_percent", "Memory", "percent"),
    ColumnView("bound", "Bound by", "word"),
    ColumnView("occupancy_percent", "Occupancy", "percent"),
    ColumnView("theoretical_percent", "Theoretical", "percent"),
    ColumnView("limit", "Limited by", "word"),
    ColumnView("registers", "Registers"),
    ColumnView("shared_bytes", "Shared memory", "bytes"),
    ColumnView("waves_per_sm", "Waves per SM", "number"),
    ColumnView("hints", "Hints", "count"),
)
_HINTS = tuple(
    ColumnView(column, column) for column in ("estimated_speedup_percent", "launch", "rule", "section", "kind")
)
_METRICS = (
    ColumnView("metric", "Metric", "name"),
    ColumnView("value", "Value", "plain"),
    ColumnView("unit", "Unit", "word"),
    ColumnView("label", "Label", "text"),
    ColumnView("section", "Section", "text"),
    ColumnView("part", "Part", "text"),
    ColumnView("order", "#", "plain", "In the order of the report"),
)
_SOURCE = (
    ColumnView("source", "Instruction", "name"),
    ColumnView("number", "Line", "plain"),
    ColumnView("samples", "Samples"),
    ColumnView("percent", "%", "percent"),
    ColumnView("not_issued", "Not issued"),
    ColumnView("stall", "Stall", "word"),
    ColumnView("stall_samples", "Stall samples", "count"),
    ColumnView("instructions", "Executed"),
    ColumnView("thread_instructions", "By threads"),
    ColumnView("divergent", "Divergent"),
    ColumnView("excessive_global", "Excessive, L2"),
    ColumnView("excessive_shared", "Excessive, shared"),
    ColumnView("address", "Address", "word"),
)
_PLACE = (ColumnView("file", "File", "text"), ColumnView("line", "Source line", "plain"))


@dataclass(frozen=True)
class Hint:
    """A hint of a rule. kind: label; css: by severity. estimated_speedup: empty without an estimate."""

    rule: str
    section: str
    kind: str
    css: str
    estimated_speedup: str
    text: str
    kernel: str
    url: str


@dataclass(frozen=True)
class LaunchView:
    """The details of a launch. speed_of_light: its throughputs as bars. kernel: URL of the page of its kernel, if
    any."""

    name: str
    full_name: str
    number: int
    ranges: str
    kernel: str
    back: str
    previous: str
    next: str
    speed_of_light: Markup


@dataclass(frozen=True)
class SearchForm:
    """A search form. hidden_fields: the preserved parameters of the URL."""

    search: str
    hidden_fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NsightPage(Page):
    """launch: the shown launch, None for all. sections: of metrics, to select. hints: with a pager if they are the
    table. times: a note on times. compare: URL to select a trace for comparison."""

    template: ClassVar[str] = "results/nsight.html"
    frame: ResultFrame
    launch: LaunchView | None
    view: str
    views: tuple[PageLink, ...]
    figures: tuple[KeyFigure, ...]
    hints: tuple[Hint, ...]
    pager: Pager | None
    sections: tuple[PageLink, ...]
    sheet: Sheet | None
    search_form: SearchForm
    times: str
    compare: str
    csv: str


@blueprint.get("/results/<id>/nsight")
def show(id: str) -> Response:
    """All launches, hints, metrics or instructions, or those of one launch."""
    frame, profile = open_result_frame(id, "nsight")
    row = _row(profile)
    view = _view(row)
    table = _load_table(profile, view, row)
    launches = compute_nsight(profile, Selection())
    record = None if row is None else records(launches.iloc[[row]])[0]
    page = table.rows.iloc[(parse_page() - 1) * PAGE_SIZE : parse_page() * PAGE_SIZE]
    hints = (
        page
        if view == "hints"
        else _only(compute_nsight_hints(profile, Selection()), row)
        if view == "metrics"
        else None
    )
    return render(
        NsightPage(
            frame=frame,
            launch=None if record is None else _build_launch(frame, launches, record),
            view=view,
            views=_views(frame, profile, row, view),
            figures=_figures(launches) if record is None else _figures_of(record),
            hints=_hints(frame, hints) if hints is not None and (row is not None or view == "hints") else (),
            pager=build_pager(parse_page(), len(table.rows), noun="hint") if view == "hints" else None,
            sections=_sections(table) if view == "metrics" else (),
            sheet=None
            if view == "hints"
            else build_sheet(
                VIEWS[view],
                table.rows,
                table.columns,
                table.order,
                noun=NOUNS[view],
                url=_link(frame, view, row),
                bar=("percent", "percent") if view == "source" else None,
                total_rows=table.total_rows,
            ),
            search_form=SearchForm(
                request.args.get("search", ""),
                tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
            ),
            times=profile.meta.facts.get(TIMES_FACT, ""),
            compare=with_query("/compare/nsight", [("other", frame.id)]),
            csv=table_file_url("nsight.csv"),
        )
    )


@blueprint.get(f"/results/<id>/nsight.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows of the table shown that section and search leave, in the order of the page."""
    frame, profile = open_result_frame(id, "nsight")
    row = _row(profile)
    view = _view(row)
    return table_file_response(
        f"{frame.name} nsight {view}", file_format, _load_table(profile, view, row).rows, profile
    )


@dataclass(frozen=True)
class _NsightTable:
    """rows: sorted, what section and search leave of `total_rows`. names: of the sections that there are."""

    rows: pd.DataFrame
    columns: tuple[ColumnView, ...]
    order: SortOrder
    total_rows: int
    names: tuple[str, ...] = ()


def _load_table(profile: Profile, view: str, row: int | None) -> _NsightTable:
    shown, default, searched = _TABLES[view]
    rows = _rows(profile, view, row)
    names: tuple[str, ...] = ()
    if view == "metrics":
        names = tuple(dict.fromkeys(rows["section"].tolist()))
        if section := request.args.get("section"):
            rows = rows[rows["section"] == section]
        if not rows["part"].notna().any():
            shown = tuple(one for one in shown if one.column != "part")
    if view == "source" and rows["file"].notna().any():
        shown = (shown[0], *_PLACE, *shown[1:])
    if row is None and view in ("metrics", "source"):
        shown = (shown[0], _KERNEL_TEXT, _ID, *shown[1:])
    shown = inherit_descriptions(TABLES["nsight" if view == "launches" else f"nsight-{view}"].columns, shown)
    # Metrics are searched already.
    every = profile.metric_values.num_rows if view == "metrics" else len(rows)
    found, order = filter_and_sort(rows, shown, default, searched)
    return _NsightTable(found, shown, order, every, names)


def _rows(profile: Profile, view: str, row: int | None) -> pd.DataFrame:
    if view == "launches":
        return compute_nsight(profile, Selection())
    if view == "hints":
        return _only(compute_nsight_hints(profile, Selection()), row)
    if view == "source":
        return source_of(profile, row)
    whole = range(len(report_launches_of(profile)))
    rows = metrics_of(profile, whole if row is None else range(row, row + 1), parse_search())
    return rows.assign(order=range(1, len(rows) + 1))


def _only(rows: pd.DataFrame, row: int | None) -> pd.DataFrame:
    return rows if row is None else rows[rows["row"] == row]


def _build_launch(frame: ResultFrame, launches: pd.DataFrame, row: dict[str, Any]) -> LaunchView:
    at, bars = row["row"], [TopBar(label, label, row[key]) for key, label in SPEED_OF_LIGHT if row[key] is not None]

    def url(place: int) -> str:
        return current_url_with(("launch", str(place)), ("page", None)) if 0 <= place < len(launches) else ""

    return LaunchView(
        name=shorten_kernel_name(row["name"] or ""),
        full_name=row["name"] or "",
        number=row["launch"],
        ranges=row["ranges"] or "",
        kernel=detail_url(frame, "kernels", row["name"]) if row["name"] and row["duration_us"] is not None else "",
        back=frame.url("nsight"),
        previous=url(at - 1),
        next=url(at + 1),
        # `draw_top_bars` escapes every name and uses neither script nor style; tests hold it to that.
        speed_of_light=Markup(draw_top_bars("Speed of light", "percent", bars, most=100.0)) if bars else Markup(),
    )


def _figures(launches: pd.DataFrame) -> tuple[KeyFigure, ...]:
    total = float(launches["duration_us"].sum()) * NS_PER_US
    found = [
        build_figure("Launches", len(launches), "count"),
        build_figure("Kernels", int(launches["name"].nunique()), "count"),
        build_figure("Measured time", total, "ns") if total else None,
        build_figure("Hints", int(launches["hints"].sum()), "count") if launches["hints"].sum() else None,
    ]
    for word in ("memory", "compute", "both", "latency"):
        count = int((launches["bound"] == word).sum())
        label = "Bound by both" if word == "both" else f"Bound by {word}"
        found.append(build_figure(label, count, "count") if count else None)
    return tuple(one for one in found if one is not None)


def _figures_of(row: dict[str, Any]) -> tuple[KeyFigure, ...]:
    duration_us = row["duration_us"]
    found = [
        build_figure("Duration", None if duration_us is None else duration_us * NS_PER_US, "ns"),
        KeyFigure("Grid", row["grid"] or "", "Blocks along x, y and z"),
        KeyFigure("Block", row["block"] or "", "Threads per block along x, y and z"),
        build_figure("Registers", row["registers"], "count"),
        build_figure("Shared memory", row["shared_bytes"], "bytes"),
        build_figure("Achieved occupancy", row["occupancy_percent"], "percent"),
        build_figure("Theoretical occupancy", row["theoretical_percent"], "percent"),
        KeyFigure("Limited by", row["limit"] or "", "What limits the theoretical occupancy"),
        KeyFigure("Bound by", row["bound"] or "", "By its throughputs"),
        build_figure("Estimated speedup", row["estimated_speedup_percent"], "percent"),
    ]
    return tuple(one for one in found if one.text not in ("", MISSING))


def _hints(frame: ResultFrame, rows: pd.DataFrame) -> tuple[Hint, ...]:
    hints = []
    for row in records(rows):
        word, css = KINDS.get(row["kind"] or "", (row["kind"] or "", ""))
        gain = row["estimated_speedup_percent"]
        of = "" if (row["of"] or GLOBAL).lower() == GLOBAL else " of the part that the rule covers"
        hints.append(
            Hint(
                rule=row["rule"] or "",
                section=row["section"] or "",
                kind=word,
                css=css,
                estimated_speedup="" if gain is None else f"{format_percent(gain)}{of}",
                text=row["text"] or "",
                kernel=f"{shorten_kernel_name(row['name'] or '')}, ID {row['launch']}",
                url=frame.url("nsight", None, ("launch", str(row["row"]))),
            )
        )
    return tuple(hints)


def _views(frame: ResultFrame, profile: Profile, row: int | None, now: str) -> tuple[PageLink, ...]:
    words = dict(VIEWS if row is None else LAUNCH_VIEWS)
    for word, there in (
        ("hints", bool(profile.hints.num_rows)),
        ("source", bool(profile.source_lines.num_rows) if row is None else has_source(profile, row)),
    ):
        if not there and word != now:
            words.pop(word, None)
    first = next(iter(words))
    launch = [] if row is None else [("launch", str(row))]
    return tuple(
        PageLink(word, label, frame.url(None, None, *launch, *([("view", word)] if word != first else [])), word == now)
        for word, label in words.items()
    )


def _sections(table: _NsightTable) -> tuple[PageLink, ...]:
    now = request.args.get("section", "")
    return (
        PageLink("", "All sections", current_url_with(("section", None), ("page", None)), not now),
        *(
            PageLink(name, name, current_url_with(("section", name), ("page", None)), name == now)
            for name in table.names
        ),
    )


def _link(frame: ResultFrame, view: str, row: int | None) -> Callable[[dict[str, Any]], str] | None:
    """The URL of the name of a row: its launch, unless shown already."""
    if row is not None:
        return None
    more = [("view", "source")] if view == "source" else []
    return lambda of: frame.url("nsight", None, ("launch", str(of["row"])), *more)


def _row(profile: Profile) -> int | None:
    """The requested launch, by its position in the report. Raises InvalidRequest, NotFound."""
    text = request.args.get("launch")
    if not text:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise InvalidRequest(f"launch must be a whole number from 0, not {text[:40]!r}.", "launch")
    if int(text) >= profile.profiled_kernels.num_rows:
        raise NotFound(
            f"This report has {profile.profiled_kernels.num_rows:,} launches, numbered from 0, but no launch {text}."
        )
    return int(text)


def _view(row: int | None) -> str:
    known = VIEWS if row is None else LAUNCH_VIEWS
    return parse_choice("view", known, next(iter(known)))


_TABLES: dict[str, tuple[tuple[ColumnView, ...], str, tuple[str, ...]]] = {
    "launches": (_LAUNCHES, "-duration_us", ("name", "ranges", "grid", "block", "bound", "limit")),
    "hints": (_HINTS, "-estimated_speedup_percent", ("name", "section", "rule", "kind", "text")),
    "metrics": (_METRICS, "order", ("metric", "label")),
    "source": (_SOURCE, "-samples", ("source", "stall", "file", "name")),
}
"""For each view: the columns, the default order, and the searched columns."""
