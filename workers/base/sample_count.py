"""Counts the samples in a growing perf.data, also if perf compresses it.

perf compresses what it reads from its buffers into one zstd stream for the whole file, and flushes the stream at the
end of each compressed record (`zstd_compress_stream_to_records` in tools/perf/util/zstd.c). So the content of each
record can be decompressed as soon as it is written, in the order of the file. A sample may begin in one compressed
record and end in the next. The state of the decompressor cannot be stored, so counters live in this process; after a
restart they begin again.
"""

import os
import stat
import struct
import threading
import time
from pathlib import Path

import zstandard

MAGIC = b"PERFILE2"
MAX_COUNTERS = 256
"""Counters of this process; with a decompressor each needs about 1 MiB."""
UNUSED_S = 120.0
"""A counter that was not used for this time is dropped. Jobs are polled at least every 30 s."""
_DATA_OFFSET_AT = 40
_PIPE_HEADER_BYTES = 16
_HEADER = struct.Struct("<IHH")
_NUMBER = struct.Struct("<Q")
_SIZE = struct.Struct("<I")
_SAMPLE, _TRACING_DATA, _AUXTRACE = 9, 66, 71
_COMPRESSED, _COMPRESSED_SIZED = 81, 83
_CHUNK_BYTES = 64 << 10
_PIECE_BYTES = 1 << 10
"""Compressed bytes that are decompressed at a time, to at most 32 MiB: 4 bytes can be a block of 128 KiB."""
_MAX_WINDOW_BYTES = 8 << 20
_CHECKED_RECORDS = 4096
"""Records between two looks at the clock."""


class SampleCounter:
    """Counts the samples of one file. inode: of the file. count: samples in the records before `offset`. countable:
    whether they can be counted. behind: whether there are records after `offset` that can be counted."""

    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.offset = 0
        self.count = 0
        self.countable = True
        self.behind = False
        self.used = 0.0
        self._packed: _PackedRecords | None = None

    def update(self, descriptor: int, size: int, budget_s: float) -> None:
        """Count the complete records of the first `size` bytes, for up to `budget_s` of CPU time."""
        end = time.thread_time() + budget_s
        self.behind = False
        if not self.countable or (not self.offset and not self._find_start(descriptor, size)):
            return
        while self.offset + _HEADER.size <= size:
            try:
                go_on = self._take_records(descriptor, size, end)
            except (ValueError, zstandard.ZstdError, MemoryError):
                self.countable, self._packed = False, None
                return
            if not go_on:
                return
            if time.thread_time() >= end:
                self.behind = self.offset + _HEADER.size <= size
                return

    def _find_start(self, descriptor: int, size: int) -> bool:
        """Whether the header is complete, so that the first record is known."""
        head = os.pread(descriptor, _DATA_OFFSET_AT + _NUMBER.size, 0)
        if len(head) < min(size, _PIPE_HEADER_BYTES) or not head:
            return False
        if not head.startswith(MAGIC):
            # perf writes zeros until it knows its events.
            self.countable = not head.strip(b"\0")
            return False
        if len(head) < _PIPE_HEADER_BYTES:
            return False
        (length,) = _NUMBER.unpack_from(head, len(MAGIC))
        if length == _PIPE_HEADER_BYTES:
            # With sudo, perf writes to its standard output.
            self.offset = _PIPE_HEADER_BYTES
            return True
        if len(head) < _DATA_OFFSET_AT + _NUMBER.size:
            return False
        (offset,) = _NUMBER.unpack_from(head, _DATA_OFFSET_AT)
        if offset < len(head):
            return False
        self.offset = offset
        return True

    def _take_records(self, descriptor: int, size: int, end: float) -> bool:
        """Count the records that are complete in the next chunk. Returns whether there may be more."""
        data = os.pread(descriptor, min(_CHUNK_BYTES, size - self.offset), self.offset)
        at, last, count = 0, len(data) - _HEADER.size, 0
        is_complete = True
        while at <= last:
            kind, _, length = _HEADER.unpack_from(data, at)
            if length < _HEADER.size:
                raise ValueError("not a record")
            if kind in (_COMPRESSED, _COMPRESSED_SIZED):
                if at == 0:
                    return self._take_packed(descriptor, size, end, kind, length)
                break
            if kind in (_AUXTRACE, _TRACING_DATA):
                # The data of these follows the record, which holds its size.
                number = _NUMBER if kind == _AUXTRACE else _SIZE
                if at + _HEADER.size + number.size > len(data):
                    break
                length += number.unpack_from(data, at + _HEADER.size)[0]
            if self.offset + at + length > size:
                is_complete = False
                break
            at += length
            count += kind == _SAMPLE
        self.offset += at
        self.count += count
        return is_complete and at > 0

    def _take_packed(self, descriptor: int, size: int, end: float, kind: int, length: int) -> bool:
        """Count the samples of a compressed record, or a part of it until `end`. Returns whether it is done."""
        if self.offset + length > size:
            return False
        start, stop = self.offset + _HEADER.size, self.offset + length
        if kind == _COMPRESSED_SIZED:
            # The record is padded, and holds the size of its content.
            (content,) = _NUMBER.unpack(os.pread(descriptor, _NUMBER.size, start).ljust(_NUMBER.size, b"\0"))
            start += _NUMBER.size
            stop = min(stop, start + content)
        self._packed = packed = self._packed or _PackedRecords()
        while True:
            samples, done = packed.count_pending(end)
            self.count += samples
            if not done:
                self.behind = True
                return False
            place = start + packed.taken
            if place >= stop:
                break
            if time.thread_time() >= end:
                self.behind = True
                return False
            packed.take(os.pread(descriptor, min(_PIECE_BYTES, stop - place), place))
        packed.taken = 0
        self.offset += length
        return True


class _PackedRecords:
    """The compressed records of a file as one stream. taken: bytes of the current record that are decompressed."""

    def __init__(self) -> None:
        self.taken = 0
        self._stream = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        self._pending = b""
        self._at = 0

    def take(self, piece: bytes) -> None:
        """Decompress the next bytes of the current record. Raises ValueError at the end of the file or stream."""
        if not piece or self._stream.eof:
            raise ValueError("the compressed data ends")
        self._pending = self._pending[self._at :] + self._stream.decompress(piece)
        self._at = 0
        self.taken += len(piece)

    def count_pending(self, end: float) -> tuple[int, bool]:
        """(samples in complete records not counted before, whether these are all). Stops at `end`."""
        data, at, last, count, seen = self._pending, self._at, len(self._pending) - _HEADER.size, 0, 0
        while at <= last:
            kind, _, length = _HEADER.unpack_from(data, at)
            if length < _HEADER.size:
                raise ValueError("not a record")
            if at + length > len(data):
                break
            at += length
            count += kind == _SAMPLE
            seen += 1
            if seen % _CHECKED_RECORDS == 0 and time.thread_time() >= end:
                self._at = at
                return count, False
        self._at = at
        return count, True


_counters: dict[Path, SampleCounter] = {}
_lock = threading.Lock()


def count_file(path: Path, budget_s: float) -> tuple[int, SampleCounter] | None:
    """(size, counter) of a perf.data after up to `budget_s` of CPU time; None if it is not a file that can be read."""
    try:
        # The program's user can write there.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return None
        counter = _find_counter(path, about.st_ino, about.st_size)
        counter.update(descriptor, about.st_size, budget_s)
        return about.st_size, counter
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _find_counter(path: Path, inode: int, size: int) -> SampleCounter:
    """The counter of a file, a new one if it was replaced or truncated. Drops those that are not used any more."""
    now = time.monotonic()
    with _lock:
        for old in [one for one, counter in _counters.items() if now - counter.used > UNUSED_S]:
            del _counters[old]
        counter = _counters.pop(path, None)
        if counter is None or counter.inode != inode or counter.offset > size:
            counter = SampleCounter(inode)
        while len(_counters) >= MAX_COUNTERS:
            del _counters[next(iter(_counters))]
        _counters[path] = counter
        counter.used = now
        return counter
