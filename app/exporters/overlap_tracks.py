"""Slices that overlap without nesting: viewers nest the slices of a thread, and Perfetto drops
the others. Each such slice gets a separate track next to its thread."""

import heapq

import numpy as np

from ..domain.arrays import Array, Int32Array

MAX_TRIED_TRACKS = 32
"""Number of tracks in which a slice can be nested into others; after these the next free track is used."""


def assign_tracks(thread: Array, parent: Array, start: Array, end: Array) -> Int32Array:
    """The track of each slice within its thread: 0 is the thread itself. Slices on one track are nested or disjoint.
    parent: the enclosing slice, -1 for none; slices of a thread are sorted by time."""
    found = np.zeros(len(thread), np.int32)
    for one in np.unique(thread[_mask_overlapping(thread, parent, start, end)]).tolist():
        rows = np.flatnonzero(thread == one)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        found[rows] = _assign_tracks(start[rows].tolist(), end[rows].tolist())
    return found


def _mask_overlapping(thread: Array, parent: Array, start: Array, end: Array) -> Array:
    """Mask of the slices that begin before an earlier slice at their level has ended."""
    if not len(thread):
        return np.zeros(0, bool)
    order = np.lexsort((start, parent, thread))
    new = np.ones(len(order), bool)
    new[1:] = (thread[order[1:]] != thread[order[:-1]]) | (parent[order[1:]] != parent[order[:-1]])
    # pandas takes longer to load than most exports.
    import pandas as pd

    reach = pd.Series(end[order]).groupby(np.cumsum(new)).cummax().to_numpy()
    found = np.zeros(len(order), bool)
    found[order[1:]] = ~new[1:] & (start[order[1:]] < reach[:-1])
    return found


def _assign_tracks(start: list[int], end: list[int]) -> list[int]:
    """The first track into which each slice fits. They are sorted by time, the longest first."""
    tracks: list[list[int]] = []
    rest: list[tuple[int, int]] = []
    count, numbers = 0, []
    for begin, stop in zip(start, end, strict=True):
        for number, track in enumerate(tracks):
            while track and track[-1] <= begin:
                track.pop()
            if not track or stop <= track[-1]:
                track.append(stop)
                numbers.append(number)
                break
        else:
            if len(tracks) < MAX_TRIED_TRACKS:
                tracks.append([stop])
                numbers.append(len(tracks) - 1)
            else:
                number = heapq.heappop(rest)[1] if rest and rest[0][0] <= begin else MAX_TRIED_TRACKS + count
                count += number == MAX_TRIED_TRACKS + count
                heapq.heappush(rest, (stop, number))
                numbers.append(number)
    return numbers
