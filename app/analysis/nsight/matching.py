"""Matching of the kernels of a trace with those of an Nsight Compute report.

Names are normalized by ingest/nsight/kernel_names.py; docs/metrics.md defines which launches are used.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...ingest.nsight.kernel_names import get_function_name, normalize_kernel_name
from ..core.schema import Column, TableRows, build_rows, records, table_function
from ..core.slice_selection import has_clock
from ..ml.kernels import compute_kernels
from .reports import compute_nsight, has_reports

BY_LAUNCH, BY_NAME, BY_FUNCTION = "name, grid and block", "name", "function, grid and block"
MATCH_COLUMNS = (
    Column("name", "", "The kernel as named in the trace, or as in the report if the trace does not contain it."),
    Column("grid", "", "Blocks of the launch along x, y and z."),
    Column("block", "", "Threads of a block along x, y and z."),
    Column("matched", "", f"What was matched: {BY_LAUNCH}; {BY_NAME}, for launches of another size; {BY_FUNCTION}."),
    Column("calls", "", "Number of runs in the trace; missing if it has none.", "Int64"),
    Column("total_us", "µs", "Total duration in the trace.", "Float64"),
    Column("mean_us", "µs", "Mean duration in the trace.", "Float64"),
    Column("percent", "%", "total_us in percent of all selected kernels of the trace.", "Float64"),
    Column("launches", "", "Number of its launches in the report.", "int64"),
    Column("row", "", "Position of the first of these in the report, from 0.", "Int64"),
    Column("duration_us", "µs", "Mean duration in the report.", "Float64"),
    Column("sm_percent", "%", "Compute (SM) throughput, weighted by duration.", "Float64"),
    Column("memory_percent", "%", "Memory throughput, weighted by duration.", "Float64"),
    Column("occupancy_percent", "%", "Achieved occupancy, weighted by duration.", "Float64"),
    Column("registers", "", "Registers per thread in the first of these launches.", "Int64"),
    Column(
        "estimated_speedup_percent", "%", "The highest estimate of a single rule for any of these launches.", "Float64"
    ),
    Column("saving_us", "µs", "total_us × estimated_speedup_percent ÷ 100, an upper bound.", "Float64"),
    Column("report_name", "", "The kernel as named in the report."),
)
_WEIGHTED = ("sm_percent", "memory_percent", "occupancy_percent")


@dataclass(frozen=True)
class TraceReportPair:
    """Which of two profiles is the trace and which the report."""

    trace: Profile
    report: Profile
    swapped: bool


def pair_trace_with_report(base: Profile, other: Profile) -> TraceReportPair | None:
    """The trace and the report of two profiles; None unless they are one of each."""
    for trace, report, swapped in ((base, other, False), (other, base, True)):
        if has_reports(report) and not has_reports(trace) and trace.device_work.num_rows and has_clock(trace):
            return TraceReportPair(trace, report, swapped)
    return None


@table_function
def match_kernels(trace: Profile, report: Profile, selection: Selection) -> TableRows:
    """One row for each kernel of the trace, with its grid and block, with its launches in the report, sorted by time,
    descending; then one for each kernel, grid and block of the report that is not in the trace.

    selection: of the trace.
    """
    launches, ran = records(compute_nsight.rows(report, Selection())), _ran(trace, selection)
    names, functions = _groups(launches, normalize_kernel_name), _groups(launches, get_function_name)
    in_trace: dict[str, set[str]] = defaultdict(set)
    for name, _, _ in ran:
        in_trace[get_function_name(name)].add(normalize_kernel_name(name))
    found: list[dict[str, Any]] = []
    used: set[int] = set()
    for (name, grid, block), sums in ran.items():
        mine = names.get(normalize_kernel_name(name), [])
        taken, by = [launch for launch in mine if (launch["grid"], launch["block"]) == (grid, block)], BY_LAUNCH
        if mine and not taken:
            taken, by = mine, BY_NAME
        elif not mine and len(in_trace[get_function_name(name)]) == 1:
            taken, by = _by_function(functions.get(get_function_name(name), []), grid, block), BY_FUNCTION
        if taken:
            used |= {launch["row"] for launch in taken}
            found.append(
                {"name": name, "grid": grid, "block": block, "matched": by, **sums, **_summarize_launches(taken, sums)}
            )
    found.sort(key=lambda row: -row["total_us"])
    rest: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for launch in launches:
        if launch["row"] not in used:
            rest[launch["name"], launch["grid"], launch["block"]].append(launch)
    nothing = dict.fromkeys(("matched", "calls", "total_us", "mean_us", "percent"))
    found += [
        {"name": name, "grid": grid, "block": block, **nothing, **_summarize_launches(taken, None)}
        for (name, grid, block), taken in rest.items()
    ]
    return build_rows(MATCH_COLUMNS, {column.name: [row[column.name] for row in found] for column in MATCH_COLUMNS})


def _ran(trace: Profile, selection: Selection) -> dict[tuple[str, str | None, str | None], dict[str, Any]]:
    """The sums per kernel, grid and block of a trace, independent of the launching operator."""
    found: dict[tuple[str, str | None, str | None], dict[str, Any]] = {}
    for row in records(compute_kernels.rows(trace, selection, "configuration", by_rank=False)):
        key = row["name"] or "", row["grid"], row["block"]
        sums = found.setdefault(key, {"calls": 0, "total_us": 0.0, "percent": 0.0})
        for name in sums:
            sums[name] += row[name]
    for sums in found.values():
        sums["mean_us"] = sums["total_us"] / sums["calls"]
    return found


def _groups(launches: list[dict[str, Any]], of: Callable[[str], str]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for launch in launches:
        groups[of(launch["name"] or "")].append(launch)
    return groups


def _by_function(launches: list[dict[str, Any]], grid: str | None, block: str | None) -> list[dict[str, Any]]:
    """The launches with this grid and block; none if these are unknown or ambiguous."""
    found = [launch for launch in launches if grid is not None and (launch["grid"], launch["block"]) == (grid, block)]
    return found if len({normalize_kernel_name(launch["name"] or "") for launch in found}) == 1 else []


def _summarize_launches(launches: list[dict[str, Any]], sums: dict[str, Any] | None) -> dict[str, Any]:
    """Totals of some launches of a report. sums: those of the trace, None if it does not contain them."""
    durations = [launch["duration_us"] for launch in launches if launch["duration_us"] is not None]
    gains = [of for launch in launches if (of := launch["estimated_speedup_percent"]) is not None]
    found = {
        "launches": len(launches),
        "row": launches[0]["row"],
        "report_name": launches[0]["name"],
        "duration_us": sum(durations) / len(durations) if durations else None,
        "registers": launches[0]["registers"],
        "estimated_speedup_percent": max(gains, default=None),
    }
    found["saving_us"] = sums["total_us"] * max(gains) / 100 if sums and gains else None
    for name in _WEIGHTED:
        known = [(launch[name], launch["duration_us"] or 1.0) for launch in launches if launch[name] is not None]
        weight = sum(of for _, of in known)
        found[name] = sum(value * of for value, of in known) / weight if weight else None
    return found
