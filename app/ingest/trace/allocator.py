"""Combines an allocator's history with its final state: blocks, segments, and the memory in use over time.

The allocator is PyTorch's caching one (c10/cuda/CUDACachingAllocator.cpp): it reserves segments from the system and
hands out blocks of them. A block that is freed (free_requested) can be handed out again when no stream uses it any more
(free_completed). With expandable segments parts of them are mapped and unmapped.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...domain.arrays import MISSING, Array, IndexArray
from ...domain.memory import AllocationPairs, pair_allocations
from .losses import LOST_ALLOCATION, LOST_FREE, UNRECORDED_FREE

ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, OOM, SNAPSHOT = range(9)
ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "snapshot",
)
"""As the file names them."""


@dataclass(frozen=True, eq=False)
class AllocatorHistory:
    """The events of one device in their order, one entry each in every column. action: index into ACTIONS. time_ns:
    strictly ascending. address: for oom, the free bytes of the device. stack: of the caller, 0 if unknown."""

    action: Array
    time_ns: Array
    address: Array
    size: Array
    stream: Array
    stack: Array

    def select(self, *actions: int) -> IndexArray:
        """The rows with one of these actions."""
        return np.flatnonzero(np.isin(self.action, actions))


@dataclass(frozen=True, eq=False)
class AllocatorState:
    """The blocks of one device at the end, one entry each in every column. size: the bytes that the allocator gave,
    requested: the bytes that were requested. allocated: in use; active: also freed blocks that a stream still uses.
    segment: index into the segments. Segments have address, size, stream, kind and stack."""

    address: Array
    size: Array
    requested: Array
    allocated: Array
    active: Array
    segment: Array
    stack: Array
    segments: "list[Segment]"


class Segment(NamedTuple):
    """Memory reserved from the system. start_ns, end_ns: None if it existed before, or still exists."""

    address: int
    size: int
    stream: int
    kind: str | None
    stack: int
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True, eq=False)
class AllocatorBlocks:
    """Blocks of one device as in `domain.memory.Pairs`, with address, stack and the event (or -1) that allocated each.
    lost: what had to be assumed, by reason, with count and first address."""

    start_ns: Array
    end_ns: Array
    bytes: Array
    address: Array
    stack: Array
    alloc_event: Array
    lost: dict[str, tuple[int, int]]


def compute_blocks(history: AllocatorHistory, state: AllocatorState | None, end_ns: int) -> AllocatorBlocks:
    """The blocks that lived at any time. A block ends when it is freed, not when it can be handed out again.

    state: None if the file does not contain it. end_ns: when the recording ended.
    """
    rows = _select_ends(history)
    address, stack = history.address[rows], history.stack[rows]
    sign = np.where(history.action[rows] == ALLOC, 1, -1)
    pairs = pair_allocations(history.time_ns[rows], sign * history.size[rows], np.zeros(len(rows), np.int64), address)
    event = np.where(pairs.alloc_event >= 0, pairs.alloc_event, pairs.free_event)
    allocator_blocks = AllocatorBlocks(
        start_ns=pairs.start_ns,
        end_ns=pairs.end_ns.copy(),
        bytes=pairs.bytes,
        address=address[event],
        stack=np.where(pairs.alloc_event >= 0, stack[event], 0),
        alloc_event=np.where(pairs.alloc_event >= 0, rows[event], -1),
        lost=_count_lost(pairs, address),
    )
    return allocator_blocks if state is None else _merge_state(allocator_blocks, state, end_ns)


def _select_ends(history: AllocatorHistory) -> Array:
    """The events by which blocks begin and end: only the first of the two steps of a free."""
    rows = history.select(ALLOC, FREE_REQUESTED, FREE_COMPLETED)
    requested = history.action[rows] == FREE_REQUESTED
    if not requested.any():
        return rows
    # If requests are recorded, every completion has one, possibly from before the recording.
    row: Array = rows[history.action[rows] != FREE_COMPLETED]
    return row


def _count_lost(pairs: AllocationPairs, address: Array) -> dict[str, tuple[int, int]]:
    lost = {}
    for reason, count in ((LOST_FREE, pairs.lost_frees), (LOST_ALLOCATION, pairs.lost_allocations)):
        if count:
            lost[reason] = count, int(address[0])
    return lost


def _merge_state(allocator_blocks: AllocatorBlocks, state: AllocatorState, end_ns: int) -> AllocatorBlocks:
    """Add blocks that exist at the end without an event; end those that no longer exist."""
    rows = np.flatnonzero(state.allocated)
    order = np.argsort(allocator_blocks.address, kind="stable")
    open_ = order[allocator_blocks.end_ns[order] == MISSING]
    lost = dict(allocator_blocks.lost)
    there = np.isin(allocator_blocks.address[open_], state.address[rows])
    gone = open_[~there]
    if len(gone):
        allocator_blocks.end_ns[gone] = end_ns
        lost[UNRECORDED_FREE] = len(gone), int(allocator_blocks.address[gone[0]])
    known = np.isin(state.address[rows], allocator_blocks.address[open_])
    added = rows[~known]
    none = np.full(len(added), MISSING)
    return AllocatorBlocks(
        start_ns=np.concatenate([none, allocator_blocks.start_ns]),
        end_ns=np.concatenate([none, allocator_blocks.end_ns]),
        bytes=np.concatenate([state.requested[added], allocator_blocks.bytes]),
        address=np.concatenate([state.address[added], allocator_blocks.address]),
        stack=np.concatenate([state.stack[added], allocator_blocks.stack]),
        alloc_event=np.concatenate([np.full(len(added), -1), allocator_blocks.alloc_event]),
        lost=lost,
    )


class _AddressRanges:
    """Addresses that are in use as segments or their parts, disjoint and in order."""

    def __init__(self) -> None:
        self._held: list[Segment] = []

    def add(self, new: Segment) -> None:
        """Add a range; memory that overlaps it must have been returned before."""
        insort(self._held, new)

    def take(self, address: int, size: int) -> tuple[list[Segment], list[tuple[int, int]]]:
        """Remove a range: (the removed ranges, the parts of it that were unknown)."""
        end = address + size
        first = bisect_left(self._held, (address,))
        if first and self._held[first - 1].address + self._held[first - 1].size > address:
            first -= 1
        last = bisect_right(self._held, (end - 1, 1 << 62), first)
        inside, kept, gaps, at = [], [], [], address
        for one in self._held[first:last]:
            low, high = max(one.address, address), min(one.address + one.size, end)
            if one.address < low:
                kept.append(one._replace(size=low - one.address))
            if one.address + one.size > high:
                kept.append(one._replace(address=high, size=one.address + one.size - high))
            if low > at:
                gaps.append((at, low - at))
            inside.append(one._replace(address=low, size=high - low))
            at = high
        if at < end:
            gaps.append((at, end - at))
        self._held[first:last] = kept
        return inside, gaps

    def rest(self) -> list[Segment]:
        """All remaining ranges."""
        return self._held


def compute_segments(history: AllocatorHistory, state: AllocatorState | None) -> list[Segment]:
    """The memory that was reserved from the system at any time, by start time (first what existed before)."""
    ranges, done = _AddressRanges(), []
    rows = history.select(SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP)
    columns = (history.action, history.time_ns, history.address, history.size, history.stream, history.stack)
    for action, time_ns, address, size, stream, stack in zip(*(c[rows].tolist() for c in columns), strict=True):
        if size <= 0:
            continue
        inside, gaps = ranges.take(address, size)
        done += [one._replace(end_ns=time_ns) for one in inside]
        if action in (SEGMENT_ALLOC, SEGMENT_MAP):
            ranges.add(Segment(address, size, stream, None, stack, time_ns))
        else:
            done += [Segment(low, length, stream, None, 0, None, time_ns) for low, length in gaps]
    for segment in state.segments if state else ():
        inside, gaps = ranges.take(segment.address, segment.size)
        done += [one._replace(kind=segment.kind) for one in inside]
        done += [segment._replace(address=low, size=length) for low, length in gaps]
    if state is None:
        done += ranges.rest()
    else:
        # Returned without a record.
        end = int(history.time_ns[-1]) if len(history.time_ns) else 0
        done += [one._replace(end_ns=end) for one in ranges.rest()]
    return sorted(done, key=lambda one: (-1 if one.start_ns is None else one.start_ns, one.address))


def compute_curve(start_ns: Array, end_ns: Array, size: Array, began_ns: int) -> tuple[Array, Array]:
    """(times, the amount from then on): the sum of everything that has begun and not ended; its first time is
    began_ns."""
    begun, ended = start_ns != MISSING, end_ns != MISSING
    time_ns = np.concatenate([start_ns[begun], end_ns[ended]])
    change = np.concatenate([size[begun], -size[ended]])
    order = np.argsort(time_ns, kind="stable")
    base = int(size[~begun].sum())
    times, value = time_ns[order], base + np.cumsum(change[order])
    # Of several events at one time only the last counts.
    last = np.ones(len(times), bool)
    last[:-1] = times[1:] != times[:-1]
    times, value = times[last], value[last]
    if not len(times) or times[0] > began_ns:
        times, value = np.concatenate([[began_ns], times]), np.concatenate([[base], value])
    return times.astype(np.int64), value.astype(np.int64)


def compute_active_curve(history: AllocatorHistory, state: AllocatorState, began_ns: int) -> tuple[Array, Array]:
    """Like `compute_curve`, for memory that is allocated, or freed but still used by a stream: backwards from the state
    at the end."""
    rows = history.select(ALLOC, FREE_COMPLETED)
    change = np.where(history.action[rows] == ALLOC, history.size[rows], -history.size[rows])
    base = int(state.requested[state.active].sum()) - int(change.sum())
    times, value = history.time_ns[rows], base + np.cumsum(change)
    if not len(times) or times[0] > began_ns:
        times, value = np.concatenate([[began_ns], times]), np.concatenate([[base], value])
    return times.astype(np.int64), value.astype(np.int64)


def find_retries(history: AllocatorHistory) -> Array:
    """The events with which allocations succeeded, or finally failed, after the allocator had returned cached memory: a
    segment or an oom directly after freed segments, all with the same call stack."""
    rows = history.select(*range(SEGMENT_ALLOC, OOM + 1), ALLOC, FREE_REQUESTED)
    action, stack = history.action[rows], history.stack[rows]
    gave_back = np.isin(action[:-1], (SEGMENT_FREE, SEGMENT_UNMAP))
    asks = np.isin(action[1:], (SEGMENT_ALLOC, SEGMENT_MAP, OOM))
    retries: Array = rows[1:][gave_back & asks & (stack[1:] == stack[:-1]) & (stack[1:] > 0)]
    return retries


@dataclass(frozen=True)
class Fragmentation:
    """Free memory of one device at the end. In bytes, inactive_split_blocks a number of blocks."""

    largest_free: int
    inactive_split: int
    inactive_split_blocks: int
    rounding: int


def compute_fragmentation(state: AllocatorState) -> Fragmentation:
    """The layout of free memory. A free block is split if its segment has other blocks."""
    free = ~state.active
    number = np.bincount(state.segment, minlength=len(state.segments))
    split = free & (number[state.segment] > 1)
    used = state.allocated
    return Fragmentation(
        largest_free=int(state.size[free].max(initial=0)),
        inactive_split=int(state.size[split].sum()),
        inactive_split_blocks=int(split.sum()),
        rounding=int((state.size[used] - state.requested[used]).sum()),
    )
