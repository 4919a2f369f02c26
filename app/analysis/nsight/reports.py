"""Nsight Compute reports: launches with summary values, metrics by section, and hints of rules.

The names of summary metrics are in ingest/nsight/summary_metrics.py. The selection has no effect.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_column
from ...domain.units import NS_PER_US
from ...ingest.nsight.summary_metrics import (
    SECTIONS,
    SUMMARY_METRICS,
    SUMMARY_METRICS_BY_NAME,
    find_summary_metric,
    get_section,
)
from ..core.common_columns import DEVICE_NUMBER, KERNEL, REPORT_LAUNCH
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of
from ..ml.kernels import format_dimensions

BOUND_PERCENT, BALANCED_PERCENT_POINTS = 60.0, 10.0
"""If both throughputs are below the first share of their peaks, the kernel is bound by latency; if their difference is
less than the second, it is bound by both. From the rule SOLBottleneck of Nsight Compute."""
GLOBAL = "global"
_ROW = Column("row", "", "Position in the report, from 0, as in the address of its page.", "int64")


def _percent(name: str, description: str) -> Column:
    return Column(name, "%", description, "Float64")


LAUNCHES = (
    _ROW,
    REPORT_LAUNCH,
    KERNEL,
    Column("ranges", "", "The open NVTX ranges, the outermost first."),
    Column("grid", "", "Blocks along x, y and z, as in 128×1×1."),
    Column("block", "", "Threads of a block along x, y and z."),
    DEVICE_NUMBER,
    Column("stream", "", "The stream.", "Int64"),
    Column("duration_us", "µs", "gpu__time_duration: duration of the kernel.", "Float64"),
    _percent("sm_percent", "Compute (SM) throughput in percent of the peak: the busiest unit of the multiprocessors."),
    _percent("memory_percent", "Memory throughput in percent of the peak: the busiest unit of caches and memory."),
    _percent("l1_percent", "Throughput of the L1/TEX cache in percent of its peak."),
    _percent("l2_percent", "Throughput of the L2 cache in percent of its peak."),
    _percent("dram_percent", "Throughput of device memory in percent of its peak."),
    Column("bound", "", "compute, memory, both or latency: what limits it, by its throughputs."),
    _percent("occupancy_percent", "Achieved occupancy: active warps in percent of the maximum."),
    _percent("theoretical_percent", "Occupancy that registers, shared memory and block size allow."),
    Column("limit", "", "What limits the theoretical occupancy, if below 100 %."),
    Column("registers", "", "Registers per thread.", "Int64"),
    Column("shared_bytes", "bytes", "Shared memory per block, static and dynamic.", "Int64"),
    Column("waves_per_sm", "", "Launched blocks ÷ blocks that fit on all multiprocessors at once.", "Float64"),
    _percent(
        "estimated_speedup_percent",
        "The highest speedup that a single rule estimates for the launch.",
    ),
    Column("hints", "", "Number of hints from its rules.", "int64"),
)
METRICS = (
    _ROW,
    REPORT_LAUNCH,
    KERNEL,
    Column("section", "", "Section of the report; if the file has none, derived from the name of the metric."),
    Column("part", "", "Chart or table in that section."),
    Column("label", "", "Label of the metric in the section."),
    Column("metric", "", "Name of the metric."),
    Column("unit", "", "Unit, as printed."),
    Column("value", "unit", "Value in the unit of the row; missing if it is not a number.", "Float64"),
    Column("text", "", "The printed text, if it is not a single number."),
)
HINTS = (
    _ROW,
    REPORT_LAUNCH,
    KERNEL,
    Column("section", "", "The section of the rule."),
    Column("rule", "", "The rule."),
    Column("kind", "", "OPT: optimization, WRN: warning, INF: information."),
    _percent("estimated_speedup_percent", "Speedup that the rule estimates."),
    Column(
        "of", "", "Scope of the estimate: global for the whole launch, or local for the part that the rule concerns."
    ),
    Column("text", "", "Message of the rule."),
)
_LIMITS = {
    "limit_registers": "registers",
    "limit_shared": "shared memory",
    "limit_warps": "size of blocks",
    "limit_blocks": "blocks",
}


@dataclass(frozen=True, eq=False)
class ReportLaunches:
    """The launches of a report. name: of the kernel. start: the first row of `metric_values` of each, then the total.
    values: of the summary metrics, by their keys (ingest/nsight/summary_metrics.py),
    NaN if unknown."""

    number: Array
    function: Array
    work: Array
    configuration: Array
    device: Array
    thread: Array
    name: list[str]
    start: Array
    values: dict[str, Array]

    def __len__(self) -> int:
        return len(self.number)


def has_reports(profile: Profile) -> bool:
    """Whether there is data of Nsight Compute."""
    return bool(profile.profiled_kernels.num_rows)


def report_launches_of(profile: Profile) -> ReportLaunches:
    """The launches that were measured; built once."""

    def build() -> ReportLaunches:
        table = profile.profiled_kernels
        names = ("number", "function", "work", "configuration", "device", "thread")
        columns = {name: get_column(table, name) for name in names}
        kernel, metric = (get_column(profile.metric_values, name) for name in ("kernel", "metric"))
        value = _floats(profile, "metric_values")
        known: dict[str, list[tuple[int, int]]] = {one.key: [] for one in SUMMARY_METRICS}
        for place, row in enumerate(profile.metrics.to_pylist()):
            summary_metric = find_summary_metric(row["name"] or "", row["label"] or "", row["unit"] or "")
            if summary_metric is not None:
                known[summary_metric[0].key].append((summary_metric[1], place))
        return ReportLaunches(
            **columns,
            name=functions_of(profile).names_of(columns["function"]),
            start=np.searchsorted(kernel, np.arange(table.num_rows + 1)),
            values={
                key: first_available(kernel, metric, value, table.num_rows, [place for _, place in sorted(places)])
                for key, places in known.items()
            },
        )

    return memoize(profile, "launches of nsight", build)


def first_available(rows: Array, metric: Array, value: Array, count: int, wanted: list[int]) -> Array:
    """For each of `count` rows the value of the first of these metrics that it has, NaN for none."""
    found = np.full(count, np.nan)
    for place in reversed(wanted):
        mine = (metric == place) & ~np.isnan(value)
        found[rows[mine]] = value[mine]
    return found


@table_function
def compute_nsight(profile: Profile, selection: Selection) -> TableRows:
    """One row for each launch, in the order of the report."""
    launches, count = report_launches_of(profile), len(report_launches_of(profile))
    values = launches.values
    work = device_work_of(profile)
    timed = launches.work >= 0
    duration = np.full(count, np.nan)
    duration[timed] = work.duration[launches.work[timed]] / NS_PER_US
    configurations = profile.configurations.to_pylist()
    configured = [configurations[row] if row != NO_ID else {} for row in launches.configuration.tolist()]
    numbers = profile.devices.column("device").to_pylist()
    streams = profile.threads.column("tid").to_pylist()
    speedup, hints = np.full(count, np.nan), np.zeros(count, np.int64)
    for hint in profile.hints.to_pylist():
        hints[hint["kernel"]] += 1
        if hint["speedup_percent"] is not None and (hint["speedup_kind"] or GLOBAL).lower() == GLOBAL:
            speedup[hint["kernel"]] = np.fmax(speedup[hint["kernel"]], hint["speedup_percent"])
    return build_rows(
        LAUNCHES,
        {
            "row": range(count),
            "launch": launches.number,
            "name": launches.name,
            "ranges": profile.profiled_kernels.column("ranges").to_pylist(),
            "grid": [format_dimensions(of, "grid") if of else None for of in configured],
            "block": [format_dimensions(of, "block") if of else None for of in configured],
            "device": [numbers[row] if row != NO_ID else None for row in launches.device.tolist()],
            "stream": [streams[row] for row in launches.thread.tolist()],
            "duration_us": duration,
            **{
                name: values[name]
                for name in ("sm_percent", "memory_percent", "l1_percent", "l2_percent", "dram_percent")
            },
            "bound": [_bound(*pair) for pair in zip(values["sm_percent"], values["memory_percent"], strict=True)],
            "occupancy_percent": values["occupancy_percent"],
            "theoretical_percent": values["theoretical_percent"],
            "limit": [_limit(launches, row) for row in range(count)],
            "registers": [of.get("registers") for of in configured],
            "shared_bytes": [of.get("shared_bytes") for of in configured],
            "waves_per_sm": values["waves"],
            "estimated_speedup_percent": speedup,
            "hints": hints,
        },
    )


@table_function
def compute_nsight_metrics(profile: Profile, selection: Selection) -> TableRows:
    """One row for each metric of each launch, in the order of the report."""
    return metrics_of.rows(profile, range(len(report_launches_of(profile))))


@table_function
def metrics_of(profile: Profile, rows: range, search: str = "") -> TableRows:
    """The metrics of consecutive launches, by section in the order of the report.

    A metric of the page raw that is also in a section is listed only there. search: words that must all be in the name
    of a metric; for many launches this is much faster than searching the rows.
    """
    launches, metrics = report_launches_of(profile), profile.metrics.to_pylist()
    first, last = int(launches.start[rows.start]), int(launches.start[rows.stop])
    part = profile.metric_values.slice(first, last - first)
    kernel, metric = get_column(part, "kernel"), get_column(part, "metric")
    # Two numbers in one: the launch, and the index of the distinct name; -1 for metrics of a section.
    names: dict[str, int] = {}
    of_name = np.array([names.setdefault(row["name"] or "", len(names)) for row in metrics] or [0], np.int64)
    in_section = np.array([row["section"] is not None for row in metrics] or [False], bool)
    both = kernel.astype(np.int64) * (len(names) + 1) + of_name[metric]
    stays = in_section[metric] | ~np.isin(both, both[in_section[metric] & (of_name[metric] != names.get("", -1))])
    section = [row["section"] or get_section(row["name"] or "") for row in metrics]
    called = [f"{row['name'] or ''} {_label(row) or ''}" for row in metrics]
    words = search.casefold().split()
    fits = np.array([all(word in text.casefold() for word in words) for text in called] or [False], bool)
    at = np.flatnonzero(stays & fits[metric])
    # Sections of the report first, in its order.
    sections = [row["section"] for row in metrics if row["section"] is not None]
    order = {name: place for place, name in enumerate(dict.fromkeys([*sections, *SECTIONS, *section]))}
    rank = np.array([order[name] for name in section] or [0], np.int64)
    at = at[np.lexsort((at, rank[metric[at]], kernel[at]))]
    chosen = [metrics[place] for place in metric[at].tolist()]
    of = kernel[at].tolist()
    taken = part.take(at)
    return build_rows(
        METRICS,
        {
            "row": of,
            "launch": launches.number[of] if len(of) else [],
            "name": [launches.name[row] for row in of],
            "section": [section[place] for place in metric[at].tolist()],
            "part": [row["part"] for row in chosen],
            "label": [_label(row) for row in chosen],
            "metric": [row["name"] for row in chosen],
            "unit": [row["unit"] for row in chosen],
            "value": taken.column("value").to_pylist(),
            "text": taken.column("text").to_pylist(),
        },
    )


@table_function
def compute_nsight_hints(profile: Profile, selection: Selection) -> TableRows:
    """One row for each hint; sorted by estimated speedup, descending."""
    launches, hints = report_launches_of(profile), profile.hints.to_pylist()
    rows = [hint["kernel"] for hint in hints]
    frame = build_rows(
        HINTS,
        {
            "row": rows,
            "launch": [int(launches.number[row]) for row in rows],
            "name": [launches.name[row] for row in rows],
            "section": [hint["section"] for hint in hints],
            "rule": [hint["rule"] for hint in hints],
            "kind": [hint["kind"] for hint in hints],
            "estimated_speedup_percent": [hint["speedup_percent"] for hint in hints],
            "of": [hint["speedup_kind"] for hint in hints],
            "text": [hint["text"] for hint in hints],
        },
    )
    return frame.sort("-estimated_speedup_percent")


def _floats(profile: Profile, name: str) -> Array:
    """The column `value` of a table as floats, NaN for null."""
    values = profile.tables()[name].column("value").to_numpy()
    found: Array = values.astype(np.float64)
    return found


def _label(row: dict[str, Any]) -> str | None:
    """The label of a metric: from its section, else ours if known."""
    name = row["name"] or ""
    label: str | None = row["label"] or (
        SUMMARY_METRICS_BY_NAME[name][0].label if name in SUMMARY_METRICS_BY_NAME else None
    )
    return label


def _bound(sm: float, memory: float) -> str | None:
    if np.isnan(sm) or np.isnan(memory):
        return None
    if max(sm, memory) < BOUND_PERCENT:
        return "latency"
    if abs(sm - memory) < BALANCED_PERCENT_POINTS:
        return "both"
    return "compute" if sm > memory else "memory"


def _limit(launches: ReportLaunches, row: int) -> str | None:
    """What limits the theoretical occupancy: the resource with the fewest resident blocks."""
    theoretical = launches.values["theoretical_percent"][row]
    limits = {label: launches.values[key][row] for key, label in _LIMITS.items()}
    values = [value for value in limits.values() if not np.isnan(value)]
    if not values or not theoretical < 100:
        return None
    return ", ".join(label for label, value in limits.items() if value == min(values))


TABLES = (
    Table("nsight", "Nsight Compute", LAUNCHES, compute_nsight, uses_selection=False),
    Table(
        "nsight-metrics",
        "Nsight Compute metrics",
        METRICS,
        compute_nsight_metrics,
        uses_selection=False,
    ),
    Table("nsight-hints", "Nsight Compute hints", HINTS, compute_nsight_hints, uses_selection=False),
)
"""The tables of this module."""
