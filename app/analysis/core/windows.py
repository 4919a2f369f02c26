"""Windows of time over samples that last, and steps as windows.

Most samples are of one moment and are in a window or not. Those of `HOST_TIME` and `DEVICE_TIME` last, from their time
on for their weight: of them the part inside a window counts. Selections are resolved in `sample_selection`.
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
    """Which events last (bools by id), and for every `BLOCK` rows of `samples` when the last of them is over (ns)."""

    event: Array
    block_end_ns: Array


@dataclass(frozen=True, eq=False)
class ClippedSamples:
    """Rows of `samples` that are in some windows, ascending, and what of their weight is inside."""

    row: Array
    weight: Array


def find_duration_events(profile: Profile) -> DurationEvents | None:
    """What lasts in a profile; None where nothing does."""
    event = np.array([name in (HOST_TIME, DEVICE_TIME) for name in get_strings(profile.events, "name")], bool)
    if not event.any() or not profile.samples.num_rows:
        return None
    rows = np.arange(0, profile.samples.num_rows, BLOCK)
    return DurationEvents(event, np.maximum.reduceat(sample_ends(profile, event, slice(None)), rows))


def sample_ends(profile: Profile, lasts: Array, rows: Any) -> Array:
    """When these rows of `samples` are over (ns): those of one moment at that moment. lasts: bools by event."""
    table = profile.samples
    time_ns = get_column(table, "time_ns")[rows]
    if lasts.all():
        found: Array = time_ns + get_column(table, "weight")[rows]
        return found
    over: Array = time_ns + np.where(lasts[get_column(table, "event")[rows]], get_column(table, "weight")[rows], 0)
    return over


def find_crossing_samples(profile: Profile, last: DurationEvents, at: int) -> Array:
    """The rows of `samples`, ascending, that begin before `at` and are over after it."""
    stop = int(np.searchsorted(get_column(profile.samples, "time_ns"), at, "left"))
    blocks = np.flatnonzero(last.block_end_ns[: -(-stop // BLOCK)] > at)
    rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    rows = rows[: int(np.searchsorted(rows, stop))]
    return rows[sample_ends(profile, last.event, rows) > at]


def clip_to_window(
    profile: Profile, last: DurationEvents, rows: Array, start_ns: Array | int, end_ns: Array | int
) -> Array:
    """What of these rows' weights is in a window, or in one for each row; 0 for those of no time in it."""
    table = profile.samples
    time_ns, weight = get_column(table, "time_ns")[rows], get_column(table, "weight")[rows]
    over = np.minimum(sample_ends(profile, last.event, rows), end_ns)
    part = np.maximum(over - np.maximum(time_ns, start_ns), 0)
    moment = (time_ns >= start_ns) & (time_ns < end_ns)
    found: Array = np.where(last.event[get_column(table, "event")[rows]], part, np.where(moment, weight, 0))
    return found


def step_names(profile: Profile) -> list[str]:
    """The steps there are, each once, in order of time."""
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
    """The windows of a step: (rank, start_ns, end_ns), one for each rank that took it. Rank None: of every thread."""
    rows = profile.steps.to_pylist()
    return [(row["rank"], row["start_ns"], row["end_ns"]) for row in rows if row["name"] == name]


def select_step_samples(
    profile: Profile, last: DurationEvents | None, name: str, start_ns: int, end_ns: int
) -> ClippedSamples:
    """The part of the samples that belongs to a step, clipped to a window.

    What threads of the host did belongs to the step in whose window (of their own rank) they did it. What a device did
    belongs, as a whole, to the step in which it was launched, however late it ran; where the launch is not known, to
    the one in which it began.
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
    """When the work that these rows of `samples` are was launched (ns): when the launch began, else the operator around
    it; where neither is known, when the work began."""
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
    # Of works that cannot be distinguished, the one launched first.
    np.minimum.at(known, same[: len(at)][some], start_ns[launch[some]])
    found = known[same[len(at) :]]
    return np.where(found == MAX_TIME_NS, began, found)
