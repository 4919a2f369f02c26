"""The time span over which a sample is drawn.

A sample is taken at one time. The span that it represents depends on its event: a clock counted running time equal to
the weight before it; a hardware event was counted since the previous sample; most other events just occurred then.
"""

from enum import StrEnum

import numpy as np

from ...domain import timed_events
from ...domain.arrays import Array, Int64Array
from ...domain.profile import Profile
from ...domain.tables import DEVICE_TIME, HOST_TIME, get_column, get_strings
from ...domain.units import NS_PER_S
from .sample_selection import SampleColumns

DURATION_EVENTS = (
    HOST_TIME,
    DEVICE_TIME,
    timed_events.RUNNING,
    timed_events.RUNNABLE,
    timed_events.SLEEPING,
    timed_events.SLEEPING_BY_WAKER,
    timed_events.RUNNING_BY_STACK,
    timed_events.LOCK_WAIT,
)


class SampleSpan(StrEnum):
    """The time span of the samples of an event.

    BEFORE: as long as their weight, ending at their time. AFTER: as long as their weight, from their time. SINCE: from
    the previous sample of the same event and thread, up to a limit; the first is a tick. TICK: only at their time.
    """

    BEFORE = "before"
    AFTER = "after"
    SINCE = "since"
    TICK = "tick"


def spans_of(profile: Profile) -> tuple[SampleSpan, ...]:
    """The time span of the samples of each event."""
    if profile.meta.clock == timed_events.IN_ORDER:
        return (SampleSpan.TICK,) * int(profile.events.num_rows)
    names, units = get_strings(profile.events, "name"), get_strings(profile.events, "unit")
    return tuple(_span(name, unit) for name, unit in zip(names, units, strict=True))


def _span(name: str, unit: str) -> SampleSpan:
    if name in DURATION_EVENTS:
        return SampleSpan.AFTER
    if unit == "ns" and (timed_events.is_clock(name) or name in (timed_events.WALL_TIME, timed_events.CPU_TIME)):
        return SampleSpan.BEFORE
    # A clock whose periods were not recorded is treated as a hardware event.
    steady = timed_events.is_clock(name) or timed_events.is_cycles(name) or timed_events.is_instructions(name)
    return SampleSpan.SINCE if unit == "count" and steady else SampleSpan.TICK


def place_samples(
    profile: Profile, samples: SampleColumns, spans: tuple[SampleSpan, ...], row: Array, order: Array, new: Array
) -> tuple[Array, Array]:
    """(start, end) of samples in ns, disjoint in each row. row: ascending, event × threads + thread. order: the rows of
    `samples` in this order, by time in each row. new: whether a sample is the first of its row."""
    time_ns, weight, event = samples.time_ns[order], np.maximum(samples.weight[order], 0), samples.event[order]
    before = np.where(new, np.iinfo(np.int64).min, np.concatenate((time_ns[:1], time_ns[:-1])))
    after = np.append(time_ns[1:], 0)
    after[np.append(new[1:], True)] = np.iinfo(np.int64).max
    start, end = time_ns.copy(), time_ns.copy()
    of = {span: np.array([one is span for one in spans], bool)[event] for span in SampleSpan}
    at = of[SampleSpan.BEFORE]
    start[at] = np.maximum(time_ns[at] - weight[at], before[at])
    at = of[SampleSpan.AFTER]
    end[at] = np.minimum(time_ns[at] + weight[at], after[at])
    at = of[SampleSpan.SINCE] & ~new
    if at.any():
        bounds = np.zeros(len(row), np.int64)
        for one in np.unique(event[at]).tolist():
            low, high = np.searchsorted(event, [one, one + 1]).tolist()
            bounds[low:high] = _bounds(profile, one, order[low:high], time_ns[low:high], new[low:high])
        start[at] = np.maximum(before[at], time_ns[at] - bounds[at])
    return start, end


def _bounds(profile: Profile, event: int, rows: Array, time_ns: Array, new: Array) -> Array:
    """The maximum duration (ns) of each sample of an event with spans SINCE the previous sample. rows: of `samples`, by
    thread and time. new: whether it is the first of its thread.

    1/frequency if the sampling frequency is known. Else it is estimated from the samples, as a lower bound: for each
    thread the lower quartile of the distances of its samples, but no more than the mean distance of all samples of the
    CPUs that it ran on, because a CPU runs one thread at a time. Cycles advance at the same rate in all threads (unlike
    instructions), so for them the limits over all threads apply to each thread, too.
    """
    about = profile.events.slice(event, 1).to_pylist()[0]
    if about["sampling"] == "frequency" and about["rate"]:
        return np.full(len(rows), round(NS_PER_S / about["rate"]))
    thread = np.cumsum(new) - 1
    inner = ~new[1:]
    if not inner.any():
        return np.zeros(len(rows), np.int64)
    distance, of = np.diff(time_ns)[inner], thread[1:][inner]
    on_cpu = _distances_on_cpus(get_column(profile.samples, "cpu")[rows], time_ns)
    known = on_cpu > 0
    bounds = _quartiles(distance, of, int(thread[-1]) + 1)
    count = np.bincount(thread[known], minlength=len(bounds))
    mean = np.bincount(thread[known], on_cpu[known], len(bounds)) / np.maximum(count, 1)
    bounds = np.where(count > 0, np.minimum(bounds, mean.astype(np.int64)), bounds)
    if not timed_events.is_instructions(about["name"]):
        bounds = np.minimum(bounds, _quartiles(distance, of * 0, 1))
        if known.any():
            bounds = np.minimum(bounds, int(np.median(on_cpu[known])))
    bound: Array = bounds[thread]
    return bound


def _quartiles(values: Array, group: Array, groups: int) -> Int64Array:
    """The lower quartile of the values of each group, 0 for an empty group."""
    quartiles = np.zeros(groups, np.int64)
    values = values[np.lexsort((values, group))]
    count = np.bincount(group, minlength=groups)
    rows = np.flatnonzero(count)
    quartiles[rows] = values[(np.cumsum(count) - count + (count - 1) // 4)[rows]]
    return quartiles


def _distances_on_cpus(cpu: Array, time_ns: Array) -> Array:
    """For each sample the mean distance (ns) of the samples on its CPU; 0 if unknown."""
    cpus, which, count = np.unique(cpu, return_inverse=True, return_counts=True)
    first, last = np.full(len(cpus), np.iinfo(np.int64).max), np.full(len(cpus), np.iinfo(np.int64).min)
    np.minimum.at(first, which, time_ns)
    np.maximum.at(last, which, time_ns)
    mean = np.where((cpus >= 0) & (count > 1), (last - first) // np.maximum(count - 1, 1), 0)
    found: Array = mean[which]
    return found
