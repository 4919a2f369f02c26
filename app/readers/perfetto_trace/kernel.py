"""The kernel events in a Perfetto trace: switches and wakeups, marks of programs, and frequencies of CPUs."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.losses import KERNEL_EVENT, NO_MARKER
from ...ingest.jit.hashing import factorize
from ...ingest.jit.protobuf_columns import MessageColumns, read_messages, unique_rows
from ...ingest.number_limits import check_cpus
from ...ingest.trace.atrace import AtraceMarkers
from ...ingest.trace.event_builder import TraceEventBuilder
from ...ingest.trace.scheduler import SchedulerTimeline
from ...ingest.trace.thread_states import UNKNOWN_TASK, parse_state_bits
from .compact_sched import read_compact_sched
from .format import DAMAGED, LOST_EVENTS
from .packets import FTRACE, LossCallback, Packets
from .texts import read_texts
from .tracks import TrackNames

TIME, TASK, PRINT, SWITCH, FREQUENCY, IDLE, WAKEUP, WAKING, NEW, RENAME = 1, 2, 3, 4, 11, 13, 17, 20, 114, 236
_WANTED = (TIME, TASK, PRINT, SWITCH, FREQUENCY, IDLE, WAKEUP, WAKING, NEW, RENAME)
ACTIVE = 4294967295
"""The kernel's number for the state of a CPU that does not idle."""


@dataclass(eq=False)
class KernelEvents:
    """Adds the kernel's events. last_ns: the time of the last one."""

    packets: Packets
    names: TrackNames
    event_builder: TraceEventBuilder
    scheduling: SchedulerTimeline
    markers: AtraceMarkers
    lost: LossCallback
    last_ns: int = 0

    def add(self) -> None:
        """Add all bundles."""
        data = self.packets.all.data
        _, spans = self.packets.all.get_spans(FTRACE)
        if not spans.size:
            return
        bundles = read_messages(data, spans, (1, 3, 4, 5, 6, 7), (), (2,))
        if behind := int(np.count_nonzero(bundles.get_number(3))):
            self.lost(LOST_EVENTS, "", behind)
        offset = np.where(bundles.get_number(6) != 0, bundles.get_number(7) - bundles.get_number(6), 0)
        contents = bundles.listed[2].select_contents()
        events = read_messages(data, contents.spans, _WANTED)
        time = events.get_number(TIME) + offset[contents.row]
        cpu = check_cpus(bundles.get_number(1))[contents.row]
        if len(time):
            self.last_ns = max(self.last_ns, int(time.max()))
        rows = np.flatnonzero(events.malformed)
        if len(rows):
            self.lost(DAMAGED, f"at byte {int(events.malformed[rows[0]]) - 1}", len(rows))
        others = np.flatnonzero(events.other != 0)
        if len(others):
            which = sorted(set(events.other[others].tolist()))
            self.lost(KERNEL_EVENT, f"fields {', '.join(map(str, which[:20]))} of FtraceEvent", len(others))
        self._add_switches(events, time, cpu)
        self._add_wakes(events, time)
        self._add_marks(events, time)
        self._add_cpu_counters(events, time)
        self._apply_renames(events)
        self._add_compact(bundles, offset)

    def _intern_texts(self, of: MessageColumns, field: int) -> Int64Array:
        texts = np.full(len(of), self.event_builder.intern_text(""), np.int64)
        rows, spans = of.get_spans(field)
        texts[rows] = read_texts(self.packets.data, spans, self.event_builder.intern_text)
        return texts

    def _note_thread_names(self, tasks: Array, names: Array) -> None:
        """Record the names of threads, the last of each."""
        code, first = factorize(tasks)
        last = np.zeros(len(first), np.int64)
        last[code] = np.arange(len(code))
        texts = self.event_builder.get_texts()
        for task, place in sorted(zip(tasks[first].tolist(), names[last].tolist(), strict=True)):
            if texts[place]:
                self.scheduling.comms[task] = texts[place]

    def _add_switches(self, events: MessageColumns, time: Array, cpu: Array) -> None:
        rows, spans = events.get_spans(SWITCH)
        if not len(rows):
            return
        of = read_messages(events.data, spans, (1, 2, 4, 5, 6))
        comm, before = self._intern_texts(of, 5), self._intern_texts(of, 1)
        left, entering = of.get_number(2), of.get_number(6)
        self._note_thread_names(np.concatenate((left, entering)), np.concatenate((before, comm)))
        self.scheduling.add_switches(time[rows], cpu[rows], left, _parse_states(of.get_number(4)), entering, comm)

    def _add_wakes(self, events: MessageColumns, time: Array) -> None:
        # sched_waking comes before sched_wakeup, both with the same thread number.
        kinds = (WAKING, NEW) if events.has(WAKING).any() else (WAKEUP, NEW)
        for kind in kinds:
            rows, spans = events.get_spans(kind)
            if len(rows):
                woken = read_messages(events.data, spans, (2,)).get_number(2)
                self.scheduling.add_wakeups(time[rows], woken, events.get_number(TASK, UNKNOWN_TASK)[rows])

    def _add_marks(self, events: MessageColumns, time: Array) -> None:
        rows, spans = events.get_spans(PRINT)
        if not len(rows):
            return
        of, spans = read_messages(events.data, spans, (2,)).get_spans(2)
        rows = rows[of]
        texts: dict[str, int] = {}
        codes = read_texts(self.packets.data, spans, lambda text: texts.setdefault(text.rstrip("\n\0"), len(texts)))
        marks = list(texts)
        none = self.markers.feed_many(time[rows], events.get_number(TASK)[rows], codes, marks)
        if len(none):
            example = next((mark for code in codes[none].tolist() if (mark := marks[code])), "")
            self.lost(NO_MARKER, example[:160], len(none))

    def _add_cpu_counters(self, events: MessageColumns, time: Array) -> None:
        for kind, name in ((FREQUENCY, "frequency (kHz)"), (IDLE, "idle state")):
            rows, spans = events.get_spans(kind)
            of = read_messages(events.data, spans, (1, 2))
            value = of.get_number(1)
            if kind == IDLE:
                value[value == ACTIVE] = -1
            cpus, which = unique_rows(of.get_number(2))
            order = np.argsort(which, kind="stable")
            bounds = np.searchsorted(which[order], np.arange(len(cpus) + 1)).tolist()
            for (cpu,), (first, last) in zip(cpus, pairwise(bounds), strict=True):
                mine = order[first:last]
                label = self.event_builder.intern_text(f"CPU {cpu} {name}")
                self.event_builder.add_events("C", time[rows[mine]], label, -1, value=value[mine].astype(np.float64))

    def _apply_renames(self, events: MessageColumns) -> None:
        rows, spans = events.get_spans(RENAME)
        if len(rows):
            of = read_messages(events.data, spans, (1, 3))
            self._note_thread_names(of.get_number(1), self._intern_texts(of, 3))

    def _add_compact(self, bundles: MessageColumns, offset: Array) -> None:
        """Add switches and wakeups that are in columns."""
        rows, spans = bundles.get_spans(4)
        if not len(rows):
            return
        cpu, offset = check_cpus(bundles.get_number(1))[rows], offset[rows]
        compact_sched = read_compact_sched(self.packets.data, spans, cpu, self.event_builder.intern_text)
        if compact_sched.malformed:
            self.lost(DAMAGED, "a bundle in columns", compact_sched.malformed)
        if len(compact_sched.next_task):
            time = compact_sched.time_ns + offset[compact_sched.bundle]
            states = _parse_states(compact_sched.state_bits)
            named = compact_sched.comm != self.event_builder.intern_text("")
            self._note_thread_names(compact_sched.next_task[named], compact_sched.comm[named])
            self.scheduling.add_switches(
                time,
                cpu[compact_sched.bundle],
                compact_sched.prev_task,
                states,
                compact_sched.next_task,
                compact_sched.comm,
            )
            self._update_last_time(time, compact_sched.bundle)
        if len(compact_sched.wake_task):
            woken = compact_sched.wake_ns + offset[compact_sched.wake_bundle]
            self.scheduling.add_wakeups(woken, compact_sched.wake_task)
            self._update_last_time(woken, compact_sched.wake_bundle)

    def _update_last_time(self, time: Array, bundle: Array) -> None:
        """Record the time of the last event, which is the last in each bundle."""
        self.last_ns = max(self.last_ns, int(time[np.append(bundle[1:] != bundle[:-1], True)].max()))


def _parse_states(bits: Array) -> Int64Array:
    """The states of threads that were switched out, by the kernel's bits."""
    code, first = factorize(bits)
    return np.array([parse_state_bits(one) for one in bits[first].tolist()], np.int64)[code]
