"""Decompressed files: gzip, Zstandard and xz are recognized by content and decompressed as a stream.

Memory holds only the current piece, and the decompressed size is limited, so that a small file that decompresses to a
huge one is refused.
"""

import errno
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from ..domain.errors import TooLarge, UnreadableInput

igzip: Any
try:
    from isal import igzip_lib as igzip
except ImportError:
    # Three times as slow, otherwise equivalent.
    igzip = None

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK_BYTES = 1 << 20
MAX_PIECE_BYTES = 16 << 20
"""Of an uncompressed file at a time, so that `read` without a limit does not allocate that much at once."""
PACKED_BYTES = 64 << 10
"""Of compressed input at a time. What follows a frame is copied, and a file may have one in every 11 bytes."""
XZ_MEMORY_BYTES = 512 << 20
STEP_BYTES = 4 << 20
ZSTD_STEP_BYTES = 4 << 10
GZIP, ZSTD, XZ = "gzip", "Zstandard", "xz"
_MAGIC = {GZIP: b"\x1f\x8b\x08", ZSTD: b"\x28\xb5\x2f\xfd", XZ: b"\xfd7zXZ\x00"}
_MAGIC_BYTES = 6
_DAMAGED = (zlib.error, lzma.LZMAError, zstandard.ZstdError, *([igzip.IsalError] if igzip else []))
EMPTY_SPARSE_FILE = "contains only zero bytes; its content was never written. Copy or record it again."


def detect_compression(head: bytes) -> str | None:
    """The compression of a file that starts with `head`, or None if it has no known compression."""
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), None)


def open_decompressed(source: Path | BinaryIO, limit_bytes: int) -> "DecompressedStream":
    """Open a file, or wrap a stream, for reading its decompressed content.

    limit_bytes: reading more uncompressed bytes raises TooLarge. Raises UnreadableInput if the file cannot be opened,
    is empty, or contains only zero bytes.
    """
    if not isinstance(source, Path):
        return DecompressedStream(source, limit_bytes, "standard input")
    try:
        file = io.FileIO(source)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UnreadableInput(f"{source} cannot be read: {why}. Check the path and its permissions.") from None
    try:
        if is_empty_sparse_file(file):
            raise UnreadableInput(f"{source} {EMPTY_SPARSE_FILE}")
        return DecompressedStream(file, limit_bytes, str(source))
    except BaseException:
        file.close()
        raise


def is_empty_sparse_file(file: BinaryIO | io.FileIO) -> bool:
    """Whether the filesystem reports a file as one hole."""
    try:
        if os.fstat(file.fileno()).st_size == 0:
            return False
        os.lseek(file.fileno(), 0, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    finally:
        if file.seekable():
            file.seek(0)
    return False


class DecompressedStream(io.RawIOBase):
    """A stream of decompressed bytes, without a UTF-8 byte order mark at its start: no supported format needs one.

    packed: the compression of the file, or None. defect: a sentence if the compressed data is truncated or damaged,
    known at the end of the stream: what could be decompressed was read. read_bytes: compressed bytes so far,
    unpacked_bytes: decompressed bytes so far.
    """

    def __init__(self, raw: Any, limit_bytes: int, name: str) -> None:
        super().__init__()
        self._raw = raw
        self._limit = limit_bytes
        self._name = name
        self._head = b""
        self._done = False
        self._started = False
        self.defect: str | None = None
        self.read_bytes = 0
        self.unpacked_bytes = 0
        start = self._next_piece()
        while len(start) < _MAGIC_BYTES and (more := self._next_piece()):
            start += more
        self.packed = detect_compression(start)
        self._unpack = _UNPACKERS[self.packed]() if self.packed else None
        self._packed_head = start
        self.name = name

    def peek(self, size: int) -> bytes:
        """The next `size` decompressed bytes, fewer only at the end, without consuming them."""
        while len(self._head) < size and not self._done:
            self._head += self._next()
        return self._head[:size]

    def read(self, size: int | None = -1, /) -> bytes:
        """Exactly `size` bytes, fewer only at the end. Raises TooLarge past the limit, UnreadableInput."""
        wanted = self._limit + 1 if size is None or size < 0 else size
        parts, have = [self._head], len(self._head)
        while have < wanted and not self._done:
            part = self._next(wanted - have)
            parts.append(part)
            have += len(part)
        # One part alone is not copied.
        data = b"".join([part for part in parts if part])
        self._head = data[wanted:]
        return data[:wanted]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Like `read`, into a buffer. Uncompressed data is not copied in between."""
        target = memoryview(buffer)
        done = 0
        while done < len(target) and (self._head or not self._done):
            if self._head:
                part = self._head[: len(target) - done]
                target[done : done + len(part)] = part
                self._head = self._head[len(part) :]
                done += len(part)
            elif self._unpack is None and not self._packed_head:
                count = self._read_raw_into(target[done:])
                self._done = not count
                self._count(count)
                done += count
            else:
                self._head = self._next()
        return done

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()

    def _next_piece(self, size: int = CHUNK_BYTES) -> bytes:
        with self._report_errors():
            data: bytes | None = self._raw.read(size)
        self.read_bytes += len(data or b"")
        return data or b""

    def _read_raw_into(self, target: memoryview) -> int:
        with self._report_errors():
            count: int | None = self._raw.readinto(target)
        self.read_bytes += count or 0
        return count or 0

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        """Convert an OSError of the file to an error for the user."""
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise UnreadableInput(f"{self._name} cannot be read: {why}. Check the path and the disk.") from None

    def _count(self, unpacked: int) -> None:
        self.unpacked_bytes += unpacked
        if self.unpacked_bytes > self._limit:
            raise TooLarge(
                f"{self._name} exceeds the limit of {self._limit:,} bytes when unpacked. Record a "
                "shorter time or at a lower frequency, or raise PERFLOOM_UPLOAD_LIMIT_BYTES."
            )

    def _read_packed(self, wanted: int = 0) -> bytes:
        """The next piece of the file. wanted: how much of an uncompressed one is needed."""
        data = self._packed_head or self._next_piece(min(max(CHUNK_BYTES, wanted), MAX_PIECE_BYTES))
        size = PACKED_BYTES if self._unpack else len(data)
        self._packed_head = data[size:]
        return data[:size]

    def _next(self, wanted: int = 0) -> bytes:
        """The next decompressed bytes, without a byte order mark; none at the end. wanted: about how many."""
        data = self._next_as_is(wanted)
        if self._started:
            return data
        self._started = True
        while len(data) < len(BYTE_ORDER_MARK) and not self._done:
            data += self._next_as_is()
        return data.removeprefix(BYTE_ORDER_MARK)

    def _next_as_is(self, wanted: int = 0) -> bytes:
        """The next decompressed bytes; none at the end. wanted: about how many."""
        while True:
            if self._unpack is None:
                data = self._read_packed(wanted)
                self._done = not data
            else:
                data = self._next_unpacked(self._unpack)
            self._count(len(data))
            if data or self._done:
                return data

    def _next_unpacked(self, unpack: "_MemberDecompressor") -> bytes:
        # A step may take the last input and yield nothing, in the middle of a block: only then more is read.
        was_hungry = unpack.hungry
        try:
            piece = self._read_packed() if was_hungry else b""
            data = unpack.step(piece)
        except _DAMAGED as error:
            return self._stop(f"The {self.packed} data is damaged ({error}); the rest is missing.")
        if was_hungry and not piece and not data and unpack.hungry:
            return self._stop(
                None if unpack.ended else f"The {self.packed} data is truncated; the end of the file is missing."
            )
        return data

    def _stop(self, defect: str | None) -> bytes:
        self._done, self.defect = True, defect
        return b""


class _MemberDecompressor:
    """Decompresses concatenated streams, which gzip, xz and zstd files may contain.

    Each step yields a bounded number of bytes, for any input. hungry: needs more input. ended: a stream is complete and
    no bytes follow it.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._state = start()
        self._input = b""
        self.hungry = True

    @property
    def ended(self) -> bool:
        return bool(self._state.eof) and not self._input

    def step(self, piece: bytes) -> bytes:
        """The next decompressed bytes. Raises the library's own error if the data is damaged."""
        self._input += piece
        if self._state.eof:
            # Files on tapes and sectors are padded with zeros.
            self._input = self._input.lstrip(b"\0")
            if not self._input:
                self.hungry = True
                return b""
            self._state = self._start()
        data = self._decompress()
        if self._state.eof:
            self._input = self._state.unused_data
        self.hungry = not self._input and len(data) < STEP_BYTES
        return data

    def _decompress(self) -> bytes:
        data: bytes = self._state.decompress(self._input, STEP_BYTES)
        self._input = getattr(self._state, "unconsumed_tail", b"")
        return data


class _ZstdMemberDecompressor(_MemberDecompressor):
    """The same for zstd, whose steps can be bounded only by the size of input: 4 bytes decompress to 128 KiB at
    most."""

    def _decompress(self) -> bytes:
        piece, self._input = self._input[:ZSTD_STEP_BYTES], self._input[ZSTD_STEP_BYTES:]
        data: bytes = self._state.decompress(piece)
        if self._state.eof:
            self._input = self._state.unused_data + self._input
            self._state = _FinishedStream(self._input)
        return data


@dataclass(frozen=True)
class _FinishedStream:
    """A finished compressed stream. unused_data: the bytes after it."""

    unused_data: bytes
    eof: bool = True


_UNPACKERS: dict[str, Callable[[], _MemberDecompressor]] = {
    GZIP: lambda: _MemberDecompressor(
        (lambda: igzip.IgzipDecompressor(flag=igzip.DECOMP_GZIP))
        if igzip
        else (lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))
    ),
    XZ: lambda: _MemberDecompressor(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)),
    ZSTD: lambda: _ZstdMemberDecompressor(lambda: zstandard.ZstdDecompressor().decompressobj()),
}
