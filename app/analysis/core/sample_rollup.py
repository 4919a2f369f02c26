"""Rollups of samples by thread and call node, for fast sums over millions of samples.

A sum needs only the thread, the node of `calls` and the weight of a sample. Samples of an event with many of them are
rolled up once, block by block; then only the samples at the edges of a time window are processed one by one.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from .memo import memoize
from .sample_selection import (
    Rows,
    clip_weights,
    filter_calls,
    samples_of,
    select_crossing_rows,
    select_event_rows,
    select_samples,
    select_threads,
    sum_by_index,
)

MIN_ROLLUP_SAMPLES = 2_000_000
"""Events with fewer samples have no block rollups: processing each sample is as fast."""
BLOCK_COUNT = 16
MAX_DENSE_KEYS = 1 << 21
"""Up to this number of pairs of thread and node, sums are accumulated in a dense array."""


@dataclass(frozen=True, eq=False)
class SampleRollup:
    """thread: row of `threads`. call: node of `calls`. weight: int64. count: how many samples."""

    thread: Array
    call: Array
    weight: Array
    count: Array

    def take(self, which: Any) -> "SampleRollup":
        """The entries at these indices."""
        return SampleRollup(self.thread[which], self.call[which], self.weight[which], self.count[which])

    def filter(self, kept: Array) -> "SampleRollup":
        """The entries where `kept` (bools) is true. Converted to indices once, which is faster than with bools."""
        return self.take(np.flatnonzero(kept))


@dataclass(frozen=True, eq=False)
class BlockRollup:
    """The rollups of all blocks, concatenated. block_samples: samples in a block; bounds: where the rollup of each
    block begins and ends."""

    block_samples: int
    bounds: Array
    rollup: SampleRollup


def roll_up_samples(profile: Profile, selection: Selection, event: int) -> SampleRollup:
    """The selected samples of an event (NO_ID: none), as by `select_samples` and `clip_weights`, ignoring patterns."""
    found = _from_blocks(profile, selection, event)
    return roll_up_rows(profile, selection, select_samples(profile, selection, event)) if found is None else found


def roll_up_filtered_samples(profile: Profile, selection: Selection, event: int) -> SampleRollup:
    """The selected samples of an event, with patterns applied."""
    kept = filter_calls(profile, selection)
    if kept is None:
        return roll_up_samples(profile, selection, event)
    return _concatenate([part.filter(kept.take(part.call)) for part in list_rollups(profile, selection, event)])


def list_rollups(profile: Profile, selection: Selection, event: int) -> list[SampleRollup]:
    """The parts of `roll_up_samples`, not copied: for sums over millions of entries."""
    parts = _list_block_parts(profile, selection, event)
    return [roll_up_rows(profile, selection, select_samples(profile, selection, event))] if parts is None else parts


def count_calls(profile: Profile, selection: Selection, event: int) -> Array:
    """How many of the selected samples of an event were taken on each node of `calls` itself: int64, not to be
    changed."""

    def build() -> Array:
        parts, calls = _list_block_parts(profile, selection, event), profile.calls.num_rows
        if parts is not None:
            return _sum_parts(parts, "count", calls)
        samples, rows = samples_of(profile), select_samples(profile, selection, event)
        return sum_by_index(samples.call, np.bincount(samples.stack[rows], minlength=len(samples.call)), calls)

    return _keep_calls(profile, selection, memoize(profile, ("call counts", _without_stacks(selection), event), build))


def sum_call_weights(profile: Profile, selection: Selection, event: int) -> Array:
    """The weight of the selected samples of an event at each node of `calls` itself: int64, in its unit, not to be
    changed."""

    def build() -> Array:
        parts, calls = _list_block_parts(profile, selection, event), profile.calls.num_rows
        if parts is not None:
            return _sum_parts(parts, "weight", calls)
        samples, rows = samples_of(profile), select_samples(profile, selection, event)
        weight = clip_weights(profile, selection, rows)
        stacks = sum_by_index(samples.stack[rows], weight, len(samples.call))
        return sum_by_index(samples.call, stacks, calls)

    return _keep_calls(profile, selection, memoize(profile, ("call sums", _without_stacks(selection), event), build))


def _sum_parts(parts: list[SampleRollup], name: str, calls: int) -> Array:
    sums = np.zeros(calls, np.int64)
    for part in parts:
        np.add.at(sums, part.call, getattr(part, name))
    return sums


def _keep_calls(profile: Profile, selection: Selection, sums: Array) -> Array:
    """The sums of the nodes that the patterns of the selection keep."""
    # The same array is used again for other patterns.
    sums.flags.writeable = False
    kept = filter_calls(profile, selection)
    return sums if kept is None else np.where(kept, sums, 0)


def _without_stacks(selection: Selection) -> Selection:
    """The part of a selection that selects samples, whatever their call stacks are; the event is given."""
    return Selection(
        threads=selection.threads,
        processes=selection.processes,
        ranks=selection.ranks,
        hosts=selection.hosts,
        start_ns=selection.start_ns,
        end_ns=selection.end_ns,
        step=selection.step,
    )


def roll_up_rows(profile: Profile, selection: Selection, rows: Rows) -> SampleRollup:
    """Selected rows of `samples`, one entry each."""
    samples = samples_of(profile)
    weight = clip_weights(profile, selection, rows)
    call = samples.call[samples.stack[rows]]
    return SampleRollup(samples.thread[rows], call, weight, np.broadcast_to(np.int64(1), weight.shape))


def _from_blocks(profile: Profile, selection: Selection, event: int) -> SampleRollup | None:
    parts = _list_block_parts(profile, selection, event)
    return None if parts is None else _concatenate(parts)


def _concatenate(parts: list[SampleRollup]) -> SampleRollup:
    return SampleRollup(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in SampleRollup.__match_args__)
    )


def _list_block_parts(profile: Profile, selection: Selection, event: int) -> list[SampleRollup] | None:
    """The rollups of complete blocks, and one entry for each sample at the edges of the window; None if the event has
    few samples."""
    samples = samples_of(profile)
    if event == NO_ID or selection.step is not None or samples.count_by_event[event] < MIN_ROLLUP_SAMPLES:
        return None
    before, rows, low, high = select_event_rows(profile, selection, event)
    size = _size(len(rows))
    first, last = -(-low // size), high // size
    if last <= first:
        return None
    blocks = block_rollup_of(profile, event)

    def build_edges() -> SampleRollup:
        edges = np.concatenate((before, rows[low : first * size], rows[last * size : high]))
        return roll_up_rows(profile, selection, edges)

    # Several parts of a page need them.
    window = selection.start_ns, selection.end_ns
    edges = memoize(profile, ("edges of window", window, event), build_edges)
    # Samples of complete blocks that last beyond the end of the window.
    over = select_crossing_rows(profile, selection.end_ns)
    over = over[(over >= rows[first * size]) & (over <= rows[last * size - 1]) & (samples.event[over] == event)]
    beyond = roll_up_rows(profile, selection, over)
    beyond = SampleRollup(beyond.thread, beyond.call, beyond.weight - samples.weight[over], np.zeros(len(over), int))
    threads = select_threads(profile, selection)
    if threads is None:
        complete = blocks.rollup.take(slice(int(blocks.bounds[first]), int(blocks.bounds[last])))
        return [complete, edges, beyond]
    complete = blocks.rollup.take(_find_thread_rows(blocks, first, last, threads))
    return [complete, *(part.filter(threads.take(part.thread)) for part in (edges, beyond))]


def _find_thread_rows(blocks: BlockRollup, first: int, last: int, threads: Array) -> Array:
    """The entries of some threads (bools by thread) in the blocks from `first` to before `last`."""
    chosen = np.flatnonzero(threads).astype(np.int32)
    starts, ends = [], []
    for begin, end in pairwise(blocks.bounds[first : last + 1].tolist()):
        # Each block is sorted by thread.
        of_block = blocks.rollup.thread[begin:end]
        starts.append(begin + np.searchsorted(of_block, chosen))
        ends.append(begin + np.searchsorted(of_block, chosen, "right"))
    start, size = np.concatenate(starts), np.concatenate(ends) - np.concatenate(starts)
    found: Array = np.repeat(start - (np.cumsum(size) - size), size) + np.arange(size.sum())
    return found


def block_rollup_of(profile: Profile, event: int) -> BlockRollup:
    """The block rollups of the samples of an event; built once."""

    def build() -> BlockRollup:
        _, rows, _, _ = select_event_rows(profile, Selection(), event)
        return _blocks(profile, rows, _size(len(rows)))

    return memoize(profile, ("sample_rollup", event), build)


def _size(rows: int) -> int:
    return -(-rows // BLOCK_COUNT)


def _blocks(profile: Profile, rows: Array, size: int) -> BlockRollup:
    samples, calls = samples_of(profile), profile.calls.num_rows
    parts, bounds = [], [0]
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        key = samples.thread[part].astype(np.int64) * calls + samples.call[samples.stack[part]]
        if profile.threads.num_rows * calls <= MAX_DENSE_KEYS:
            count = np.bincount(key, minlength=profile.threads.num_rows * calls)
            known = np.flatnonzero(count)
            count, weight = (
                count[known],
                sum_by_index(key, samples.weight[part], profile.threads.num_rows * calls)[known],
            )
        else:
            known, which, count = np.unique(key, return_inverse=True, return_counts=True)
            weight = sum_by_index(which, samples.weight[part], len(known))
        thread, call = np.divmod(known, calls)
        parts.append(SampleRollup(thread.astype(np.int32), call.astype(np.int32), weight, count))
        bounds.append(bounds[-1] + len(known))
    return BlockRollup(size, np.array(bounds), _concatenate(parts))
