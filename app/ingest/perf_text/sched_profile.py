"""Builds a Profile from the scheduler events that perf prints."""

import re
from dataclasses import replace
from functools import lru_cache
from itertools import dropwhile

import numpy as np

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.losses import UNUSED_STACK
from ...domain.profile import Profile
from ...domain.tables import FrameKind
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ..losses import MAX_EXAMPLE_CHARS, UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT
from ..trace.atrace import AtraceMarkers
from ..trace.event_builder import NONE, TraceEventBuilder
from ..trace.profile import Dialect
from ..trace.profile import build_profile as of_events
from ..trace.scheduler import INTERRUPT as INTERRUPTED
from ..trace.scheduler import RUNTIME, SWITCH_OUT, SchedulerTimeline
from ..trace.scheduler import classify as of_scheduling
from ..trace.slices import PLAIN_SLICE, SliceClassifier
from ..trace.thread_states import READY, RUN, UNKNOWN_TASK, WAITING, StateIntervals, parse_state
from .callchains import Callchains, TextComments
from .grammar import ScriptFrame, parse_frame
from .losses import SAMPLED_SWITCHES
from .sched_events import (
    INTERRUPT_SYMBOL,
    PERF_PATTERNS,
    SCHED_EVENTS,
    SchedEventParser,
    decode_name,
)
from .sched_format import FORMAT, LINE, TIMEHIST

EVENT = "events"
ONLY_SWITCH_OUT = (
    "Only the threads of one program were recorded, and sched_switch alone shows when they left a CPU, but not "
    "when they resumed: their running and waiting times are unknown. Also record sched_stat_runtime (perf record "
    "-e sched:sched_switch,sched:sched_stat_runtime -c 1 -- PROGRAM), or all CPUs (-a, or perf sched record)."
)
"""Why a program's scheduling is unknown, and what to record."""
RECORD_ALL_ADVICE = "record with -c 1"
SCHEDULER_FUNCTIONS = frozenset({"schedule", "__schedule", "preempt_schedule"})
"""The innermost functions of every thread that leaves a CPU, without which perf sched timehist would show call stacks
too."""
_STACKS = re.compile(rb"(?:^\t++ *+[0-9a-f]++ [^\n]*\)$\n?)++", re.MULTILINE)
_ABOUT = re.compile(rb"\bpid=(\d{1,10})(?: |$)")
_QUIET = (b"awakened:", b"migrated:", b"[tid/pid]", b"------", b"task name", b"<idle>")


class SchedTextParser:
    """The content of a text, while it is read."""

    def __init__(self) -> None:
        self.events = TraceEventBuilder()
        self.scheduling = SchedulerTimeline(requires_runtimes=True)
        self.sched = SchedEventParser(self.scheduling, self.events, PERF_PATTERNS)
        self.markers = AtraceMarkers(self.events, self.scheduling.processes)
        self.last_ns = 0
        self._lost: dict[str, tuple[int, str]] = {}
        self.remarks = TextComments(self.add_loss)
        self._history = _TimehistCollector(self.scheduling)
        self._event = self.events.intern_text(EVENT)
        self._summary = False
        self._in_stack = False
        self._stacks: dict[int, bytes] = {}
        self._chains: Callchains | None = None

    def add_loss(self, reason: str, example: str, count: int = 1) -> None:
        """Record a loss."""
        before, first = self._lost.get(reason, (0, example))
        self._lost[reason] = (before + count, first)

    def get_losses(self) -> list[tuple[str, int, str]]:
        """All losses."""
        return [(reason, count, first) for reason, (count, first) in self._lost.items()]

    def feed(self, number: int, text: bytes) -> None:
        """Add lines, the first of which has the number `number`."""
        text, self.last_ns = self.sched.feed_lines(text, self.last_ns)
        text, stacks = _STACKS.subn(lambda found: b"\n" * found[0].count(b"\n"), text)
        if stacks:
            self.add_loss(UNUSED_STACK, f"behind line {number}", stacks)
        for at, line in enumerate(text.split(b"\n"), number):
            if not line or self._summary:
                continue
            if match := LINE.fullmatch(line):
                self._add_event(at, line, match.groups())
            elif past := TIMEHIST.fullmatch(line):
                self._history.take(past.groups())
            else:
                self._add_other_line(at, line)

    def _add_event(self, number: int, line: bytes, fields: tuple[bytes, ...]) -> None:
        comm, process, tid, cpu, seconds, fraction, event, rest = fields
        task = int(tid)
        time_ns = int(seconds) * NS_PER_S + int(fraction) * 10 ** (9 - len(fraction))
        self.last_ns = max(self.last_ns, time_ns)
        if task < 0:
            # A thread that has ended is identified only by the event's fields.
            about = _ABOUT.search(rest)
            task = int(about[1]) if about else 0
        else:
            self.sched.comms.setdefault(task, comm)
        if process and process[:1] != b"-":
            self.scheduling.processes.setdefault(task, int(process))
        if event in SCHED_EVENTS:
            if not self.sched.feed(event, time_ns, int(cpu), task, rest):
                self._note(UNRECOGNIZED_SCHED_EVENT, number, line)
        else:
            if event == b"sched_process_exit":
                self.scheduling.add_exit(time_ns, task)
            arguments = self.events.intern_arguments({"told": decode_name(rest)} if rest else {})
            self.markers.add("i", time_ns, decode_name(event), task, self._event, arguments=arguments)
        self._in_stack = False

    def _add_other_line(self, number: int, line: bytes) -> None:
        """A line that is no event: of a stack, the heading or the summary."""
        bare = line.strip()
        if any(word in bare for word in _QUIET):
            return
        if line[:1] in b" \t" and parse_frame(line) is not None:
            if not self._in_stack:
                self.add_loss(UNUSED_STACK, f"line {number}: {decode_name(bare[:MAX_EXAMPLE_CHARS])}")
            self._in_stack = True
        elif self.remarks.feed(number, line):
            return
        elif bare == b"Runtime summary":
            # The summary repeats what the lines before it contain.
            self._summary = True
        elif bare:
            self._note(UNRECOGNIZED_LINE, number, line)

    def _note(self, reason: str, number: int, line: bytes) -> None:
        self.add_loss(reason, f"line {number}: {decode_name(line[:MAX_EXAMPLE_CHARS]).strip()}")

    def finish(self) -> None:
        """All lines were added."""
        self.sched.finish()
        if self.sched.skipped:
            self.add_loss(SAMPLED_SWITCHES, RECORD_ALL_ADVICE, min(self.sched.skipped, 1 << 62))
        if self.sched.unused_stacks:
            self.add_loss(UNUSED_STACK, "of sched_stat_runtime, for another thread", self.sched.unused_stacks)
        self.markers.finish(self.scheduling.get_process)
        for task in sorted(self.markers.threads):
            self.events.add_metadata(
                "thread_name", str(task), self.scheduling.get_process(task), name=self.scheduling.get_thread_name(task)
            )
        self._history.finish()

    def get_frames(self, builder: ProfileBuilder, stack: int, part: str) -> list[int]:
        """The frames of a part of a stack, outermost first; see `scheduler.Frames`."""
        if not self._stacks:
            self._stacks = {number: raw for raw, number in self.sched.stacks.items()} | self._history.stacks
        raw = self._stacks.get(stack, b"")
        if b"\n" not in raw:
            # Of timehist: only names, of the kernel.
            names = [decode_name(name).strip() for name in raw.split(b"<-") if name.strip()]
            return [
                builder.intern_frame(builder.intern_function(name), kind=FrameKind.KERNEL) for name in reversed(names)
            ]
        if self._chains is None:
            self._chains = Callchains(builder)
        return self._chains.intern_frames(select_frames(self._chains.parse(raw), part))


def select_frames(frames: list[ScriptFrame], part: str) -> list[ScriptFrame]:
    """The frames of a stack, innermost first, without those of the scheduler itself: those of an interrupt, without the
    interrupted code, or the running code, without what interrupted it or made it leave."""
    if part == SWITCH_OUT:
        return list(dropwhile(lambda frame: frame.symbol in SCHEDULER_FUNCTIONS, frames))
    entries = [index for index, frame in enumerate(frames) if _is_interrupt_entry(frame.symbol)]
    if part == INTERRUPTED:
        return frames[: entries[-1] + 1] if entries else frames
    if part == RUNTIME:
        places = [index for index, frame in enumerate(frames) if frame.symbol in SCHEDULER_FUNCTIONS]
        return frames[max(entries[-1:] + places[-1:], default=-1) + 1 :]
    return frames


@lru_cache(maxsize=1 << 16)
def _is_interrupt_entry(symbol: str) -> bool:
    return INTERRUPT_SYMBOL.search(symbol.encode()) is not None


class _TimehistCollector:
    """Output of `perf sched timehist`: each line has how long a thread ran before it left a CPU, and its waits before.

    Its times are rounded to µs: nothing begins before its predecessor ends.
    """

    def __init__(self, scheduling: SchedulerTimeline) -> None:
        self._scheduling = scheduling
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._left: dict[int, tuple[int, int, int]] = {}
        self._busy: dict[int, int] = {}
        self._known: dict[bytes, int] = {}

    @property
    def stacks(self) -> dict[int, bytes]:
        """The stacks by their ids."""
        return {number: raw for raw, number in self._known.items()}

    def take(self, fields: tuple[bytes | None, ...]) -> None:
        """Add a line."""
        seconds, fraction, cpu_text, comm, tid, pid, *times, letter, rest = (part or b"" for part in fields)
        task, cpu = int(tid), int(cpu_text)
        stop = int(seconds) * NS_PER_S + int(fraction) * NS_PER_US
        if task <= 0:
            self._busy[cpu] = stop
            return
        wait, delay, run = (int(times[i]) * NS_PER_MS + int(times[i + 1]) * NS_PER_US for i in (0, 2, 4))
        self._scheduling.comms[task] = decode_name(comm)
        if pid or task not in self._scheduling.processes:
            self._scheduling.processes[task] = int(pid) if pid else task
        before, state, stack = self._left.get(task, (0, WAITING, NONE))
        start = min(stop, max(stop - run, before, self._busy.get(cpu, 0)))
        ready = max(start - delay, before)
        asleep = max(start - wait, before) if wait else ready
        if asleep < ready and wait:
            self._rows.append((task, state, asleep, ready, NONE, stack))
        if ready < start:
            self._rows.append((task, READY, ready, start, NONE, NONE))
        if start < stop:
            self._rows.append((task, RUN, start, stop, cpu, NONE))
        chain = b"" if b"next:" in rest else rest.strip()
        number = self._known.setdefault(chain, len(self._known)) if chain else NONE
        self._left[task] = stop, parse_state(letter.decode()) if letter else WAITING, number
        self._busy[cpu] = stop

    def finish(self) -> None:
        """All lines were added."""
        if self._rows:
            rows = np.array([(*row, UNKNOWN_TASK, NONE) for row in self._rows], np.int64)
            self._scheduling.set_intervals(StateIntervals(*rows.T))


def build_profile(sched_text_parser: SchedTextParser, source: str, defect: str | None) -> Profile:
    """The profile of all collected events. Raises UnreadableInput if there are none."""
    sched_text_parser.finish()
    if not sched_text_parser.scheduling:
        raise UnreadableInput(
            f"{source} has no readable scheduler switch. Record with perf sched record -- PROGRAM, "
            "and import the output of perf script or perf sched timehist."
        )
    samples = sched_text_parser.scheduling.add_slices(
        sched_text_parser.events, sched_text_parser.last_ns, sched_text_parser.add_loss, sched_text_parser.get_frames
    )
    command, host = sched_text_parser.remarks.facts.get("cmdline"), sched_text_parser.remarks.facts.get("hostname")

    def more(builder: ProfileBuilder, zero: int) -> None:
        builder.update_run(0, command=command, host=host)
        samples(builder, zero)

    dialect = Dialect(
        FORMAT,
        SliceClassifier(lambda category, name: of_scheduling(category, name) or PLAIN_SLICE),
        "",
        sched_text_parser.remarks.facts,
        more,
    )
    profile = of_events(sched_text_parser.events.finish(sched_text_parser.get_losses()), source, defect, dialect)
    reasons = (*profile.meta.reasons, *sched_text_parser.remarks.reasons)
    if sched_text_parser.scheduling.lacks_runtimes:
        reasons = (*reasons, ONLY_SWITCH_OUT)
    return replace(profile, meta=replace(profile.meta, command=command, complete=not reasons, reasons=reasons))
