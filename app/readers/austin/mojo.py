"""MOJO, the binary form of austin's samples: events of a type byte and its payload, texts interned by key.

Whole numbers: six bits and a sign in the first byte, seven in each further byte, the lowest first; the high bit means
that another byte follows. Texts end with a zero byte. Keys are local to a process. Definition: src/mojo.h of austin;
version 4 adds STACK_REPEAT and asyncio tasks.
"""

import re
from typing import BinaryIO

from ...domain.losses import ASYNC_TASKS
from ...ingest.perf_text.grammar import decode_text
from .samples import GC, INVALID, AustinFrame, SampleCollector

MAGIC = b"MOJ"
CHUNK_BYTES = 8 << 20
MAX_HEAD_BYTES = 16
MAX_EVENT_BYTES = 1 << 26
MAX_CACHED = 1 << 18
(METADATA, STACK, FRAME, FRAME_INVALID, FRAME_REF, FRAME_KERNEL, IN_GC, IDLE, TIME, MEMORY, STRING, STRING_REF) = range(
    1, 13
)
STACK_REPEAT, TASK_STACK, TASK_WAITER, TASK_RUNNING = range(13, 17)
UNKNOWN_TEXT = 1
NO_EVENT = "byte that starts no MOJO event: the file is damaged there, and the rest is lost"
CUT_OFF = "truncated event at the end of the file"
UNKNOWN_KEY = "reference to an undefined frame or string"


_THREAD = re.compile(rb"(?:[\x80-\xff]*[\x00-\x7f]){2}[^\x00]*\x00")
_THREAD_BEFORE_3 = re.compile(rb"[\x80-\xff]*[\x00-\x7f][^\x00]*\x00")
_REFERENCES = re.compile(rb"(?:\x05[\x80-\xff]*[\x00-\x7f])+")


class _TruncatedEvent(Exception):
    """An event continues after the available bytes."""


def _parse_number(data: bytes, at: int) -> tuple[int, int]:
    """(the whole number at a position, its end). Raises IndexError if it is truncated."""
    byte = data[at]
    at += 1
    value, negative, shift = byte & 0x3F, byte & 0x40, 6
    while byte & 0x80:
        byte = data[at]
        at += 1
        # Numbers have at most 64 bits; further bits are discarded.
        if shift < 64:
            value |= (byte & 0x7F) << shift
        shift += 7
    return (-value if negative else value), at


def _parse_text(data: bytes, at: int) -> tuple[str, int]:
    """(the text at a position, its end). Raises _TruncatedEvent."""
    end = data.find(b"\0", at)
    if end < 0:
        raise _TruncatedEvent
    return decode_text(data[at:end]), end + 1


class MojoParser:
    """Reads a file; `samples` has its samples."""

    def __init__(self, stream: BinaryIO, data: bytes) -> None:
        self.samples = SampleCollector()
        self._texts: dict[int, str] = {}
        self._frames: dict[int, int] = {}
        self._runs: dict[bytes, list[int]] = {}
        self._threads: dict[bytes, tuple[int, int, str]] = {}
        self._known: dict[int, tuple[dict[int, str], dict[int, int], dict[bytes, list[int]]]] = {}
        self._native: set[int] = set()
        self._special = {
            name: self.samples.intern_frame(AustinFrame(decode_text(name), "", 0)) for name in (GC, INVALID)
        }
        self._before: dict[tuple[int, int, str], list[int]] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._thread: tuple[int, int, str] | None = None
        self._stack: list[int] = []
        self._time: int | None = None
        self._memory: int | None = None
        self._flags: set[int] = set()
        self._of_task = 0
        before = 0
        while len(data) < MAX_HEAD_BYTES and (more := stream.read(CHUNK_BYTES)):
            data += more
        try:
            self._version, at = _parse_number(data, len(MAGIC))
        except IndexError:
            return
        while True:
            at = self._parse_events(data, at, before)
            more = stream.read(CHUNK_BYTES) if at >= 0 and len(data) - at < MAX_EVENT_BYTES else b""
            if not more:
                break
            data, before, at = data[at:] + more, before + at, 0
        if 0 <= at < len(data):
            self.samples.add_loss(CUT_OFF, f"byte {before + at}")
            self.samples.cut = True
        self._end()

    def _parse_events(self, data: bytes, at: int, before: int) -> int:
        """Read the events from a position on; returns the start of the first truncated one, -1 if there is none.

        before: how many bytes of the file precede these.
        """
        try:
            while True:
                event = data[at]
                if event == FRAME_REF:
                    at = self._parse_references(data, at)
                else:
                    known = self._parse_event(event, data, at + 1)
                    if known is None:
                        self.samples.add_loss(NO_EVENT, f"byte {before + at}: {event}")
                        return -1
                    at = known
        except (IndexError, _TruncatedEvent):
            return at

    def _parse_references(self, data: bytes, at: int) -> int:
        """Read the references to frames that begin at a position; returns their end. Raises _TruncatedEvent."""
        match = _REFERENCES.match(data, at)
        if not match:
            raise _TruncatedEvent
        run = match[0]
        frames = None if self._of_task else self._runs.get(run)
        if frames is None:
            kept, begin, place = not self._of_task, len(self._stack), 0
            while place < len(run):
                key, place = _parse_number(run, place + 1)
                if self._of_task or key not in self._frames:
                    kept = False
                    self._add_odd_frame(key)
                else:
                    self._stack.append(self._frames[key])
            if kept:
                if len(self._runs) > MAX_CACHED:
                    self._runs.clear()
                self._runs[run] = self._stack[begin:]
        else:
            self._stack += frames
        return match.end()

    def _parse_event(self, event: int, data: bytes, at: int) -> int | None:
        """Process an event other than FRAME_REF; returns its end, None if it is not an event. Raises IndexError and
        _TruncatedEvent, before it changes anything."""
        if event == TIME:
            self._time, at = _parse_number(data, at)
        elif event == STACK:
            match = (_THREAD if self._version >= 3 else _THREAD_BEFORE_3).match(data, at)
            if not match:
                raise _TruncatedEvent
            at = match.end()
            self._end()
            self._thread = self._threads.get(match[0]) or self._start_thread(match[0])
            self._texts, self._frames, self._runs = self._known[self._thread[0]]
        elif event == FRAME:
            values = []
            for _ in range(7 if self._version >= 2 else 4):
                value, at = _parse_number(data, at)
                values.append(value)
            key, file, name, line = values[:4]
            self._add_frame(key, AustinFrame(self._get_text(name), self._get_text(file), line))
        elif event in (STRING, METADATA):
            if event == METADATA:
                word, at = _parse_text(data, at)
                value_of, at = _parse_text(data, at)
                self.samples.add_metadata(word, value_of)
            else:
                key, at = _parse_number(data, at)
                self._texts[key], at = _parse_text(data, at)
        elif event == STRING_REF:
            _, at = _parse_number(data, at)
        elif event == MEMORY:
            self._memory, at = _parse_number(data, at)
        elif event == FRAME_KERNEL:
            name_of, at = _parse_text(data, at)
            self._stack.append(self.samples.intern_frame(AustinFrame(name_of, "kernel", 0)))
        elif event == FRAME_INVALID:
            self._stack.append(self._special[INVALID])
        elif event in (IN_GC, IDLE):
            self._flags.add(event)
        else:
            return self._parse_new_event(event, data, at)
        return at

    def _start_thread(self, raw: bytes) -> tuple[int, int, str]:
        pid, at = _parse_number(raw, 0)
        interpreter, at = _parse_number(raw, at) if self._version >= 3 else (0, at)
        found = self._threads[raw] = (pid, interpreter, _format_thread_id(decode_text(raw[at:-1])))
        self._known.setdefault(pid, ({}, {}, {}))
        return found

    def _parse_new_event(self, event: int, data: bytes, at: int) -> int | None:
        """Like `_parse_event`, for the events that version 4 added."""
        if event == STACK_REPEAT:
            # The outer frames are those of the thread's previous sample, except native ones at its end.
            before = list(self._before.get(self._thread, ())) if self._thread else []
            while before and before[-1] in self._native:
                before.pop()
            self._stack = before + self._stack
        elif event == TASK_STACK:
            for _ in ("task", "name"):
                _, at = _parse_number(data, at)
            count, at = _parse_number(data, at)
            self._of_task = max(0, count)
            self.samples.add_loss(ASYNC_TASKS, f"process {self._thread[0] if self._thread else -1}")
        elif event in (TASK_WAITER, TASK_RUNNING):
            for _ in range(2 if event == TASK_WAITER else 1):
                _, at = _parse_number(data, at)
        else:
            return None
        return at

    def _get_text(self, key: int) -> str:
        interned_text = self._texts.get(key)
        if interned_text is None:
            if key != UNKNOWN_TEXT:
                self.samples.add_loss(UNKNOWN_KEY, f"text {key}")
            return "[unknown]"
        return interned_text

    def _add_frame(self, key: int, austin_frame: AustinFrame) -> None:
        frame = self.samples.intern_frame(austin_frame)
        if self._frames.get(key, frame) != frame:
            self._runs.clear()
        self._frames[key] = frame
        if not austin_frame.file.endswith(".py") and not (
            austin_frame.file.startswith("<") and austin_frame.file.endswith(">")
        ):
            self._native.add(frame)

    def _add_odd_frame(self, key: int) -> None:
        """Add a frame of a task, or one with an undefined key."""
        if self._of_task:
            self._of_task -= 1
            return
        self.samples.add_loss(UNKNOWN_KEY, f"frame {key}")
        self._stack.append(self._special[INVALID])

    def _end(self) -> None:
        """Add the complete sample."""
        if self._thread is not None:
            if IN_GC in self._flags:
                frames = (*self._stack, self._special[GC])
            else:
                frames = tuple(self._stack)
            stack = self._stacks.get(frames)
            if stack is None:
                if len(self._stacks) > MAX_CACHED:
                    self._stacks.clear()
                stack = self._stacks[frames] = self.samples.intern_stack(list(frames))
            self.samples.add(
                self._thread, stack, time_us=self._time, memory_bytes=self._memory, idle=IDLE in self._flags
            )
            self._before[self._thread] = self._stack
        self._thread, self._stack, self._time, self._memory = None, [], None, None
        if self._flags:
            self._flags = set()
        self._of_task = 0


def _format_thread_id(thread: str) -> str:
    """The id of a thread, written in hexadecimal."""
    try:
        return str(int(thread, 16)) if len(thread) <= 16 and thread.isalnum() else thread
    except ValueError:
        return thread
