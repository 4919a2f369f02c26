"""Spans: several consecutive recordings of one process, as a repeating schedule makes them. They form one rank.

Their threads are the same threads, so that the slices of a thread come from several recordings. `SliceOrder` computes
the new position of each row, because slices are ordered by thread.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.units import NS_PER_MS

CLOCKS_NS = NS_PER_MS
"""Spans of a process may seem to overlap by this much, and by a quarter of the shorter one, because the profiler sets
its clock anew for each."""


@dataclass(frozen=True)
class _ProcessSpan:
    """The time of a process that a part covers, in ns since the epoch."""

    part: int
    start_ns: int
    end_ns: int

    def beside(self, other: "_ProcessSpan") -> bool:
        """Whether one ends, or nearly, before the other begins."""
        common = min(self.end_ns, other.end_ns) - max(self.start_ns, other.start_ns)
        shorter = min(self.end_ns - self.start_ns, other.end_ns - other.start_ns)
        return common <= min(CLOCKS_NS, shorter // 4)


class ProcessSpans:
    """Assigns parts to processes."""

    def __init__(self) -> None:
        self._processes: list[list[_ProcessSpan]] = []
        self._known: dict[tuple[Any, ...], list[int]] = {}

    def __len__(self) -> int:
        return len(self._processes)

    def assign(self, profile: Profile, part: int, job: object) -> tuple[int, int]:
        """(the number of a part's process, the first part of that process). Parts with another `job` belong to other
        processes.

        A process has one profiler at a time: overlapping recordings belong to two processes.
        """
        start = profile.meta.start_epoch_ns or 0
        span = _ProcessSpan(part, start, start + (profile.meta.duration_ns or 0))
        identity = _identify(profile)
        alike = [] if identity is None else self._known.setdefault((job, *identity), [])
        for process in alike:
            others = self._processes[process]
            if all(span.beside(one) for one in others):
                others.append(span)
                return process, others[0].part
        alike.append(len(self._processes))
        self._processes.append([span])
        return alike[-1], part

    def compute_offsets(self, added: Sequence[int]) -> list[int]:
        """What is added to the times of each part, so that spans of a process keep their distances, and none begins
        before the previous one ends."""
        offsets = list(added)
        for spans in self._processes:
            first, *others = sorted(spans, key=lambda span: span.start_ns)
            behind = added[first.part] - first.start_ns
            over = added[first.part] + first.end_ns - first.start_ns
            for span in others:
                offsets[span.part] = max(over, span.start_ns + behind)
                over = offsets[span.part] + span.end_ns - span.start_ns
        return offsets

    def iterate_starts(self) -> Iterator[tuple[int, int]]:
        """For each process with several spans its first part, and when the earliest began, in ns since the epoch."""
        for spans in self._processes:
            if len(spans) > 1:
                yield spans[0].part, min(span.start_ns for span in spans)


def _identify(profile: Profile) -> tuple[Any, ...] | None:
    """What identifies the process of a span; None if that, or the time of the recording, is not known."""
    meta = profile.meta
    if meta.start_epoch_ns is None or meta.duration_ns is None or not profile.slices.num_rows:
        return None
    rows = profile.threads.select(["host", "rank", "pid", "kind"]).to_pylist()
    found = {(row["host"], row["rank"], row["pid"]) for row in rows if row["kind"] == "thread"}
    only = found.pop() if len(found) == 1 else (None, None, None)
    return None if only[2] is None else (meta.format, *only)


@dataclass(frozen=True)
class _SliceBlock:
    """Rows of `slices` of one thread and one part."""

    thread: int
    part: int
    first: int
    rows: int


class SliceBlocks:
    """The threads of the slices of all parts, in the order in which they were added."""

    def __init__(self) -> None:
        self._blocks: list[_SliceBlock] = []

    def add(self, part: int, thread: Array, before: int) -> None:
        """Add the slices of a part. thread: of each, in order. before: how many slices there are already."""
        bounds = [0, *(np.flatnonzero(thread[1:] != thread[:-1]) + 1).tolist(), len(thread)]
        for low, high in pairwise(bounds):
            if high > low:
                self._blocks.append(_SliceBlock(int(thread[low]), part, before + low, high - low))

    def compute_order(self, added: Sequence[int]) -> "SliceOrder | None":
        """The new positions of the slices; None if their order is right already. added: what is added to the times of
        each part."""
        order = sorted(self._blocks, key=lambda block: (block.thread, added[block.part], block.first))
        return None if order == self._blocks else SliceOrder(self._blocks, order)


class SliceOrder:
    """Positions of slices that are not in the order of their threads."""

    def __init__(self, blocks: Sequence[_SliceBlock], order: Sequence[_SliceBlock]) -> None:
        self.order = order
        self._first = np.array([block.first for block in blocks], np.int64)
        begins = np.cumsum([0, *(block.rows for block in order)])
        place = {id(block): int(at) for block, at in zip(order, begins[:-1], strict=True)}
        self._shift = np.array([place[id(block)] - block.first for block in blocks], np.int64)

    def map_rows(self, slices: Array) -> Array:
        """The new rows of slices; -1 is unchanged."""
        block = np.searchsorted(self._first, slices, "right") - 1
        moved: Array = np.where(slices >= 0, slices + self._shift[np.maximum(block, 0)], slices)
        return moved

    def iterate_ranges(self) -> Iterator[tuple[int, int, int, bool]]:
        """(part, first slice, end, whether it is the part's last chunk) in the new order."""
        last = {block.part: at for at, block in enumerate(self.order)}
        for at, block in enumerate(self.order):
            yield block.part, block.first, block.first + block.rows, last[block.part] == at
