"""Builds a Profile from the lines of the kernel's tracer."""

import re

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.tables import FrameKind
from ...domain.units import NS_PER_S
from ...ingest.losses import MAX_EXAMPLE_CHARS, UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT
from ...ingest.perf_text.sched_events import SCHED_EVENTS, SchedEventParser, decode_name, get_waker
from ...ingest.trace.atrace import MARK, AtraceMarkers
from ...ingest.trace.event_builder import TraceEventBuilder
from ...ingest.trace.profile import Dialect
from ...ingest.trace.profile import build_profile as of_events
from ...ingest.trace.scheduler import SchedulerTimeline
from ...ingest.trace.scheduler import classify as of_scheduling
from ...ingest.trace.slices import PLAIN_SLICE, SliceClassifier, SliceType
from .calls import CALL, FunctionGraph
from .format import FORMAT, GRAPH, LINE, LOST, OVERWRITTEN, UNMATCHED_RETURN

EVENT, SYSTEM_CALL = "events", "system calls"
"""Categories: other messages of the kernel, and calls into it."""
_MARKED = frozenset({b"tracing_mark_write", b"print", b"bprint", b"0"})
_BUFFER = re.compile(rb"# entries-in-buffer/entries-written: (\d+)/(\d+)")
_LOST = re.compile(rb"\s*CPU:?\s*\d+ \[LOST (\d+)? ?EVENTS\]")
_LOST_BY_CALLS = re.compile(rb"(?:.*: )?\[? ?(?:lost|LOST) (\d+) (?:events|EVENTS).*")
_QUIET = re.compile(
    rb"cpus=\d+|version = .*|CPU \d+ is empty|# .*|#|\s*| -+|\s*\.\.\.\s*|\s*\d+\)\s+[=<>][=<> ]*+\|?|cpu\d+:.*",
    re.DOTALL,
)
_ENTRY = re.compile(rb"sys_(\w+)\((.*)\)")
_EXIT = re.compile(rb"sys_(\w+) -> (\S+)")
_CALLED = re.compile(rb"(\S+) <-+ ?(\S+)")
_WHAT = {
    MARK: SliceType("other", FrameKind.ANNOTATION),
    CALL: SliceType("other", FrameKind.KERNEL),
    SYSTEM_CALL: SliceType("other", FrameKind.KERNEL),
}


class FtraceParser:
    """The content of a trace, while it is read."""

    def __init__(self) -> None:
        self.events = TraceEventBuilder()
        self.scheduling = SchedulerTimeline()
        self.sched = SchedEventParser(self.scheduling, self.events)
        self.markers = AtraceMarkers(self.events, self.scheduling.processes)
        self.calls = FunctionGraph(self.events, self.markers, self.add_loss)
        self.facts: dict[str, str] = {}
        self.last_ns = 0
        self._lost: dict[str, tuple[int, str]] = {}
        self._open: dict[int, list[tuple[bytes, int, int]]] = {}
        self._event, self._system_call = self.events.intern_text(EVENT), self.events.intern_text(SYSTEM_CALL)
        self._called = self.events.intern_text("function")

    def add_loss(self, reason: str, example: str, count: int = 1) -> None:
        """Record a loss."""
        before, first = self._lost.get(reason, (0, example))
        self._lost[reason] = (before + count, first)

    def get_losses(self) -> list[tuple[str, int, str]]:
        """All losses."""
        return [(reason, count, first) for reason, (count, first) in self._lost.items()]

    def feed(self, number: int, text: bytes) -> None:
        """Parse lines, the first of which has the number `number`."""
        text, self.last_ns = self.sched.feed_lines(text, self.last_ns)
        match, comms, processes = LINE.fullmatch, self.sched.comms, self.scheduling.processes
        last = self.last_ns
        for at, line in enumerate(text.split(b"\n"), number):
            if not line:
                continue
            found = match(line)
            if found is None:
                self.last_ns = last
                self._add_other_line(at, line.rstrip())
                last = max(last, self.last_ns)
                continue
            comm, tid, process, cpu, flags, seconds, fraction, body = found.groups()
            task = int(tid)
            time_ns = int(seconds) * NS_PER_S + int(fraction) * 10 ** (9 - len(fraction))
            last = max(last, time_ns)
            if comms.get(task) != comm and comm != b"<...>":
                comms[task] = comm
            if process is not None and process[:1] != b"-" and task not in processes:
                processes[task] = int(process)
            event, _, rest = body.partition(b":")
            rest = rest.strip()
            if event in SCHED_EVENTS:
                if not self.sched.feed(event, time_ns, int(cpu), get_waker(task, flags), rest):
                    self._note(UNRECOGNIZED_SCHED_EVENT, at, line)
            elif event in _MARKED:
                # The mark follows the name of its writer, if the kernel prints one.
                mark = rest if event != b"bprint" else rest.partition(b": ")[2]
                if not self.markers.feed(time_ns, task, decode_name(mark)):
                    self._add_instant(time_ns, task, decode_name(mark) or "mark", b"")
            elif event == b"funcgraph_entry" or event == b"funcgraph_exit":
                self.calls.feed_event(event == b"funcgraph_entry", time_ns, task, rest)
            else:
                self._add_message(time_ns, task, body, event, rest)
        self.last_ns = last

    def _add_message(self, time_ns: int, task: int, text: bytes, event: bytes, rest: bytes) -> None:
        """Add another message of the kernel."""
        if entry := _ENTRY.fullmatch(text.rstrip()):
            arguments = self.events.intern_arguments({"arguments": decode_name(entry[2])} if entry[2] else {})
            self._open.setdefault(task, []).append((entry[1], time_ns, arguments))
        elif match := _EXIT.match(text):
            self._end_system_call(time_ns, task, match[1])
        elif called := _CALLED.match(text if event != b"function" else rest):
            arguments = self.events.intern_arguments({"from": decode_name(called[2])})
            self.markers.add("i", time_ns, decode_name(called[1]), task, self._called, arguments=arguments)
        elif b":" in text:
            self._add_instant(time_ns, task, decode_name(event), rest)
        else:
            self._add_instant(time_ns, task, decode_name(text.strip()), b"")

    def _add_instant(self, time_ns: int, task: int, name: str, rest: bytes) -> None:
        arguments = self.events.intern_arguments({"told": decode_name(rest)} if rest else {})
        self.markers.add("i", time_ns, name, task, self._event, arguments=arguments)

    def _end_system_call(self, time_ns: int, task: int, name: bytes) -> None:
        """End the last open system call with that name."""
        opened = self._open.get(task, [])
        place = next((place for place in range(len(opened) - 1, -1, -1) if opened[place][0] == name), None)
        if place is None:
            self.add_loss(UNMATCHED_RETURN, f"{decode_name(name)} of thread {task} at {time_ns} ns")
            return
        _, start, arguments = opened.pop(place)
        self.markers.add(
            *("X", start, decode_name(name), task, self._system_call), duration_ns=time_ns - start, arguments=arguments
        )

    def _note(self, reason: str, number: int, line: bytes) -> None:
        self.add_loss(reason, f"line {number}: {decode_name(line[:MAX_EXAMPLE_CHARS]).strip()}")

    def _add_other_line(self, number: int, line: bytes) -> None:
        """Parse a line without an event."""
        if call := GRAPH.fullmatch(line):
            self.last_ns = max(self.last_ns, self.calls.feed_line(*call.groups()))
        elif self.calls.feed_switch(line):
            return
        elif buffer := _BUFFER.match(line):
            kept, written = int(buffer[1]), int(buffer[2])
            if written > kept:
                self.add_loss(OVERWRITTEN, f"{kept} of {written} were still there", written - kept)
        elif match := _LOST.match(line) or _LOST_BY_CALLS.fullmatch(line):
            self.add_loss(LOST, f"line {number}: {decode_name(line[:MAX_EXAMPLE_CHARS])}", int(match[1] or 1))
        elif line.startswith(b"# tracer: "):
            self.facts["tracer"] = decode_name(line[10:MAX_EXAMPLE_CHARS])
        elif not _QUIET.fullmatch(line):
            self._note(UNRECOGNIZED_LINE, number, line)

    def finish(self) -> None:
        """All lines were parsed."""
        for task, opened in self._open.items():
            for call, start, arguments in opened:
                self.markers.add("B", start, decode_name(call), task, self._system_call, arguments=arguments)
        self.sched.finish()
        self.calls.finish()
        self.scheduling.comms = self.calls.names | self.scheduling.comms
        self.markers.finish(self.scheduling.get_process)
        for task in sorted(thread for thread in self.markers.threads if thread >= 0):
            name = "idle" if task == 0 else self.scheduling.get_thread_name(task)
            self.events.add_metadata("thread_name", str(task), self.scheduling.get_process(task), name=name)


def build_profile(ftrace_parser: FtraceParser, source: str, defect: str | None) -> Profile:
    """The profile of all events. Raises UnreadableInput if there are none."""
    ftrace_parser.finish()
    more = (
        ftrace_parser.scheduling.add_slices(ftrace_parser.events, ftrace_parser.last_ns, ftrace_parser.add_loss)
        if ftrace_parser.scheduling
        else None
    )
    if not ftrace_parser.events.has_timed_events():
        raise UnreadableInput(
            f"{source} has no events. Enable events, such as sched_switch in /sys/kernel/tracing/events/sched, and "
            "trace again; or record with trace-cmd record -e sched_switch."
        )
    classify = SliceClassifier(lambda category, name: of_scheduling(category, name) or _WHAT.get(category, PLAIN_SLICE))
    dialect = Dialect(FORMAT, classify, "", ftrace_parser.facts | ftrace_parser.calls.facts, more)
    return of_events(ftrace_parser.events.finish(ftrace_parser.get_losses()), source, defect, dialect)
