"""From the lines of the kernel's tracer to a Profile."""

import re

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.tables import FrameKind
from ...ingest.perf_text.sched import KNOWN, SchedTexts, decoded, waker
from ...ingest.trace.assembly import Dialect
from ...ingest.trace.assembly import assembled as of_events
from ...ingest.trace.atrace import MARK, Markers
from ...ingest.trace.made import MadeEvents
from ...ingest.trace.scheduling import Scheduling
from ...ingest.trace.scheduling import what as of_scheduling
from ...ingest.trace.slices import Meaning, What
from .calls import CALL, LONE_CALL, Calls
from .format import FORMAT, GRAPH, LINE, NO_LINE

SHOWN = 160
EVENT, SYSTEM_CALL = "events", "system calls"
"""Categories: what else the kernel told, and calls into it."""
NOT_UNDERSTOOD = "event of the scheduler whose text cannot be understood"
LOST = "events that were lost while the kernel traced"
OVERWRITTEN = "events that the kernel overwrote before they were read"
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
    MARK: What("other", FrameKind.ANNOTATION),
    CALL: What("other", FrameKind.KERNEL),
    SYSTEM_CALL: What("other", FrameKind.KERNEL),
}
_PLAIN = What("other", FrameKind.USER)


class Collected:
    """What stands in a trace, while it is read."""

    def __init__(self) -> None:
        self.events = MadeEvents()
        self.scheduling = Scheduling()
        self.sched = SchedTexts(self.scheduling, self.events)
        self.markers = Markers(self.events, self.scheduling.processes)
        self.calls = Calls(self.events, self.markers, self.lost)
        self.facts: dict[str, str] = {}
        self.last_ns = 0
        self._lost: dict[str, tuple[int, str]] = {}
        self._open: dict[int, list[tuple[bytes, int, int]]] = {}
        self._event, self._system_call = self.events.text(EVENT), self.events.text(SYSTEM_CALL)
        self._called = self.events.text("function")

    def lost(self, reason: str, example: str, count: int = 1) -> None:
        """Note what could not be read."""
        before, first = self._lost.get(reason, (0, example))
        self._lost[reason] = (before + count, first)

    def losses(self) -> list[tuple[str, int, str]]:
        """What could not be read."""
        return [(reason, count, first) for reason, (count, first) in self._lost.items()]

    def take(self, number: int, text: bytes) -> None:
        """Take in lines, the first of which has the number `number`."""
        text, self.last_ns = self.sched.most(text, self.last_ns)
        match, comms, processes = LINE.fullmatch, self.sched.comms, self.scheduling.processes
        last = self.last_ns
        for at, line in enumerate(text.split(b"\n"), number):
            if not line:
                continue
            found = match(line)
            if found is None:
                self.last_ns = last
                self._other(at, line.rstrip())
                last = max(last, self.last_ns)
                continue
            comm, tid, process, cpu, flags, seconds, fraction, told = found.groups()
            task = int(tid)
            time_ns = int(seconds) * 1_000_000_000 + int(fraction) * 10 ** (9 - len(fraction))
            last = max(last, time_ns)
            if comms.get(task) != comm and comm != b"<...>":
                comms[task] = comm
            if process is not None and process[:1] != b"-" and task not in processes:
                processes[task] = int(process)
            event, _, rest = told.partition(b":")
            rest = rest.strip()
            if event in KNOWN:
                if not self.sched.take(event, time_ns, int(cpu), waker(task, flags), rest):
                    self._note(NOT_UNDERSTOOD, at, line)
            elif event in _MARKED:
                # Where the kernel names who wrote it, the mark stands behind that.
                mark = rest if event != b"bprint" else rest.partition(b": ")[2]
                if not self.markers.take(time_ns, task, decoded(mark)):
                    self._instant(time_ns, task, decoded(mark) or "mark", b"")
            elif event == b"funcgraph_entry" or event == b"funcgraph_exit":
                self.calls.told(event == b"funcgraph_entry", time_ns, task, rest)
            else:
                self._one(time_ns, task, told, event, rest)
        self.last_ns = last

    def _one(self, time_ns: int, task: int, told: bytes, event: bytes, rest: bytes) -> None:
        """Something that the kernel told, other than what stands apart."""
        if entry := _ENTRY.fullmatch(told.rstrip()):
            given = self.events.arguments({"arguments": decoded(entry[2])} if entry[2] else {})
            self._open.setdefault(task, []).append((entry[1], time_ns, given))
        elif left := _EXIT.match(told):
            self._ended(time_ns, task, left[1])
        elif called := _CALLED.match(told if event != b"function" else rest):
            given = self.events.arguments({"from": decoded(called[2])})
            self.markers.add("i", time_ns, decoded(called[1]), task, self._called, arguments=given)
        elif b":" in told:
            self._instant(time_ns, task, decoded(event), rest)
        else:
            self._instant(time_ns, task, decoded(told.strip()), b"")

    def _instant(self, time_ns: int, task: int, name: str, rest: bytes) -> None:
        given = self.events.arguments({"told": decoded(rest)} if rest else {})
        self.markers.add("i", time_ns, name, task, self._event, arguments=given)

    def _ended(self, time_ns: int, task: int, name: bytes) -> None:
        """A system call ends: the one of that name that began last."""
        opened = self._open.get(task, [])
        place = next((place for place in range(len(opened) - 1, -1, -1) if opened[place][0] == name), None)
        if place is None:
            self.lost(LONE_CALL, f"{decoded(name)} of thread {task} at {time_ns} ns")
            return
        _, start, given = opened.pop(place)
        self.markers.add(
            *("X", start, decoded(name), task, self._system_call), duration_ns=time_ns - start, arguments=given
        )

    def _note(self, reason: str, number: int, line: bytes) -> None:
        self.lost(reason, f"line {number}: {decoded(line[:SHOWN]).strip()}")

    def _other(self, number: int, line: bytes) -> None:
        """A line that is none of an event."""
        if call := GRAPH.fullmatch(line):
            self.last_ns = max(self.last_ns, self.calls.line(*call.groups()))
        elif self.calls.switched(line):
            return
        elif buffer := _BUFFER.match(line):
            kept, written = int(buffer[1]), int(buffer[2])
            if written > kept:
                self.lost(OVERWRITTEN, f"{kept} of {written} were still there", written - kept)
        elif lost := _LOST.match(line) or _LOST_BY_CALLS.fullmatch(line):
            self.lost(LOST, f"line {number}: {decoded(line[:SHOWN])}", int(lost[1] or 1))
        elif line.startswith(b"# tracer: "):
            self.facts["tracer"] = decoded(line[10:SHOWN])
        elif not _QUIET.fullmatch(line):
            self._note(NO_LINE, number, line)

    def finish(self) -> None:
        """Everything has been taken in."""
        for task, opened in self._open.items():
            for call, start, given in opened:
                self.markers.add("B", start, decoded(call), task, self._system_call, arguments=given)
        self.sched.finish()
        self.calls.finish()
        self.scheduling.comms = self.calls.names | self.scheduling.comms
        self.markers.finish(self.scheduling.process)
        for task in sorted(one for one in self.markers.threads if one >= 0):
            name = "idle" if task == 0 else self.scheduling.name(task)
            self.events.about("thread_name", str(task), self.scheduling.process(task), name=name)


def assembled(found: Collected, source: str, defect: str | None) -> Profile:
    """The profile of all that was collected. Raises UnreadableInput where that is nothing."""
    found.finish()
    more = found.scheduling.add(found.events, found.last_ns, found.lost) if found.scheduling else None
    if not found.events.timed():
        raise UnreadableInput(
            f"Nothing was traced in {source}. Enable events, as sched_switch in /sys/kernel/tracing/events/sched, and "
            "trace again; or record with trace-cmd record -e sched_switch."
        )
    dialect = Dialect(
        FORMAT, Meaning(lambda category, name: of_scheduling(category, name) or _WHAT.get(category, _PLAIN)), "",
        found.facts | found.calls.facts, more,
    )  # fmt: skip
    return of_events(found.events.finish(found.losses()), source, defect, dialect)
