"""Fields of track events that were converted from legacy events (Chrome's JSON)."""

import numpy as np

from ...domain.arrays import MISSING, Array
from ...domain.units import NS_PER_US
from ...ingest.jit.protobuf_columns import MessageColumns, read_messages, unique_rows
from ...ingest.trace.event_builder import NONE
from .interned import NAMES, InternedStrings
from .packets import Packets
from .texts import InternText

LEGACY = 6
"""The field of TrackEvent."""
_NAME, PHASE, DURATION_US, IDS, SCOPE, BIND_ID, DIRECTION, PID, TID = 1, 2, 3, (6, 10, 11), 7, 8, 13, 18, 19


class LegacyEvents:
    """Columns by event. phase: letters. id: of asynchronous events."""

    def __init__(self, events: MessageColumns) -> None:
        self.rows, spans = events.get_spans(LEGACY)
        parts = (_NAME, PHASE, DURATION_US, *IDS, SCOPE, BIND_ID, DIRECTION, PID, TID)
        self._of = of = read_messages(events.data, spans, parts)
        self.of_others = False
        self.duration: Array | int = MISSING
        if not self:
            return
        count = len(events)
        self.phase, self.id = np.zeros(count, np.uint8), np.full(count, NONE, np.int32)
        self.duration = np.full(count, MISSING, np.int64)
        phase = of.get_number(PHASE)
        self.phase[self.rows] = np.where((phase > 0) & (phase < 256), phase, 0)
        long = of.has(DURATION_US)
        self.duration[self.rows[long]] = np.clip(of.get_number(DURATION_US)[long], -1, 1 << 51) * NS_PER_US
        kind, number = np.zeros((2, len(self.rows)), np.int64)
        for one in IDS:
            there = of.has(one)
            kind[there], number[there] = one, of.get_number(one)[there]
        _, code = unique_rows(kind, number)
        self.id[self.rows] = np.where(kind > 0, code + (1 << 28), NONE)
        self._others = np.flatnonzero(of.has(TID) & (of.get_number(TID) > 0))
        self.of_others = len(self._others) > 0

    def __bool__(self) -> bool:
        return len(self.rows) > 0

    def name(self, packets: Packets, place: InternText, generation: Array, names: Array) -> None:
        """Set the names that events have as interned numbers."""
        rows = np.flatnonzero(names[self.rows] < 0)
        of = self.rows[rows]
        names[of] = InternedStrings(packets, NAMES, place).lookup(generation[of], self._of.get_number(_NAME)[rows])

    def override(self, pid: Array, tid: Array) -> None:
        """Set the threads of events that belong to another thread than their sequence."""
        if self.of_others:
            rows = self.rows[self._others]
            pid[rows] = self._of.get_number(PID, NONE)[self._others]
            tid[rows] = self._of.get_number(TID)[self._others]

    def flows(self) -> tuple[Array, Array, Array]:
        """The flows of events: (rows, numbers, whether they end there)."""
        direction = self._of.get_number(DIRECTION)
        rows = np.flatnonzero(self._of.has(BIND_ID) & (direction > 0))
        return self.rows[rows], self._of.get_number(BIND_ID)[rows], direction[rows] == 1
