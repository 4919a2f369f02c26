"""Idle time of devices by cause.

The cause of a gap depends on the work that ends it, as in HolisticTraceAnalysis (breakdown_analysis.py,
get_idle_time_breakdown): for each stream, and here also for each device. docs/metrics.md has the definitions and the
differences.
"""

from enum import StrEnum
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.units import NS_PER_US
from ..core.common_columns import DEVICE_NUMBER, RANK
from ..core.intervals import TIME_LIMIT_NS, IntervalSet, merge_intervals
from ..core.memo import memoize
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, slices_of
from .devices import Device, devices_of, work_times
from .steps import observed_windows

KERNEL_WAIT_NS = 30_000
"""A shorter gap between kernels launched in time is the overhead of starting consecutive kernels."""


class IdleCause(StrEnum):
    """Why a device was idle."""

    HOST_WAIT = "host wait"
    """The work that ended the gap was launched during it: the host was too slow."""
    KERNEL_WAIT = "kernel wait"
    """It was launched before the gap, which was short: the overhead of starting consecutive kernels."""
    OTHER = "other"
    """It was launched before the gap and waited longer, such as for another stream; or its launch is unknown."""
    EDGE = "edge"
    """Before the first work of the device or stream in the recording, or after the last."""


IDLE_CAUSES = tuple(IdleCause)
IDLE = (
    RANK,
    DEVICE_NUMBER,
    Column("stream", "", "The stream; missing for the whole device, when none of its streams worked.", "Int64"),
    Column("cause", "", "host wait, kernel wait, other or edge."),
    Column("gaps", "", "Number of gaps.", "int64"),
    Column("idle_us", "µs", "Total duration of the gaps.", "float64"),
    Column("percent", "%", "idle_us in percent of the observed time of the device.", "Float64"),
    Column("longest_us", "µs", "The longest gap.", "float64"),
)


@table_function
def compute_idle(profile: Profile, selection: Selection) -> TableRows:
    """One row for each device and each of its streams (where there are several), and cause."""
    observed = observed_windows(profile, selection)
    rows: list[dict[str, Any]] = []
    for device in devices_of(profile):
        if device.rank not in observed:
            continue
        start, end = observed[device.rank]
        whole = int((end - start).sum())
        for stream, gaps, cause in _gaps_of(profile, device):
            number, length, longest = _inside(gaps, cause, start, end)
            for place, name in enumerate(IDLE_CAUSES):
                rows.append(
                    {
                        "rank": None if device.rank < 0 else device.rank,
                        "device": _device_number(profile, device),
                        "stream": stream,
                        "cause": name.value,
                        "gaps": int(number[place]),
                        "idle_us": int(length[place]) / NS_PER_US,
                        "percent": 100.0 * int(length[place]) / whole if whole else None,
                        "longest_us": int(longest[place]) / NS_PER_US,
                    }
                )
    return build_rows(IDLE, {c.name: [row[c.name] for row in rows] for c in IDLE})


def _device_number(profile: Profile, device: Device) -> int | None:
    number: int | None = profile.devices.column("device")[device.row].as_py() if device.row >= 0 else None
    return number


def _inside(gaps: IntervalSet, cause: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """(number of gaps, total and maximum length in ns) in these windows, by index in CAUSES."""
    number, length, longest = (np.zeros(len(IDLE_CAUSES), np.int64) for _ in range(3))
    for low, high in zip(start.tolist(), end.tolist(), strict=True):
        first, last = np.searchsorted(gaps.end, low, "right"), np.searchsorted(gaps.start, high, "left")
        some = np.minimum(gaps.end[first:last], high) - np.maximum(gaps.start[first:last], low)
        np.add.at(number, cause[first:last], 1)
        np.add.at(length, cause[first:last], some)
        np.maximum.at(longest, cause[first:last], some)
    return number, length, longest


def _gaps_of(profile: Profile, device: Device) -> list[tuple[int | None, IntervalSet, Array]]:
    """(stream, gaps, the indices of their causes in CAUSES), of the device first, then of its streams if several."""

    def build() -> list[tuple[int | None, IntervalSet, Array]]:
        found: list[tuple[int | None, IntervalSet, Array]] = [(None, *_find_causes(profile, device.work, device.busy))]
        stream = profile.device_work.column("stream").fill_null(-1).to_numpy()[device.work]
        streams = np.unique(stream).tolist()
        for one in streams if len(streams) > 1 else ():
            work = device.work[stream == one]
            found.append((one, *_find_causes(profile, work, merge_intervals(*work_times(profile, work)))))
        return found

    return memoize(profile, ("gaps", device.rank, device.row), build)


def device_gaps(profile: Profile, device: Device) -> tuple[IntervalSet, Array]:
    """(the gaps of a device, the indices of their causes in CAUSES)."""
    _, gaps, cause = _gaps_of(profile, device)[0]
    return gaps, cause


def _find_causes(profile: Profile, work: Array, busy: IntervalSet) -> tuple[IntervalSet, Array]:
    gaps = IntervalSet(np.append(-TIME_LIMIT_NS, busy.end), np.append(busy.start, TIME_LIMIT_NS))
    begun, _ = work_times(profile, work)
    # Work is sorted by start: take the first that begins at the end of the gap.
    ending = work[np.minimum(np.searchsorted(begun, gaps.end, "left"), len(work) - 1)]
    launch = device_work_of(profile).launch[ending]
    launched = slices_of(profile).start[np.maximum(launch, 0)]
    cause = np.full(len(gaps), IDLE_CAUSES.index(IdleCause.OTHER))
    # If the launch is unknown, so is whether it was in time, even for short gaps.
    short = gaps.end - gaps.start < KERNEL_WAIT_NS
    cause[(launch >= 0) & short] = IDLE_CAUSES.index(IdleCause.KERNEL_WAIT)
    cause[(launch >= 0) & (launched > gaps.start)] = IDLE_CAUSES.index(IdleCause.HOST_WAIT)
    cause[[0, -1]] = IDLE_CAUSES.index(IdleCause.EDGE)
    return gaps, cause


TABLES = (Table("idle", "Idle time of devices", IDLE, compute_idle),)
"""The tables of this module."""
