"""Sums of the samples of an event by thread.

For events with many samples, sums up to checkpoints are kept. A window of time then needs only the difference of two
checkpoints and the samples between them and the ends of the window.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from .memo import memoize
from .sample_rollup import MIN_ROLLUP_SAMPLES, list_rollups
from .sample_selection import (
    filter_calls,
    has_durations,
    samples_of,
    select_event_rows,
    select_threads,
    sum_by_index,
)

MAX_CHECKPOINTS = 256
MAX_CHECKPOINT_SUMS = 1 << 20
"""Of all threads and checkpoints: with more threads there are fewer checkpoints."""


@dataclass(frozen=True, eq=False)
class ThreadSums:
    """By row of `threads`. weight: int64, in the unit of the event. count: how many samples, int64."""

    weight: Array
    count: Array


@dataclass(frozen=True, eq=False)
class _Checkpoints:
    """step: samples between checkpoints. weight, count: sums before each checkpoint, by checkpoint and thread."""

    step: int
    weight: Array
    count: Array


def sum_threads(profile: Profile, selection: Selection, event: int) -> ThreadSums:
    """The selected samples of an event (NO_ID: none), with patterns applied."""
    kept = filter_calls(profile, selection)
    if event == NO_ID or selection.step is not None or kept is not None or has_durations(profile):
        # Several parts of a page need these, which take longer. The event is given, and the rest is no filter.
        filters = selection.replace(event=None, invert=False, recursion=False)
        return memoize(profile, ("thread sums", filters, event), lambda: _sum_rollups(profile, filters, event, kept))
    _, rows, low, high = select_event_rows(profile, selection, event)
    if len(rows) < MIN_ROLLUP_SAMPLES:
        sums = _sum_rows(profile, rows[low:high])
    else:
        sums_at = _checkpoints_of(profile, event)
        first, last = -(-low // sums_at.step), high // sums_at.step
        if last <= first:
            sums = _sum_rows(profile, rows[low:high])
        else:
            edges = _sum_rows(
                profile, np.concatenate((rows[low : first * sums_at.step], rows[last * sums_at.step : high]))
            )
            sums = ThreadSums(
                sums_at.weight[last] - sums_at.weight[first] + edges.weight,
                sums_at.count[last] - sums_at.count[first] + edges.count,
            )
    chosen = select_threads(profile, selection)
    return sums if chosen is None else ThreadSums(sums.weight * chosen, sums.count * chosen)


def _sum_rollups(profile: Profile, selection: Selection, event: int, kept: Array | None) -> ThreadSums:
    """kept: which calls keep their samples, None for all."""
    size = profile.threads.num_rows
    weight, count = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for part in list_rollups(profile, selection, event):
        # Most entries are sorted by thread, block by block: sums of runs are faster than `sum_by_index`.
        starts = np.flatnonzero(np.diff(part.thread, prepend=NO_ID))
        inside = None if kept is None else kept.take(part.call)
        for total, values in ((weight, part.weight), (count, part.count)):
            sums = np.add.reduceat(values if inside is None else values * inside, starts) if len(starts) else values
            np.add.at(total, part.thread[starts], sums)
    return ThreadSums(weight, count)


def _sum_rows(profile: Profile, rows: Array) -> ThreadSums:
    """Of these rows of `samples`."""
    samples, threads = samples_of(profile), profile.threads.num_rows
    thread = samples.thread[rows]
    return ThreadSums(
        sum_by_index(thread, samples.weight[rows], threads),
        np.bincount(thread, minlength=threads).astype(np.int64),
    )


def _checkpoints_of(profile: Profile, event: int) -> _Checkpoints:
    def build() -> _Checkpoints:
        samples, threads = samples_of(profile), profile.threads.num_rows
        _, rows, _, _ = select_event_rows(profile, Selection(), event)
        step = -(-len(rows) // max(1, min(MAX_CHECKPOINTS, MAX_CHECKPOINT_SUMS // threads)))
        blocks = -(-len(rows) // step)
        key = samples.thread[rows] + np.arange(len(rows), dtype=np.int64) // step * threads
        sums = (
            sum_by_index(key, samples.weight[rows], blocks * threads),
            np.bincount(key, minlength=blocks * threads),
        )
        weight, count = (
            np.concatenate((np.zeros((1, threads), np.int64), np.cumsum(one.reshape(blocks, threads), axis=0)))
            for one in sums
        )
        return _Checkpoints(step, weight, count)

    return memoize(profile, ("thread sums", event), build)
