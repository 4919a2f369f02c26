"""Shared by readers of memory: names of series and events, allocations paired by address, their samples.

A profile with memory has, in `series` and `counters`, what an allocator had handed out (ALLOCATED), could not yet hand
out again (ACTIVE) and had reserved from the system (RESERVED), by device in bytes. `allocations` has its blocks. So
that flame graphs, hotspots and comparisons show memory too, each block is also a sample with its size and the stack
that allocated it: once in the event of all allocations, and once in that of the peak if it lived at the peak of its
device.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .arrays import MISSING, Array
from .builder import ProfileBuilder
from .tables import NO_ID

ALLOCATED, RESERVED, ACTIVE = "allocated", "reserved", "active"
"""Names of series, in bytes by device. active: allocated, and freed memory that other streams still use."""
LARGEST_FREE, INACTIVE_SPLIT, INACTIVE_SPLIT_BLOCKS, ROUNDING = (
    "largest free block",
    "inactive split",
    "inactive split blocks",
    "rounding",
)
"""Series with one value at the end of a snapshot, in bytes (blocks: a count), by device: the largest block that could
be handed out; free blocks that cannot be returned to the system, because a part of their segment is in use; and the
bytes that the allocator gave in excess of the request."""
_KINDS = {"cpu": "CPU", "gpu": "GPU"}
OUT_OF_MEMORY, RETRY = "out of memory", "allocator retry"
"""Names of instants: an allocation failed; one failed at first, until the allocator returned cached memory."""


def get_allocated_event(kind: str) -> str:
    """The name of the event of all bytes allocated. kind: of the device: "cpu", "gpu", "" if unknown, or the file's own
    name for it."""
    return f"{_KINDS.get(kind, kind)} bytes allocated".strip()


def get_peak_event(kind: str) -> str:
    """The name of the event of the bytes that lived at the peak of their device."""
    return f"{_KINDS.get(kind, kind)} bytes live at peak".strip()


def get_device_name(properties: str | None) -> str:
    """The file's name for a device, if it is more than kind and number: the label in its `properties` in the table
    `devices`; else empty."""
    try:
        found = json.loads(properties or "{}")
    except ValueError:
        return ""
    label = found.get("label") if isinstance(found, dict) else None
    return label if isinstance(label, str) else ""


@dataclass(frozen=True, eq=False)
class AllocationPairs:
    """Blocks, one entry each in every column, in the order of start_ns; those that existed before the recording first.

    alloc_event, free_event: the number of the event that allocated or freed it, -1 if none. start_ns, end_ns: MISSING
    if unknown or never. bytes: from its allocation, else from its free. lost_frees, lost_allocations: how many events
    must be missing: an address was handed out twice without being freed, or freed twice. Such a block is assumed to
    end, or begin, at the next or previous event of its address.
    """

    alloc_event: Array
    free_event: Array
    start_ns: Array
    end_ns: Array
    bytes: Array
    lost_frees: int
    lost_allocations: int


def pair_allocations(time_ns: Array, size: Array, device: Array, address: Array | None) -> AllocationPairs:
    """Blocks of an allocator's events, one entry each in every column, in the order in which they happened.

    size: bytes, negative for a free. address: None if the file has none; then every event is a separate block,
    allocated or freed.
    """
    event = np.flatnonzero(size)
    allocated = np.where(size[event] > 0, event, NO_ID)
    freed = np.where(size[event] < 0, event, NO_ID)
    begun, ended = np.where(allocated >= 0, time_ns[event], MISSING), np.where(freed >= 0, time_ns[event], MISSING)
    lost_frees = lost_allocations = 0
    if address is not None and len(event):
        order = np.lexsort((event, address[event], device[event]))
        allocated, freed, begun, ended, event = allocated[order], freed[order], begun[order], ended[order], event[order]
        same = (address[event][1:] == address[event][:-1]) & (device[event][1:] == device[event][:-1])
        makes = allocated >= 0
        pair = np.flatnonzero(same & makes[:-1] & ~makes[1:])
        freed[pair], ended[pair] = freed[pair + 1], ended[pair + 1]
        # Two of the same kind at one address: the event between them is missing.
        again = np.flatnonzero(same & makes[:-1] & makes[1:])
        ended[again] = begun[again + 1]
        twice = np.flatnonzero(same & ~makes[:-1] & ~makes[1:]) + 1
        begun[twice] = ended[twice - 1]
        lost_frees, lost_allocations = len(again), len(twice)
        kept = np.ones(len(event), bool)
        kept[pair + 1] = False
        allocated, freed, begun, ended = allocated[kept], freed[kept], begun[kept], ended[kept]
    order = np.lexsort((np.where(allocated >= 0, allocated, freed), begun))
    allocated, freed, begun, ended = allocated[order], freed[order], begun[order], ended[order]
    bytes_ = np.abs(size[np.where(allocated >= 0, allocated, freed)]).astype(np.int64)
    return AllocationPairs(allocated, freed, begun, ended, bytes_, lost_frees, lost_allocations)


def find_peak(time_ns: Array, value: Array) -> int | None:
    """When a series first had its greatest value; None for one without values."""
    return int(time_ns[int(np.argmax(value))]) if len(value) else None


def select_live(start_ns: Array, end_ns: Array, time_ns: int) -> Array:
    """Which blocks live at a time, as bools: start inclusive, end exclusive."""
    live: Array = (start_ns <= time_ns) & ((end_ns > time_ns) | (end_ns == MISSING))
    return live


@dataclass(frozen=True, eq=False)
class AllocationColumns:
    """The columns of `allocations` that samples are derived from. Times on the builder's clock, MISSING where null.

    thread: -1 if unknown. stack: the builder's ids.
    """

    start_ns: Array
    end_ns: Array
    bytes: Array
    device: Array
    thread: Array
    stack: Array


@dataclass(frozen=True)
class MemoryDevice:
    """A device as `add_samples` needs it. kind: as for `get_peak_event`. peak_ns: when most was allocated; None if
    unknown, or if frees cannot be matched. thread: for blocks without a known thread."""

    kind: str
    peak_ns: int | None
    thread: int


def add_samples(
    builder: ProfileBuilder, blocks: AllocationColumns, devices: Mapping[int, MemoryDevice], began_ns: int
) -> tuple[str, ...]:
    """Add the sizes of blocks: a sample at the start of each allocated block, and of each that lived at the peak.

    devices: by the values of `blocks.device`. began_ns: when the recording began, the time of samples of blocks that
    existed before. Returns the names of the events that got samples, those of the peaks first.
    """
    known = blocks.start_ns != MISSING
    time_ns = np.where(known, blocks.start_ns, began_ns)
    parts: dict[str, list[tuple[Array, int]]] = {}
    for number, device in devices.items():
        mine = (blocks.device == number) & (blocks.bytes > 0)
        if device.peak_ns is not None:
            peak = mine & select_live(blocks.start_ns, blocks.end_ns, device.peak_ns)
            parts.setdefault(get_peak_event(device.kind), []).append((np.flatnonzero(peak), device.thread))
    for number, device in devices.items():
        mine = (blocks.device == number) & (blocks.bytes > 0) & known
        parts.setdefault(get_allocated_event(device.kind), []).append((np.flatnonzero(mine), device.thread))
    for name, part in parts.items():
        for rows, other in part:
            if len(rows):
                same = np.zeros(len(rows), np.int64)
                thread = np.where(blocks.thread[rows] >= 0, blocks.thread[rows], other)
                event = same + builder.intern_event(name, "bytes")
                builder.add_samples(time_ns[rows], thread, same - 1, event, blocks.stack[rows], blocks.bytes[rows])
    return tuple(name for name, part in parts.items() if any(len(rows) for rows, _ in part))
