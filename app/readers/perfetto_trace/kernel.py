"""The events of the kernel in a Perfetto trace: what ran where, marks of programs, and frequencies of CPUs."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.losses import KERNEL_EVENT, NO_MARK
from ...ingest.loops.hashing import coded
from ...ingest.loops.wire_columns import Messages, distinct, messages
from ...ingest.trace.atrace import Markers
from ...ingest.trace.made import MadeEvents
from ...ingest.trace.scheduling import Scheduling
from ...ingest.trace.thread_states import UNKNOWN_TASK, state_of_bits
from .compact import compact_of
from .packets import FTRACE, Lost, Packets
from .texts import texts_at
from .tracks import Names

TIME, TASK, PRINT, SWITCH, FREQUENCY, IDLE, WAKEUP, WAKING, NEW, RENAME = 1, 2, 3, 4, 11, 13, 17, 20, 114, 236
_WANTED = (TIME, TASK, PRINT, SWITCH, FREQUENCY, IDLE, WAKEUP, WAKING, NEW, RENAME)
DAMAGED = "event of the kernel that is damaged"
LOST_EVENTS = "bundle of events of the kernel before which some were lost"
ACTIVE = 4294967295
"""How the kernel calls the state of a CPU that does not idle."""


@dataclass(eq=False)
class KernelEvents:
    """Adds what the kernel traced. last_ns: when the last of it was."""

    packets: Packets
    names: Names
    made: MadeEvents
    scheduling: Scheduling
    markers: Markers
    lost: Lost
    last_ns: int = 0

    def add(self) -> None:
        """Take in all bundles."""
        data = self.packets.all.data
        _, spans = self.packets.all.inner(FTRACE)
        if not spans.size:
            return
        bundles = messages(data, spans, (1, 3, 4, 5, 6, 7), (), (2,))
        if behind := int(np.count_nonzero(bundles.number(3))):
            self.lost(LOST_EVENTS, "", behind)
        offset = np.where(bundles.number(6) != 0, bundles.number(7) - bundles.number(6), 0)
        found = bundles.listed[2].contents()
        events = messages(data, found.spans, _WANTED)
        time = events.number(TIME) + offset[found.row]
        cpu = bundles.number(1)[found.row]
        if len(time):
            self.last_ns = max(self.last_ns, int(time.max()))
        damaged = np.flatnonzero(events.bad)
        if len(damaged):
            self.lost(DAMAGED, f"at byte {int(events.bad[damaged[0]]) - 1}", len(damaged))
        others = np.flatnonzero(events.other != 0)
        if len(others):
            which = sorted(set(events.other[others].tolist()))
            self.lost(KERNEL_EVENT, f"fields {', '.join(map(str, which[:20]))} of FtraceEvent", len(others))
        self._switches(events, time, cpu)
        self._wakes(events, time)
        self._marks(events, time)
        self._cpus(events, time)
        self._renamed(events)
        self._compact(bundles, offset)

    def _texts(self, of: Messages, field: int) -> Int64Array:
        found = np.full(len(of), self.made.text(""), np.int64)
        rows, spans = of.inner(field)
        found[rows] = texts_at(self.packets.data, spans, self.made.text)
        return found

    def _called(self, tasks: Array, names: Array) -> None:
        """Take note of the names of threads, the last of each."""
        code, first = coded(tasks)
        last = np.zeros(len(first), np.int64)
        last[code] = np.arange(len(code))
        texts = self.made.texts()
        for task, place in sorted(zip(tasks[first].tolist(), names[last].tolist(), strict=True)):
            if texts[place]:
                self.scheduling.comms[task] = texts[place]

    def _switches(self, events: Messages, time: Array, cpu: Array) -> None:
        rows, spans = events.inner(SWITCH)
        if not len(rows):
            return
        of = messages(events.data, spans, (1, 2, 4, 5, 6))
        comm, before = self._texts(of, 5), self._texts(of, 1)
        left, taken = of.number(2), of.number(6)
        self._called(np.concatenate((left, taken)), np.concatenate((before, comm)))
        self.scheduling.switches(time[rows], cpu[rows], left, _states(of.number(4)), taken, comm)

    def _wakes(self, events: Messages, time: Array) -> None:
        # What is about to be woken is told before it is, and in both cases by the same thread's number.
        kinds = (WAKING, NEW) if events.has(WAKING).any() else (WAKEUP, NEW)
        for kind in kinds:
            rows, spans = events.inner(kind)
            if len(rows):
                woken = messages(events.data, spans, (2,)).number(2)
                self.scheduling.wakes(time[rows], woken, events.number(TASK, UNKNOWN_TASK)[rows])

    def _marks(self, events: Messages, time: Array) -> None:
        rows, spans = events.inner(PRINT)
        if not len(rows):
            return
        of, spans = messages(events.data, spans, (2,)).inner(2)
        rows = rows[of]
        texts: dict[str, int] = {}
        codes = texts_at(self.packets.data, spans, lambda text: texts.setdefault(text.rstrip("\n\0"), len(texts)))
        marks = list(texts)
        none = self.markers.take_many(time[rows], events.number(TASK)[rows], codes, marks)
        if len(none):
            example = next((mark for code in codes[none].tolist() if (mark := marks[code])), "")
            self.lost(NO_MARK, example[:160], len(none))

    def _cpus(self, events: Messages, time: Array) -> None:
        for kind, name in ((FREQUENCY, "frequency (kHz)"), (IDLE, "idle state")):
            rows, spans = events.inner(kind)
            of = messages(events.data, spans, (1, 2))
            value = of.number(1)
            if kind == IDLE:
                value[value == ACTIVE] = -1
            cpus, which = distinct(of.number(2))
            order = np.argsort(which, kind="stable")
            bounds = np.searchsorted(which[order], np.arange(len(cpus) + 1)).tolist()
            for (cpu,), (first, last) in zip(cpus, pairwise(bounds), strict=True):
                mine = order[first:last]
                label = self.made.text(f"CPU {cpu} {name}")
                self.made.many("C", time[rows[mine]], label, -1, value=value[mine].astype(np.float64))

    def _renamed(self, events: Messages) -> None:
        rows, spans = events.inner(RENAME)
        if len(rows):
            of = messages(events.data, spans, (1, 3))
            self._called(of.number(1), self._texts(of, 3))

    def _compact(self, bundles: Messages, offset: Array) -> None:
        """Switches and wakeups that stand in columns."""
        rows, spans = bundles.inner(4)
        if not len(rows):
            return
        cpu, offset = bundles.number(1)[rows], offset[rows]
        found = compact_of(self.packets.data, spans, cpu, self.made.text)
        if found.broken:
            self.lost(DAMAGED, "a bundle in columns", found.broken)
        if len(found.taken):
            time = found.time_ns + offset[found.bundle]
            states = _states(found.state_bits)
            named = found.comm != self.made.text("")
            self._called(found.taken[named], found.comm[named])
            self.scheduling.switches(time, cpu[found.bundle], found.left, states, found.taken, found.comm)
            self._until(time, found.bundle)
        if len(found.woken):
            woken = found.wake_ns + offset[found.wake_bundle]
            self.scheduling.wakes(woken, found.woken)
            self._until(woken, found.wake_bundle)

    def _until(self, time: Array, bundle: Array) -> None:
        """Take note of when the last thing was, which in each bundle comes last."""
        self.last_ns = max(self.last_ns, int(time[np.append(bundle[1:] != bundle[:-1], True)].max()))


def _states(bits: Array) -> Int64Array:
    """The states in which threads were left, by the kernel's bits."""
    code, first = coded(bits)
    return np.array([state_of_bits(one) for one in bits[first].tolist()], np.int64)[code]
