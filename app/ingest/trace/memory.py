"""Memory in a trace of PyTorch's profiler: an event for each allocation and free of a block."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain import memory
from ...domain.arrays import MISSING, Array, sort_distinct
from ...domain.builder import ProfileBuilder
from ...domain.tables import NO_ID
from ..jit.hashing import compact_ids, factorize_pairs
from .argument_values import parse_arguments, to_int
from .events import TraceEvents
from .losses import NO_ALLOCATION, NO_BYTES, NO_FREE
from .point_events import CounterSeries, find_open_slices, find_tracks
from .pytorch_names import MEMORY
from .slices import SliceTable, describe_event
from .tables import build_table, to_nullable
from .tracks import THREAD

CPU = 0
"""The device type of host memory."""


@dataclass(frozen=True, eq=False)
class AllocatorEvents:
    """Events of allocators, in order of time. event: its events. place: of each, an index into `devices`: (kind,
    index).

    allocator: of each, the same if process and device are.
    """

    event: Array
    place: Array
    allocator: Array
    devices: list[tuple[str, int]]
    size: Array


def read_allocator_events(events: TraceEvents, moments: Array, builder: ProfileBuilder) -> AllocatorEvents:
    """The values of memory events. moments: the instants of that name."""
    found = moments
    size = _read_numbers(events, "Bytes", found)
    without = size == MISSING
    if without.any():
        builder.add_loss(NO_BYTES, describe_event(events, int(found[without][0])), int(without.sum()))
    found, size = found[~without], size[~without]
    order = np.argsort(events.time_ns[found], kind="stable")
    found, size = found[order], size[order]
    of, places = compact_ids(events.arguments[found], len(events.texts))
    devices: dict[tuple[str, int], int] = {}
    rows = [
        devices.setdefault(_parse_device(parse_arguments(events.texts[place])), len(devices))
        for place in places.tolist()
    ]
    unknown = devices.setdefault(("cpu", 0), len(devices)) if (events.arguments[found] < 0).any() else 0
    arguments = events.arguments[found]
    place = np.where(arguments < 0, unknown, np.array(rows or [0], np.int32)[of[arguments]])
    allocator, _ = factorize_pairs(np.arange(len(found)), events.process[found], place.astype(np.int32))
    return AllocatorEvents(found, place, allocator, list(devices), size)


def split_memory_events(events: TraceEvents, moments: Array) -> tuple[Array, Array]:
    """(the memory instants of allocators, the others)."""
    names = [at for at in sort_distinct(events.name[moments]).tolist() if at >= 0 and events.texts[at] == MEMORY]
    mine = np.isin(events.name[moments], names)
    return moments[mine], moments[~mine]


def _parse_device(arguments: dict[str, Any]) -> tuple[str, int]:
    kind, index = arguments.get("Device Type"), arguments.get("Device Id")
    number = to_int(index, 1 << 31)
    return ("cpu" if kind in (CPU, None) else "gpu"), max(number or 0, 0)


def _read_numbers(events: TraceEvents, key: str, found: Array) -> Array:
    """The argument `key` of some events, MISSING if they have none."""
    number = events.numbers.get(key)
    if number is None or not len(number.event):
        return np.full(len(found), MISSING, np.int64)
    at = np.minimum(np.searchsorted(number.event, found), len(number.event) - 1)
    return np.where(number.event[at] == found, number.value[at], MISSING)


def add_memory(
    rows: SliceTable,
    allocator_events: AllocatorEvents,
    places: dict[tuple[str, int], int],
    labels: Mapping[int, str],
    zero: int,
    rank: int | None,
    series: CounterSeries,
    builder: ProfileBuilder,
) -> pa.Table:
    """The table `allocations`; its samples are added to the builder, allocated and reserved totals to the series.

    places: the row of `devices` by kind and index. labels: the file's names of those rows, empty for none.
    """
    events, found, size = rows.events, allocator_events.event, allocator_events.size
    time_ns = events.time_ns[found]
    address = _read_numbers(events, "Addr", found)
    has_address = bool(len(found)) and bool((address != MISSING).all())
    pairs = memory.pair_allocations(time_ns - zero, size, allocator_events.allocator, address if has_address else None)
    for reason, count in ((NO_FREE, pairs.lost_frees), (NO_ALLOCATION, pairs.lost_allocations)):
        if count:
            builder.add_loss(reason, describe_event(events, int(found[0])), count)
    device = np.array([places[one] for one in allocator_events.devices] or [NO_ID], np.int32)[allocator_events.place]
    line = find_tracks(rows, found)
    line[np.array([about.track_kind != THREAD for about in rows.tracks] or [True], bool)[line]] = NO_ID
    inner = find_open_slices(rows, line, time_ns)
    stack = np.where(inner >= 0, rows.node[np.maximum(inner, 0)], 0) if len(rows) else np.zeros(len(found), np.int32)
    first = np.where(pairs.alloc_event >= 0, pairs.alloc_event, pairs.free_event)

    def of(values: Array, which: Array, missing: int) -> Array:
        return np.where(which >= 0, values[np.maximum(which, 0)], missing) if len(values) else which

    peaks = _add_curves(rows, allocator_events, device, zero, rank, series)
    blocks = memory.AllocationColumns(
        pairs.start_ns,
        pairs.end_ns,
        pairs.bytes,
        of(device, first, NO_ID),
        of(line, first, NO_ID),
        of(stack, pairs.alloc_event, 0),
    )
    threads = [at for at, about in enumerate(rows.tracks) if about.track_kind == THREAD]
    kinds = {places[one]: labels.get(places[one]) or one[0] for one in allocator_events.devices}
    memory.add_samples(
        builder,
        blocks,
        {
            row: memory.MemoryDevice(kind, peaks.get(row) if has_address else None, threads[0] if threads else 0)
            for row, kind in kinds.items()
        }
        if rows.tracks
        else {},
        0,
    )
    return build_table(
        "allocations",
        start_ns=to_nullable(pairs.start_ns),
        end_ns=to_nullable(pairs.end_ns),
        bytes=pairs.bytes,
        device=blocks.device,
        address=to_nullable(of(address, first, MISSING)),
        thread=blocks.thread,
        slice=of(inner, pairs.alloc_event, NO_ID),
        end_slice=of(inner, pairs.free_event, NO_ID),
        stack=blocks.stack,
        category=[None] * len(first),
    )


def _add_curves(
    rows: SliceTable,
    allocator_events: AllocatorEvents,
    device: Array,
    zero: int,
    rank: int | None,
    series: CounterSeries,
) -> dict[int, int | None]:
    """Add the allocated and reserved memory by device. Returns when most was allocated, by row of the device.

    If the file has no totals, they are sums of allocations and frees, from the smallest start with which no sum is
    negative.
    """
    events = rows.events
    peaks: dict[int, int | None] = {}
    heights: dict[int, int] = {}
    for one in sort_distinct(allocator_events.allocator).tolist():
        mine = np.flatnonzero(allocator_events.allocator == one)
        event = allocator_events.event[mine]
        row = int(device[mine[0]])
        process = int(events.process[event[0]])
        about = {"unit": "bytes", "rank": rank, "pid": to_int(events.texts[process] if process >= 0 else None)}
        time_ns = events.time_ns[event] - zero
        for name, key in ((memory.ALLOCATED, "Total Allocated"), (memory.RESERVED, "Total Reserved")):
            value = _read_numbers(events, key, event)
            known, at_ns = value != MISSING, time_ns
            if name == memory.ALLOCATED and not known.any():
                sums = np.cumsum(allocator_events.size[mine])
                before = -min(0, int(sums.min()))
                value, known = sums + before, np.ones(len(mine), bool)
                if len(time_ns) and time_ns[0] > 0:
                    # The value from the start.
                    at_ns, value, known = np.append(0, time_ns), np.append(before, value), np.append(True, known)
            # The host's allocator reserves nothing; its events have 0.
            if not known.any() or (name == memory.RESERVED and not value[known].any()):
                continue
            times, values = at_ns[known], value[known]
            series.add(times, values, name=name, device=row, **about)
            if name == memory.ALLOCATED and int(values.max()) > heights.get(row, -1):
                heights[row] = int(values.max())
                peaks[row] = memory.find_peak(times, values)
    return peaks
