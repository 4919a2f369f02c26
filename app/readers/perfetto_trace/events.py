"""The track events of a Perfetto trace, as events that are assembled as those of any trace."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..trace.events import MISSING, Array
from ..trace.made import NONE, MadeEvents
from .interned import CATEGORIES, NAMES, Arguments, Interned
from .packets import DEFAULTS, THREAD, TRACK_EVENT, Lost, Packets
from .tracks import Lane, Names
from .wire_columns import Messages, distinct, messages, places, texts_at

BEGIN, END, INSTANT, COUNT, STATE = 1, 2, 3, 4, 5
"""Types of track events."""
TYPE, TRACK_ID, NAME_ID, NAME, CATEGORY_ID, CATEGORY = 9, 11, 10, 23, 3, 22
VALUE, REAL_VALUE, LEGACY, ABSOLUTE_US = 30, 44, 6, 16
_PARTS = (TYPE, TRACK_ID, NAME_ID, NAME, CATEGORY_ID, CATEGORY, VALUE, REAL_VALUE, LEGACY, ABSOLUTE_US)
_LEFT = (1, 2, 4, 8, 17, 20, 33, 34, 36, 42, 47, 48)
"""Fields that are read elsewhere, or tell what a thread's own clock showed."""
FLOWS, ENDING_FLOWS = (47, 36), (48, 42)
PHASE, DURATION_US, IDS, SCOPE, BIND_ID, DIRECTION, PID, TID = 2, 3, (6, 10, 11), 7, 8, 13, 18, 19
NO_NAME = "unnamed"
PART = "part of a track event that is not shown"
NO_VALUE = "counter without a number that can be"
WITH_ID, THREADED = tuple(b"benSTpFstf"), tuple(b"BE")
"""Letters of events that have an id, and of those that are on a thread."""


@dataclass(eq=False)
class TrackEvents:
    """Adds all track events of packets. times: of the packets."""

    packets: Packets
    names: Names
    times: Array
    made: MadeEvents
    lost: Lost
    text: Callable[[int], str]
    _lanes: dict[int, Lane] = field(default_factory=dict)

    def add(self) -> None:
        """Add them."""
        packets, data = self.packets, self.packets.all.data
        packet, spans = packets.all.inner(TRACK_EVENT)
        usable = packets.usable[packet]
        packet, spans = packet[usable], spans[:, usable]
        if not len(packet):
            return
        events = messages(data, spans, _PARTS, _LEFT)
        others = np.flatnonzero((events.other != 0) | (events.bad >= 0))
        if len(others):
            self.lost(PART, f"packet {int(packet[others[0]]) + 1}, field {int(events.other[others[0]])}", len(others))
        generation = packets.generation[packet]
        time = np.where(
            (self.times[packet] == MISSING) & events.has(ABSOLUTE_US),
            events.number(ABSOLUTE_US) * 1000,
            self.times[packet],
        )
        legacy = _Legacy(events, packet)
        name = self._named(events, NAME_ID, NAME, NAMES, generation)
        name = np.where(name < 0, legacy.name(self, generation), name)
        category = self._named(events, CATEGORY_ID, CATEGORY, CATEGORIES, generation)
        lane = self._lane_codes(events, packet, legacy)
        lanes = [self._lanes[code] for code in range(len(self._lanes))]
        places_ = [
            [self.made.text(part) if part is not None else NONE for part in (one.process, one.thread, one.name)]
            for one in lanes
        ]
        process, thread, track = np.array(places_ or [[0, 0, 0]], np.int64).T[:, lane]
        arguments = self._arguments(events, spans, generation, category, thread < 0)
        self._add_slices(
            *(events, legacy, time, name, category, process, thread, track, lane, arguments),
        )
        self._add_counters(events, time, process, name, generation, packet)
        self._add_flows(spans, legacy, time, process, thread)

    def _named(self, events: Messages, number: int, inline: int, kind: int, generation: Array) -> Array:
        """Places of texts that are told by a number or as they are."""
        found = Interned(self.packets, kind, self.made.text).of(generation, events.number(number))
        found = np.where(events.has(number), found, NONE)
        told, (begin, end) = events.inner(inline)
        found[told] = texts_at(self.packets.data, begin, end, self.made.text)
        return found

    def _uuids(self, events: Messages, packet: Array) -> tuple[Array, Array]:
        """The track of each event, and whether any is told."""
        packets = self.packets
        count = len(packets.all)
        told, uuid = np.zeros(count + 1, bool), np.zeros(count + 1, np.int64)
        rows, spans = packets.all.inner(DEFAULTS)
        defaults = messages(packets.all.data, spans, (11,))
        of, inner = defaults.inner(11)
        tracks = messages(packets.all.data, inner, (TRACK_ID,))
        has = tracks.has(TRACK_ID)
        told[rows[of[has]]], uuid[rows[of[has]]] = True, tracks.number(TRACK_ID)[has]
        given = packets.carried(told[:-1])[packet]
        own = events.has(TRACK_ID)
        return np.where(own, events.number(TRACK_ID), uuid[given]), own | told[given]

    def _lane_codes(self, events: Messages, packet: Array, legacy: "_Legacy") -> Array:
        """Which lane each event is on."""
        uuid, told = self._uuids(events, packet)
        pid, tid = np.full(len(packet), NONE, np.int64), np.full(len(packet), NONE, np.int64)
        rows, spans = self.packets.all.inner(THREAD)
        if len(rows):
            of = messages(self.packets.all.data, spans, (1, 2))
            pids, tids = np.full(len(self.packets.all) + 1, NONE), np.full(len(self.packets.all) + 1, NONE)
            pids[rows], tids[rows] = of.number(1, NONE), of.number(2, NONE)
            given = self.packets.carried(tids[:-1] != NONE)[packet]
            pid, tid = np.where(told, NONE, pids[given]), np.where(told, NONE, tids[given])
        for row, of_row in legacy.overrides():
            pid[row], tid[row] = of_row
        rows_of, code = distinct(np.where(told, uuid, 0), pid, tid)
        for number, (track, of_pid, of_tid) in enumerate(rows_of):
            if of_tid >= 0:
                process = self.names.of_thread.get(of_tid) if of_pid < 0 else of_pid
                self._lanes[number] = Lane(str(process) if process is not None else None, str(of_tid), "")
            else:
                self._lanes[number] = self.names.lane(track & 0xFFFF_FFFF_FFFF_FFFF)
        return code

    def _arguments(self, events: Messages, spans: Array, generation: Array, category: Array, apart: Array) -> Array:
        """The place of the arguments of each event. apart: which lie in lanes, whose category stands among them."""
        maker = Arguments(self.packets, self.text, self.made.text, self.lost)
        found = np.full(len(events), NONE, np.int64)
        members = maker.of(spans, generation)
        for row, place in zip(*(v.tolist() for v in _where(apart & (category >= 0), category)), strict=True):
            members.setdefault(row, []).append(f'"category": {maker.quoted(place)}')
        for row, parts in members.items():
            found[row] = self.made.text("{" + ", ".join(parts) + "}")
        return found

    def _add_slices(
        self,
        events: Messages,
        legacy: "_Legacy",
        time: Array,
        name: Array,
        category: Array,
        process: Array,
        thread: Array,
        track: Array,
        lane: Array,
        arguments: Array,
    ) -> None:
        kind = np.where(events.has(TYPE), events.number(TYPE), 0)
        apart = thread < 0
        letters = np.array([0, *b"BEi", 0, ord("b")], np.int64)
        phase = np.where((kind > 0) & (kind < len(letters)), letters[np.clip(kind, 0, len(letters) - 1)], 0)
        phase = np.where((kind == 0) & (legacy.phase > 0), legacy.phase, phase)
        moved = apart & np.isin(phase, THREADED)
        phase = np.where(moved, phase + 32, phase)
        asynchronous = (kind == 0) & np.isin(phase, WITH_ID) & ~moved
        in_lane = (apart | (kind == STATE)) & ~asynchronous
        label = np.where(track >= 0, track, thread)
        shown = np.where((name < 0) & (kind != END), self.made.text(NO_NAME), name)
        shown = np.where(kind == END, name, shown)
        self._end_states(kind, time, lane, process, label)
        rows = np.flatnonzero((kind != COUNT) & ~((kind == STATE) & (name < 0)))
        self.made.many(
            phase[rows],
            time[rows],
            shown[rows],
            thread[rows],
            duration_ns=legacy.duration[rows],
            category=np.where(in_lane & (phase != ord("i")), label, category)[rows],
            process=process[rows],
            id=np.where(asynchronous, legacy.id, np.where(in_lane, lane, NONE))[rows],
            arguments=arguments[rows],
        )

    def _end_states(self, kind: Array, time: Array, lane: Array, process: Array, label: Array) -> None:
        """A state of a track lasts until its next."""
        rows = np.flatnonzero(kind == STATE)
        rows = rows[np.lexsort((time[rows], lane[rows]))]
        ended = rows[:-1][lane[rows[:-1]] == lane[rows[1:]]] if len(rows) else rows
        after = rows[1:][lane[rows[:-1]] == lane[rows[1:]]] if len(rows) else rows
        self.made.many("e", time[after], NONE, NONE, category=label[ended], process=process[ended], id=lane[ended])

    def _add_counters(
        self, events: Messages, time: Array, process: Array, name: Array, generation: Array, packet: Array
    ) -> None:
        rows = np.flatnonzero((events.number(TYPE) == COUNT) & (time != MISSING))
        told = events.has(VALUE) | events.has(REAL_VALUE)
        bad = rows[~told[rows]]
        value = np.where(
            events.has(REAL_VALUE), events.value[REAL_VALUE].view(np.float64), events.value[VALUE].astype(np.float64)
        )
        uuid, _ = self._uuids(events, packet)
        finite = told & np.isfinite(value)
        bad = np.union1d(bad, rows[~finite[rows]])
        if len(bad):
            self.lost(NO_VALUE, f"packet {int(packet[bad[0]]) + 1}", len(bad))
        rows = rows[finite[rows]]
        for one in np.unique(uuid[rows]).tolist():
            mine = rows[uuid[rows] == one]
            number = one & 0xFFFF_FFFF_FFFF_FFFF
            chain = list(self.names.above(number))
            about = chain[0] if chain else None
            values = value[mine]
            if about is not None and about.adds:
                for part in np.unique(generation[mine]).tolist():
                    of = generation[mine] == part
                    values[of] = np.cumsum(values[of])
            values = values * (about.factor if about is not None else 1)
            lane = self.names.lane(number)
            label = (about.name if about else "") or (self.text(int(name[mine[0]])) if name[mine[0]] >= 0 else "")
            label = label or lane.name
            of_thread = next((track.tid for track in chain if track.tid is not None), None)
            if of_thread is not None:
                label += f" of {self.names.threads.get(of_thread, 'thread')} {of_thread}"
            if about is not None and about.unit:
                label += f" ({about.unit})"
            shown = [self.made.text(f'{{"": {json.dumps(one_value)}}}') for one_value in values.tolist()]
            of_process = self.made.text(lane.process) if lane.process is not None else NONE
            self.made.many("C", time[mine], self.made.text(label), NONE, process=of_process, arguments=np.array(shown))

    def _add_flows(self, spans: Array, legacy: "_Legacy", time: Array, process: Array, thread: Array) -> None:
        data = self.packets.all.data
        parts: list[tuple[Array, Array, Array]] = []
        for numbers, closing in ((FLOWS, False), (ENDING_FLOWS, True)):
            for number in numbers:
                found = places(data, spans, number, content=False)
                parts.append((found.row, found.value, np.full(len(found), closing)))
        parts.append(legacy.flows())
        row, flow, ends = (np.concatenate(values) for values in zip(*parts, strict=True))
        good = time[row] != MISSING
        row, flow, ends = row[good], flow[good], ends[good]
        order = np.lexsort((time[row], flow))
        row, flow, ends = row[order], flow[order], ends[order]
        new = np.ones(len(row), bool)
        new[1:] = (flow[1:] != flow[:-1]) | ends[:-1]
        last = np.append(new[1:], True)[: len(row)]
        letters = np.where(new, ord("s"), np.where(last, ord("f"), ord("t")))
        # Each chain has a number of its own, though one that ended gives its to the next.
        self.made.many(
            *(letters, time[row], self.made.text("flow"), thread[row]),
            category=self.made.text("flow"),
            process=process[row],
            id=np.cumsum(new) if len(new) else new,
        )


def _where(chosen: Array, values: Array) -> tuple[Array, Array]:
    rows = np.flatnonzero(chosen)
    return rows, values[rows]


class _Legacy:
    """What track events tell that were made of older ones, as they are in Chrome's JSON."""

    def __init__(self, events: Messages, packet: Array) -> None:
        count = len(packet)
        self.phase, self.id = np.zeros(count, np.int64), np.full(count, NONE, np.int64)
        self.duration = np.full(count, MISSING, np.int64)
        self._names = np.full(count, NONE, np.int64)
        self.rows, spans = events.inner(LEGACY)
        self._of = of = messages(events.data, spans, (1, PHASE, DURATION_US, *IDS, SCOPE, BIND_ID, DIRECTION, PID, TID))
        phase = of.number(PHASE)
        self.phase[self.rows] = np.where((phase > 0) & (phase < 256), phase, 0)
        long = of.has(DURATION_US)
        self.duration[self.rows[long]] = np.clip(of.number(DURATION_US)[long], -1, 1 << 51) * 1000
        if len(self.rows):
            ids = np.zeros((2, len(self.rows)), np.int64)
            for number in IDS:
                there = of.has(number)
                ids[0, there], ids[1, there] = number, of.number(number)[there]
            _, code = distinct(*ids)
            self.id[self.rows] = np.where(ids[0] > 0, code + (1 << 28), NONE)

    def name(self, events: TrackEvents, generation: Array) -> Array:
        """The place of the name that each has by a number of its own."""
        interned = Interned(events.packets, NAMES, events.made.text)
        self._names[self.rows] = interned.of(generation[self.rows], self._of.number(1))
        return self._names

    def overrides(self) -> list[tuple[int, tuple[int, int]]]:
        """Events that are another thread's than their sequence says."""
        rows = np.flatnonzero(self._of.has(TID) & (self._of.number(TID) > 0))
        pid, tid = self._of.number(PID, NONE), self._of.number(TID)
        return [(int(self.rows[row]), (int(pid[row]), int(tid[row]))) for row in rows.tolist()]

    def flows(self) -> tuple[Array, Array, Array]:
        """Arrows that events are ends of: their rows, numbers, and whether they end there."""
        direction = self._of.number(DIRECTION)
        rows = np.flatnonzero(self._of.has(BIND_ID) & (direction > 0))
        return self.rows[rows], self._of.number(BIND_ID)[rows], direction[rows] == 1
