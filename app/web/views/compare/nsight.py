"""/compare/nsight: kernels of a trace with the same kernels in an Nsight Compute report."""

from dataclasses import dataclass
from typing import Any, ClassVar

from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.ml.kernel_names import shorten_kernel_name
from ....analysis.nsight.matching import (
    BY_LAUNCH,
    MATCH_COLUMNS,
    TraceReportPair,
    match_kernels,
    pair_trace_with_report,
)
from ....domain.errors import InvalidRequest
from ....domain.meta import KERNEL_REPORT, KERNEL_TRACE
from ....domain.selection import Selection
from ....domain.units import NS_PER_US, Quantity, format_quantity
from ....store import Result
from ...pages import result_url
from ...rendering import Page, render
from ...services import current_services
from ..results.detail import KeyFigure, build_figure
from ..results.functions import MAX_URL
from ..results.result_frame import PageLink, request_selection
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, current_url_with, table_file_response, table_file_url
from .choice import PICK_LIMIT, ResultChoice, describe_choice
from .functions import ComparedResult, SelectionBar, compared_result, comparison_tabs
from .tables import selection_bar

blueprint = Blueprint("compare_nsight", __name__)
SEARCH_COLUMNS = ("name", "report_name", "grid", "block", "matched")
_COLUMNS = (
    ColumnView("grid", "Grid", "word"),
    ColumnView("block", "Block", "word"),
    ColumnView("calls", "Calls"),
    ColumnView("total_us", "Total", "time"),
    ColumnView("percent", "%", "percent"),
    ColumnView("mean_us", "Mean", "time", scale="call"),
    ColumnView(
        "duration_us",
        "In the report",
        "time",
        "Mean duration in the report, where each launch is measured separately",
        "call",
    ),
)
_MEASURED = (
    ColumnView("estimated_speedup_percent", "Est. speedup", "percent"),
    ColumnView("saving_us", "Estimated savings", "time"),
    ColumnView("sm_percent", "Compute", "percent"),
    ColumnView("memory_percent", "Memory", "percent"),
    ColumnView("occupancy_percent", "Occupancy", "percent"),
    ColumnView("registers", "Registers"),
    ColumnView("matched", "Matched by", "word", f"If not {BY_LAUNCH}, the launch configurations differ"),
)


@dataclass(frozen=True)
class ComparePickPage(Page):
    """The choice of one of the two. missing: its kind; choices: with the address of each."""

    template: ClassVar[str] = "compare/pick_nsight.html"
    missing: str
    chosen: str
    choices: tuple[tuple[str, ResultChoice], ...]


@dataclass(frozen=True)
class CompareNsightPage(Page):
    """`/compare/nsight?base=&other=`. figures: how much of the trace is in the report."""

    template: ClassVar[str] = "compare/nsight.html"
    base: ComparedResult
    other: ComparedResult
    tabs: tuple[PageLink, ...]
    bar: SelectionBar
    figures: tuple[KeyFigure, ...]
    sheet: Sheet
    csv: str


@blueprint.get("/compare/nsight")
def show() -> Response:
    """The kernels of both, or the choice of what to compare with the one given."""
    if not (request.args.get("base") and request.args.get("other")):
        return _pick()
    base, other, sides = _sides()
    selection = request_selection().replace(event=None)
    everything = match_kernels(sides.trace, sides.report, selection)
    shown = _visible_columns(base, other, sides, selection)
    rows, order = filter_and_sort(everything, shown, "-total_us", SEARCH_COLUMNS)
    own = everything[everything["calls"].notna()]
    return render(
        CompareNsightPage(
            base=compared_result("Report" if sides.swapped else "Trace", "base", base, _total(base)),
            other=compared_result("Trace" if sides.swapped else "Report", "other", other, _total(other)),
            tabs=comparison_tabs(
                (sides.report, sides.trace) if sides.swapped else (sides.trace, sides.report), "nsight"
            ),
            bar=selection_bar(selection, sides.trace),
            figures=(
                build_figure("Kernels found in the report", len(own), "count"),
                build_figure("Share of the trace’s kernel time", float(own["percent"].sum()), "percent"),
                build_figure("Their time in the trace", float(own["total_us"].sum()) * NS_PER_US, "ns"),
                build_figure("Only in the report", len(everything) - len(own), "count"),
            ),
            sheet=build_sheet(
                "Kernels",
                rows,
                shown,
                order,
                noun="kernel",
                url=lambda row: _kernel_url(sides, base, other, selection, row),
                total_rows=len(everything),
            ),
            csv=table_file_url("nsight.csv"),
        )
    )


@blueprint.get(f"/compare/nsight.{FILE_RULE}")
def download_table(file_format: str) -> Response:
    """All rows that the search leaves, in the order of the page."""
    base, other, sides = _sides()
    selection = request_selection().replace(event=None)
    rows = match_kernels(sides.trace, sides.report, selection)
    found, _ = filter_and_sort(rows, _visible_columns(base, other, sides, selection), "-total_us", SEARCH_COLUMNS)
    return table_file_response(f"{base.name} and {other.name}", file_format, found, sides.trace, sides.report)


def _sides() -> tuple[Result, Result, TraceReportPair]:
    """Raises NotFound, and InvalidRequest unless the two are a trace and a report."""
    results = current_services().store.results
    base, other = (results.get(request.args.get(word, "")) for word in ("base", "other"))
    sides = pair_trace_with_report(results.open(base.id), results.open(other.id))
    if sides is None:
        raise InvalidRequest(
            "This page compares a trace that has kernels with an Nsight Compute report: select one of each. Compare "
            "two results of the same kind on the page Compare.",
            "other",
        )
    return base, other, sides


def _visible_columns(
    base: Result, other: Result, sides: TraceReportPair, selection: Selection
) -> tuple[ColumnView, ...]:
    report = base if sides.swapped else other

    def launch(row: dict[str, Any]) -> str:
        return result_url(report.id, "nsight", None, [("launch", str(row["row"]))])

    found = (
        ColumnView("name", "Kernel", "name", "Link to the kernel in the trace", shorten=shorten_kernel_name),
        *_COLUMNS,
        ColumnView("launches", "Launches", "count", "Link to the first launch in the report", link=launch),
        *_MEASURED,
    )
    return inherit_descriptions(MATCH_COLUMNS, found)


def _kernel_url(sides: TraceReportPair, base: Result, other: Result, selection: Selection, row: dict[str, Any]) -> str:
    """The kernel's page in the trace; empty if the trace does not contain it."""
    if row["calls"] is None or not row["name"]:
        return ""
    url = result_url((other if sides.swapped else base).id, "kernels", selection, [("name", row["name"])])
    return url if len(url) <= MAX_URL else ""


def _total(result: Result) -> Quantity:
    return format_quantity(next((of.total for of in result.events if of.unit == "ns"), None), "ns")


def _pick() -> Response:
    """The results that can be the missing one: reports, or traces where a report is given."""
    results = current_services().store.results
    given = results.get(request.args.get("base") or request.args.get("other") or "")
    word = "other" if request.args.get("base") else "base"
    is_report = KERNEL_REPORT in given.meta.capabilities
    wanted = KERNEL_TRACE if is_report else KERNEL_REPORT
    found, _ = results.search(limit=PICK_LIMIT)
    return render(
        ComparePickPage(
            missing="trace" if is_report else "Nsight Compute report",
            chosen=given.name,
            choices=tuple(
                (
                    current_url_with((word, result.id)),
                    describe_choice(result),
                )
                for result in found
                if wanted in result.meta.capabilities and result.id != given.id
            ),
        )
    )
