"""Devices: utilization of each, of its multiprocessors and tensor cores, in total and over time.

Definitions are those of torch-tb-profiler (gpu_metrics_parser.py, tensor_cores_parser.py of its last revision);
docs/metrics.md has them with their reasons. The selected threads are ignored: a device belongs to a rank, not to a
thread.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, DeviceWorkKind
from ...domain.units import NS_PER_MS, NS_PER_US
from ..core.common_columns import DEVICE_MEMORY, DEVICE_NUMBER, RANK
from ..core.intervals import IntervalSet, merge_intervals
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import DeviceWorkColumns, device_work_of, has_clock
from .steps import observed_windows
from .tensor_cores import has_tensor_cores, tensor_cores_of

BUCKETS = 120
"""Maximum number of rows for a device in the table of utilization."""

_UTILIZATION = Column(
    "utilization_percent", "%", "Share of the time of steps in which at least one kernel ran.", "Float64"
)
_SM_EFFICIENCY = Column(
    "sm_efficiency_percent",
    "%",
    "Estimated share of the time of steps in which a multiprocessor had a block of a kernel to run.",
    "Float64",
)
DEVICES = (
    RANK,
    DEVICE_NUMBER,
    Column("name", "", "Model."),
    DEVICE_MEMORY,
    Column("sms", "", "Number of multiprocessors (AMD: compute units).", "Int64"),
    _UTILIZATION,
    _SM_EFFICIENCY,
    Column(
        "occupancy_percent",
        "%",
        "Estimated achieved occupancy of its kernels, weighted by their duration.",
        "Float64",
    ),
    Column("compute", "", "Compute capability."),
    Column(
        "tensor_core_time_percent",
        "%",
        "Share of kernel time in kernels that use tensor cores; missing if the device has none.",
        "Float64",
    ),
    Column("busy_us", "µs", "Time in which the device did any work: kernels, memcpy or memset.", "float64"),
    Column("kernel_us", "µs", "Time in which at least one kernel ran.", "float64"),
    Column("observed_us", "µs", "Observed time: from the first step to the last.", "float64"),
    Column("work", "", "Number of kernels, memcpy and memset.", "int64"),
)
UTILIZATION = (
    RANK,
    DEVICE_NUMBER,
    Column("start_ms", "ms", "Start of this interval, from the start of the profile.", "float64"),
    Column("end_ms", "ms", "End of this interval.", "float64"),
    _UTILIZATION,
    _SM_EFFICIENCY,
)


@dataclass(frozen=True, eq=False)
class RateCurve:
    """A piecewise constant quantity. before: its integral up to each time. rate: from each time."""

    time: Array
    before: Array
    rate: Array

    def integrate(self, start: Array, end: Array) -> Array:
        """The integral over each window [start, end)."""
        return self._until(end) - self._until(start)

    def _until(self, time: Array) -> Array:
        if not len(self.time):
            return np.zeros(len(time))
        at = np.searchsorted(self.time, time, "right") - 1
        found: Array = np.where(
            at < 0, 0.0, self.before[at] + self.rate[at] * (np.clip(time, self.time[0], None) - self.time[at])
        )
        return found


@dataclass(frozen=True, eq=False)
class Device:
    """A device of a rank. row: of `devices`, -1 if unknown. work: rows of `device_work`, in order of start.
    busy: with any work; kernels: with kernels."""

    rank: int
    row: int
    work: Array
    busy: IntervalSet
    kernels: IntervalSet


def devices_of(profile: Profile) -> tuple[Device, ...]:
    """The devices with any work, by rank and row of `devices`; built once. None if there are no times."""
    return memoize(profile, "devices", lambda: _build(profile) if has_clock(profile) else (), pin=True)


@table_function
def compute_devices(profile: Profile, selection: Selection) -> TableRows:
    """One row for each device with any work; if no device has work, one for each known device."""
    observed = observed_windows(profile, selection)
    devices = [device for device in devices_of(profile) if device.rank in observed]
    uses = tensor_cores_of(profile).uses if devices else np.zeros(0, bool)
    rows = [_row(profile, device, *observed[device.rank], uses) for device in devices]
    if not devices_of(profile):
        rows = [_device_properties(profile, NO_ID, row) for row, kind in _kinds(profile) if kind == "gpu"]
    return build_rows(DEVICES, {c.name: [row[c.name] for row in rows] for c in DEVICES})


@table_function
def compute_utilization(profile: Profile, selection: Selection) -> TableRows:
    """Utilization of each device over time, in equal intervals of 1, 2 or 5 times a power of ten. Intervals without
    recording are omitted."""
    observed = observed_windows(profile, selection)
    parts: list[dict[str, Any]] = []
    if observed:
        edges = _edges(min(int(s[0]) for s, _ in observed.values()), max(int(e[-1]) for _, e in observed.values()))
    for device in devices_of(profile):
        if device.rank not in observed:
            continue
        first, last = edges[:-1], edges[1:]
        seen = IntervalSet(*observed[device.rank]).length_within(first, last)
        rate = sm_efficiency_of(profile, device)
        ran, used = np.zeros(len(first), np.int64), np.full(len(first), 0.0 if rate else np.nan)
        for start, end in zip(*(times.tolist() for times in observed[device.rank]), strict=True):
            window = np.clip(first, start, end), np.clip(last, start, end)
            ran += device.kernels.length_within(*window)
            if rate:
                used += rate.integrate(*window)
        for place in np.flatnonzero(seen > 0).tolist():
            whole = int(seen[place])
            parts.append(
                {
                    **_device_properties(profile, device.rank, device.row),
                    "start_ms": int(first[place]) / NS_PER_MS,
                    "end_ms": int(last[place]) / NS_PER_MS,
                    "utilization_percent": 100.0 * int(ran[place]) / whole,
                    "sm_efficiency_percent": _known_share(float(used[place]), whole),
                }
            )
    return build_rows(UTILIZATION, {c.name: [part[c.name] for part in parts] for c in UTILIZATION})


def sm_efficiency_of(profile: Profile, device: Device) -> RateCurve | None:
    """The share of multiprocessors with a block to run: the blocks per multiprocessor of the kernels that run, at
    most 1. None if no kernel in the recording has a known number of blocks."""

    def build() -> RateCurve | None:
        rows, start, end = _kernels(profile, device)
        blocks = _configuration_values(profile, rows, "blocks_per_sm")
        some = blocks > 0
        if not some.any():
            return None
        start, end, blocks = start[some], end[some], blocks[some]
        done = np.argsort(end, kind="stable")
        time = np.concatenate((start, end[done]))
        order = np.argsort(time, kind="stable")
        time = time[order]
        running = np.cumsum(np.concatenate((blocks, -blocks[done]))[order])
        rate = np.clip(running, 0.0, 1.0)
        rate[-1] = 0.0
        return RateCurve(time, np.concatenate(([0.0], np.cumsum(rate[:-1] * np.diff(time)))), rate)

    return memoize(profile, ("sm efficiency", device.rank, device.row), build)


def _row(profile: Profile, device: Device, start: Array, end: Array, uses: Array) -> dict[str, Any]:
    whole = int((end - start).sum())
    rows, begun, done = _kernels(profile, device)
    inside = np.zeros(len(rows), np.int64)
    for first, last in zip(start.tolist(), end.tolist(), strict=True):
        inside += np.maximum(np.minimum(done, last) - np.maximum(begun, first), 0)
    occupancy = _configuration_values(profile, rows, "occupancy_percent")
    known = (occupancy >= 0) & (inside > 0)
    weight = int(inside.sum())
    tensor = uses[device_work_of(profile).function[rows]]
    rate = sm_efficiency_of(profile, device)
    kernel_ns = int(device.kernels.length_within(start, end).sum())
    return {
        **_device_properties(profile, device.rank, device.row),
        "utilization_percent": _known_share(kernel_ns, whole),
        "sm_efficiency_percent": None if rate is None else _known_share(float(rate.integrate(start, end).sum()), whole),
        "occupancy_percent": (
            float((occupancy[known] * inside[known]).sum() / inside[known].sum()) if known.any() else None
        ),
        # A unit that a device does not have is missing, not 0 %.
        "tensor_core_time_percent": (
            None
            if _without_tensor_cores(profile, device) and not tensor.any()
            else _known_share(int(inside[tensor].sum()), weight)
        ),
        "busy_us": int(device.busy.length_within(start, end).sum()) / NS_PER_US,
        "kernel_us": kernel_ns / NS_PER_US,
        "observed_us": whole / NS_PER_US,
        "work": _count(profile, device, start, end),
    }


def _without_tensor_cores(profile: Profile, device: Device) -> bool:
    properties = profile.devices.slice(device.row, 1).to_pylist()[0] if device.row >= 0 else {}
    return has_tensor_cores(properties.get("name"), properties.get("compute"), properties.get("warp_size")) is False


def _device_properties(profile: Profile, rank: int, row: int) -> dict[str, Any]:
    """Properties of a device, independent of its work."""
    table = profile.devices.slice(row, 1).to_pylist()[0] if row >= 0 else {}
    known = {c.name: table.get(c.name) for c in DEVICES}
    known["rank"] = table.get("rank") if rank < 0 else rank
    return known | {"busy_us": 0.0, "kernel_us": 0.0, "observed_us": 0.0, "work": 0}


def _kinds(profile: Profile) -> list[tuple[int, str]]:
    return list(enumerate(profile.devices.column("kind").to_pylist()))


def _count(profile: Profile, device: Device, start: Array, end: Array) -> int:
    begun, done = work_times(profile, device.work)
    return int(((np.searchsorted(end, begun, "right")) < np.searchsorted(start, done, "left")).sum())


def _known_share(part: float, whole: int) -> float | None:
    return 100.0 * part / whole if whole and part == part else None


def work_times(profile: Profile, rows: Array) -> tuple[Array, Array]:
    """(start, end) in ns of these rows of `device_work`."""
    work = device_work_of(profile)
    start = work.start[rows]
    return start, start + work.duration[rows]


def _kernels(profile: Profile, device: Device) -> tuple[Array, Array, Array]:
    """(rows of `device_work`, start, end) of a device's kernels, in order of start."""
    rows = device.work[_is_kernel(device_work_of(profile))[device.work]]
    return rows, *work_times(profile, rows)


def _configuration_values(profile: Profile, rows: Array, name: str) -> Array:
    """A float of the configuration of each of these rows of `device_work`, NaN if unknown."""
    table = profile.configurations
    values = np.append(table.column(name).to_numpy().astype(np.float64), np.nan)
    # The last entry is for -1: none.
    configuration_values: Array = values[device_work_of(profile).configuration[rows]]
    return configuration_values


def _edges(start: int, end: int) -> Array:
    """From `start` to `end` in at most `BUCKETS` intervals of 1, 2 or 5 times a power of ten ns, the last one
    shorter."""
    size = 1
    while (end - start) > BUCKETS * size:
        size = size * 5 // 2 if str(size)[0] == "2" else size * 2
    return np.append(np.arange(start, end, size), end)


def _is_kernel(work: DeviceWorkColumns) -> Array:
    found: Array = (work.kind == DeviceWorkKind.COMPUTATION) | (work.kind == DeviceWorkKind.COMMUNICATION)
    return found


def _build(profile: Profile) -> tuple[Device, ...]:
    work = device_work_of(profile)
    if not len(work):
        return ()
    rank, row, kernel = threads_of(profile).rank[work.thread], work.device, _is_kernel(work)
    order = np.lexsort((work.start, row, rank))
    new = np.flatnonzero((np.diff(rank[order]) != 0) | (np.diff(row[order]) != 0)) + 1
    devices = []
    for rows in np.split(order, new):
        devices.append(
            Device(
                rank=int(rank[rows[0]]),
                row=int(row[rows[0]]),
                work=rows,
                busy=merge_intervals(*work_times(profile, rows)),
                kernels=merge_intervals(*work_times(profile, rows[kernel[rows]])),
            )
        )
    return tuple(devices)


TABLES = (
    Table("devices", "Devices", DEVICES, compute_devices),
    Table("utilization", "Utilization over time", UTILIZATION, compute_utilization),
)
"""The tables of this module."""
