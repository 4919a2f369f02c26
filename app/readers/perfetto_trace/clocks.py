"""The clocks of a Perfetto trace, and the times of its packets: of several clocks, one of them the trace's.

A sequence may have its own clocks, which may count time from the previous packet.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ...domain.arrays import MISSING, Array, Int64Array
from ...domain.units import NS_PER_S
from ...ingest.jit.protobuf_columns import read_messages, unique_rows
from .format import NO_CLOCK
from .packets import CLOCK, CLOCKS, DEFAULTS, TIME, LossCallback, Packets

UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF
REALTIME, BOOTTIME, SEQUENCE_SCOPED, COMMON = 1, 6, range(64, 128), range(1 << 63)
"""Ids of clocks: the time of day, the trace's clock, those of each sequence, and the upper limit."""

ClockKey = tuple[int, int]


@dataclass
class TraceClocks:
    """The clocks of a trace. trace: that of its times. snapshots: the values of clocks at one moment, in ns."""

    trace: ClockKey = (0, BOOTTIME)
    snapshots: list[dict[ClockKey, int]] = field(default_factory=list)
    incremental: dict[ClockKey, dict[int, tuple[int, int, bool]]] = field(default_factory=dict)
    """The clocks of sequences, by packet: their value there, their unit in ns, and whether times count from it."""
    _with: dict[ClockKey, list[dict[ClockKey, int]]] = field(default_factory=dict)
    _beside: dict[ClockKey, dict[ClockKey, None]] = field(default_factory=dict)

    def add(self, shown: dict[ClockKey, int]) -> None:
        """Add a snapshot."""
        self.snapshots.append(shown)
        for key in shown:
            self._with.setdefault(key, []).append(shown)
            self._beside.setdefault(key, {}).update(dict.fromkeys(shown))

    def find_path(self, clock: ClockKey) -> list[ClockKey] | None:
        """The conversion from a clock to that of the trace, by snapshots that contain both."""
        came: dict[ClockKey, ClockKey | None] = {clock: None}
        todo = [clock]
        for one in todo:
            new = [other for other in self._beside.get(one, ()) if other not in came]
            came |= dict.fromkeys(new, one)
            todo += new
            if self.trace in came:
                break
        back: list[ClockKey] = []
        at: ClockKey | None = self.trace if self.trace in came else None
        while at is not None:
            back.append(at)
            at = came[at]
        return back[::-1] or None

    def convert(self, clock: ClockKey, time_ns: Array) -> Array | None:
        """Times of a clock as those of the trace's; None if no snapshot links them."""
        path = self.find_path(clock)
        if path is None:
            return None
        for one, other in pairwise(path):
            fewer = min(self._with[one], self._with[other], key=len)
            both = sorted((shown[one], shown[other]) for shown in fewer if one in shown and other in shown)
            of, to = np.array(both, np.int64).T
            at = np.maximum(np.searchsorted(of, time_ns, "right") - 1, 0)
            time_ns = time_ns + (to[at] - of[at])
        return time_ns

    @property
    def epoch(self) -> int | None:
        """The offset from the trace's time to one since the epoch."""
        both = [shown for shown in self._with.get(self.trace, ()) if (0, REALTIME) in shown]
        return both[0][0, REALTIME] - both[0][self.trace] if both else None


def read_clocks(packets: Packets) -> TraceClocks:
    """Clock values from snapshots."""
    trace_clocks = TraceClocks()
    rows, spans = packets.all.get_spans(CLOCKS)
    data = packets.all.data
    shown: list[dict[ClockKey, int]] = [{} for _ in rows]
    damaged = set()
    snapshots = read_messages(data, spans, (), (), (1, 2))
    contents = snapshots.listed[1].select_contents()
    clocks = read_messages(data, contents.spans, (), (), (1, 2, 3, 4))
    # Of duplicates the last counts.
    said = [
        dict(zip(numbers.row.tolist(), numbers.value.tolist(), strict=True))
        for numbers in (clocks.listed[part].select_numbers() for part in (1, 2, 3, 4))
    ]
    sequences = packets.sequence[rows].tolist()
    packet = rows.tolist()
    for at, (row, bad) in enumerate(zip(contents.row.tolist(), clocks.malformed.tolist(), strict=True)):
        if bad or row in damaged:
            # In a damaged snapshot, clocks after the damage are lost.
            damaged.add(row)
            continue
        number, time, counts, unit = (
            of.get(at, default) & UNSIGNED for of, default in zip(said, (0, 0, 0, 1), strict=True)
        )
        key = _make_key(sequences[row], number)
        unit = min(max(unit, 1), NS_PER_S)
        time = min(time, (1 << 62) // unit)
        shown[row][key] = time * unit
        if key[0]:
            trace_clocks.incremental.setdefault(key, {})[packet[row]] = time, unit, bool(counts)
    for one in shown:
        trace_clocks.add(one)
    keys = {key for one in shown for key in one}
    primary = 0
    primaries = snapshots.listed[2].select_numbers()
    for row, value in zip(primaries.row.tolist(), primaries.value.tolist(), strict=True):
        primary = primary if row in damaged or value not in COMMON else value
    if primary:
        trace_clocks.trace = (0, primary)
    elif keys and trace_clocks.trace not in keys:
        trace_clocks.trace = min((key for key in keys if not key[0] and key[1] != REALTIME), default=trace_clocks.trace)
    return trace_clocks


def _make_key(sequence: int, clock: int) -> ClockKey:
    return (sequence + 1, clock) if clock in SEQUENCE_SCOPED else (0, clock)


def get_default_clocks(packets: Packets) -> Int64Array:
    """The default clock of each packet's sequence, 0 for none."""
    found = np.zeros(len(packets.all) + 1, np.int64)
    rows, spans = packets.all.get_spans(DEFAULTS)
    found[rows] = read_messages(packets.all.data, spans, (CLOCK,)).get_number(CLOCK)
    return found[packets.carry_forward(found[:-1] != 0)]


def compute_times(packets: Packets, clocks: TraceClocks, loss_callback: LossCallback) -> Array:
    """The time of each packet in ns of the trace's clock, MISSING if it has none."""
    all_ = packets.all
    time = np.where(all_.has(TIME), all_.get_number(TIME), MISSING)
    timed = np.flatnonzero(all_.has(TIME))
    clock = np.where(all_.has(CLOCK), all_.get_number(CLOCK), get_default_clocks(packets))[timed]
    clock[clock == 0] = clocks.trace[1]
    scope = np.where((clock >= SEQUENCE_SCOPED.start) & (clock < SEQUENCE_SCOPED.stop), packets.sequence[timed] + 1, 0)
    pairs, which = unique_rows(scope, clock)
    if pairs == [clocks.trace] and clocks.trace not in clocks.incremental:
        return time
    order = np.argsort(which.astype(np.uint16) if len(pairs) < 1 << 16 else which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(pairs) + 1))
    for at, (of_scope, of_clock) in enumerate(pairs):
        key = (of_scope, of_clock)
        rows = timed[order[bounds[at] : bounds[at + 1]]]
        shown = time[rows]
        if key in clocks.incremental:
            shown = _resolve_incremental(shown, rows, clocks.incremental[key])
        converted = shown if key == clocks.trace else clocks.convert(key, shown)
        if converted is None:
            first = rows[packets.sequence[rows].argmin()]
            loss_callback(NO_CLOCK, f"packet {int(first) + 1}, clock {key[1]}", len(rows))
        time[rows] = shown if converted is None else converted
    return time


def _resolve_incremental(time: Array, packet: Array, clocks: dict[int, tuple[int, int, bool]]) -> Int64Array:
    """Times in ns of a clock that has its own unit or counts from the previous packet. clocks: as in `counting`."""
    found = np.empty(len(time), np.int64)
    cuts = np.searchsorted(packet, list(clocks)).tolist()
    for (shown, unit, counts), first, last in zip(clocks.values(), cuts, [*cuts[1:], len(time)], strict=True):
        part = time[first:last]
        found[first:last] = (shown + np.cumsum(part) if counts else part) * unit
    # For packets before the clock's first snapshot.
    found[: cuts[0]] = time[: cuts[0]] * next(iter(clocks.values()))[1]
    return found
