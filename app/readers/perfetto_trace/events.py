"""Converts the track events of a Perfetto trace to the events of any trace."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...domain.arrays import MISSING, Array, Float64Array, Int32Array
from ...domain.losses import PART_OF_EVENT
from ...domain.units import NS_PER_US
from ...ingest.jit.protobuf_columns import MessageColumns, read_messages, unique_rows
from ...ingest.trace.event_builder import NONE, TraceEventBuilder
from .arguments import ANNOTATION, LOCATION, LOCATION_ID, ArgumentDecoder
from .clocks import UNSIGNED
from .format import NO_VALUE
from .interned import CATEGORIES, NAMES, InternedStrings
from .legacy import LEGACY, LegacyEvents
from .packets import DEFAULTS, THREAD, TRACK_EVENT, LossCallback, Packets
from .texts import read_texts
from .tracks import Lane, TrackNames

BEGIN, END, INSTANT, COUNT, STATE = 1, 2, 3, 4, 5
"""Types of track events."""
TYPE, TRACK_ID, NAME_ID, NAME, CATEGORY_ID, CATEGORY = 9, 11, 10, 23, 3, 22
VALUE, REAL_VALUE, ABSOLUTE_US = 30, 44, 16
FLOWS, ENDING_FLOWS = (47, 36), (48, 42)
_PARTS = (
    *(TYPE, TRACK_ID, NAME_ID, NAME, CATEGORY_ID, CATEGORY, VALUE, REAL_VALUE, LEGACY, ABSOLUTE_US),
    *(LOCATION, LOCATION_ID),
)
_LEFT = (1, 2, 8, 17, 20)
"""Fields with CPU time and instruction counts of the thread."""
NO_NAME = "unnamed"
PHASES_WITH_ID = tuple(b"benSTpFstf")
"""Letters of events that have an id."""
BEGINS, ENDS, INSTANTS, LOWER_CASE_BIT = *b"BEi", 32
"""The letters of slices on threads, of instants, and the corresponding letters for events without a thread."""


@dataclass(eq=False)
class TrackEvents:
    """Adds all track events of packets. times: of the packets."""

    packets: Packets
    names: TrackNames
    times: Array
    event_builder: TraceEventBuilder
    lost: LossCallback

    def add(self) -> None:
        """Add them."""
        packets, data = self.packets, self.packets.all.data
        packet, spans = packets.all.get_spans(TRACK_EVENT)
        usable = packets.usable[packet]
        if not usable.all():
            packet, spans = packet[usable], spans[:, usable]
        if not len(packet):
            return
        events = read_messages(data, spans, _PARTS, _LEFT, (ANNOTATION, *FLOWS, *ENDING_FLOWS))
        rows = np.flatnonzero((events.other != 0) | (events.malformed != 0))
        if len(rows):
            self.lost(
                PART_OF_EVENT, f"packet {int(packet[rows[0]]) + 1}, field {int(events.other[rows[0]])}", len(rows)
            )
        generation, time = packets.generation[packet], self.times[packet]
        present = np.flatnonzero((time == MISSING) & events.has(ABSOLUTE_US))
        time[present] = events.get_number(ABSOLUTE_US)[present] * NS_PER_US
        legacy = LegacyEvents(events)
        name = self._intern(events, NAME_ID, NAME, NAMES, generation)
        if legacy:
            legacy.name(packets, self.event_builder.intern_text, generation, name)
        category = self._intern(events, CATEGORY_ID, CATEGORY, CATEGORIES, generation)
        uuid, lane, lanes = self._assign_lanes(events, packet, legacy)
        text = self.event_builder.intern_text
        texts = [
            [text(part) if part is not None else NONE for part in (one.process, one.thread, one.name)] for one in lanes
        ]
        process, thread, label = np.array(texts, np.int32).T.copy()
        apart = (thread < 0)[lane]
        arguments = ArgumentDecoder(packets, self.event_builder, self.lost).decode(
            events, generation, np.where(apart, category, np.int32(NONE))
        )
        process, thread, label = process[lane], thread[lane], label[lane]
        kind = events.get_number(TYPE)
        self._add_slices(kind, legacy, time, name, category, process, thread, label, lane, apart, arguments)
        self._add_counters(
            events, np.flatnonzero((kind == COUNT) & (time != MISSING)), time, uuid, name, generation, packet
        )
        self._add_flows(events, legacy, time, process, thread)

    def _intern(self, events: MessageColumns, number: int, inline: int, kind: int, generation: Array) -> Int32Array:
        """Indices of texts that are interned or inline."""
        found = np.full(len(events), NONE, np.int32)
        rows = np.flatnonzero(events.has(number))
        if len(rows):
            interned_strings = InternedStrings(self.packets, kind, self.event_builder.intern_text)
            found[rows] = interned_strings.lookup(generation[rows], events.get_number(number)[rows])
        present, spans = events.get_spans(inline)
        if len(present):
            found[present] = read_texts(self.packets.data, spans, self.event_builder.intern_text)
        return found

    def _find_tracks(self, events: MessageColumns, packet: Array) -> tuple[Array, Array]:
        """The track of each event, and whether any is given."""
        packets = self.packets
        own, uuid = events.has(TRACK_ID), events.get_number(TRACK_ID)
        rows, spans = packets.all.get_spans(DEFAULTS)
        if own.all() or not len(rows):
            return uuid, own
        count = len(packets.all)
        present, default = np.zeros(count + 1, bool), np.zeros(count + 1, np.int64)
        of, inner = read_messages(packets.all.data, spans, (11,)).get_spans(11)
        tracks = read_messages(packets.all.data, inner, (TRACK_ID,))
        has = tracks.has(TRACK_ID)
        present[rows[of[has]]], default[rows[of[has]]] = True, tracks.get_number(TRACK_ID)[has]
        given = packets.carry_forward(present[:-1])[packet]
        return np.where(own, uuid, default[given]), own | present[given]

    def _assign_lanes(
        self, events: MessageColumns, packet: Array, legacy: "LegacyEvents"
    ) -> tuple[Array, Array, list[Lane]]:
        """The track of each event; the lane of each; and the lanes."""
        uuid, present = self._find_tracks(events, packet)
        rows, spans = self.packets.all.get_spans(THREAD)
        columns = [np.where(present, uuid, 0)]
        if len(rows) or legacy.of_others:
            pid, tid = np.full(len(packet), NONE, np.int64), np.full(len(packet), NONE, np.int64)
            if len(rows):
                of = read_messages(self.packets.all.data, spans, (1, 2))
                pids, tids = np.full(len(self.packets.all) + 1, NONE), np.full(len(self.packets.all) + 1, NONE)
                pids[rows], tids[rows] = of.get_number(1, NONE), of.get_number(2, NONE)
                given = self.packets.carry_forward(tids[:-1] != NONE)[packet]
                pid, tid = np.where(present, NONE, pids[given]), np.where(present, NONE, tids[given])
            legacy.override(pid, tid)
            columns += [pid, tid]
        found, code = unique_rows(*columns)
        lanes = []
        for track, *of_thread in found:
            if of_thread and of_thread[1] >= 0:
                of_pid, of_tid = of_thread
                process = self.names.process_of_thread.get(of_tid) if of_pid < 0 else of_pid
                lanes.append(Lane(str(process) if process is not None else None, str(of_tid), ""))
            else:
                lanes.append(self.names.get_lane(track & UNSIGNED))
        return uuid, code, lanes

    def _add_slices(
        self,
        kind: Array,
        legacy: "LegacyEvents",
        time: Array,
        name: Array,
        category: Array,
        process: Array,
        thread: Array,
        label: Array,
        lane: Array,
        apart: Array,
        arguments: Array,
    ) -> None:
        """Add all but counters. label: of the lane of each. apart: events without a thread."""
        letters = np.array([0, *b"BEi", 0, ord("b"), 0], np.uint8)
        phase = letters[np.where((kind >= 0) & (kind <= STATE), kind, STATE + 1)]
        if legacy:
            phase = np.where((kind == 0) & (legacy.phase > 0), legacy.phase, phase)
        moved = apart & ((phase == BEGINS) | (phase == ENDS))
        phase[moved] += LOWER_CASE_BIT
        states = kind == STATE
        in_lane = apart | states
        id = np.where(in_lane, lane, np.int32(NONE))
        if legacy:
            asynchronous = (kind == 0) & np.isin(phase, PHASES_WITH_ID) & ~moved
            in_lane &= ~asynchronous
            id = np.where(asynchronous, legacy.id, id)
        nameless = (name < 0) & (phase != ENDS) & (phase != ENDS + LOWER_CASE_BIT)
        shown = np.where(nameless, np.int32(self.event_builder.intern_text(NO_NAME)), name)
        self._end_states(np.flatnonzero(states), time, lane, process, label)
        shows = (kind != COUNT) & ~(states & (name < 0))
        rows = slice(None) if shows.all() else np.flatnonzero(shows)
        category = np.where(in_lane & (phase != INSTANTS), label, category)
        self.event_builder.add_events(
            phase[rows],
            time[rows],
            shown[rows],
            thread[rows],
            duration_ns=legacy.duration if isinstance(legacy.duration, int) else legacy.duration[rows],
            category=category[rows],
            process=process[rows],
            id=id[rows],
            arguments=arguments[rows],
        )

    def _end_states(self, rows: Array, time: Array, lane: Array, process: Array, label: Array) -> None:
        """Add states: a state of a track lasts until its next."""
        rows = rows[np.lexsort((time[rows], lane[rows]))]
        same = lane[rows[:-1]] == lane[rows[1:]]
        ended, after = rows[:-1][same], rows[1:][same]
        self.event_builder.add_events(
            "e", time[after], NONE, NONE, category=label[ended], process=process[ended], id=lane[ended]
        )

    def _add_counters(
        self,
        events: MessageColumns,
        rows: Array,
        time: Array,
        uuid: Array,
        name: Array,
        generation: Array,
        packet: Array,
    ) -> None:
        whole, real = events.has(VALUE)[rows], events.has(REAL_VALUE)[rows]
        value = np.where(
            real, events.value[REAL_VALUE][rows].view(np.float64), events.value[VALUE][rows].astype(np.float64)
        )
        good = (whole | real) & np.isfinite(value)
        if not good.all():
            self.lost(NO_VALUE, f"packet {int(packet[rows[~good][0]]) + 1}", int(np.count_nonzero(~good)))
            rows, value = rows[good], value[good]
        tracks, which = unique_rows(uuid[rows])
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(len(tracks) + 1)).tolist()
        for (track,), (first, last) in zip(tracks, pairwise(bounds), strict=True):
            at = order[first:last]
            mine, values = rows[at], value[at]
            number = track & UNSIGNED
            chain = list(self.names.iterate_ancestors(number))
            about = chain[0] if chain else None
            if about is not None and about.incremental:
                values = _sum_deltas(values, generation[mine])
            values = values * (about.factor if about is not None else 1)
            lane = self.names.get_lane(number)
            first_name = int(name[mine[0]])
            label = (about.name if about else "") or (
                self.event_builder.get_texts()[first_name] if first_name >= 0 else ""
            )
            label = label or lane.name
            of_thread = next((track.tid for track in chain if track.tid is not None), None)
            if of_thread is not None:
                label += f" of {self.names.threads.get(of_thread, 'thread')} {of_thread}"
            if about is not None and about.unit:
                label += f" ({about.unit})"
            of_process = self.event_builder.intern_text(lane.process) if lane.process is not None else NONE
            self.event_builder.add_events(
                "C", time[mine], self.event_builder.intern_text(label), NONE, process=of_process, value=values
            )

    def _add_flows(
        self, events: MessageColumns, legacy: "LegacyEvents", time: Array, process: Array, thread: Array
    ) -> None:
        parts = [legacy.flows()]
        for number in (*FLOWS, *ENDING_FLOWS):
            numbers = events.listed[number].select_numbers()
            parts.insert(-1, (numbers.row, numbers.value, np.full(len(numbers), number in ENDING_FLOWS)))
        row, flow, ends = (np.concatenate(values) for values in zip(*parts, strict=True))
        good = time[row] != MISSING
        row, flow, ends = row[good], flow[good], ends[good]
        order = np.lexsort((time[row], flow))
        row, flow, ends = row[order], flow[order], ends[order]
        new = np.ones(len(row), bool)
        new[1:] = (flow[1:] != flow[:-1]) | ends[:-1]
        last = np.append(new[1:], True)[: len(row)]
        letters = np.where(new, ord("s"), np.where(last, ord("f"), ord("t")))
        # Each chain has its own number, which is reused when the chain ends.
        self.event_builder.add_events(
            *(letters, time[row], self.event_builder.intern_text("flow"), thread[row]),
            category=self.event_builder.intern_text("flow"),
            process=process[row],
            id=np.cumsum(new),
        )


def _sum_deltas(values: Array, generation: Array) -> Float64Array:
    """The running sums of values in each generation."""
    order = np.argsort(generation, kind="stable")
    cuts = np.flatnonzero(np.diff(generation[order])) + 1
    deltas = np.empty(len(values))
    for rows in np.split(order, cuts):
        deltas[rows] = np.cumsum(values[rows])
    return deltas
