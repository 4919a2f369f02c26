"""The packets of a Perfetto trace: unpacked, by sequence, with what each refers to of those before it, and their times.

A sequence is what one thread of a producer wrote. Its packets name things by numbers that earlier ones gave them, until
that is cleared; and may count time from the packet before.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import zstandard

from ...domain.wire import BYTES, Damaged, fields
from ..trace.events import MISSING, Array
from .wire_columns import Messages, Places, distinct, messages, places

FTRACE, TREE, CHROME, CLOCKS, TIME, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS = 1, 2, 5, 6, 8, 10, 11, 12, 13
CLEARED, DROPPED, THREAD, SYSTEM, COMPRESSED, CLOCK, DEFAULTS, TRACK, ZSTD = 41, 42, 44, 45, 50, 58, 59, 60, 133
SAMPLE = 66
WANTED = (
    *(FTRACE, TREE, CLOCKS, TIME, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS, CLEARED, DROPPED, THREAD, SYSTEM),
    *(COMPRESSED, CLOCK, DEFAULTS, TRACK, ZSTD, SAMPLE),
)
REALTIME, BOOTTIME, SCOPED = 1, 6, range(64, 128)
"""Numbers of clocks: that of the date, that of traces, and those that each sequence has for itself."""
MOST_BYTES = 8 << 30
CUT_OFF = "The file ends too soon, or is damaged: what comes before that place was read."
BAD_PACKED = "packed packets that cannot be unpacked"
BAD_PACKET = "packet that is damaged: what follows the damage in it is lost"
DEPENDENT = "packet that needs what was lost before it"
NO_CLOCK = "time of a clock that nothing ties to the others: taken as it is"

Lost = Callable[[str, str, int], None]
ClockKey = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Packets:
    """The packets of a file, in its order. sequence: what each belongs to. order: the packets by sequence. generation:
    which of the stretches of a sequence in which numbers mean the same. usable: whether what it needs is there."""

    data: bytes
    all: Messages
    sequence: Array
    order: Array
    generation: Array
    usable: Array

    def carried(self, given: Array) -> Array:
        """For each packet the last one that is so (bools) up to it in its generation; -1 where there is none."""
        rows = np.where(given[self.order], np.arange(len(given)), -1)
        last = np.maximum.accumulate(rows) if len(rows) else rows
        generation = self.generation[self.order]
        good = (last >= 0) & (generation[np.maximum(last, 0)] == generation)
        found = np.full(len(given), -1, np.int64)
        found[self.order] = np.where(good, self.order[np.maximum(last, 0)], -1)
        return found


def packets_of(data: bytes, lost: Lost) -> tuple[Packets, bool]:
    """The packets of a file, and whether it is whole."""
    array = np.frombuffer(data, np.uint8)
    found, whole = _framed(array, 0, len(array))
    data, begin, end = _unpacked(data, array, found, lost)
    array = np.frombuffer(data, np.uint8)
    all_ = messages(array, np.stack((begin, end)), WANTED)
    damaged = np.flatnonzero(all_.bad >= 0)
    if len(damaged):
        lost(BAD_PACKET, f"packet {int(damaged[0]) + 1}", len(damaged))
    sequence = all_.number(SEQUENCE)
    order = np.argsort(sequence, kind="stable")
    first = np.ones(len(order), bool)
    first[1:] = sequence[order][1:] != sequence[order][:-1]
    cleared = (all_.number(FLAGS) & 1 | (all_.number(CLEARED) != 0))[order] != 0
    dropped = (all_.number(DROPPED) != 0)[order]
    number = np.arange(len(order))
    # What was before all of them in a sequence, and since when nothing is missing.
    begun, clear, drop = (
        np.maximum.accumulate(np.where(which, number, -1)) if len(order) else number
        for which in (first, cleared, dropped)
    )
    good = (clear >= begun) & (drop <= clear)
    generation, usable = np.empty(len(order), np.int64), np.empty(len(order), bool)
    generation[order] = np.cumsum(first | cleared)
    usable[order] = good | ((all_.number(FLAGS) & 2) == 0)[order]
    useless = np.flatnonzero(~usable)
    if len(useless):
        lost(DEPENDENT, f"packet {int(useless[0]) + 1}", len(useless))
    return Packets(data, all_, sequence, order, generation, usable), whole


def _framed(array: Array, begin: int, end: int) -> tuple[Places, bool]:
    """The packets between two places, and whether they fill it."""
    found = places(array, np.array([[begin], [end]]), 1)
    # Whether something stands behind the last of them that is none.
    last = int(found.end.max()) if len(found) else begin
    rest = messages(array, np.array([[last], [end]]), (1,))
    return found, rest.bad[0] < 0


def _unpacked(data: bytes, array: Array, found: Places, lost: Lost) -> tuple[bytes, Array, Array]:
    """The bytes with those of packed packets behind them, and where each packet is, in order."""
    packed = messages(array, found.spans, (COMPRESSED, ZSTD))
    if not (packed.has(COMPRESSED) | packed.has(ZSTD)).any():
        return data, found.value, found.end
    pieces, room = [data], len(data)
    place = [np.arange(len(found), dtype=np.float64)]
    begins, ends = [found.value], [found.end]
    for kind in (COMPRESSED, ZSTD):
        rows, spans = packed.inner(kind)
        for row, (begin, end) in zip(rows.tolist(), spans.T.tolist(), strict=True):
            more = _inflated(data[begin:end], kind, MOST_BYTES - room)
            if more is None:
                lost(BAD_PACKED, f"packet {row + 1}", 1)
                continue
            inside, _ = _framed(np.frombuffer(more, np.uint8), 0, len(more))
            begins.append(inside.value + room)
            ends.append(inside.end + room)
            place.append(row + np.arange(1, len(inside) + 1) / (len(inside) + 1))
            pieces.append(more)
            room += len(more)
    order = np.argsort(np.concatenate(place), kind="stable")
    return b"".join(pieces), np.concatenate(begins)[order], np.concatenate(ends)[order]


def _inflated(packed: bytes, kind: int, most: int) -> bytes | None:
    try:
        if kind == ZSTD:
            with zstandard.ZstdDecompressor().stream_reader(packed) as stream:
                return stream.read(most)
        return zlib.decompressobj().decompress(packed, most)
    except (zlib.error, zstandard.ZstdError):
        return None


@dataclass
class _Snapshot:
    packet: int
    at: dict[ClockKey, int]
    """Each clock's time in ns."""


@dataclass
class Clocks:
    """The clocks of a trace. trace: that of its times."""

    trace: ClockKey = (0, BOOTTIME)
    snapshots: list[_Snapshot] = field(default_factory=list)
    counting: dict[tuple[int, ClockKey], tuple[int, int, bool]] = field(default_factory=dict)
    """By packet and clock: what it shows there, how many ns its unit has, and whether times count from it."""
    _paths: dict[ClockKey, list[ClockKey] | None] = field(default_factory=dict)

    def path(self, clock: ClockKey) -> list[ClockKey] | None:
        """From a clock to that of the trace, by clocks that were looked at together."""
        if clock not in self._paths:
            came: dict[ClockKey, ClockKey | None] = {clock: None}
            todo = [clock]
            for one in todo:
                for snapshot in self.snapshots:
                    if one in snapshot.at:
                        new = [other for other in snapshot.at if other not in came]
                        came |= dict.fromkeys(new, one)
                        todo += new
            back: list[ClockKey] = []
            at: ClockKey | None = self.trace if self.trace in came else None
            while at is not None:
                back.append(at)
                at = came[at]
            self._paths[clock] = back[::-1] or None
        return self._paths[clock]

    def converted(self, clock: ClockKey, time_ns: Array) -> Array | None:
        """Times of a clock as those of the trace's; None where nothing ties them together."""
        path = self.path(clock)
        if path is None:
            return None
        for one, other in pairwise(path):
            both = sorted((s.at[one], s.at[other]) for s in self.snapshots if one in s.at and other in s.at)
            of, to = np.array(both, np.int64).T
            at = np.maximum(np.searchsorted(of, time_ns, "right") - 1, 0)
            time_ns = time_ns + (to[at] - of[at])
        return time_ns

    @property
    def epoch(self) -> int | None:
        """What is to be added to the trace's time for one since the epoch."""
        both = [s for s in self.snapshots if self.trace in s.at and (0, REALTIME) in s.at]
        return both[0].at[0, REALTIME] - both[0].at[self.trace] if both else None


def clocks_of(packets: Packets) -> Clocks:
    """What snapshots tell of clocks."""
    found = Clocks()
    seen: set[ClockKey] = set()
    primary = None
    rows, spans = packets.all.inner(CLOCKS)
    for row, begin, end in zip(rows.tolist(), *spans.tolist(), strict=True):
        snapshot = _Snapshot(row, {})
        try:
            for number, kind, value in fields(packets.data, begin, end):
                if number == 1 and kind == BYTES:
                    of = {n: v for n, _, v in fields(value) if isinstance(v, int)}
                    key = _key(int(packets.sequence[row]), of.get(1, 0))
                    unit = min(max(of.get(4, 1), 1), 10**9)
                    time = min(of.get(2, 0), (1 << 62) // unit)
                    snapshot.at[key] = time * unit
                    if key[0]:
                        found.counting[row, key] = time, unit, bool(of.get(3))
                elif number == 2 and isinstance(value, int):
                    primary = value
        except Damaged:
            pass
        found.snapshots.append(snapshot)
        seen |= set(snapshot.at)
    if primary:
        found.trace = (0, primary)
    elif seen and found.trace not in seen:
        found.trace = min((key for key in seen if key[0] == 0 and key[1] != REALTIME), default=found.trace)
    return found


def _key(sequence: int, clock: int) -> ClockKey:
    return (sequence + 1, clock) if clock in SCOPED else (0, clock)


def default_clocks(packets: Packets) -> Array:
    """The clock that each packet's sequence has set for it, 0 for none."""
    found = np.zeros(len(packets.all) + 1, np.int64)
    rows, spans = packets.all.inner(DEFAULTS)
    of = messages(packets.all.data, spans, (CLOCK,))
    found[rows] = of.number(CLOCK)
    given = found[:-1] != 0
    return found[packets.carried(given)]


def times_of(packets: Packets, clocks: Clocks, lost: Lost) -> Array:
    """The time of each packet in ns of the trace's clock, MISSING where it has none."""
    all_ = packets.all
    timed = all_.has(TIME)
    clock = np.where(all_.has(CLOCK), all_.number(CLOCK), default_clocks(packets))
    clock = np.where(clock == 0, clocks.trace[1], clock)
    scope = np.where((clock >= SCOPED.start) & (clock < SCOPED.stop), packets.sequence + 1, 0)
    time = np.where(timed, all_.number(TIME), MISSING)
    number = np.empty(len(all_), np.int64)
    number[packets.order] = np.arange(len(all_))
    ordered = packets.order[timed[packets.order]]
    pairs, which = distinct(scope[ordered], clock[ordered])
    told: dict[ClockKey, list[tuple[int, tuple[int, int, bool]]]] = {}
    for (row, of), shown in clocks.counting.items():
        told.setdefault(of, []).append((int(number[row]), shown))
    sorted_rows = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[sorted_rows], np.arange(len(pairs) + 1))
    for at, (of_scope, of_clock) in enumerate(pairs):
        key = (of_scope, of_clock)
        rows = ordered[sorted_rows[bounds[at] : bounds[at + 1]]]
        if key in told:
            time[rows] = _counted(time[rows], number[rows], sorted(told[key]))
        if key == clocks.trace:
            continue
        converted = clocks.converted(key, time[rows])
        if converted is None:
            lost(NO_CLOCK, f"packet {int(rows[0]) + 1}, clock {key[1]}", len(rows))
        else:
            time[rows] = converted
    return time


def _counted(time: Array, number: Array, told: list[tuple[int, tuple[int, int, bool]]]) -> Array:
    """Times in ns of a clock that has a unit of its own, or counts from the packet before. number: the places of the
    packets in their sequence. told: what snapshots at such places tell."""
    begins = [place for place, _ in told]
    found = np.empty(len(time), np.int64)
    cuts = np.searchsorted(number, begins).tolist()
    for (_, (shown, unit, counts)), first, last in zip(told, cuts, [*cuts[1:], len(time)], strict=True):
        part = time[first:last]
        found[first:last] = (shown + np.cumsum(part) if counts else part) * unit
    # What comes before anything is known of the clock.
    found[: cuts[0]] = time[: cuts[0]] * told[0][1][1]
    return found
