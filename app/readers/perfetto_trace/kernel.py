"""The events of the kernel in a Perfetto trace: what ran where, marks of programs, and frequencies of CPUs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.wire import Damaged, fields, signed, unpacked
from ..trace.atrace import Markers
from ..trace.events import Array
from ..trace.made import MadeEvents
from ..trace.scheduling import PREEMPTED, UNKNOWN_TASK, Scheduling, state_of_bits
from .packets import FTRACE, Lost, Packets
from .texts import texts_at
from .tracks import Names
from .wire_columns import Messages, messages

TIME, TASK, PRINT, SWITCH, FREQUENCY, IDLE, WAKEUP, WAKING, NEW, RENAME = 1, 2, 3, 4, 11, 13, 17, 20, 114, 236
_WANTED = (TIME, TASK, PRINT, SWITCH, FREQUENCY, IDLE, WAKEUP, WAKING, NEW, RENAME)
NOT_SHOWN = "event of the kernel of a sort that is not shown"
DAMAGED = "event of the kernel that is damaged"
LOST_EVENTS = "bundle of events of the kernel before which some were lost"
NO_MARK = "text in the kernel's trace that is no mark"
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
            self.lost(NOT_SHOWN, f"fields {', '.join(map(str, which[:20]))} of FtraceEvent", len(others))
        self._switches(events, time, cpu)
        self._wakes(events, time)
        self._marks(events, time)
        self._cpus(events, time)
        self._renamed(events)
        self._compact(bundles, offset)

    def _texts(self, of: Messages, field: int) -> Array:
        found = np.full(len(of), self.made.text(""), np.int64)
        rows, spans = of.inner(field)
        found[rows] = texts_at(self.packets.data, spans, self.made.text)
        return found

    def _called(self, tasks: Array, names: Array) -> None:
        """Take note of the names of threads, the last of each."""
        keys, first = np.unique(tasks[::-1], return_index=True)
        texts = self.made.texts()
        for task, place in zip(keys.tolist(), names[::-1][first].tolist(), strict=True):
            if texts[place]:
                self.scheduling.comms[task] = texts[place]

    def _switches(self, events: Messages, time: Array, cpu: Array) -> None:
        rows, spans = events.inner(SWITCH)
        if not len(rows):
            return
        of = messages(events.data, spans, (1, 2, 4, 5, 6))
        bits, inverse = np.unique(of.number(4), return_inverse=True)
        states = np.array([state_of_bits(one) for one in bits.tolist()], np.int64)
        comm, before = self._texts(of, 5), self._texts(of, 1)
        left, taken = of.number(2), of.number(6)
        self._called(np.concatenate((left, taken)), np.concatenate((before, comm)))
        self.scheduling.switches(time[rows], cpu[rows], left, states[inverse], taken, comm)

    def _wakes(self, events: Messages, time: Array) -> None:
        # What is about to be woken is told before it is, and in both cases by the same thread's number.
        kinds = (WAKING, NEW) if events.has(WAKING).any() else (WAKEUP, NEW)
        for kind in kinds:
            rows, spans = events.inner(kind)
            if len(rows):
                self.scheduling.wakes(time[rows], messages(events.data, spans, (2,)).number(2))

    def _marks(self, events: Messages, time: Array) -> None:
        rows, spans = events.inner(PRINT)
        if not len(rows):
            return
        of, (begin, end) = messages(events.data, spans, (2,)).inner(2)
        columns = time[rows[of]], events.number(TASK)[rows[of]], begin, end
        strange, example = 0, ""
        for when, task, first, last in zip(*(column.tolist() for column in columns), strict=True):
            mark = self.packets.data[first:last].rstrip(b"\n\0").decode("utf-8", "backslashreplace")
            if not self.markers.take(when, task, mark):
                strange, example = strange + 1, example or mark[:160]
        if strange:
            self.lost(NO_MARK, example, strange)

    def _cpus(self, events: Messages, time: Array) -> None:
        for kind, name in ((FREQUENCY, "frequency (kHz)"), (IDLE, "idle state")):
            rows, spans = events.inner(kind)
            if not len(rows):
                continue
            of = messages(events.data, spans, (1, 2))
            value = np.where(of.number(1) == ACTIVE, -1, of.number(1)) if kind == IDLE else of.number(1)
            distinct, inverse = np.unique(value, return_inverse=True)
            told = np.array([self.made.arguments({"": one}) for one in distinct.tolist()])
            for cpu in np.unique(of.number(2)).tolist():
                mine = np.flatnonzero(of.number(2) == cpu)
                label = self.made.text(f"CPU {cpu} {name}")
                self.made.many("C", time[rows[mine]], label, -1, arguments=told[inverse[mine]])

    def _renamed(self, events: Messages) -> None:
        rows, spans = events.inner(RENAME)
        if len(rows):
            of = messages(events.data, spans, (1, 3))
            self._called(of.number(1), self._texts(of, 3))

    def _compact(self, bundles: Messages, offset: Array) -> None:
        """Switches and wakeups that stand in columns, without what was left, which is what was taken before."""
        before: dict[int, int] = {}
        rows, spans = bundles.inner(4)
        broken = 0
        for row, begin, end in zip(rows.tolist(), *spans.tolist(), strict=True):
            cpu = int(bundles.number(1)[row])
            try:
                self._one_compact(cpu, int(offset[row]), _columns(self.packets.data, begin, end), before)
            except (Damaged, ValueError, IndexError, TypeError):
                broken += 1
        if broken:
            self.lost(DAMAGED, "a bundle in columns", broken)

    def _one_compact(self, cpu: int, offset: int, of: dict[int, Any], before: dict[int, int]) -> None:
        comms = np.array([self.made.text(text) for text in of[5]] or [self.made.text("")], np.int64)
        none = np.zeros(0, np.int64)
        times, taken = np.cumsum(of.get(1, none)) + offset, of.get(3, none)
        names = comms[of.get(6, none)]
        if len(times) != len(taken) or len(times) != len(names) or len(times) != len(of.get(2, none)):
            raise ValueError("columns of several lengths")
        if len(times):
            left = np.append(before.get(cpu, UNKNOWN_TASK), taken[:-1])
            before[cpu] = int(taken[-1])
            states = [state_of_bits(bits) if bits else PREEMPTED for bits in of[2].tolist()]
            self._called(taken, names)
            self.scheduling.switches(times, np.full(len(times), cpu), left, states, taken, names)
            self.last_ns = max(self.last_ns, int(times[-1]))
        woken = np.cumsum(of.get(7, none)) + offset
        if len(woken):
            tasks = of.get(8, none)
            if len(tasks) != len(woken):
                raise ValueError("columns of several lengths")
            self.scheduling.wakes(woken, tasks)
            self.last_ns = max(self.last_ns, int(woken[-1]))


def _columns(data: bytes, begin: int, end: int) -> dict[int, Any]:
    """The columns of a bundle, by their numbers: 5 texts, the others numbers, packed or not. Raises Damaged."""
    texts: list[str] = []
    found: dict[int, list[Array]] = {}
    for number, _, content in fields(data, begin, end):
        if number == 5 and not isinstance(content, int):
            texts.append(bytes(content).decode("utf-8", "backslashreplace"))
        elif isinstance(content, int):
            found.setdefault(number, []).append(np.array([signed(content)], np.int64))
        else:
            found.setdefault(number, []).append(unpacked(content))
    columns: dict[int, Any] = {number: np.concatenate(parts) for number, parts in found.items()}
    return columns | {5: texts}
