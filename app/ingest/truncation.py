"""Truncation of files: with any reader, a truncated file yields a result that is marked incomplete.

Programs that write lines end each with a line end, also the last one. If that is missing, the file was truncated in its
last line, and a number in it may have lost digits.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, BinaryIO

import pyarrow as pa

from ..domain.profile import Profile
from ..domain.tables import SCHEMAS

TRUNCATED_LINE = "last line without a line end"
TRUNCATED_TEXT = "The last line of the file has no line end: the file may be truncated there."
TRUNCATED_JSON = "The file ends in the middle of its JSON: the rest is missing."
_Read = Callable[..., Profile]


class LastByteStream:
    """A stream that stores the last byte read, and the number of bytes read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.last = b""
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        """Read at most this many bytes."""
        return self._note_bytes(self._stream.read(size))

    def readline(self, limit: int = -1) -> bytes:
        """The next line, or at most this many bytes of it."""
        return self._note_bytes(self._stream.readline(limit))

    def readinto(self, buffer: Any) -> int:
        """Like `read`, into a buffer."""
        count: int = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        self._note_bytes(bytes(memoryview(buffer)[max(0, count - 1) : count]))
        self.size += max(0, count - 1)
        return count

    def _note_bytes(self, data: bytes) -> bytes:
        if data:
            self.last = data[-1:]
            self.size += len(data)
        return data

    def __iter__(self) -> Any:
        while line := self.readline():
            yield line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def detect_truncation(read: _Read, by_lines: bool) -> _Read:
    """`read` of a reader, with truncation recorded in its result. by_lines: whether the format consists of lines of
    text.

    An incomplete profile always has a loss, so that both are always reported.
    """

    @wraps(read)
    def reading(stream: BinaryIO, source: str = "this file", *more: Any) -> Profile:
        ending = LastByteStream(stream)
        profile = read(ending, source, *more)
        if by_lines:
            profile = mark_truncation(profile, ending)
        if not profile.meta.complete and not profile.losses.num_rows:
            reason = profile.meta.reasons[0] if profile.meta.reasons else TRUNCATED_TEXT
            profile = add_loss(profile, reason.rstrip("."), "the end of the file")
        return profile

    return reading


def mark_truncation(profile: Profile, ending: LastByteStream) -> Profile:
    """The profile of a text that was read to its end, marked incomplete if its last line has no end."""
    # In UTF-16 the last byte of a line end is zero.
    if not profile.meta.complete or ending.last in (b"", b"\n", b"\r", b"\0") or ending.read(1):
        return profile
    meta = replace(profile.meta, complete=False, reasons=(*profile.meta.reasons, TRUNCATED_TEXT))
    return add_loss(replace(profile, meta=meta), TRUNCATED_LINE, f"byte {ending.size:,}, the end of the file")


def add_loss(profile: Profile, reason: str, example: str) -> Profile:
    """The profile with one more loss."""
    row = pa.Table.from_pylist([{"reason": reason, "count": 1, "example": example}], schema=SCHEMAS["losses"])
    return replace(profile, losses=pa.concat_tables([profile.losses, row]))
