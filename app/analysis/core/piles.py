"""Samples in piles: those of one thread and one call stack taken together, for sums over millions of them.

What a sum asks of a sample is its thread, its node of `calls`, and what it weighs. Where an event has many samples,
these are added up once for each of some blocks of them; then only those at the edges of a window are looked at one by
one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from .picking import (
    Rows,
    calls_kept,
    crossing_rows,
    event_rows,
    picked,
    samples_of,
    sums_on,
    threads_selected,
    weights_in,
    weights_on,
)
from .remember import remembered

MANY = 2_000_000
"""From so many samples of an event on, there are piles of blocks; fewer are looked at one by one as fast."""
BLOCKS = 16
DENSE = 1 << 21
"""So many pairs of thread and node can have a place each while adding up."""


@dataclass(frozen=True, eq=False)
class Piles:
    """thread: row of `threads`. call: node of `calls`. weight: int64. count: how many samples."""

    thread: Array
    call: Array
    weight: Array
    count: Array

    def at(self, which: Any) -> "Piles":
        """Those of these places."""
        return Piles(self.thread[which], self.call[which], self.weight[which], self.count[which])

    @property
    def peak(self) -> int:
        """No absolute weight is greater."""
        return int(np.abs(self.weight).max(initial=0))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Piles of one block after the other. size: samples in a block; bounds: where the piles of each begin and end."""

    size: int
    bounds: Array
    piles: Piles


def piles(profile: Profile, selection: Selection, event: int) -> Piles:
    """What a selection picks of an event (NO_ID: nothing), as `picked` and `weights_in` have it; patterns aside."""
    found = _from_blocks(profile, selection, event)
    return piles_of(profile, selection, picked(profile, selection, event)) if found is None else found


def piles_kept(profile: Profile, selection: Selection, event: int) -> Piles:
    """What the whole selection leaves of an event, patterns included."""
    found, kept = piles(profile, selection, event), calls_kept(profile, selection)
    return found if kept is None else found.at(kept[found.call])


def call_weights(profile: Profile, selection: Selection, event: int) -> Array:
    """What the selected samples of an event weigh on each node of `calls` themselves: int64, in its unit."""
    found, calls = _from_blocks(profile, selection, event), profile.calls.num_rows
    if found is not None:
        weights = sums_on(found.call, found.weight, calls)
    else:
        samples, rows = samples_of(profile), picked(profile, selection, event)
        weight = weights_in(profile, selection, rows)
        stacks = weights_on(samples.stack[rows], weight, len(samples.call), samples.peak)
        weights = sums_on(samples.call, stacks, calls)
    kept = calls_kept(profile, selection)
    if kept is not None:
        weights[~kept] = 0
    return weights


def piles_of(profile: Profile, selection: Selection, rows: Rows) -> Piles:
    """Rows of `samples`, picked for the selection, each by itself."""
    samples = samples_of(profile)
    weight = weights_in(profile, selection, rows)
    call = samples.call[samples.stack[rows]]
    return Piles(samples.thread[rows], call, weight, np.broadcast_to(np.int64(1), weight.shape))


def _from_blocks(profile: Profile, selection: Selection, event: int) -> Piles | None:
    """The piles of whole blocks, and each sample at the edges of the window by itself; None where there are few."""
    samples = samples_of(profile)
    if event == NO_ID or selection.step is not None or samples.per_event[event] < MANY:
        return None
    before, rows, low, high = event_rows(profile, selection, event)
    size = _size(len(rows))
    first, last = -(-low // size), high // size
    if last <= first:
        return None
    blocks = blocks_of(profile, event)
    edges = np.concatenate((before, rows[low : first * size], rows[last * size : high]))
    parts = [
        blocks.piles.at(slice(int(blocks.bounds[first]), int(blocks.bounds[last]))),
        piles_of(profile, selection, edges),
    ]
    # Samples of whole blocks that last beyond the end of the window.
    over = crossing_rows(profile, selection.end_ns)
    over = over[(over >= rows[first * size]) & (over <= rows[last * size - 1]) & (samples.event[over] == event)]
    if len(over):
        beyond = piles_of(profile, selection, over)
        parts.append(Piles(beyond.thread, beyond.call, beyond.weight - samples.weight[over], np.zeros(len(over), int)))
    joined = Piles(*(np.concatenate([getattr(part, name) for part in parts]) for name in Piles.__match_args__))
    threads = threads_selected(profile, selection)
    return joined if threads is None else joined.at(threads[joined.thread])


def blocks_of(profile: Profile, event: int) -> Blocks:
    """The piles of an event in blocks of its samples; built once."""

    def build() -> Blocks:
        _, rows, _, _ = event_rows(profile, Selection(), event)
        return _blocks(profile, rows, _size(len(rows)))

    return remembered(profile, ("piles", event), build)


def _size(rows: int) -> int:
    return -(-rows // BLOCKS)


def _blocks(profile: Profile, rows: Array, size: int) -> Blocks:
    samples, calls = samples_of(profile), profile.calls.num_rows
    parts, bounds = [], [0]
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        key = samples.thread[part].astype(np.int64) * calls + samples.call[samples.stack[part]]
        if profile.threads.num_rows * calls <= DENSE:
            count = np.bincount(key, minlength=profile.threads.num_rows * calls)
            known = np.flatnonzero(count)
            count, weight = count[known], sums_on(key, samples.weight[part], profile.threads.num_rows * calls)[known]
        else:
            known, which, count = np.unique(key, return_inverse=True, return_counts=True)
            weight = sums_on(which, samples.weight[part], len(known))
        thread, call = np.divmod(known, calls)
        parts.append(Piles(thread.astype(np.int32), call.astype(np.int32), weight, count))
        bounds.append(bounds[-1] + len(known))
    joined = Piles(*(np.concatenate([getattr(part, name) for part in parts]) for name in Piles.__match_args__))
    return Blocks(size, np.array(bounds), joined)
