"""/results/<id>/kernels: kernels, memcpy, launches, graphs and sequences; with `name` the details of one kernel."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.ml.details import kernel_detail
from ....analysis.ml.graphs import compute_graphs, has_graphs
from ....analysis.ml.kernel_names import shorten_kernel_name
from ....analysis.ml.kernels import BY, compute_copies, compute_kernels
from ....analysis.ml.launches import compute_launches
from ....analysis.ml.sequences import BY as SEQUENCES_BY
from ....analysis.ml.sequences import DEFAULT_LENGTH, MAX_LENGTH, MIN_LENGTH, SEPARATOR, compute_sequences
from ....analysis.ml.tensor_cores import device_has_tensor_cores
from ....analysis.nsight.reports import has_reports
from ....analysis.tables import TABLES
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.units import NS_PER_US
from ....ingest.nsight.kernel_names import get_function_name
from ...pages import with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.detail import (
    DetailPage,
    KeyFigure,
    TopChart,
    build_detail_table,
    build_distribution_chart,
    build_figure,
    build_rank_links,
    build_top_charts,
    detail_url,
    flamegraph_url,
    has_several_ranks,
    is_by_rank,
)
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("kernels", __name__)
VIEWS = {
    "kernels": "Kernels",
    "copies": "Memcpy and memset",
    "launches": "Launches",
    "graphs": "CUDA graphs",
    "sequences": "Sequences",
}
MAX_SEARCH = 200
KINDS = ("computation", "communication", "memory", "other")
BY_LABELS = {
    "name": "By name",
    "configuration": "By operator and configuration",
    "stream": "By stream",
    "operator": "By operator",
}

_RANK = ColumnView("rank", "Rank", fixed=True)
_KERNELS = (
    ColumnView("calls", "Calls"),
    ColumnView("total_us", "Total", "time"),
    ColumnView("percent", "%", "percent"),
    ColumnView("mean_us", "Mean", "time", scale="call"),
    ColumnView("min_us", "Min", "time", scale="call", extra=True),
    ColumnView("max_us", "Max", "time", scale="call"),
    ColumnView("blocks_per_sm", "Blocks per SM", "number"),
    ColumnView("occupancy_percent", "Occupancy", "percent"),
    ColumnView("tensor_core", "Tensor cores", "flag"),
    ColumnView("delay_mean_us", "Launch delay", "time", scale="call"),
    ColumnView("queue_mean", "Queue", "number"),
)
_CONFIGURATION = (
    ColumnView("operator", "Operator", "text", fixed=True),
    ColumnView("operator_tensor_core_eligible", "Operator eligible", "flag", extra=True),
    ColumnView("grid", "Grid", "word", fixed=True),
    ColumnView("block", "Block", "word", fixed=True),
    ColumnView("registers", "Registers"),
    ColumnView("shared_bytes", "Shared memory", "bytes", extra=True),
)
_CORES = ("tensor_core", "operator_tensor_core_eligible")
_COPIES = (
    ColumnView("name", "Memcpy or memset", "name"),
    ColumnView("direction", "Direction", "word"),
    ColumnView("count", "Count"),
    ColumnView("bytes", "Size", "bytes"),
    ColumnView("total_us", "Total", "time"),
    ColumnView("percent", "%", "percent"),
    ColumnView("mean_us", "Mean", "time", scale="call"),
    ColumnView("min_us", "Min", "time", scale="call"),
    ColumnView("max_us", "Max", "time", scale="call"),
    ColumnView("bandwidth_gb_per_s", "Bandwidth", "rate"),
    ColumnView("bandwidth_max_gb_per_s", "Max", "rate"),
)
_LAUNCHES = (
    ColumnView("name", "Runtime function", "name"),
    ColumnView("calls", "Calls"),
    ColumnView("total_us", "Host", "time"),
    ColumnView("mean_us", "Mean", "time", scale="call"),
    ColumnView("max_us", "Max", "time", scale="call", extra=True),
    ColumnView("launches", "Launches"),
    ColumnView("launched", "Launched"),
    ColumnView("delay_mean_us", "Delay, mean", "time", scale="delay"),
    ColumnView("delay_median_us", "Median", "time", scale="delay"),
    ColumnView("delay_p90_us", "90 %", "time", scale="delay"),
    ColumnView("delay_p99_us", "99 %", "time", scale="delay", extra=True),
    ColumnView("delay_max_us", "Delay, max", "time", scale="delay"),
    ColumnView("queue_mean", "Queue", "number"),
    ColumnView("queue_max", "Queue, max", extra=True),
    ColumnView("shorter", "Short work"),
)
_GRAPHS = (
    ColumnView("graph_id", "Graph", "name", shorten=lambda text: text or "not recorded"),
    ColumnView("name", "Launched by", "word"),
    ColumnView("launches", "Launches"),
    ColumnView("works_mean", "Kernels", "number"),
    ColumnView("nodes", "Nodes", extra=True),
    ColumnView("streams", "Streams", extra=True),
    ColumnView("total_us", "Device", "time"),
    ColumnView("percent", "%", "percent"),
    ColumnView("mean_us", "Mean", "time", scale="call"),
    ColumnView("min_us", "Min", "time", scale="call", extra=True),
    ColumnView("max_us", "Max", "time", scale="call"),
    ColumnView("gap_mean_us", "Gaps", "time", scale="call"),
    ColumnView("host_mean_us", "Host", "time", scale="delay"),
    ColumnView("delay_mean_us", "Delay, mean", "time", scale="delay"),
    ColumnView("delay_median_us", "Median", "time", scale="delay", extra=True),
    ColumnView("delay_p90_us", "90 %", "time", scale="delay", extra=True),
    ColumnView("delay_max_us", "Delay, max", "time", scale="delay"),
    ColumnView("waited_us", "Device waited", "time"),
)
_SEQUENCES = (
    ColumnView("count", "Count"),
    ColumnView("length", "Length"),
    ColumnView("device_us", "Device", "time"),
    ColumnView("mean_us", "Mean", "time", scale="call"),
    ColumnView("gap_us", "Gaps", "time", scale="call"),
)


@dataclass(frozen=True)
class KernelsPage(Page):
    """views, choices, kinds, ranks, lengths: links to switch between, empty without a choice. explanation: a sentence
    on the rows. figures: of all device work."""

    template: ClassVar[str] = "results/kernels.html"
    frame: ResultFrame
    view: str
    views: tuple[PageLink, ...]
    choices: tuple[PageLink, ...]
    kinds: tuple[PageLink, ...]
    ranks: tuple[PageLink, ...]
    lengths: tuple[PageLink, ...]
    figures: tuple[KeyFigure, ...]
    charts: tuple[TopChart, ...]
    sheet: Sheet
    explanation: str
    csv: str


TENSOR_CORES_UNKNOWN = (
    " It is unknown whether the device has tensor cores: the recording has no compute capability and no known model."
)
EXPLANATIONS = {
    "kernels": "A kernel belongs to the time window in which it starts, and to the step that launched it.",
    "copies": "Sizes are from the trace. Without a size there is no bandwidth.",
    "launches": "A delay that grows with the queue is waiting time; a short delay with an empty queue means that the "
    "host cannot keep up. Short work is bound by its launch: fuse it, or capture it in a CUDA graph. A graph is one "
    "launch.",
    "graphs": "A graph launch starts all nodes of the graph: it waits once, and its delay is that of the first node.",
    "sequences": "Repeated sequences could be fused or, if they are not part of a CUDA graph yet, captured in one. "
    "Occurrences may overlap.",
}


@blueprint.get("/results/<id>/kernels")
def show(id: str) -> Response:
    """One of the tables, or with `name` one kernel."""
    frame, profile = open_result_frame(id, "kernels")
    name = request.args.get("name")
    return _render_kernel(frame, profile, name) if name else _render_table(frame, profile)


@blueprint.get(f"/results/<id>/kernels.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows of the table shown that kind and search leave, in the order of the page."""
    frame, profile = open_result_frame(id, "kernels")
    view = _view()
    rows = _rows(frame, profile, view)
    found, _ = filter_and_sort(rows, _columns(view, rows, True), _default(view), _searched_columns(view))
    return table_file_response(f"{frame.name} {view}", file_format, found, profile)


def _render_table(frame: ResultFrame, profile: Profile) -> Response:
    view = _view()
    rows = _rows(frame, profile, view)
    there = device_has_tensor_cores(profile)
    shown = _columns(view, rows, there is not False)
    found, order = filter_and_sort(rows, shown, _default(view), _searched_columns(view))
    by, kind = _by(view), _kind()
    words: tuple[str, ...] = {"kernels": BY, "sequences": SEQUENCES_BY}.get(view, ())
    length = _length()
    return render(
        KernelsPage(
            frame=frame,
            view=view,
            views=tuple(
                PageLink(
                    word, label, frame.url(None, None, *([("view", word)] if word != "kernels" else [])), word == view
                )
                for word, label in VIEWS.items()
                if word != "graphs" or word == view or has_graphs(profile)
            ),
            choices=tuple(
                PageLink(
                    word,
                    BY_LABELS[word],
                    current_url_with(("by", None if word == words[0] else word), ("page", None)),
                    word == by,
                )
                for word in words
            ),
            kinds=_kinds(kind) if view == "kernels" else (),
            ranks=build_rank_links(profile) if view == "kernels" else (),
            lengths=tuple(
                PageLink(
                    str(n),
                    str(n),
                    current_url_with(("length", None if n == DEFAULT_LENGTH else str(n)), ("page", None)),
                    n == length,
                )
                for n in range(MIN_LENGTH, MAX_LENGTH + 1)
            )
            if view == "sequences" and by == "stream"
            else (),
            figures=_figures(frame, profile),
            charts=_charts(frame, profile, view, found),
            sheet=build_sheet(
                VIEWS[view],
                found,
                shown,
                order,
                noun="row",
                url=(lambda row: detail_url(frame, "kernels", row["name"] or ""))
                if view in ("kernels", "copies")
                else None,
                bar=("percent", "percent") if view in ("kernels", "copies", "graphs") else None,
                total_rows=len(rows),
            ),
            explanation=EXPLANATIONS[view]
            + (TENSOR_CORES_UNKNOWN if view == "kernels" and there is None and len(rows) else ""),
            csv=table_file_url("kernels.csv"),
        )
    )


def _render_kernel(frame: ResultFrame, profile: Profile, name: str) -> Response:
    detail = kernel_detail(profile, frame.selection, name)
    if not len(detail.duration):
        raise NotFound(f"No kernel, memcpy or memset {name[:80]!r} in this result or selection.")
    total = int(detail.duration.sum())
    figures = [
        build_figure("Launches", len(detail.duration), "count"),
        build_figure("Total", total, "ns"),
        build_figure("Mean", total / len(detail.duration), "ns"),
        build_figure("Min", int(detail.duration.min()), "ns"),
        build_figure("Max", int(detail.duration.max()), "ns"),
    ]
    alone = compute_kernels(profile, frame.selection, by_rank=False, name=name)
    for row in records(alone):
        if row["blocks_per_sm"] is not None:
            figures.append(KeyFigure("Blocks per SM", f"{row['blocks_per_sm']:,.2f}", "weighted by time"))
        if row["occupancy_percent"] is not None:
            figures.append(build_figure("Occupancy", row["occupancy_percent"], "percent"))
        if device_has_tensor_cores(profile) is not False:
            figures.append(KeyFigure("Tensor cores", "yes" if row["tensor_core"] else "no", "by its name"))
    if len(detail.queue):
        figures.append(build_figure("Launch delay, mean", float(detail.delay.mean()), "ns"))
        figures.append(KeyFigure("Queue, mean", f"{detail.queue.mean():,.2f}", "launches waiting in its stream"))
    calls = (ColumnView("calls", "Launches"), ColumnView("total_us", "Time", "time"))
    parts = [
        build_detail_table(
            "Operators that launched it",
            detail.operators,
            (ColumnView("name", "Operator", "name"), *calls),
            url=lambda row: "" if row["name"].startswith("(") else detail_url(frame, "operators", row["name"]),
        )
    ]
    if len(alone):
        table = compute_kernels(profile, frame.selection, "configuration", by_rank=False, name=name)
        left_out = ("percent", *_CORES) if device_has_tensor_cores(profile) is False else ("percent", "tensor_core")
        columns = tuple(column for column in (*_CONFIGURATION, *_KERNELS) if column.column not in left_out)
        parts.append(build_detail_table("Configurations", table, columns))
    parts.append(build_detail_table("Streams", detail.streams, (ColumnView("name", "Stream", "name"), *calls)))
    if len(detail.steps):
        parts.append(
            build_detail_table(
                "Steps",
                detail.steps,
                (ColumnView("name", "Step", "name"), *calls),
                note="The step that launched it.",
            )
        )
    charts = build_distribution_chart("Duration", detail.duration, "run")
    charts += build_distribution_chart("Launch delay", detail.delay, "run")
    return render(
        DetailPage(
            frame=frame,
            kind=f"Kernel ({alone['kind'].iloc[0]})" if len(alone) else "Memcpy or memset",
            name=shorten_kernel_name(name),
            full_name=name,
            back=frame.url("kernels"),
            flamegraph=flamegraph_url(frame, name),
            figures=tuple(figures),
            charts=charts,
            tables=tuple(parts),
            related_link=_nsight_link(frame, profile, name) if len(alone) else ("", ""),
        )
    )


def _nsight_link(frame: ResultFrame, profile: Profile, name: str) -> tuple[str, str]:
    """A link to a kernel in an Nsight Compute report: in this result, or in another one to select."""
    search = ("search", get_function_name(name)[:MAX_SEARCH])
    if has_reports(profile):
        return frame.url("nsight", None, search), "Show in the Nsight Compute report"
    return with_query("/compare/nsight", [("base", frame.id), search]), "Compare with an Nsight Compute report"


def _figures(frame: ResultFrame, profile: Profile) -> tuple[KeyFigure, ...]:
    """The time of all selected device work by kind."""
    kernels = compute_kernels(profile, frame.selection, by_rank=False)
    copies = compute_copies(profile, frame.selection)
    figures = []
    for kind in KINDS:
        time = float(kernels.loc[kernels["kind"] == kind, "total_us"].sum())
        time += float(copies["total_us"].sum()) if kind == "memory" else 0.0
        if time:
            figures.append(build_figure(f"{kind.capitalize()} time", time * NS_PER_US, "ns"))
    total = float(kernels["total_us"].sum())
    if total:
        if device_has_tensor_cores(profile) is not False:
            cores = float(kernels.loc[kernels["tensor_core"], "total_us"].sum())
            figures.append(build_figure("Kernel time on tensor cores", 100 * cores / total, "percent"))
        figures.append(build_figure("Kernel launches", int(kernels["calls"].sum()), "count"))
        figures.append(build_figure("Mean kernel duration", total * NS_PER_US / int(kernels["calls"].sum()), "ns"))
    return tuple(figures)


def _charts(frame: ResultFrame, profile: Profile, view: str, found: pd.DataFrame) -> tuple[TopChart, ...]:
    tabs = {tab.key for tab in frame.tabs}

    def link(key: str, name: str | None) -> str:
        return detail_url(frame, key, name) if name and not name.startswith("(") and key in tabs else ""

    def details(row: dict[str, Any]) -> str:
        return link("kernels", row["name"])

    if view == "copies":
        return build_top_charts(found, (("total_us", "percent", "Time by kind"),), url=details)
    if view != "kernels":
        return ()
    by_operator = compute_kernels(profile, frame.selection, "configuration", by_rank=False)
    launched = by_operator.groupby("operator", as_index=False)[["total_us", "percent"]].sum()
    return (
        *build_top_charts(found, (("total_us", "percent", "Time by kernel"),), shorten_kernel_name, url=details),
        *build_top_charts(
            launched.rename(columns={"operator": "name"}),
            (("total_us", "percent", "Kernel time by launching operator"),),
            url=lambda row: link("operators", row["name"]),
        ),
    )


def _kinds(kind: str | None) -> tuple[PageLink, ...]:
    return (
        PageLink("", "All", current_url_with(("kind", None), ("page", None)), kind is None),
        *(
            PageLink(word, word.capitalize(), current_url_with(("kind", word), ("page", None)), word == kind)
            for word in KINDS[:3]
        ),
    )


def _columns(view: str, rows: pd.DataFrame, cores: bool) -> tuple[ColumnView, ...]:
    """cores: with the columns on tensor cores."""
    rank = (_RANK,) if "rank" in rows and has_several_ranks(rows) else ()
    if view == "kernels":
        name = ColumnView("name", "Kernel", "name", shorten=shorten_kernel_name)
        found = (name, *rank, *(_CONFIGURATION if _by(view) == "configuration" else ()), *_KERNELS)
        found = tuple(column for column in found if cores or column.column not in _CORES)
        return inherit_descriptions(TABLES[view].columns, found)
    if view == "sequences":
        operator = (
            ColumnView("operator", "Operator", "text"),
            ColumnView("host_us", "Host", "time"),
        )
        name = ColumnView("sequence", "Sequence", "name", shorten=_short_sequence)
        found = (name, *(operator if _by(view) == "operator" else ()), *_SEQUENCES)
        return inherit_descriptions(TABLES[view].columns, found)
    first, *others = {"copies": _COPIES, "graphs": _GRAPHS}.get(view, _LAUNCHES)
    return inherit_descriptions(TABLES[view].columns, (first, *rank, *others))


def _short_sequence(text: str) -> str:
    return " → ".join(shorten_kernel_name(name) for name in text.split(SEPARATOR))


def _rows(frame: ResultFrame, profile: Profile, view: str) -> pd.DataFrame:
    if view == "copies":
        return compute_copies(profile, frame.selection)
    if view == "launches":
        return compute_launches(profile, frame.selection)
    if view == "graphs":
        return compute_graphs(profile, frame.selection)
    if view == "sequences":
        return compute_sequences(profile, frame.selection, _by(view), length=_length())
    rows = compute_kernels(profile, frame.selection, _by(view), by_rank=is_by_rank())
    kind = _kind()
    return rows if kind is None else rows[rows["kind"] == kind]


def _default(view: str) -> str:
    return "-count" if view == "sequences" else "-total_us"


def _searched_columns(view: str) -> tuple[str, ...]:
    return {"sequences": ("sequence", "operator"), "kernels": ("name", "operator", "grid", "block")}.get(
        view, ("name",)
    )


def _view() -> str:
    return parse_choice("view", VIEWS, "kernels")


def _by(view: str) -> str:
    groupings = SEQUENCES_BY if view == "sequences" else BY
    return parse_choice("by", groupings, groupings[0])


def _kind() -> str | None:
    return parse_choice("kind", KINDS) or None


def _length() -> int:
    text = request.args.get("length") or str(DEFAULT_LENGTH)
    if not text.isdecimal() or len(text) > 3:
        raise InvalidRequest(f"length must be a whole number, not {text[:40]!r}.", "length")
    return int(text)
