"""How device work was launched: how long after the call it began, how many waited before it, and what calls cost.

Definitions are those of Holistic Trace Analysis where it has them (cuda_kernel_analysis.py, trace_counters.py);
docs/metrics.md has each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID
from .functions import functions_of
from .grouped import Groups, groups_by, picked
from .operators import micros, ranked
from .picking import threads_of
from .remember import remembered
from .schema import Column, frame
from .slices import slices_of, slices_selected, work_of

Array = np.ndarray[Any, Any]

LAUNCHES = (
    Column("name", "", "The runtime's function."),
    Column("calls", "", "How often the host called it.", "int64"),
    Column("total_us", "µs", "Time of the host in it.", "float64"),
    Column("mean_us", "µs", "total_us ÷ calls.", "float64"),
    Column("min_us", "µs", "The shortest call.", "float64"),
    Column("max_us", "µs", "The longest call.", "float64"),
    Column("launched", "", "How many kernels, copies and sets these calls launched.", "int64"),
    Column("delay_mean_us", "µs", "From the start of the call until the device began, on average.", "Float64"),
    Column("delay_min_us", "µs", "The shortest such delay.", "Float64"),
    Column("delay_median_us", "µs", "Half of the delays are no longer than this.", "Float64"),
    Column("delay_p90_us", "µs", "Nine tenths of the delays are no longer than this.", "Float64"),
    Column("delay_p99_us", "µs", "99 of 100 delays are no longer than this.", "Float64"),
    Column("delay_max_us", "µs", "The longest such delay.", "Float64"),
    Column("queue_mean", "", "How much else of the stream had been launched and not begun, on average.", "Float64"),
    Column("queue_max", "", "The most of it.", "Int64"),
    Column("shorter", "", "How much of the work took the device less time than the call took the host.", "int64"),
    Column("rank", "", "The rank, where there are several.", "Int64"),
)
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, eq=False)
class Waits:
    """By row of `device_work`. delay: from the start of the launching call until the work began; idle: from the end of
    the call, 0 where it began during the call; ns. queue: how much of the same stream had been launched before and not
    begun yet when it was launched. Where the launch is not known delay is -1, idle and queue 0.
    """

    delay: Array
    idle: Array
    queue: Array

    @property
    def known(self) -> Array:
        """Of which the launch is known, as bools."""
        found: Array = self.delay >= 0
        return found


def waits_of(profile: Profile) -> Waits:
    """What device work waited for; built once."""

    def build() -> Waits:
        slices, work = slices_of(profile), work_of(profile)
        known = np.flatnonzero(work.launch >= 0)
        launch = work.launch[known]
        called = slices.start[launch]
        delay = np.full(len(work), NO_ID, np.int64)
        idle, queue = np.zeros(len(work), np.int64), np.zeros(len(work), np.int64)
        # Clocks of host and device are brought together by the profiler, not always exactly.
        delay[known] = np.maximum(0, work.start[known] - called)
        idle[known] = np.maximum(0, work.start[known] - called - slices.duration[launch])
        queue[known] = _queued(work.thread[known], called, work.start[known])
        return Waits(delay, idle, queue)

    return remembered(profile, "waits", build, pin=True)


def launches(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each function of the device's runtime that the host called; the greatest time of the host first."""
    slices, work, waits, runtime = slices_of(profile), work_of(profile), waits_of(profile), _runtime(profile)
    mask = slices_selected(profile, selection)
    some = picked(runtime.calls, None if mask is None else mask[runtime.row])
    firsts = runtime.row[runtime.calls.first[some.groups]]
    duration = slices.duration[runtime.row].astype(np.int64)
    hung = picked(runtime.launched, None if mask is None else mask[work.launch[runtime.work]])
    place = np.searchsorted(some.groups, runtime.group[runtime.launched.first[hung.groups]])
    delay, queue = waits.delay[runtime.work], waits.queue[runtime.work]
    shorter = work.duration[runtime.work] < slices.duration[work.launch[runtime.work]]
    median, ninety, most = hung.quantiles(delay, QUANTILES)

    def where_launched(values: Array) -> Array:
        found = np.full(len(some), np.nan)
        found[place] = values
        return found

    rows = frame(
        LAUNCHES,
        {
            "name": functions_of(profile).names_of(slices.function[firsts]),
            "calls": some.counts(),
            "total_us": micros(some.sums(duration)),
            "mean_us": micros(some.means(duration)),
            "min_us": micros(some.least(duration)),
            "max_us": micros(some.greatest(duration)),
            "launched": np.nan_to_num(where_launched(hung.counts())),
            "delay_mean_us": where_launched(micros(hung.means(delay))),
            "delay_min_us": where_launched(micros(hung.least(delay))),
            "delay_median_us": where_launched(micros(median)),
            "delay_p90_us": where_launched(micros(ninety)),
            "delay_p99_us": where_launched(micros(most)),
            "delay_max_us": where_launched(micros(hung.greatest(delay))),
            "queue_mean": where_launched(hung.means(queue)),
            "queue_max": where_launched(hung.greatest(queue)),
            "shorter": np.nan_to_num(where_launched(hung.sums(shorter.astype(np.int64)))),
            "rank": ranked(profile, threads_of(profile).rank[slices.thread[firsts]]),
        },
    )
    return rows.sort_values(["total_us", "name"], ascending=[False, True], kind="stable", ignore_index=True)


@dataclass(frozen=True, eq=False)
class _Runtime:
    """row: the calls of the runtime, by row of `slices`; calls: their groups, places in row. work: rows of
    `device_work` that they launched, group: of which group of calls, launched: the same as groups, places in work.
    """

    row: Array
    calls: Groups
    work: Array
    group: Array
    launched: Groups


def _runtime(profile: Profile) -> _Runtime:
    def build() -> _Runtime:
        slices, work = slices_of(profile), work_of(profile)
        row = np.flatnonzero(slices.of_kind("runtime"))
        function = functions_of(profile).canonical[slices.function[row]]
        calls = groups_by(function, threads_of(profile).rank[slices.thread[row]])
        group_of = np.full(len(slices) + 1, NO_ID, np.int64)
        group_of[row] = calls.code
        group = group_of[work.launch]
        known = np.flatnonzero(group >= 0)
        return _Runtime(row, calls, known, group[known], groups_by(group[known]))

    return remembered(profile, "runtime calls", build)


def _queued(stream: Array, called: Array, began: Array) -> Array:
    """How many of the same stream were called before each and had not begun when it was called."""
    if not len(stream):
        return np.zeros(0, np.int64)
    # Each stream in a stretch of time of its own; each stretch holds as many calls as beginnings.
    zero = min(int(called.min()), int(began.min()))
    reach = max(int(called.max()), int(began.max())) - zero + 1
    offset = np.unique(stream, return_inverse=True)[1] * reach - zero
    before = np.searchsorted(np.sort(called + offset), called + offset, "left")
    begun = np.searchsorted(np.sort(began + offset), called + offset, "right")
    found: Array = np.maximum(0, before - begun)
    return found
