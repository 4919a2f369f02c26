"""Launches of device work: delay from the call, queue length, and host time of the calls.

Definitions are those of Holistic Trace Analysis if it has them (cuda_kernel_analysis.py, trace_counters.py);
docs/metrics.md has each.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.common_columns import RANK_IF_SEVERAL
from ..core.functions import functions_of
from ..core.group_by import GroupIndex, group_by, select_groups
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, select_slices, slices_of
from .launch_groups import launch_groups_of
from .operators import rank_column, to_us

LAUNCHES = (
    Column("name", "", "The runtime function."),
    Column("calls", "", "Number of calls from the host.", "int64"),
    Column("total_us", "µs", "Time of the host in these calls.", "float64"),
    Column("mean_us", "µs", "total_us ÷ calls.", "float64"),
    Column("min_us", "µs", "The shortest call.", "float64"),
    Column("max_us", "µs", "The longest call.", "float64"),
    Column(
        "launches",
        "",
        "Number of these calls that launched device work; the launch of a graph starts many kernels.",
        "int64",
    ),
    Column("launched", "", "Number of kernels, memcpy and memset that these calls launched.", "int64"),
    Column(
        "delay_mean_us",
        "µs",
        "Average delay from the start of the call until its first device work began.",
        "Float64",
    ),
    Column("delay_min_us", "µs", "The shortest of these delays.", "Float64"),
    Column("delay_median_us", "µs", "Median of these delays.", "Float64"),
    Column("delay_p90_us", "µs", "90th percentile of these delays.", "Float64"),
    Column("delay_p99_us", "µs", "99th percentile of these delays.", "Float64"),
    Column("delay_max_us", "µs", "The longest of these delays.", "Float64"),
    Column(
        "queue_mean",
        "",
        "Average number of other launches of the stream that were queued and had not begun.",
        "Float64",
    ),
    Column("queue_max", "", "Maximum of that number.", "Int64"),
    Column("shorter", "", "Number of launches whose device work was shorter than the call on the host.", "int64"),
    RANK_IF_SEVERAL,
)
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, eq=False)
class LaunchWaits:
    """By row of `device_work`. delay: from the start of the launching call until the work began; idle: from the end of
    the call, 0 where it began during the call; ns. queue: number of earlier launches of the same stream that had not
    begun yet. A launch counts once, even if it starts many kernels: values are for its first work. For other work, and
    if the launch is unknown, delay is -1, idle and queue are 0.
    """

    delay: Array
    idle: Array
    queue: Array

    @property
    def has_launch(self) -> Array:
        """Which work has a delay, as bools."""
        found: BoolArray = self.delay >= 0
        return found


def launch_waits_of(profile: Profile) -> LaunchWaits:
    """The waiting times of device work; built once."""

    def build() -> LaunchWaits:
        slices, work, groups = slices_of(profile), device_work_of(profile), launch_groups_of(profile)
        known = np.sort(groups.first[groups.call >= 0])
        launch = work.launch[known]
        called = slices.start[launch]
        delay = np.full(len(work), NO_ID, np.int64)
        idle, queue = np.zeros(len(work), np.int64), np.zeros(len(work), np.int64)
        # The profiler aligns the clocks of host and device, not always exactly.
        delay[known] = np.maximum(0, work.start[known] - called)
        idle[known] = np.maximum(0, work.start[known] - called - slices.duration[launch])
        queue[known] = _count_queued(work.thread[known], called, work.start[known])
        return LaunchWaits(delay, idle, queue)

    return memoize(profile, "waits", build, pin=True)


@table_function
def compute_launches(profile: Profile, selection: Selection) -> TableRows:
    """One row for each function of the device's runtime that the host called; sorted by host time, descending."""
    slices, waits, runtime = slices_of(profile), launch_waits_of(profile), _runtime(profile)
    groups, mask = launch_groups_of(profile), select_slices(profile, selection)
    some = select_groups(runtime.calls, None if mask is None else mask[runtime.row])
    firsts = runtime.row[runtime.calls.first[some.groups]]
    duration = slices.duration[runtime.row].astype(np.int64)
    call, first = groups.call[runtime.launch], groups.first[runtime.launch]
    hung = select_groups(runtime.launched, None if mask is None else mask[call])
    place = np.searchsorted(some.groups, runtime.group[runtime.launched.first[hung.groups]])
    delay, queue = waits.delay[first], waits.queue[first]
    shorter = groups.busy[runtime.launch] < slices.duration[call]
    median, ninety, most = hung.quantiles(delay, QUANTILES)

    def where_launched(values: Array) -> Array:
        found = np.full(len(some), np.nan)
        found[place] = values
        return found

    rows = build_rows(
        LAUNCHES,
        {
            "name": functions_of(profile).names_of(slices.function[firsts]),
            "calls": some.count(),
            "total_us": to_us(some.sum(duration)),
            "mean_us": to_us(some.mean(duration)),
            "min_us": to_us(some.min(duration)),
            "max_us": to_us(some.max(duration)),
            "launches": np.nan_to_num(where_launched(hung.count())),
            "launched": np.nan_to_num(where_launched(hung.sum(groups.work_count[runtime.launch]))),
            "delay_mean_us": where_launched(to_us(hung.mean(delay))),
            "delay_min_us": where_launched(to_us(hung.min(delay))),
            "delay_median_us": where_launched(to_us(median)),
            "delay_p90_us": where_launched(to_us(ninety)),
            "delay_p99_us": where_launched(to_us(most)),
            "delay_max_us": where_launched(to_us(hung.max(delay))),
            "queue_mean": where_launched(hung.mean(queue)),
            "queue_max": where_launched(hung.max(queue)),
            "shorter": np.nan_to_num(where_launched(hung.sum(shorter.astype(np.int64)))),
            "rank": rank_column(profile, threads_of(profile).rank[slices.thread[firsts]]),
        },
    )
    return rows.sort("-total_us", "name")


@dataclass(frozen=True, eq=False)
class _Runtime:
    """row: the runtime calls, rows of `slices`; calls: their groups, indices into row. launch: their launches, indices
    into `LaunchGroups`; group: the group of calls of each; launched: the same as groups, indices into launch.
    """

    row: Array
    calls: GroupIndex
    launch: Array
    group: Array
    launched: GroupIndex


def _runtime(profile: Profile) -> _Runtime:
    def build() -> _Runtime:
        slices, launched = slices_of(profile), launch_groups_of(profile)
        row = np.flatnonzero(slices.is_kind("runtime"))
        function = functions_of(profile).canonical[slices.function[row]]
        calls = group_by(function, threads_of(profile).rank[slices.thread[row]])
        group_of = np.full(len(slices) + 1, NO_ID, np.int64)
        group_of[row] = calls.code
        group = group_of[launched.call]
        rows = np.flatnonzero(group >= 0)
        return _Runtime(row, calls, rows, group[rows], group_by(group[rows]))

    return memoize(profile, "runtime calls", build)


def _count_queued(stream: Array, called: Array, began: Array) -> Array:
    """Number of earlier launches of the same stream that had not begun at the call."""
    if not len(stream):
        return np.zeros(0, np.int64)
    # Times by their places in order, each stream in its own stretch, which holds as many calls as beginnings.
    times, place = np.unique(np.concatenate((called, began)), return_inverse=True)
    offset = np.unique(stream, return_inverse=True)[1] * len(times)
    calls, begins = (part + offset for part in np.split(place.ravel(), 2))
    before = np.searchsorted(np.sort(calls), calls, "left")
    begun = np.searchsorted(np.sort(begins), calls, "right")
    found: Array = np.maximum(0, before - begun)
    return found


TABLES = (Table("launches", "Launches", LAUNCHES, compute_launches),)
"""The tables of this module."""
