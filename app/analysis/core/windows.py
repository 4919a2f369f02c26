"""Windows of time over samples that last, and steps as windows.

Most samples are of one moment and are in a window or not. Those of `HOST_TIME` and `DEVICE_TIME` last, from their time
on for their weight: of them the part inside a window counts. Nothing here knows a Selection: `picking` does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, column, texts
from .patterns import shortened

BLOCK = 512
FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Lasting:
    """Which events last (bools by id), and for every `BLOCK` rows of `samples` when the last of them is over (ns)."""

    event: Array
    over: Array


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of `samples` that are in some windows, ascending, and what of their weight is inside."""

    row: Array
    weight: Array


def lasting(profile: Profile) -> Lasting | None:
    """What lasts in a profile; None where nothing does."""
    event = np.array([name in (HOST_TIME, DEVICE_TIME) for name in texts(profile.events, "name")], bool)
    if not event.any() or not profile.samples.num_rows:
        return None
    rows = np.arange(0, profile.samples.num_rows, BLOCK)
    return Lasting(event, np.maximum.reduceat(ends(profile, event, slice(None)), rows))


def ends(profile: Profile, lasts: Array, rows: Any) -> Array:
    """When these rows of `samples` are over (ns): those of one moment at that moment. lasts: bools by event."""
    table = profile.samples
    time_ns = column(table, "time_ns")[rows]
    if lasts.all():
        found: Array = time_ns + column(table, "weight")[rows]
        return found
    over: Array = time_ns + np.where(lasts[column(table, "event")[rows]], column(table, "weight")[rows], 0)
    return over


def crossing(profile: Profile, last: Lasting, at: int) -> Array:
    """The rows of `samples`, ascending, that begin before `at` and are over after it."""
    stop = int(np.searchsorted(column(profile.samples, "time_ns"), at, "left"))
    blocks = np.flatnonzero(last.over[: -(-stop // BLOCK)] > at)
    rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    rows = rows[: int(np.searchsorted(rows, stop))]
    return rows[ends(profile, last.event, rows) > at]


def inside(profile: Profile, last: Lasting, rows: Array, start_ns: Array | int, end_ns: Array | int) -> Array:
    """What of these rows' weights lies in a window, or in one for each row; 0 for those of no time in it."""
    table = profile.samples
    time_ns, weight = column(table, "time_ns")[rows], column(table, "weight")[rows]
    over = np.minimum(ends(profile, last.event, rows), end_ns)
    part = np.maximum(over - np.maximum(time_ns, start_ns), 0)
    moment = (time_ns >= start_ns) & (time_ns < end_ns)
    found: Array = np.where(last.event[column(table, "event")[rows]], part, np.where(moment, weight, 0))
    return found


def step_names(profile: Profile) -> list[str]:
    """The steps there are, each once, in order of time."""
    return list(dict.fromkeys(texts(profile.steps, "name")))


def checked_step(profile: Profile, asked: str) -> str:
    """The name of the step asked for: by its name, or by its number (3: ProfilerStep#3). Raises InvalidRequest."""
    names = step_names(profile)
    found = [name for name in names if name == asked] or [n for n in names if n.rpartition("#")[2] == asked]
    if found:
        return found[0]
    if not names:
        raise InvalidRequest("This result has no steps; leave step out.", "step")
    raise InvalidRequest(
        f"This result has no step {shortened(asked)!r}; its steps are {shortened(names[0])} to {shortened(names[-1])}.",
        "step",
    )


def step_windows(profile: Profile, name: str) -> list[tuple[int | None, int, int]]:
    """The windows of a step: (rank, start_ns, end_ns), one for each rank that took it. Rank None: of every thread."""
    rows = profile.steps.to_pylist()
    return [(row["rank"], row["start_ns"], row["end_ns"]) for row in rows if row["name"] == name]


def in_step(profile: Profile, last: Lasting | None, name: str, start_ns: int, end_ns: int) -> Parts:
    """What of the samples belongs to a step, as far as it is in a window besides.

    What threads of the host did belongs to the step in whose window (of their own rank) they did it. What a device did
    belongs, as a whole, to the step in which it was launched, however late it ran; where the launch is not known, to
    the one in which it began.
    """
    table = profile.samples
    count = table.num_rows
    if not count:
        return Parts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    last = last or Lasting(np.zeros(profile.events.num_rows, bool), np.zeros(0, np.int64))
    rank = profile.threads.column("rank").fill_null(NO_ID).to_numpy()[column(table, "thread")]
    by_device = device_rows(profile)
    launched = launches(profile, by_device)
    weight, chosen = np.zeros(count, np.int64), np.zeros(count, bool)
    host = np.ones(count, bool)
    host[by_device] = False
    for of_rank, opens, closes in step_windows(profile, name):
        mine = host if of_rank is None else host & (rank == of_rank)
        rows = np.flatnonzero(mine)
        low, high = max(opens, start_ns), min(closes, end_ns)
        part = inside(profile, last, rows, low, high)
        time_ns = column(table, "time_ns")[rows]
        weight[rows] += part
        chosen[rows] |= (part > 0) | ((time_ns >= low) & (time_ns < high))
        of_step = (launched >= opens) & (launched < closes)
        if of_rank is not None:
            of_step &= rank[by_device] == of_rank
        rows = by_device[of_step]
        weight[rows] = inside(profile, last, rows, start_ns, end_ns)
        time_ns = column(table, "time_ns")[rows]
        chosen[rows] |= (weight[rows] > 0) | ((time_ns >= start_ns) & (time_ns < end_ns))
    found = np.flatnonzero(chosen)
    return Parts(found, weight[found])


def device_rows(profile: Profile) -> Array:
    """The rows of `samples` that are work of devices, ascending."""
    names = texts(profile.events, "name")
    if DEVICE_TIME not in names:
        return np.zeros(0, np.int64)
    return np.flatnonzero(column(profile.samples, "event") == names.index(DEVICE_TIME))


def launches(profile: Profile, rows: Array) -> Array:
    """When the work that these rows of `samples` are was launched (ns): when the launch began, else the operator around
    it; where neither is known, when the work began."""
    samples, slices, work = profile.samples, profile.slices, profile.device_work
    began: Array = column(samples, "time_ns")[rows]
    if not len(rows) or not work.num_rows:
        return began
    at, launch, operator = (column(work, name) for name in ("slice", "launch", "operator"))
    launch = np.where(launch == NO_ID, operator, launch)
    start_ns = column(slices, "start_ns")
    # A sample has no reference to the work that it is of; where and when it ran for how long, and its stack, tell.
    keys = [
        np.concatenate((column(slices, of_slice)[at].astype(np.int64), column(samples, of_sample)[rows]))
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
    known = np.full(int(same.max()) + 1, FOREVER)
    some = launch != NO_ID
    # Of works that cannot be told apart, the one launched first.
    np.minimum.at(known, same[: len(at)][some], start_ns[launch[some]])
    found = known[same[len(at) :]]
    return np.where(found == FOREVER, began, found)
