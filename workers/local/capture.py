"""Keeping a program's output: its beginning and its end, however much it prints. Standard library only."""

import contextlib
import os
import time
from pathlib import Path

REFRESH_S = 1.0
GAP_ENDS = " left out here …]\n".encode()


def gap_line(missing: int) -> bytes:
    """The line that replaces omitted bytes; empty if none are omitted."""
    return f"\n[… {missing:,} bytes are".encode() + GAP_ENDS if missing else b""


class OutputLog:
    """A log file with at most `head` + `tail` bytes of output and a line that says how much is missing between.

    As long as all of it fits the file only grows. After that its beginning stays, and the rest is rewritten at most
    once a second. Nothing here blocks or fails: bytes that a full disk refuses count as dropped.
    """

    def __init__(self, path: Path, head: int, tail: int) -> None:
        self.path = path
        self.head = head
        self.tail = tail
        self.total = 0
        self.refused = 0
        self._kept = 0
        self._end: bytearray | None = None
        self._written_at = 0.0
        self._dirty = False
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    @property
    def dropped(self) -> int:
        """Bytes that are not in the file."""
        if self._end is None:
            return self.refused
        return self.total - self._kept - min(len(self._end), self.tail)

    def write(self, data: bytes) -> None:
        """Take more output."""
        self.total += len(data)
        if self._end is None:
            room = self.head + self.tail - self._kept
            if len(data) <= room:
                self._append(data)
                return
            missing = max(0, self.head - self._kept)
            self._append(data[:missing])
            data = data[missing:]
            self._end = self._overflow()
        self._end += data
        if len(self._end) > 2 * self.tail:
            del self._end[: len(self._end) - self.tail]
        self._dirty = True
        self.flush()

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                if self._file is None:
                    raise OSError
                written = os.pwrite(self._file, view, self._kept)
            except OSError:
                self.refused += len(view)
                return
            self._kept += written
            view = view[written:]

    def _overflow(self) -> bytearray:
        """From now on the end is kept in memory. Its first bytes are those after the head in the file."""
        end = bytearray()
        self.head = min(self.head, self._kept)
        if self._file is not None:
            with contextlib.suppress(OSError):
                end += os.pread(self._file, self._kept - self.head, self.head)
        self._kept = self.head
        return end

    def flush(self, *, now: bool = False) -> None:
        """Update the file if that is due."""
        if not self._dirty or self._file is None or self._end is None:
            return
        if not now and time.monotonic() - self._written_at < REFRESH_S:
            return
        if len(self._end) > self.tail:
            del self._end[: len(self._end) - self.tail]
        between = self.total - self._kept - len(self._end)
        with contextlib.suppress(OSError):
            data = gap_line(between) + self._end
            os.pwrite(self._file, data, self._kept)
            os.ftruncate(self._file, self._kept + len(data))
        self._written_at = time.monotonic()
        self._dirty = False

    def close(self) -> None:
        """Write the rest, and flush it to disk."""
        self._dirty = self._dirty or self._end is not None
        self.flush(now=True)
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = None
