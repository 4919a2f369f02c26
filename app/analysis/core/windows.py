"""Time windows over samples with a duration, and steps as windows.

Most samples have no duration and are either in a window or not. Those of `HOST_TIME` and `DEVICE_TIME` are duration
events: their weight is their duration, and the part inside a window counts. Selections are resolved in
`sample_selection`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, get_column, get_strings
from ...domain.text import shorten

BLOCK = 512
MAX_TIME_NS = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class DurationEvents:
    """Which events are duration events (bools by id), and the latest end (ns) in each `BLOCK` rows of `samples`."""

    event: Array
    block_end_ns: Array


@dataclass(frozen=True, eq=False)
class ClippedSamples:
    """Rows of `samples` in windows, ascending, and the part of their weight inside."""

    row: Array
    weight: Array


def find_duration_events(profile: Profile) -> DurationEvents | None:
    """The duration events of a profile; None without any."""
    event = np.array([name in (HOST_TIME, DEVICE_TIME) for name in get_strings(profile.events, "name")], bool)
    if not event.any() or not profile.samples.num_rows:
        return None
    rows = np.arange(0, profile.samples.num_rows, BLOCK)
    return DurationEvents(event, np.maximum.reduceat(sample_ends(profile, event, slice(None)), rows))


def sample_ends(profile: Profile, lasts: Array, rows: Any) -> Array:
    """The end of these rows of `samples` (ns); without a duration, their time. lasts: bools by event."""
    table = profile.samples
    time_ns = get_column(table, "time_ns")[rows]
    if lasts.all():
        found: Array = time_ns + get_column(table, "weight")[rows]
        return found
    over: Array = time_ns + np.where(lasts[get_column(table, "event")[rows]], get_column(table, "weight")[rows], 0)
    return over


def find_crossing_samples(profile: Profile, last: DurationEvents, at: int) -> Array:
    """The rows of `samples`, ascending, that begin before `at` and end after it."""
    stop = int(np.searchsorted(get_column(profile.samples, "time_ns"), at, "left"))
    blocks = np.flatnonzero(last.block_end_ns[: -(-stop // BLOCK)] > at)
    rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    rows = rows[: int(np.searchsorted(rows, stop))]
    return rows[sample_ends(profile, last.event, rows) > at]


def clip_to_window(
    profile: Profile, last: DurationEvents, rows: Array, start_ns: Array | int, end_ns: Array | int
) -> Array:
    """The part of the weights of these rows in a window, or in one window per row; 0 outside."""
    table = profile.samples
    time_ns, weight = get_column(table, "time_ns")[rows], get_column(table, "weight")[rows]
    over = np.minimum(sample_ends(profile, last.event, rows), end_ns)
    part = np.maximum(over - np.maximum(time_ns, start_ns), 0)
    moment = (time_ns >= start_ns) & (time_ns < end_ns)
    found: Array = np.where(last.event[get_column(table, "event")[rows]], part, np.where(moment, weight, 0))
    return found


def step_names(profile: Profile) -> list[str]:
    """The distinct steps, in order of time."""
    return list(dict.fromkeys(get_strings(profile.steps, "name")))


def resolve_step(profile: Profile, asked: str) -> str:
    """The name of the selected step, given by its name or its number (3: ProfilerStep#3). Raises InvalidRequest."""
    names = step_names(profile)
    found = [name for name in names if name == asked] or [n for n in names if n.rpartition("#")[2] == asked]
    if found:
        return found[0]
    if not names:
        raise InvalidRequest("This result has no steps; omit step.", "step")
    raise InvalidRequest(
        f"This result has no step {shorten(asked)!r}; its steps are {shorten(names[0])} to {shorten(names[-1])}.",
        "step",
    )


def step_windows(profile: Profile, name: str) -> list[tuple[int | None, int, int]]:
    """The windows of a step: (rank, start_ns, end_ns), one for each rank that has it. Rank None: all threads."""
    rows = profile.steps.to_pylist()
    return [(row["rank"], row["start_ns"], row["end_ns"]) for row in rows if row["name"] == name]


def select_step_samples(
    profile: Profile, last: DurationEvents | None, name: str, start_ns: int, end_ns: int
) -> ClippedSamples:
    """The part of the samples that belongs to a step, clipped to a window.

    Host work belongs to the step in whose window (of its rank) it ran. Device work belongs, completely, to the step in
    which it was launched, even if it ran later; if the launch is unknown, to the step in which it began.
    """
    table = profile.samples
    count = table.num_rows
    if not count:
        return ClippedSamples(np.zeros(0, np.int64), np.zeros(0, np.int64))
    last = last or DurationEvents(np.zeros(profile.events.num_rows, bool), np.zeros(0, np.int64))
    rank = profile.threads.column("rank").fill_null(NO_ID).to_numpy()[get_column(table, "thread")]
    by_device = device_sample_rows(profile)
    launched = launch_times(profile, by_device)
    weight, chosen = np.zeros(count, np.int64), np.zeros(count, bool)
    host = np.ones(count, bool)
    host[by_device] = False
    for of_rank, opens, closes in step_windows(profile, name):
        mine = host if of_rank is None else host & (rank == of_rank)
        rows = np.flatnonzero(mine)
        low, high = max(opens, start_ns), min(closes, end_ns)
        part = clip_to_window(profile, last, rows, low, high)
        time_ns = get_column(table, "time_ns")[rows]
        weight[rows] += part
        chosen[rows] |= (part > 0) | ((time_ns >= low) & (time_ns < high))
        of_step = (launched >= opens) & (launched < closes)
        if of_rank is not None:
            of_step &= rank[by_device] == of_rank
        rows = by_device[of_step]
        weight[rows] = clip_to_window(profile, last, rows, start_ns, end_ns)
        time_ns = get_column(table, "time_ns")[rows]
        chosen[rows] |= (weight[rows] > 0) | ((time_ns >= start_ns) & (time_ns < end_ns))
    found = np.flatnonzero(chosen)
    return ClippedSamples(found, weight[found])


def device_sample_rows(profile: Profile) -> Array:
    """The rows of `samples` that are work of devices, ascending."""
    names = get_strings(profile.events, "name")
    if DEVICE_TIME not in names:
        return np.zeros(0, np.int64)
    return np.flatnonzero(get_column(profile.samples, "event") == names.index(DEVICE_TIME))


def launch_times(profile: Profile, rows: Array) -> Array:
    """When the device work of these rows of `samples` was launched (ns): the start of the launch, else of the enclosing
    operator, else of the work."""
    samples, slices, work = profile.samples, profile.slices, profile.device_work
    began: Array = get_column(samples, "time_ns")[rows]
    if not len(rows) or not work.num_rows:
        return began
    at, launch, operator = (get_column(work, name) for name in ("slice", "launch", "operator"))
    launch = np.where(launch == NO_ID, operator, launch)
    start_ns = get_column(slices, "start_ns")
    # A sample has no reference to its device work: track, time, duration and stack identify it.
    keys = [
        np.concatenate((get_column(slices, of_slice)[at].astype(np.int64), get_column(samples, of_sample)[rows]))
        for of_slice, of_sample in (
            ("stack", "stack"),
            ("duration_ns", "weight"),
            ("start_ns", "time_ns"),
            ("thread", "thread"),
        )
    ]
    order = np.lexsort(keys)
    new = np.any([np.diff(key[order], prepend=key[order[0]] - 1) != 0 for key in keys], axis=0)
    same = np.empty(len(order), np.int64)
    same[order] = np.cumsum(new) - 1
    known = np.full(int(same.max()) + 1, MAX_TIME_NS)
    some = launch != NO_ID
    # Of indistinguishable work, the one launched first.
    np.minimum.at(known, same[: len(at)][some], start_ns[launch[some]])
    found = known[same[len(at) :]]
    return np.where(found == MAX_TIME_NS, began, found)
