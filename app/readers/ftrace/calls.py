"""Calls of kernel functions, as the tracer function_graph prints them.

If lines have no time, only durations are known: then each CPU's calls follow one another without gaps, and an outer
call has its recorded duration.
"""

import re
from collections.abc import Callable

from ...domain.units import NS_PER_S, NS_PER_US
from ...ingest.perf_text.sched_events import decode_name
from ...ingest.trace.atrace import CPU_TASK, AtraceMarkers
from ...ingest.trace.event_builder import TraceEventBuilder
from .format import UNMATCHED_RETURN

MAX_NAME_BYTES = 200
"""Bytes that mark a line of a context switch."""
CALL = "calls in the kernel"
NO_TIMES = "not in the trace: calls are shown one after another without gaps; trace with the option funcgraph-abstime"
_CALL_LINE = re.compile(rb"(?:[+!#*@$]? *+([\d.]+) us ++)?\| ( *)(.*)")
_SWITCH = re.compile(rb"\s*(\d+)\)\s+(.*?)-(\d+)\s+=>\s+(.*?)-(\d+)\s*")


class _CpuCalls:
    """The state of a CPU: the thread that runs there, its present time, and open calls, each with its start and
    name."""

    def __init__(self) -> None:
        self.task: int | None = None
        self.now = 0
        self.open: list[tuple[int, bytes]] = []


class FunctionGraph:
    """Collects calls."""

    def __init__(self, events: TraceEventBuilder, markers: AtraceMarkers, lost: Callable[[str, str], None]) -> None:
        self._markers, self._lost = markers, lost
        self._category = events.intern_text(CALL)
        self._cpus: dict[int, _CpuCalls] = {}
        self._threads: dict[int, list[tuple[int, bytes]]] = {}
        self._names: dict[int, bytes] = {}
        self.facts: dict[str, str] = {}

    def feed_event(self, entry: bool, time_ns: int, task: int, rest: bytes) -> None:
        """Add the begin or end of a call on a thread, as `trace-cmd report` prints it."""
        match = _CALL_LINE.fullmatch(rest)
        if match is None:
            return
        if not entry:
            self._markers.add("E", time_ns, None, task, self._category)
        elif match[3].endswith(b"{"):
            self._markers.add("B", time_ns, _parse_function_name(match[3]), task, self._category)
        else:
            length = _parse_ns(match[1]) or 0
            self._markers.add("X", time_ns, _parse_function_name(match[3]), task, self._category, duration_ns=length)

    def feed_switch(self, line: bytes) -> bool:
        """Parse a line of a context switch on a CPU; False for another line."""
        match = _SWITCH.fullmatch(line) if len(line) < MAX_NAME_BYTES else None
        if match is None:
            return line.strip(b" -") == b"" and len(line) > 20
        cpu = self._cpus.setdefault(int(match[1]), _CpuCalls())
        before, after = int(match[3]), int(match[5])
        self._names[before], self._names[after] = match[2].strip(), match[4].strip()
        if cpu.task is not None:
            self._threads[cpu.task] = cpu.open
        elif cpu.open:
            self._threads[before] = cpu.open
        cpu.task, cpu.open = after, self._threads.pop(after, [])
        return True

    def feed_line(
        self,
        seconds: bytes | None,
        fraction: bytes | None,
        number: bytes,
        comm: bytes | None,
        tid: bytes | None,
        duration: bytes | None,
        indent: bytes,
        text: bytes,
    ) -> int:
        """Parse a line of a CPU; returns the time of its end."""
        cpu = self._cpus.setdefault(int(number), _CpuCalls())
        if tid is not None and comm is not None:
            cpu.task = int(tid)
            self._names[cpu.task] = comm.strip()
        task = CPU_TASK - int(number) if cpu.task is None else cpu.task
        length = _parse_ns(duration)
        if seconds is not None and fraction is not None:
            cpu.now = int(seconds) * NS_PER_S + int(fraction) * 10 ** (9 - len(fraction))
        else:
            self.facts.setdefault("times of calls", NO_TIMES)
        timed = seconds is not None
        if text.startswith(b"}"):
            if not cpu.open and (length is None or not timed):
                self._lost(UNMATCHED_RETURN, decode_name(text))
                return cpu.now
            # A call that began before the trace also has its recorded duration.
            start, name = cpu.open.pop() if cpu.open else (cpu.now - (length or 0), text)
            stop = start + length if length is not None else cpu.now
            if not timed:
                cpu.now = stop = max(stop, cpu.now)
            self._add(task, max(start, 0), stop, _parse_function_name(name))
        elif text.endswith(b"{"):
            cpu.open.append((cpu.now, text))
        elif text.endswith(b";"):
            self._add(task, cpu.now, cpu.now + (length or 0), _parse_function_name(text))
            cpu.now += 0 if timed else length or 0
        elif text.startswith(b"/*"):
            self._markers.add("i", cpu.now, decode_name(text.strip(b"/* ")), task, self._category)
        return cpu.now

    def _add(self, task: int, start: int, stop: int, name: str) -> None:
        self._markers.add("X", start, name, task, self._category, duration_ns=stop - start)

    def finish(self) -> None:
        """End the calls that are still open."""
        for number, cpu in self._cpus.items():
            task = CPU_TASK - number if cpu.task is None else cpu.task
            for start, name in cpu.open:
                self._markers.add("B", start, _parse_function_name(name), task, self._category)
        for task, thread in self._threads.items():
            for start, name in thread:
                self._markers.add("B", start, _parse_function_name(name), task, self._category)

    @property
    def names(self) -> dict[int, str]:
        """The names of threads in the trace."""
        return {task: decode_name(name) for task, name in self._names.items()}


def _parse_ns(us: bytes | None) -> int | None:
    """Microseconds as whole ns; None if out of range."""
    if us is None or us.count(b".") > 1 or len(us) > 18:
        return None
    whole, _, part = us.partition(b".")
    return int(whole or b"0") * NS_PER_US + int(part.ljust(3, b"0")[:3])


def _parse_function_name(text: bytes) -> str:
    """The name of a function in "name() {", "name();" or "} /* name */"."""
    name = text.removeprefix(b"}").strip(b" /*").partition(b"(")[0].rstrip(b" ;{")
    return decode_name(name) or "unknown function"
