"""Samples and counts of Nsight Compute by instruction, or line of source, of launches."""

import re

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column
from ...ingest.nsight.summary_metrics import SOURCE_SECTION
from ..core.common_columns import KERNEL, REPORT_LAUNCH
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from .reports import first_available, report_launches_of


def _counter(name: str, description: str) -> Column:
    return Column(name, "", description, "number")


SOURCE = (
    Column("row", "", "Position of the launch in the report, from 0.", "int64"),
    REPORT_LAUNCH,
    KERNEL,
    Column("number", "", "Line number in the kernel, from 1, in the order of the report.", "int64"),
    Column("file", "", "Source file."),
    Column("line", "", "Line in the source file.", "Int64"),
    Column("address", "", "Address of the instruction."),
    Column("source", "", "The instruction or line."),
    _counter("samples", "Number of warp samples at this line."),
    Column("percent", "%", "samples in percent of all samples of the launch.", "Float64"),
    _counter("not_issued", "Number of these samples in whose cycle the scheduler issued no instruction."),
    Column("stall", "", "The most frequent stall reason of the samples, or selected if they did not stall."),
    _counter("stall_samples", "Number of samples with that reason."),
    _counter("instructions", "Number of executions by warps."),
    _counter("thread_instructions", "Number of executions by threads."),
    _counter("divergent", "Number of branches at which the threads of a warp diverged."),
    _counter(
        "excessive_global", "Sectors of the L2 cache for global memory above those that the best access pattern needs."
    ),
    _counter("excessive_shared", "Wavefronts of shared memory above those that the best access pattern needs."),
)
COUNTERS = {
    "samples": (
        *("# Samples", "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (All Cycles)", "Sampling Data (All)"),
        *("Samples", "smsp__pcsamp_sample_count"),
    ),
    "not_issued": (
        *("Warp Stall Sampling (Not-issued Samples)", "Warp Stall Sampling (Not-issued Cycles)"),
        "Sampling Data (Not Issued)",
    ),
    "instructions": ("Instructions Executed", "inst_executed", "smsp__inst_executed"),
    "thread_instructions": ("Thread Instructions Executed", "thread_inst_executed"),
    "divergent": ("Divergent Branches", "smsp__branch_targets_threads_divergent"),
    "excessive_global": (
        *("L2 Theoretical Sectors Global Excessive", "memory_l2_theoretical_sectors_global_excessive"),
        "derived__memory_l2_theoretical_sectors_global_excessive",
    ),
    "excessive_shared": (
        *("L1 Wavefronts Shared Excessive", "memory_l1_wavefronts_shared_excessive"),
        "derived__memory_l1_wavefronts_shared_excessive",
    ),
}
"""The names of columns in reports, by preference."""
_STALL = re.compile(r"(?:stall_|smsp__pcsamp_warps_issue_stalled_)(\w+)")
_NOT_ISSUED = re.compile(r"_not_issued$|\(Not Issued\)$", re.IGNORECASE)


def has_source(profile: Profile, row: int) -> bool:
    """Whether the launch at this position of the report has lines."""
    return bool((get_column(profile.source_lines, "kernel") == row).any())


@table_function
def compute_nsight_source(profile: Profile, selection: Selection) -> TableRows:
    """One row for each instruction or line of each launch, in the order of the report."""
    return source_of.rows(profile, None)


@table_function
def source_of(profile: Profile, row: int | None) -> TableRows:
    """The instructions or lines of the launch at a position of the report, None for all."""
    launches, table = report_launches_of(profile), profile.source_lines
    kernel = get_column(table, "kernel")
    chosen = np.arange(table.num_rows) if row is None else np.flatnonzero(kernel == row)
    place = np.full(table.num_rows, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    of = get_column(profile.source_values, "line")
    mine = place[of] >= 0 if len(of) else np.zeros(0, bool)
    line, metric = place[of[mine]] if len(of) else of, get_column(profile.source_values, "metric")[mine]
    value = profile.source_values.column("value").to_numpy().astype(np.float64)[mine]
    # A counter of a launch can have the same name as one of its instructions.
    metrics = [
        (row["label"] or row["name"] or "") if row["section"] == SOURCE_SECTION else ""
        for row in profile.metrics.to_pylist()
    ]
    counted = {
        key: _counts(line, metric, value, len(chosen), [metrics.index(name) for name in names if name in metrics])
        for key, names in COUNTERS.items()
    }
    stall, stall_samples = _stalls(line, metric, value, len(chosen), metrics)
    kernels = kernel[chosen]
    whole: Array | list[float] = (
        np.bincount(kernels, np.nan_to_num(counted["samples"]), len(launches) or 1)[kernels] if len(kernels) else []
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        percent = 100 * counted["samples"] / whole if len(kernels) else np.zeros(0)
    selected = table.take(chosen)
    numbers = {name: [None if of != of else of for of in values.tolist()] for name, values in counted.items()}
    return build_rows(
        SOURCE,
        {
            "row": kernels,
            "launch": launches.number[kernels] if len(kernels) else [],
            "name": [launches.name[of] for of in kernels.tolist()],
            "number": _number_lines(kernels),
            "file": selected.column("file").to_pylist(),
            "line": selected.column("line").to_pylist(),
            "address": [None if of is None else f"{of:#x}" for of in selected.column("address").to_pylist()],
            "source": [of.strip() for of in selected.column("text").to_pylist()],
            "percent": percent,
            "stall": stall,
            "stall_samples": stall_samples,
            **numbers,
        },
    )


def _number_lines(kernels: Array) -> Int64Array:
    """The number of each line within its launch, from 1."""
    order = np.argsort(kernels, kind="stable")
    first = np.searchsorted(kernels[order], kernels[order])
    number_lines = np.empty(len(kernels), np.int64)
    number_lines[order] = np.arange(len(kernels)) - first + 1
    return number_lines


def _counts(line: Array, metric: Array, value: Array, count: int, wanted: list[int]) -> Array:
    """The values of a counter by line: 0 if it was counted and the line has none, NaN if not counted."""
    found = first_available(line, metric, value, count, wanted)
    return np.nan_to_num(found) if wanted and not np.isnan(found).all() else found


def _stalls(
    line: Array, metric: Array, value: Array, count: int, metrics: list[str]
) -> tuple[list[str | None], list[float | None]]:
    """The most frequent reason of each line, and its number of samples."""
    reasons = {
        place: match[1]
        for place, name in enumerate(metrics)
        if (match := _STALL.fullmatch(name)) and not _NOT_ISSUED.search(name)
    }
    mine = np.isin(metric, list(reasons)) & ~np.isnan(value)
    line, metric, value = line[mine], metric[mine], value[mine]
    order = np.lexsort((-value, line))
    lines, firsts = np.unique(line[order], return_index=True)
    stall: list[str | None] = [None] * count
    samples: list[float | None] = [None] * count
    for at, most in zip(lines.tolist(), order[firsts].tolist(), strict=True):
        stall[at] = reasons[int(metric[most])]
        samples[at] = float(value[most])
    return stall, samples


TABLES = (
    Table(
        "nsight-source",
        "Nsight Compute instructions",
        SOURCE,
        compute_nsight_source,
        uses_selection=False,
    ),
)
"""The tables of this module."""
