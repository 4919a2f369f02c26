"""/compare/nsight: kernels of a trace beside the same kernels in a report of Nsight Compute."""

from dataclasses import dataclass
from typing import Any, ClassVar

from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.ml.kernel_names import short_kernel_name
from ....analysis.nsight.matching import BY_LAUNCH, Sides, matched, sides_of
from ....domain.errors import InvalidRequest
from ....domain.selection import Selection
from ....domain.units import Quantity, quantity, utc_iso, utc_text
from ....readers import nsight_compute, pytorch
from ....store import Result
from ...pages import result_url
from ...rendering import Page, render
from ...services import services
from ..results.detail import NS_PER_US, Figure, figure
from ..results.frame import Link, selected
from ..results.functions import LONGEST_URL
from ..results.sheets import Sheet, Shown, asked, sheet
from ..results.tables import FILE, here, table_file
from .functions import PICK_LIMIT, Bar, Choice, Side, sided, tabs
from .tables import bar_of

blueprint = Blueprint("compare_nsight", __name__)
REPORTS = (nsight_compute.FORMAT, nsight_compute.CSV_FORMAT)
SEARCHED = ("name", "report_name", "grid", "block", "matched")
_COLUMNS = (
    Shown("grid", "Grid", "word", "Blocks along x, y and z"),
    Shown("block", "Block", "word", "Threads of a block along x, y and z"),
    Shown("calls", "Calls", "count", "How often the trace has it"),
    Shown("total_us", "Total", "time", "Its time in the trace"),
    Shown("percent", "%", "percent", "Of all kernels of the trace that are selected"),
    Shown("mean_us", "Mean", "time", "Of a run in the trace", "call"),
    Shown("duration_us", "In the report", "time", "Mean duration of its launches there, each measured alone", "call"),
)
_MEASURED = (
    Shown("estimated_speedup_percent", "Est. speedup", "percent", "The most that one rule estimates of its launches"),
    Shown("saving_us", "Could be won", "time", "At most: its time in the trace × the estimated speedup"),
    Shown("sm_percent", "Compute", "percent", "Throughput of the multiprocessors as a share of the peak"),
    Shown("memory_percent", "Memory", "percent", "Throughput of caches and memory as a share of the peak"),
    Shown("occupancy_percent", "Occupancy", "percent", "Achieved"),
    Shown("registers", "Registers", "count", "Of a thread"),
    Shown("matched", "Matched by", "word", f"Where it is not {BY_LAUNCH}, the launches differ"),
)


@dataclass(frozen=True)
class ComparePickPage(Page):
    """One of the two is to be chosen. wanted: what, in words; links: the choices with where each leads."""

    template: ClassVar[str] = "compare/pick_nsight.html"
    wanted: str
    given: str
    choices: tuple[tuple[str, Choice], ...]


@dataclass(frozen=True)
class CompareNsightPage(Page):
    """`/compare/nsight?base=&other=`. figures: how much of the trace is in the report."""

    template: ClassVar[str] = "compare/nsight.html"
    base: Side
    other: Side
    tabs: tuple[Link, ...]
    bar: Bar
    figures: tuple[Figure, ...]
    sheet: Sheet
    csv: str


@blueprint.get("/compare/nsight")
def show() -> Response:
    """The kernels of both, or the choice of what to hold beside the one there is."""
    if not (request.args.get("base") and request.args.get("other")):
        return _pick()
    base, other, sides = _sides()
    selection = selected().only(event=None)
    everything = matched(sides.trace, sides.report, selection)
    shown = _shown(base, other, sides, selection)
    rows, order = asked(everything, shown, "-total_us", SEARCHED)
    own = everything[everything["calls"].notna()]
    return render(
        CompareNsightPage(
            base=sided("Report" if sides.swapped else "Trace", "base", base, _total(base)),
            other=sided("Trace" if sides.swapped else "Report", "other", other, _total(other)),
            tabs=tabs((sides.report, sides.trace) if sides.swapped else (sides.trace, sides.report), "nsight"),
            bar=bar_of(selection, sides.trace),
            figures=(
                figure("Kernels found in the report", len(own), "count"),
                figure("Of the trace’s kernel time", float(own["percent"].sum()), "percent"),
                figure("Time of these in the trace", float(own["total_us"].sum()) * NS_PER_US, "ns"),
                figure("Only in the report", len(everything) - len(own), "count"),
            ),
            sheet=sheet(
                "Kernels of both",
                rows,
                shown,
                order,
                noun="kernel",
                url=lambda row: _kernel_url(sides, base, other, selection, row),
                everything=len(everything),
            ),
            csv=here(("page", None)).replace("/compare/nsight", "/compare/nsight.csv", 1),
        )
    )


@blueprint.get(f"/compare/nsight.{FILE}")
def as_file(form: str) -> Response:
    """All rows that the search leaves, in the order of the page."""
    base, other, sides = _sides()
    selection = selected().only(event=None)
    rows = matched(sides.trace, sides.report, selection)
    found, _ = asked(rows, _shown(base, other, sides, selection), "-total_us", SEARCHED)
    return table_file(f"{base.name} and {other.name}", form, found)


def _sides() -> tuple[Result, Result, Sides]:
    """Raises NotFound, and InvalidRequest where the two are not a trace and a report."""
    results = services().store.results
    base, other = (results.get(request.args.get(word, "")) for word in ("base", "other"))
    sides = sides_of(results.open(base.id), results.open(other.id))
    if sides is None:
        raise InvalidRequest(
            "A trace with kernels and a report of Nsight Compute can be held beside each other here, and these are not "
            "one of each. What two of a kind have in common is on the page Compare.",
            "other",
        )
    return base, other, sides


def _shown(base: Result, other: Result, sides: Sides, selection: Selection) -> tuple[Shown, ...]:
    report = base if sides.swapped else other

    def launch(row: dict[str, Any]) -> str:
        return result_url(report.id, "nsight", None, [("launch", str(row["row"]))])

    return (
        Shown("name", "Kernel", "name", "Leads to the kernel in the trace", short=short_kernel_name),
        *_COLUMNS,
        Shown("launches", "Launches", "count", "Leads to the first of them in the report", leads=launch),
        *_MEASURED,
    )


def _kernel_url(sides: Sides, base: Result, other: Result, selection: Selection, row: dict[str, Any]) -> str:
    """The kernel's page in the trace; nothing where the trace has none of it."""
    if row["calls"] is None or not row["name"]:
        return ""
    url = result_url((other if sides.swapped else base).id, "kernels", selection, [("name", row["name"])])
    return url if len(url) <= LONGEST_URL else ""


def _total(result: Result) -> Quantity:
    return quantity(next((of.total for of in result.events if of.unit == "ns"), None), "ns")


def _pick() -> Response:
    """The results that can be the missing one: reports, or traces where a report is given."""
    results = services().store.results
    given = results.get(request.args.get("base") or request.args.get("other") or "")
    word = "other" if request.args.get("base") else "base"
    wanted = (pytorch.FORMAT,) if given.format in REPORTS else REPORTS
    found, _ = results.search(limit=PICK_LIMIT)
    return render(
        ComparePickPage(
            wanted="trace" if given.format in REPORTS else "report of Nsight Compute",
            given=given.name,
            choices=tuple(
                (
                    here((word, result.id)),
                    Choice(
                        id=result.id,
                        name=result.name,
                        about=" · ".join(part for part in (result.host, result.command) if part),
                        recorded_text=utc_text(result.recorded) if result.recorded is not None else "",
                        recorded_iso=utc_iso(result.recorded) if result.recorded is not None else "",
                        created_text=utc_text(result.created),
                        created_iso=utc_iso(result.created),
                        is_base=False,
                        is_other=False,
                    ),
                )
                for result in found
                if result.format in wanted and result.id != given.id
            ),
        )
    )
