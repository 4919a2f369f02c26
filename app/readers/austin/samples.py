"""Samples of austin, in either format, and their Profile.

A thread's samples follow one another: each starts at the end of the previous one. The first sample of a thread starts
at the latest time of the other threads of its process.
"""

from dataclasses import dataclass

from ...domain.builder import ProfileBuilder
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...domain.timed_events import CPU_TIME, WALL_TIME
from ...domain.units import NS_PER_US

GC, INVALID = b":GC:", b":INVALID:"
WALL, CPU, MEMORY_ALLOCATED, MEMORY_FREED = WALL_TIME, CPU_TIME, "memory allocated", "memory freed"
SPECIAL = {":GC:": "[garbage collection]", ":INVALID:": "[frame that could not be read]"}
MAX_TIME_US = 1 << 52
MAX_BYTES = 1 << 60
NO_METRIC = "sample with an invalid number"
NO_VALUE = "sample without a number"
CUT_OFF = "The file ends without its duration: it is truncated, or austin was killed."


@dataclass(frozen=True)
class AustinFrame:
    """line: 0 for none."""

    name: str
    file: str
    line: int


@dataclass
class _ThreadClock:
    """clock: its time so far, in µs. latest: that of the most advanced thread of its process."""

    row: int
    clock: int
    latest: list[int]


class SampleCollector:
    """Collects samples; `finish` builds a Profile."""

    def __init__(self) -> None:
        self.mode = ""
        self._builder = ProfileBuilder("austin")
        self._about: dict[str, str] = {}
        self.cut = False
        self._threads: dict[tuple[int, int, str], _ThreadClock] = {}
        self._latest: dict[int, list[int]] = {}
        self._events: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add_metadata(self, key: str, value: str) -> None:
        """Add metadata of the file."""
        self._about[key] = value
        if key == "mode":
            self.mode = value

    def add_loss(self, reason: str, example: str) -> None:
        """Record a loss."""
        self._builder.add_loss(reason, example)

    def intern_frame(self, frame: AustinFrame) -> int:
        """The id of a code location."""
        python = frame.file.endswith((".py", ".pyc", ".pyx")) or frame.file.startswith("<") or not frame.file
        if frame.name in SPECIAL and not frame.file:
            function = self._builder.intern_function(frame.name, display=SPECIAL[frame.name])
            return self._builder.intern_frame(
                function, kind=FrameKind.RUNTIME if "GC" in frame.name else FrameKind.UNKNOWN
            )
        if frame.file == "kernel":
            return self._builder.intern_frame(
                self._builder.intern_function(frame.name, "[kernel]"), kind=FrameKind.KERNEL
            )
        function = self._builder.intern_function(
            frame.name, "" if python else frame.file, frame.file if python and frame.file else None
        )
        line = frame.line if 0 < frame.line < 1 << 31 else None
        return self._builder.intern_frame(function, kind=FrameKind.PYTHON if python else FrameKind.USER, line=line)

    def intern_stack(self, frames: list[int]) -> int:
        """The id of a call stack, outermost frame first."""
        return self._builder.intern_stack(frames)

    def add(
        self,
        thread: tuple[int, int, str],
        stack: int,
        *,
        time_us: int | None,
        memory_bytes: int | None,
        idle: bool = False,
    ) -> None:
        """Add a sample of a thread, which is identified by its process, its interpreter and its own number or name."""
        if time_us is None and memory_bytes is None:
            self.add_loss(NO_VALUE, f"process {thread[0]}, thread {thread[2]}")
            return
        if not 0 <= (time_us or 0) < MAX_TIME_US or not -MAX_BYTES < (memory_bytes or 0) < MAX_BYTES:
            self.add_loss(NO_METRIC, f"{time_us} µs, {memory_bytes} bytes")
            return
        state = self._threads.get(thread) or self._add_thread(thread, time_us or 0)
        clock = state.clock = min(state.clock + (time_us or 0), MAX_TIME_US)
        if clock > state.latest[0]:
            state.latest[0] = clock
        self._count += 1
        at, row = clock * NS_PER_US, state.row
        if time_us is not None:
            self._add_weight(at, row, CPU if self.mode == "cpu" else WALL, stack, time_us * NS_PER_US)
            if self.mode == "full":
                self._add_weight(at, row, CPU, stack, 0 if idle else time_us * NS_PER_US)
        if memory_bytes is not None:
            self._add_weight(at, row, MEMORY_ALLOCATED, stack, max(memory_bytes, 0))
            self._add_weight(at, row, MEMORY_FREED, stack, max(-memory_bytes, 0))

    def _add_weight(self, time_ns: int, thread: int, event: str, stack: int, weight: int) -> None:
        known = self._events.get(event)
        if known is None:
            known = self._events[event] = self._intern_event(event)
        if weight or event in (WALL, CPU):
            self._builder.add_sample(time_ns, thread, known, stack, weight)

    def _intern_event(self, event: str) -> int:
        if event in (MEMORY_ALLOCATED, MEMORY_FREED):
            return self._builder.intern_event(event, "bytes")
        interval = self._about.get("interval", "")
        rate = float(interval) * NS_PER_US if interval.isdecimal() and len(interval) < 12 else None
        return self._builder.intern_event(event, "ns", sampling="period" if rate else None, rate=rate)

    def _add_thread(self, thread: tuple[int, int, str], time_us: int) -> "_ThreadClock":
        pid, interpreter, name = thread
        number = int(name) if name.isdecimal() and name.isascii() and len(name) < 19 else None
        row = self._builder.intern_thread(
            pid=pid, tid=number, incarnation=interpreter if number is not None else -1 - len(self._threads)
        )
        self._builder.set_thread_name(
            row, 0, f"thread {name}" + (f" of interpreter {interpreter}" if interpreter else "")
        )
        self._builder.set_process_name(row, f"process {pid}")
        latest = self._latest.setdefault(pid, [0])
        found = self._threads[thread] = _ThreadClock(row, max(0, latest[0] - time_us), latest)
        return found

    def finish(self, format: str, defect: str | None) -> Profile:
        """The profile of all samples."""
        self._builder.format = format
        self._builder.add_run()
        duration = self._about.get("duration", "")
        duration_ns = int(duration) * NS_PER_US if duration.isdecimal() and len(duration) < 16 else None
        reasons = [defect] if defect else []
        if self.cut or ("austin" in self._about and duration_ns is None):
            reasons.append(CUT_OFF)
        return self._builder.finish_with_stack_rows(
            Meta(format, duration_ns=duration_ns, complete=not reasons, reasons=tuple(reasons), facts=self._about),
            zero=0,
        )[0]
