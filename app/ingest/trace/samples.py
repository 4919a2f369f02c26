"""The samples of a trace: intervals of host time, device work, and other weights, in order of time."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, Int32Array, Int64Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID
from ..jit.decorators import jit
from .nesting import sort_slices
from .slices import SelfTimeIntervals
from .tables import build_table

MAX_RUNS = 256
"""More runs than these are sorted instead of merged."""


@jit
def _find_runs(time_ns: Array, most: int) -> Int64Array:
    """Where runs with ascending times begin, and the end of the last; empty if there are more than MAX_RUNS."""
    bounds = np.empty(most + 1, np.int64)
    bounds[0] = 0
    count = 1
    for i in range(1, len(time_ns)):
        if time_ns[i] < time_ns[i - 1]:
            if count == most:
                return bounds[:0].copy()
            bounds[count] = i
            count += 1
    bounds[count] = len(time_ns)
    return bounds[: count + 1].copy()


@jit
def _merge_runs(time_ns: Array, bounds: Array) -> Int32Array:
    """The order of time of runs. Of entries at one time those of an earlier run come first."""
    runs = len(bounds) - 1
    order = np.empty(len(time_ns), np.int32)
    at = bounds[:-1].copy()
    # A heap of runs, by the time of the next entry of each.
    heap = np.arange(runs)
    for root in range(runs // 2 - 1, -1, -1):
        _sift_down(heap, root, runs, time_ns, at)
    for i in range(len(time_ns)):
        run = heap[0]
        order[i] = at[run]
        at[run] += 1
        if at[run] == bounds[run + 1]:
            runs -= 1
            heap[0] = heap[runs]
        if runs > 1:
            _sift_down(heap, 0, runs, time_ns, at)
    return order


@jit
def _sift_down(heap: Array, root: int, size: int, time_ns: Array, at: Array) -> None:
    """Sift down the run at `root` of a heap of `size`."""
    run = heap[root]
    time = time_ns[at[run]]
    while 2 * root + 1 < size:
        down = 2 * root + 1
        least = heap[down]
        when = time_ns[at[least]]
        if down + 1 < size:
            other = heap[down + 1]
            other_when = time_ns[at[other]]
            if other_when < when or (other_when == when and other < least):
                down, least, when = down + 1, other, other_when
        if time < when or (time == when and run < least):
            break
        heap[root] = least
        root = down
    heap[root] = run


def sort_by_time(time_ns: Array) -> Array:
    """The order of times (int64), as int32 row numbers; entries at one time keep their order."""
    bounds = _find_runs(time_ns, MAX_RUNS)
    if len(bounds) == 2:
        return np.arange(len(time_ns), dtype=np.int32)
    if len(bounds):
        return _merge_runs(time_ns, bounds)
    nothing = np.zeros(len(time_ns), np.int32)
    order, _ = sort_slices(nothing, 1, time_ns, time_ns - time_ns, nothing.astype(np.int8))
    return order


def build_samples_table(
    stretches: SelfTimeIntervals,
    line: Array,
    zero: int,
    stack: Array,
    nodes: Array,
    builder: ProfileBuilder,
    others: Sequence[tuple[Array, ...]],
) -> pa.Table:
    """The table `samples`. stretches: those of threads, followed by device work; they are consumed, because memory is
    short if there are many. line, stack: the row of `threads` and of `stacks` of each slice. nodes: the row of `stacks`
    by node. others: columns as `ProfileBuilder.samples` takes them, with stacks as nodes.

    Only events with samples are created.
    """
    events = np.zeros(stretches.count, np.int32)
    if stretches.on_threads:
        events[: stretches.on_threads] = builder.intern_event(HOST_TIME, "ns")
    if stretches.on_threads < stretches.count:
        events[stretches.on_threads :] = builder.intern_event(DEVICE_TIME, "ns")
    row, start, length = stretches.take_columns()
    start -= zero
    thread, stacks = line[row], stack[row]
    del row
    cpu = np.full(len(start), NO_ID, np.int32)
    if others:
        time_ns, threads, cpus, kinds, places, weight = (np.concatenate(parts) for parts in zip(*others, strict=True))
        start, length = np.concatenate((start, time_ns)), np.concatenate((length, weight))
        thread, events = np.concatenate((thread, threads)), np.concatenate((events, kinds))
        stacks, cpu = np.concatenate((stacks, nodes[places])), np.concatenate((cpu, cpus))
    order = sort_by_time(start)
    weight = length[order]
    del length
    time_ns = start[order]
    del start
    return build_table(
        "samples",
        time_ns=time_ns,
        thread=thread[order],
        cpu=cpu[order] if others else cpu,
        event=events[order],
        stack=stacks[order],
        weight=weight,
    )
