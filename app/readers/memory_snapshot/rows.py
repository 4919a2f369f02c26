"""Converts the tape of a snapshot to columns: the events of each device, its segments and blocks, and their call
stacks.

The meaning of keys is defined in torch/cuda/memory.py (`_snapshot`) and torch/csrc/cuda/memory_snapshot.cpp; older keys
in torch/cuda/_memory_viz.py.
"""

from dataclasses import dataclass, field

import numpy as np

from ...domain.arrays import MISSING, Array, BoolArray, Int64Array
from ...domain.units import NS_PER_US
from ...ingest.trace.allocator import ACTIONS, AllocatorHistory, AllocatorState, Segment
from .format import BAD_BLOCK, NO_ADDRESS, NO_TIME, TIME_OF_BEFORE, TWICE, UNKNOWN_ACTION
from .pickle_tape import Tape
from .stacks import Stacks

AT_ONCE = 1 << 17
"""How many dicts are checked together, with all their keys."""
MAX_BYTES = 1 << 46
"""No machine has this much memory; a larger number could overflow sums."""
MAX_ADDRESS = 1 << 62
TICK_NS = NS_PER_US
"""The time between two events of a file without times."""
PENDING = ("active_pending_free", "active_awaiting_free")
"""States of a block that is freed, but still used by a stream."""


@dataclass(frozen=True, eq=False)
class DeviceEvents:
    """The events of a device. frames: numbers of values, to be looked up in `Stacks`. word: the program's metadata, an
    index into the tape's words, -1 for none."""

    action: Array
    time_ns: Array
    address: Array
    size: Array
    stream: Array
    frames: Array
    word: Array

    def history(self, stacks: Stacks) -> AllocatorHistory:
        """The events with their call stacks."""
        return AllocatorHistory(self.action, self.time_ns, self.address, self.size, self.stream, stacks.of(self.frames))


@dataclass(frozen=True, eq=False)
class SegmentBlocks:
    """Segments of a device and their blocks, in the file's order. Pairs of columns are of blocks, and of segments."""

    address: Array
    size: Array
    requested: Array
    allocated: Array
    active: Array
    segment: Array
    frames: Array
    segments: list[tuple[int, int, int, str | None]]
    segment_frames: Array

    def state(self, stacks: Stacks) -> AllocatorState:
        """The blocks and segments with their call stacks."""
        stack = stacks.of(self.segment_frames).tolist()
        segments = [Segment(*segment, of) for segment, of in zip(self.segments, stack, strict=True)]
        return AllocatorState(
            address=self.address,
            size=self.size,
            requested=self.requested,
            allocated=self.allocated,
            active=self.active,
            segment=self.segment,
            stack=stacks.of(self.frames),
            segments=segments,
        )


@dataclass
class Snapshot:
    """The content of a tape. events, held: by number of the device. first_ns: of the first event, since the epoch if
    the file has times. timed: whether it has."""

    tape: Tape
    events: dict[int, DeviceEvents] = field(default_factory=dict)
    held: dict[int, SegmentBlocks] = field(default_factory=dict)
    first_ns: int = 0
    timed: bool = True
    lost: dict[str, tuple[int, str]] = field(default_factory=dict)

    def lists(self) -> list[Array]:
        """The distinct lists of frames."""
        columns = [of for event in self.held.values() for of in (event.frames, event.segment_frames)]
        return [event.frames for event in self.events.values()] + columns

    def add_loss(self, reason: str, count: int, example: str) -> None:
        """Record a loss."""
        before, first = self.lost.get(reason, (0, example))
        self.lost[reason] = before + count, first


def extract_snapshot(tape: Tape, segments: int, traces: int) -> Snapshot:
    """The events and segments of a snapshot. segments, traces: the numbers of their lists, -1 if there are none."""
    snapshot = Snapshot(tape)
    lists = tape.get_members(traces) if traces >= 0 else np.zeros(0, np.int64)
    seen: set[int] = set()
    raw: dict[int, DeviceEvents] = {}
    for device, one in enumerate(lists.tolist()):
        if one in seen and len(tape.get_members(one)):
            snapshot.add_loss(TWICE, 1, f"the events of device {device}")
            continue
        seen.add(one)
        events = _extract_events(snapshot, tape.get_members(one), device)
        if len(events.action):
            raw[device] = events
    _set_times(snapshot, raw)
    if segments >= 0:
        _extract_state(snapshot, tape.get_members(segments))
    return snapshot


def _extract_events(snapshot: Snapshot, nodes: Array, device: int) -> DeviceEvents:
    parts = [
        _extract_some_events(snapshot, nodes[start : start + AT_ONCE], device)
        for start in range(0, len(nodes), AT_ONCE)
    ] or [_extract_some_events(snapshot, nodes, device)]
    return DeviceEvents(*(np.concatenate([part[n] for part in parts]) for n in range(7)))


def _extract_some_events(snapshot: Snapshot, nodes: Array, device: int) -> tuple[Array, ...]:
    tape = snapshot.tape
    names = ("action", "addr", "size", "stream", "time_us", "device_free", "frames", "category", "user_metadata")
    found = tape.get_dict_values(nodes, names)
    codes = np.full(len(tape.get_words()) + 1, -1, np.int8)
    for number, name in enumerate(ACTIONS):
        if (place := tape.find_code(name)) >= 0:
            codes[place] = number
    word = tape.code_of(found["action"])
    action = codes[word]
    address = tape.get_numbers(found["addr"], MISSING)
    size = tape.get_numbers(found["size"], MISSING)
    oom, mark = action == ACTIONS.index("oom"), action == ACTIONS.index("snapshot")
    address = np.where(oom, tape.get_numbers(found["device_free"], 0), np.where(mark, 0, address))
    size = np.where(mark, 0, size)
    for reason, bad in (
        (UNKNOWN_ACTION, action < 0),
        (NO_ADDRESS, (action >= 0) & ~_is_possible(address, size)),
    ):
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            text = tape.get_words()[int(word[first])] if word[first] >= 0 else "nothing"
            snapshot.add_loss(reason, int(bad.sum()), f"device {device}, event {first:,}: {text[:80]!r}")
    good = np.flatnonzero((action >= 0) & _is_possible(address, size))
    labels = [tape.code_of(found[key])[good] for key in ("category", "user_metadata")]
    blank = tape.find_code("")
    labels = [np.where(one == blank, -1, one) for one in labels]
    return (
        action[good],
        tape.get_numbers(found["time_us"], MISSING)[good],
        address[good],
        size[good],
        tape.get_numbers(found["stream"], 0)[good],
        found["frames"][good],
        np.where(labels[0] >= 0, labels[0], labels[1]),
    )


def _is_possible(address: Array, size: Array) -> Array:
    good: BoolArray = (address > -MAX_ADDRESS) & (address < MAX_ADDRESS) & (size >= 0) & (size < MAX_BYTES)
    return good


def _set_times(snapshot: Snapshot, raw: dict[int, DeviceEvents]) -> None:
    """Put events on one clock of ns. Events of one microsecond keep their order: each gets its own ns."""
    times = [events.time_ns for events in raw.values()]
    known = [one[one != MISSING] for one in times]
    snapshot.timed = any(len(one) for one in known)
    limit = (1 << 62) // TICK_NS
    for device, events in raw.items():
        count = len(events.time_ns)
        time = events.time_ns
        bad = (time < -limit) | (time > limit)
        if bad.any() and not snapshot.timed:
            snapshot.add_loss(NO_TIME, int(bad.sum()), f"device {device}, event {int(np.flatnonzero(bad)[0]):,}")
            time = np.arange(count)
        elif bad.any():
            # The last known one before it, else the first known one.
            good = np.flatnonzero(~bad)
            place = np.searchsorted(good, np.arange(count), "right") - 1
            time = time[good[np.maximum(place, 0)]] if len(good) else np.zeros(count, np.int64)
            snapshot.add_loss(
                TIME_OF_BEFORE,
                int(bad.sum()),
                f"device {device}, event {int(np.flatnonzero(bad)[0]):,}",
            )
        # They are written in order of occurrence, even if the clock jumped.
        micro = np.maximum.accumulate(time * TICK_NS)
        new = np.ones(count, bool)
        new[1:] = micro[1:] != micro[:-1]
        within = np.arange(count) - np.flatnonzero(new)[np.cumsum(new) - 1]
        # More than a thousand in a microsecond delay the ones after them.
        exact = np.maximum.accumulate(micro + within - np.arange(count)) + np.arange(count)
        raw[device] = DeviceEvents(
            events.action, exact, events.address, events.size, events.stream, events.frames, events.word
        )
    snapshot.first_ns = min((int(events.time_ns[0]) for events in raw.values()), default=0)
    for device, events in raw.items():
        snapshot.events[device] = DeviceEvents(
            events.action,
            events.time_ns - snapshot.first_ns,
            events.address,
            events.size,
            events.stream,
            events.frames,
            events.word,
        )


def _extract_state(snapshot: Snapshot, nodes: Array) -> None:
    """Add the segments that existed at the end, and their blocks."""
    tape = snapshot.tape
    words = tape.get_words()
    keys = ("device", "address", "total_size", "stream", "segment_type", "is_expandable", "blocks", "frames")
    found = tape.get_dict_values(nodes, keys)
    device = tape.get_numbers(found["device"], 0)
    address, size = tape.get_numbers(found["address"], MISSING), tape.get_numbers(found["total_size"], MISSING)
    good = _is_possible(address, size) & (device >= 0) & (device < 1 << 20)
    if not good.all():
        snapshot.add_loss(BAD_BLOCK, int((~good).sum()), f"segment {int(np.flatnonzero(~good)[0]):,}")
    kind, stream = tape.code_of(found["segment_type"]), tape.get_numbers(found["stream"], 0)
    expandable = tape.get_numbers(found["is_expandable"], 0) > 0
    seen: set[int] = set()
    for one in np.unique(device[good]).tolist():
        rows = np.flatnonzero(good & (device == one))
        segments, members, of_segment, offset = [], [], [], []
        for index, row in enumerate(rows.tolist()):
            word = words[int(kind[row])] if kind[row] >= 0 else ""
            word = f"{word} expandable".strip() if expandable[row] else word
            segments.append((int(address[row]), int(size[row]), int(stream[row]), word or None))
            blocks = int(found["blocks"][row])
            inside = tape.get_members(blocks) if blocks >= 0 else np.zeros(0, np.int64)
            if len(inside) and blocks in seen:
                snapshot.add_loss(TWICE, 1, f"the blocks of segment {row:,}")
                continue
            seen.add(blocks)
            members.append(inside)
            of_segment.append(np.full(len(inside), index))
            offset.append(np.full(len(inside), address[row]))
        empty = np.zeros(0, np.int64)
        snapshot.held[one] = _extract_blocks(
            snapshot,
            np.concatenate([empty, *members]),
            np.concatenate([empty, *of_segment]),
            np.concatenate([empty, *offset]),
            segments,
            found["frames"][rows],
        )


def _extract_blocks(
    snapshot: Snapshot,
    nodes: Array,
    segment: Array,
    begin: Array,
    segments: list[tuple[int, int, int, str | None]],
    segment_frames: Array,
) -> SegmentBlocks:
    tape = snapshot.tape
    found = tape.get_dict_values(nodes, ("size", "requested_size", "state", "frames", "history"))
    size = tape.get_numbers(found["size"], MISSING)
    good = (size >= 0) & (size < MAX_BYTES)
    if not good.all():
        snapshot.add_loss(BAD_BLOCK, int((~good).sum()), f"block {int(np.flatnonzero(~good)[0]):,}")
    size = np.where(good, size, 0)
    # Blocks fill their segment contiguously; older versions do not store their addresses.
    before = np.cumsum(size) - size
    first = np.searchsorted(segment, segment)
    address = begin + before - before[first] if len(size) else before
    past = tape.get_dict_values(_get_first_members(tape, found["history"]), ("real_size", "frames"))
    numbers = tape.get_numbers(found["requested_size"], MISSING)
    numbers = np.where(numbers == MISSING, tape.get_numbers(past["real_size"], MISSING), numbers)
    numbers = np.where((numbers < 0) | (numbers > size), size, numbers)
    state = tape.code_of(found["state"])
    allocated = state == tape.find_code("active_allocated")
    pending = [tape.find_code(word) for word in PENDING]
    return SegmentBlocks(
        address=address[good],
        size=size[good],
        requested=numbers[good],
        allocated=allocated[good],
        active=(allocated | np.isin(state, pending))[good],
        segment=segment[good],
        frames=np.where(found["frames"] >= 0, found["frames"], past["frames"])[good],
        segments=segments,
        segment_frames=segment_frames,
    )


def _get_first_members(tape: Tape, lists: Array) -> Int64Array:
    """The first member of each list, -1 if there is none."""
    distinct, inverse = np.unique(lists, return_inverse=True)
    members = [tape.get_members(one) if one >= 0 else distinct[:0] for one in distinct.tolist()]
    first = np.array([int(one[0]) if len(one) else -1 for one in members], np.int64)
    return first[inverse] if len(lists) else first
