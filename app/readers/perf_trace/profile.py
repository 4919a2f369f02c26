"""Builds a Profile from the lines of `perf trace`."""

import re

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.losses import STACK_OF_CALL
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...domain.units import NS_PER_MS, NS_PER_US
from ...ingest.losses import MAX_EXAMPLE_CHARS, UNRECOGNIZED_LINE
from ...ingest.perf_text.sched_events import decode_name
from ...ingest.trace.atrace import AtraceMarkers
from ...ingest.trace.event_builder import TraceEventBuilder
from ...ingest.trace.profile import Dialect
from ...ingest.trace.profile import build_profile as of_events
from ...ingest.trace.slices import SliceClassifier, SliceType
from .format import FORMAT, LINE, LOST, NO_BEGIN, NO_END, SUMMARY

CALL, FAULT, EVENT = "system calls", "page faults", "events"
"""Categories."""
TIME, CALLS, ERRORS = "system call time", "system calls", "errors of system calls"
"""The events of a summary."""
_CALL = re.compile(rb"(\w+)\((.*)\) += ?(.*)", re.DOTALL)
_OPEN = re.compile(rb"(\w+)\((.*)\) +\.\.\.")
_AGAIN = re.compile(rb"\.\.\. \[continued\]: (\w+)\((.*)\) += ?(.*)")
_FAULT = re.compile(rb"(minfault|majfault) (.*)")
_POINT = re.compile(rb"([\w-]+:[\w-]+)\((.*)\)")
_ERROR = re.compile(rb"-\d+ (E[A-Z0-9]+)\b")
_SYMBOL = re.compile(rb"(?: {20,}+|\t)[^(]*+\(.*\)")
_ROW = re.compile(rb" {2,}(\w+) +(\d{1,15})(?: +(\d{1,15}))? +(\d{1,12})\.(\d{3}) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+%")
_QUIET = re.compile(rb"\s*Summary of events:.*|\s+syscall +calls .*|\s+\(msec\).*|[\s-]*|\s+E[A-Z0-9]+: \d+|\s+# .*")
_LOST = re.compile(rb"LOST (\d+) events!?.*")
_WHAT = SliceType("other", FrameKind.KERNEL)


class PerfTraceParser:
    """The content of a text, while it is read."""

    def __init__(self) -> None:
        self.events = TraceEventBuilder()
        self.markers = AtraceMarkers(self.events, {})
        self.rows: list[tuple[tuple[str, int], str, int, int, int]] = []
        self._comms: dict[int, bytes] = {}
        self._open: dict[int, tuple[bytes, int, bytes]] = {}
        self._lost: dict[str, tuple[int, str]] = {}
        self._category = {name: self.events.intern_text(name) for name in (CALL, FAULT, EVENT)}
        self._of = ("", 0)
        self._told: dict[tuple[bytes, bytes], int] = {}

    def add_loss(self, reason: str, number: int, line: bytes, count: int = 1) -> None:
        """Record a loss."""
        before, first = self._lost.get(
            reason,
            (0, f"line {number}: {decode_name(line[:MAX_EXAMPLE_CHARS]).strip()}" if number else decode_name(line)),
        )
        self._lost[reason] = (before + count, first)

    def get_losses(self) -> list[tuple[str, int, str]]:
        """All losses."""
        return [(reason, count, first) for reason, (count, first) in self._lost.items()]

    def feed(self, number: int, text: bytes) -> None:
        """Parse lines, the first of which has the number `number`."""
        for at, line in enumerate(text.split(b"\n"), number):
            match = LINE.fullmatch(line)
            if match is None:
                self._add_other_line(at, line.rstrip())
                continue
            ms, part, long, fraction, comm, tid, body = match.groups()
            task = int(tid) if tid else 0
            if comm:
                self._comms[task] = comm
            start = None if ms is None else int(ms) * NS_PER_MS + int(part) * NS_PER_US
            length = None if long is None else int(long) * NS_PER_MS + int(fraction) * NS_PER_US
            if not self._add_call(task, start, length, body):
                self.add_loss(NO_BEGIN if start is None else UNRECOGNIZED_LINE, at, line)

    def _add_call(self, task: int, start: int | None, length: int | None, text: bytes) -> bool:
        """Parse a call of a thread; False if it cannot be parsed."""
        call = _CALL.fullmatch(text)
        if call is not None and start is not None:
            self._end_at_unknown_time(task)
            self._add(task, start, length or 0, call[1], call[2], call[3])
        elif again := _AGAIN.fullmatch(text):
            name, _, result = again.groups()
            begun = self._open.pop(task, None)
            given = begun[2] if begun is not None and begun[0] == name else b""
            if start is None or length is None:
                return False
            self._add(task, start, length, name, given, result)
        elif start is None:
            return False
        elif match := _OPEN.fullmatch(text):
            self._end_at_unknown_time(task)
            self._open[task] = (match[1], start, match[2])
        elif fault := _FAULT.fullmatch(text):
            self._add_instant(task, start, fault[1], fault[2], FAULT)
        elif point := _POINT.fullmatch(text.rstrip()):
            self._add_instant(task, start, point[1], point[2], EVENT)
        else:
            return False
        return True

    def _add(self, task: int, start: int, length: int, name: bytes, given: bytes, result: bytes) -> None:
        place = self._told.get((given, result))
        if place is None:
            about = {"arguments": decode_name(given)} if given else {}
            if result:
                about["result"] = decode_name(result.strip())
            if error := _ERROR.match(result):
                about["error"] = decode_name(error[1])
            place = self._told[given, result] = self.events.intern_arguments(about)
        shown = decode_name(name)
        self.markers.add("X", start, shown, task, self._category[CALL], duration_ns=length, arguments=place)

    def _add_instant(self, task: int, start: int, name: bytes, text: bytes, category: str) -> None:
        arguments = self.events.intern_arguments({"told": decode_name(text)} if text else {})
        self.markers.add("i", start, decode_name(name), task, self._category[category], arguments=arguments)

    def _end_at_unknown_time(self, task: int) -> None:
        """A call without an end whose thread makes another call: it ended at an unknown time."""
        if begun := self._open.pop(task, None):
            self.add_loss(NO_END, 0, begun[0])
            self._add(task, begun[1], 0, begun[0], begun[2], b"")

    def _close(self, task: int) -> None:
        """Add a call that a thread has not yet left."""
        if begun := self._open.pop(task, None):
            arguments = self.events.intern_arguments({"arguments": decode_name(begun[2])} if begun[2] else {})
            self.markers.add("B", begun[1], decode_name(begun[0]), task, self._category[CALL], arguments=arguments)

    def _add_other_line(self, number: int, line: bytes) -> None:
        if about := SUMMARY.fullmatch(line):
            self._of = (decode_name(about[1]), int(about[2]))
        elif row := _ROW.fullmatch(line):
            name, calls, errors, ms, part = row.groups()
            time = int(ms) * NS_PER_MS + int(part) * NS_PER_US
            self.rows.append((self._of, decode_name(name), time, int(calls), int(errors or 0)))
        elif match := _LOST.fullmatch(line):
            self.add_loss(LOST, number, line, int(match[1]))
        elif not _QUIET.fullmatch(line):
            self.add_loss(STACK_OF_CALL if _SYMBOL.fullmatch(line) else UNRECOGNIZED_LINE, number, line)

    def finish(self) -> None:
        """All lines were parsed."""
        for task in list(self._open):
            self._close(task)
        self.markers.finish(self.get_thread_name)
        for task in sorted(self.markers.threads):
            self.events.add_metadata(
                "thread_name", str(task), self.get_thread_name(task), name=self.get_thread_name(task)
            )

    def get_thread_name(self, task: int) -> str:
        """The name of a thread."""
        return decode_name(self._comms[task]) if task in self._comms else "the traced program"


def build_profile(perf_trace_parser: PerfTraceParser, source: str, defect: str | None) -> Profile:
    """The profile of all calls. Raises UnreadableInput if there are none."""
    perf_trace_parser.finish()
    if perf_trace_parser.events.has_timed_events():
        dialect = Dialect(FORMAT, SliceClassifier(lambda category, name: _WHAT), "")
        return of_events(perf_trace_parser.events.finish(perf_trace_parser.get_losses()), source, defect, dialect)
    if not perf_trace_parser.rows:
        raise UnreadableInput(
            f"{source} has no system calls. Record with perf trace -o trace.txt -- PROGRAM, and import it."
        )
    return _build_summary(perf_trace_parser, defect)


def _build_summary(perf_trace_parser: PerfTraceParser, defect: str | None) -> Profile:
    """A summary: time, calls and errors of each system call and thread."""
    builder = ProfileBuilder(FORMAT)
    events = (
        builder.intern_event(TIME, "ns"),
        builder.intern_event(CALLS, "count"),
        builder.intern_event(ERRORS, "count"),
    )
    for (comm, tid), name, *values in perf_trace_parser.rows:
        thread = builder.intern_thread(tid=tid)
        builder.set_thread_name(thread, 0, comm)
        stack = builder.intern_stack([builder.intern_frame(builder.intern_function(name), kind=FrameKind.KERNEL)])
        for event, value in zip(events, values, strict=True):
            if value:
                builder.add_sample(0, thread, event, stack, value)
    for reason, count, first in perf_trace_parser.get_losses():
        builder.add_loss(reason, first, count)
    builder.add_run()
    return builder.finish(Meta(FORMAT, complete=defect is None, reasons=(defect,) if defect else ()))
