"""Kernels: number of runs, duration, launch configuration and launching operator; memcpy and memset.

Definitions are those of torch-tb-profiler (kernel_parser.py and op_agg.py of its last revision); docs/metrics.md has
each, and where this differs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, IndexArray
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ...domain.tables import DeviceWorkKind, get_column
from ..core.common_columns import RANK_IF_SEVERAL
from ..core.functions import functions_of
from ..core.group_by import GroupIndex, group_by, select_groups
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, select_device_work, slices_of
from .launches import launch_waits_of
from .operators import call_names, operator_calls_of, rank_column, to_percent, to_us
from .tensor_cores import tensor_cores_of

BY = ("name", "configuration")
KINDS = {
    DeviceWorkKind.COMPUTATION: "computation",
    DeviceWorkKind.COMMUNICATION: "communication",
    DeviceWorkKind.MEMCPY: "memory",
    DeviceWorkKind.MEMSET: "memory",
    DeviceWorkKind.OTHER: "other",
}
AXES = ("x", "y", "z")
CONFIGURATION_COLUMNS = (
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in AXES),
    "registers",
    "shared_bytes",
)

_CONFIGURED = "only by=configuration."
KERNELS = (
    Column("name", "", "Name of the kernel."),
    Column("calls", "", "Number of runs.", "int64"),
    Column("total_us", "µs", "Total duration.", "float64"),
    Column("mean_us", "µs", "total_us ÷ calls.", "float64"),
    Column("min_us", "µs", "The shortest run.", "float64"),
    Column("max_us", "µs", "The longest run.", "float64"),
    Column(
        "blocks_per_sm",
        "",
        "Blocks of the launch ÷ multiprocessors of the device, weighted by the duration of each run; missing if "
        "not recorded.",
        "Float64",
    ),
    Column(
        "occupancy_percent",
        "%",
        "Achieved occupancy as estimated by the profiler for each launch, with the same weights.",
        "Float64",
    ),
    Column("tensor_core", "", "Whether its name shows that it runs on tensor cores (AMD: matrix cores).", "bool"),
    Column("kind", "", "computation, communication, memory or other."),
    Column("percent", "%", "total_us in percent of the time of all selected kernels.", "float64"),
    RANK_IF_SEVERAL,
    Column("operator", "", f"The innermost operator that launched it; {_CONFIGURED}"),
    Column(
        "operator_tensor_core_eligible", "", f"Whether tensor cores could run that operator; {_CONFIGURED}", "boolean"
    ),
    Column("grid", "", f"Blocks of the launch along x, y and z, as in 128×1×1; {_CONFIGURED}"),
    Column("block", "", f"Threads of a block along x, y and z; {_CONFIGURED}"),
    Column("registers", "", f"Registers of a thread; {_CONFIGURED}", "Int64"),
    Column("shared_bytes", "bytes", f"Shared memory of a block; {_CONFIGURED}", "Int64"),
    Column(
        "warps_per_sm", "", "Warps of the launch ÷ multiprocessors of the device, with the same weights.", "Float64"
    ),
    Column(
        "delay_mean_us",
        "µs",
        "Average delay from the start of the launching call until it began; of a graph, only of its first node.",
        "Float64",
    ),
    Column("delay_max_us", "µs", "The longest of these delays.", "Float64"),
    Column(
        "queue_mean",
        "",
        "Average number of other launches of its stream that were queued and had not begun.",
        "Float64",
    ),
)
COPIES = (
    Column("name", "", "Name in the trace: direction and kinds of memory."),
    Column("direction", "", "HtoD, DtoH, DtoD, PtoP, HtoH or set."),
    Column("count", "", "Number of operations.", "int64"),
    Column("bytes", "bytes", "Number of bytes copied or set, if recorded.", "Int64"),
    Column("total_us", "µs", "Total duration on the device.", "float64"),
    Column("mean_us", "µs", "total_us ÷ count.", "float64"),
    Column("min_us", "µs", "The shortest operation.", "float64"),
    Column("max_us", "µs", "The longest operation.", "float64"),
    Column(
        "bandwidth_gb_per_s",
        "GB/s",
        "Σ bytes ÷ Σ time of the operations with a recorded size; 1 GB is 10⁹ bytes.",
        "Float64",
    ),
    Column("bandwidth_max_gb_per_s", "GB/s", "Bandwidth of the fastest operation.", "Float64"),
    Column("percent", "%", "total_us in percent of the time of all selected device work.", "float64"),
    RANK_IF_SEVERAL,
)
DIRECTIONS = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH")


@table_function
def compute_kernels(
    profile: Profile, selection: Selection, by: str = "name", *, by_rank: bool = True, name: str | None = None
) -> TableRows:
    """One row for each kernel; sorted by total time, descending.

    by "configuration": one for each name, operator, grid, block, registers and shared memory. by_rank: one for each
    rank if there are several, else their sum. name: only kernels of this name.
    """
    sums, work, functions = (
        sum_kernels(profile, selection, by, by_rank, name),
        device_work_of(profile),
        functions_of(profile),
    )
    firsts, calls = sums.first, sums.calls
    values: dict[str, Any] = {
        "name": functions.names_of(work.function[firsts]),
        "calls": calls,
        "total_us": to_us(sums.total_time),
        "mean_us": to_us(sums.total_time) / calls,
        "min_us": to_us(sums.min_time),
        "max_us": to_us(sums.max_time),
        "tensor_core": tensor_cores_of(profile).uses[work.function[firsts]],
        "kind": [KINDS[DeviceWorkKind(kind)] for kind in work.kind[firsts].tolist()],
        "percent": to_percent(sums.total_time, int(sums.total_time.sum())),
        "rank": rank_column(profile, threads_of(profile).rank[work.thread[firsts]])
        if by_rank
        else [None] * len(firsts),
        "delay_mean_us": to_us(sums.delay_mean),
        "delay_max_us": to_us(sums.delay_max),
        "queue_mean": sums.queue_mean,
        "blocks_per_sm": sums.blocks_per_sm,
        "warps_per_sm": sums.warps_per_sm,
        "occupancy_percent": sums.occupancy_percent,
    }
    values |= _configuration(profile, firsts if by == "configuration" else None, len(firsts))
    return build_rows(KERNELS, values).sort("-total_us", "name")


@dataclass(frozen=True, eq=False)
class KernelSums:
    """Groups of selected kernels with their sums. first: a row of `device_work` of
    each. Times in ns; the averages are floats, NaN if unknown."""

    first: Array
    calls: Array
    total_time: Array
    min_time: Array
    max_time: Array
    delay_mean: Array
    delay_max: Array
    queue_mean: Array
    blocks_per_sm: Array
    warps_per_sm: Array
    occupancy_percent: Array


def sum_kernels(
    profile: Profile, selection: Selection, by: str = "name", by_rank: bool = False, name: str | None = None
) -> KernelSums:
    """The sums of kernels by group; see `kernels`. Raises InvalidRequest."""
    groups, rows = group_kernels(profile, by, by_rank)

    def build() -> KernelSums:
        work, waits = device_work_of(profile), launch_waits_of(profile)
        mask = select_kernels(profile, selection, name)
        some = select_groups(groups, None if mask is None else mask[rows])
        duration = work.duration[rows]
        known, delay = waits.has_launch[rows], waits.delay[rows]
        launched = some.sum(known.astype(np.int64))
        with np.errstate(invalid="ignore", divide="ignore"):
            delay_mean, queue_mean = (some.sum(np.where(known, of, 0)) / launched for of in (delay, waits.queue[rows]))
        blocks, warps, occupancy = (
            some.weighted_mean(_configuration_values(profile, word)[work.configuration[rows]], duration)
            for word in ("blocks_per_sm", "warps_per_sm", "occupancy_percent")
        )
        return KernelSums(
            first=rows[groups.first[some.groups]],
            calls=some.count(),
            total_time=some.sum(duration),
            min_time=some.min(duration),
            max_time=some.max(duration),
            delay_mean=delay_mean,
            delay_max=_mask_negative(some.max(delay)),
            queue_mean=queue_mean,
            blocks_per_sm=blocks,
            warps_per_sm=warps,
            occupancy_percent=occupancy,
        )

    return memoize(profile, ("kernel sums", selection, by, by_rank, name), build)


@table_function
def compute_copies(profile: Profile, selection: Selection) -> TableRows:
    """One row for each kind of memcpy and memset of a device; sorted by total time, descending."""
    work = device_work_of(profile)
    mask = select_device_work(profile, selection)
    groups, rows = _copy_groups(profile)
    some = select_groups(groups, None if mask is None else mask[rows])
    firsts = rows[groups.first[some.groups]]
    duration = work.duration[rows].astype(np.int64)
    size = get_column(profile.device_work, "bytes")[rows].astype(np.float64)
    known = ~np.isnan(size)
    sized = some.sum(known.astype(np.int64)) > 0
    size = np.where(known, size, 0.0)
    timed = some.sum(np.where(known, duration, 0))
    names = functions_of(profile).names_of(work.function[firsts])
    total = some.sum(duration)
    everything = work.duration if mask is None else work.duration[mask]
    return build_rows(
        COPIES,
        {
            "name": names,
            "direction": [
                parse_copy_direction(name, kind) for name, kind in zip(names, work.kind[firsts].tolist(), strict=True)
            ],
            "count": some.count(),
            "bytes": np.where(sized, some.sum(size), np.nan),
            "total_us": to_us(total),
            "mean_us": to_us(total) / some.count(),
            "min_us": to_us(some.min(duration)),
            "max_us": to_us(some.max(duration)),
            "bandwidth_gb_per_s": np.where(sized & (timed > 0), some.sum(size) / np.maximum(timed, 1), np.nan),
            "bandwidth_max_gb_per_s": _mask_negative(
                some.max(np.where(known & (duration > 0), size / np.maximum(duration, 1), -1.0))
            ),
            "percent": to_percent(total, int(everything.sum())),
            "rank": rank_column(profile, threads_of(profile).rank[work.thread[firsts]]),
        },
    ).sort("-total_us", "name")


def parse_copy_direction(name: str, kind: int) -> str | None:
    """The direction of a memcpy from its name ("Memcpy HtoD (Pageable -> Device)"), "set" for a memset."""
    if kind == DeviceWorkKind.MEMSET:
        return "set"
    return next((word for word in DIRECTIONS if word in name), None)


def select_kernels(profile: Profile, selection: Selection, name: str | None = None) -> Array | None:
    """Which device work is selected, as bools by row of `device_work`; None for all. name: only of this name."""
    mask = select_device_work(profile, selection)
    if name is None:
        return mask
    functions = functions_of(profile)
    named = np.zeros(len(device_work_of(profile)), bool)
    if name in functions.names:
        named = functions.name[device_work_of(profile).function] == functions.names.index(name)
    return named if mask is None else mask & named


def kernel_rows(profile: Profile) -> Array:
    """The rows of `device_work` that are kernels: all but memcpy and memset."""

    def build() -> IndexArray:
        work = device_work_of(profile)
        return np.flatnonzero(
            slices_of(profile).is_kind("kernel")[work.slice]
            | np.isin(work.kind, (DeviceWorkKind.COMPUTATION, DeviceWorkKind.COMMUNICATION))
        )

    return memoize(profile, "kernel rows", build)


def group_kernels(profile: Profile, by: str = "name", by_rank: bool = False) -> tuple[GroupIndex, Array]:
    """The kernels grouped by name or by name, operator and configuration: groups of indices into the
    returned rows of `device_work`. Raises InvalidRequest."""
    check_choice("by", by, BY)

    def build() -> tuple[GroupIndex, Array]:
        work, rows = device_work_of(profile), kernel_rows(profile)
        codes = [functions_of(profile).canonical[work.function[rows]]]
        if by == "configuration":
            codes += [operator_labels(profile)[rows], shared_configurations(profile)[work.configuration[rows]]]
        if by_rank:
            codes.append(threads_of(profile).rank[work.thread[rows]])
        return group_by(*codes), rows

    return memoize(profile, ("kernel groups", by, by_rank), build)


def operator_labels(profile: Profile) -> Array:
    """For each row of `device_work` the function of its operator, -1 for none."""
    calls = operator_calls_of(profile)
    label = np.append(calls.label, -1)
    found: Array = label[calls.operator_of_work]
    return found


def shared_configurations(profile: Profile) -> Array:
    """For each row of `configurations`, and -1 at the end, the first row with the same grid, block, registers and
    shared memory."""

    def build() -> Array:
        table = profile.configurations
        if not table.num_rows:
            return np.full(1, -1, np.int64)
        values = np.stack([table.column(name).fill_null(-1).to_numpy() for name in CONFIGURATION_COLUMNS])
        _, first, inverse = np.unique(values, axis=1, return_index=True, return_inverse=True)
        return np.append(first[inverse.ravel()], -1)

    return memoize(profile, "shared configurations", build)


def format_dimensions(row: dict[str, Any], what: str) -> str | None:
    """A grid or block as "128×1×1"; None if unknown."""
    known = [row[f"{what}_{axis}"] for axis in AXES]
    return None if None in known else "×".join(str(number) for number in known)


def _configuration(profile: Profile, rows: Array | None, count: int) -> dict[str, Any]:
    """The configuration of each group; empty unless grouped by configuration."""
    if rows is None:
        nothing = [None] * count
        names = ("operator", "operator_tensor_core_eligible", "grid", "block", "registers", "shared_bytes")
        return dict.fromkeys(names, nothing)
    table, calls = profile.configurations, operator_calls_of(profile)
    places = device_work_of(profile).configuration[rows].tolist()
    known = [table.slice(place, 1).to_pylist()[0] if place >= 0 else None for place in places]
    operator = calls.operator_of_work[rows]
    names_at = call_names(profile, operator[operator >= 0])
    names_iter = iter(names_at)
    return {
        "operator": [next(names_iter) if place >= 0 else None for place in operator.tolist()],
        "operator_tensor_core_eligible": [
            bool(calls.eligible[place]) if place >= 0 else None for place in operator.tolist()
        ],
        "grid": [format_dimensions(row, "grid") if row else None for row in known],
        "block": [format_dimensions(row, "block") if row else None for row in known],
        "registers": [row["registers"] if row else None for row in known],
        "shared_bytes": [row["shared_bytes"] if row else None for row in known],
    }


def _configuration_values(profile: Profile, name: str) -> Array:
    """A column of `configurations` as floats, NaN if unknown, and as the last entry, for none."""
    values = profile.configurations.column(name).to_numpy() if profile.configurations.num_rows else np.zeros(0)
    configuration_values: Array = np.append(values.astype(np.float64), np.nan)
    return configuration_values


def _copy_groups(profile: Profile) -> tuple[GroupIndex, Array]:
    def build() -> tuple[GroupIndex, Array]:
        work = device_work_of(profile)
        copies_only = np.ones(len(work), bool)
        copies_only[kernel_rows(profile)] = False
        rows = np.flatnonzero(copies_only & np.isin(work.kind, (DeviceWorkKind.MEMCPY, DeviceWorkKind.MEMSET)))
        rank = threads_of(profile).rank[work.thread[rows]]
        return group_by(functions_of(profile).canonical[work.function[rows]], rank), rows

    return memoize(profile, "copy groups", build)


def _mask_negative(values: Array) -> Array:
    """Floats, with NaN for negative (unknown) values."""
    found: Array = np.where(values < 0, np.nan, values)
    return found


TABLES = (
    Table("kernels", "Kernels", KERNELS, compute_kernels, by=BY),
    Table("copies", "Memcpy and memset", COPIES, compute_copies),
)
"""The tables of this module."""
