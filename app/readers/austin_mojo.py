"""MOJO, the binary form of austin's samples: events of a byte and what belongs to it, texts said once and then by key.

Whole numbers: six bits and a sign in the first byte, seven in each that follows, the lowest first; the high bit says
that there is another. Texts end with a zero byte. Keys are those of a process. Definition: src/mojo.h of austin;
version 4 adds STACK_REPEAT and what tasks of asyncio do.
"""

from typing import BinaryIO

from .austin_samples import GC, INVALID, Frame, Samples
from .perf_grammar import text

MAGIC = b"MOJ"
CHUNK_BYTES = 8 << 20
LONGEST_TEXT = 1 << 20
(METADATA, STACK, FRAME, FRAME_INVALID, FRAME_REF, FRAME_KERNEL, IN_GC, IDLE, TIME, MEMORY, STRING, STRING_REF) = range(
    1, 13
)
STACK_REPEAT, TASK_STACK, TASK_WAITER, TASK_RUNNING = range(13, 17)
UNKNOWN_TEXT = 1
NO_EVENT = "byte that begins no event of MOJO: the file is damaged there, and what follows is lost"
CUT_OFF = "event that is cut off at the end of the file"
UNSAID = "frame or text by a key that was not told before"
TASKS = "what tasks of asyncio waited for, which has no place here"


class _Ended(Exception):
    """The file ends here."""


class _Bytes:
    """Numbers and texts from a stream."""

    def __init__(self, stream: BinaryIO, data: bytes) -> None:
        self._stream = stream
        self._data = data
        self._at = 0
        self._before = 0

    @property
    def place(self) -> int:
        """How many bytes were taken."""
        return self._before + self._at

    def _more(self) -> None:
        data = self._stream.read(CHUNK_BYTES)
        if not data:
            raise _Ended
        self._before += self._at
        self._data, self._at = self._data[self._at :] + data, 0

    def byte(self) -> int:
        """The next byte. Raises _Ended."""
        if self._at == len(self._data):
            self._more()
        self._at += 1
        return self._data[self._at - 1]

    def number(self) -> int:
        """The next whole number. Raises _Ended."""
        byte = self.byte()
        value, negative, shift = byte & 0x3F, byte & 0x40, 6
        while byte & 0x80:
            byte = self.byte()
            # More than 64 bits no number has; what is beyond is not kept.
            if shift < 64:
                value |= (byte & 0x7F) << shift
            shift += 7
        return -value if negative else value

    def text(self) -> str:
        """The next text. Raises _Ended."""
        while (end := self._data.find(b"\0", self._at)) < 0:
            if len(self._data) - self._at > LONGEST_TEXT:
                raise _Ended
            self._more()
        found = self._data[self._at : end]
        self._at = end + 1
        return text(found)


class Mojo:
    """Takes in a file; `samples` is what was in it."""

    def __init__(self, stream: BinaryIO, data: bytes) -> None:
        self.samples = Samples()
        self._bytes = _Bytes(stream, data)
        self._texts: dict[tuple[int, int], str] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self._native: set[int] = set()
        self._special = {name: self.samples.frame(Frame(text(name), "", 0)) for name in (GC, INVALID)}
        self._before: dict[tuple[int, int, str], list[int]] = {}
        self._thread: tuple[int, int, str] | None = None
        self._stack: list[int] = []
        self._time: int | None = None
        self._memory: int | None = None
        self._flags: set[int] = set()
        self._of_task = 0
        try:
            for _ in MAGIC:
                self._bytes.byte()
            self._version = self._bytes.number()
        except _Ended:
            return
        self._all()

    def _all(self) -> None:
        while True:
            at = self._bytes.place
            try:
                event = self._bytes.byte()
            except _Ended:
                break
            try:
                known = self._event(event)
            except _Ended:
                self.samples.lost(CUT_OFF, f"byte {at}")
                # Without its numbers the last sample is none.
                self._thread = None if self._time is None and self._memory is None else self._thread
                break
            if not known:
                self.samples.lost(NO_EVENT, f"byte {at}: {event}")
                break
        self._end()

    def _event(self, event: int) -> bool:
        """Take in an event; whether it is one. Raises _Ended."""
        take = self._bytes
        if event == FRAME_REF:
            self._frame_by(take.number())
        elif event == STACK:
            self._end()
            pid = take.number()
            self._thread = (pid, take.number() if self._version >= 3 else 0, _decimal(take.text()))
        elif event == FRAME:
            key, file, name, line = take.number(), take.number(), take.number(), take.number()
            if self._version >= 2:
                for _ in ("line_end", "column", "column_end"):
                    take.number()
            found = Frame(self._said(name), self._said(file), line)
            self._frames[self._pid, key] = frame = self.samples.frame(found)
            if not found.file.endswith(".py") and not (found.file.startswith("<") and found.file.endswith(">")):
                self._native.add(frame)
        elif event == STRING:
            key = take.number()
            self._texts[self._pid, key] = take.text()
        elif event == STRING_REF:
            take.number()
        elif event == METADATA:
            self.samples.about(take.text(), take.text())
        elif event == TIME:
            self._time = take.number()
        elif event == MEMORY:
            self._memory = take.number()
        elif event == FRAME_KERNEL:
            self._push(self.samples.frame(Frame(take.text(), "kernel", 0)))
        elif event == FRAME_INVALID:
            self._push(self._special[INVALID])
        elif event in (IN_GC, IDLE):
            self._flags.add(event)
        else:
            return self._later(event)
        return True

    def _later(self, event: int) -> bool:
        """Take in an event of version 4; whether it is one. Raises _Ended."""
        take = self._bytes
        if event == STACK_REPEAT:
            # The outer frames are those of the thread's sample before, but for native ones that were called last.
            before = list(self._before.get(self._thread, ())) if self._thread else []
            while before and before[-1] in self._native:
                before.pop()
            self._stack = before + self._stack
        elif event == TASK_STACK:
            take.number()
            take.number()
            self._of_task = max(0, take.number())
            self.samples.lost(TASKS, f"byte {take.place}")
        elif event == TASK_WAITER:
            take.number()
            take.number()
        elif event == TASK_RUNNING:
            take.number()
        else:
            return False
        return True

    @property
    def _pid(self) -> int:
        return self._thread[0] if self._thread else -1

    def _said(self, key: int) -> str:
        found = self._texts.get((self._pid, key))
        if found is None:
            if key != UNKNOWN_TEXT:
                self.samples.lost(UNSAID, f"text {key} of process {self._pid}")
            return "[unknown]"
        return found

    def _frame_by(self, key: int) -> None:
        found = self._frames.get((self._pid, key))
        if self._of_task:
            self._of_task -= 1
        elif found is None:
            self.samples.lost(UNSAID, f"frame {key} of process {self._pid}")
            self._push(self._special[INVALID])
        else:
            self._push(found)

    def _push(self, frame: int) -> None:
        self._stack.append(frame)

    def _end(self) -> None:
        """The sample is whole."""
        if self._thread is not None:
            frames = self._stack + ([self._special[GC]] if IN_GC in self._flags else [])
            self.samples.add(
                self._thread,
                self.samples.stack(frames),
                time_us=self._time,
                memory_bytes=self._memory,
                idle=IDLE in self._flags,
            )
            self._before[self._thread] = self._stack
        self._thread, self._stack, self._time, self._memory = None, [], None, None
        self._flags = set()
        self._of_task = 0


def _decimal(thread: str) -> str:
    """The number of a thread, which stands there in hexadecimal digits."""
    try:
        return str(int(thread, 16)) if len(thread) <= 16 and thread.isalnum() else thread
    except ValueError:
        return thread
