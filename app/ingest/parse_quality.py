"""The share of a text's lines that its reader could not parse: few lines are losses, more make the result incomplete,
and if most lines fail, the text has another format."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, BinaryIO

import numpy as np

from ..domain.errors import UnreadableInput
from ..domain.profile import Profile

MAX_SHARE_COMPLETE, MAX_SHARE_READABLE = 0.01, 0.5
"""The maximum shares of non-empty lines for a complete result, and for any result."""
NEWLINE, RETURN = b"\n\r"
_BLOCK_BYTES = 1 << 17
"""A block and what is calculated from it fit into the cache of a CPU."""
_Read = Callable[[BinaryIO, str], Profile]


class LineCountingStream:
    """A stream that counts its non-empty lines. line_ends: the number of LF in what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._ended = True
        self.count = self.line_ends = 0

    def read(self, size: int = -1) -> bytes:
        """Blocks of a number of bytes."""
        data = self._stream.read(size)
        if data:
            letters = np.frombuffer(data, np.uint8)
            has_returns = b"\r" in data
            for start in range(0, len(letters), _BLOCK_BYTES):
                # A non-empty line begins where something other than a line end (LF, CRLF) follows a line end.
                block = letters[start : start + _BLOCK_BYTES]
                ends = block == NEWLINE
                self.line_ends += int(np.count_nonzero(ends))
                if has_returns:
                    ends |= block == RETURN
                self.count += int(np.count_nonzero(ends[:-1] > ends[1:])) + int(self._ended and not ends[0])
                self._ended = bool(ends[-1])
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def check_parse_quality(text: str, *reasons: str) -> Callable[[_Read], _Read]:
    """Decorator of a function that reads lines: the number of lines outside its grammar determines the result.

    text: the kind of text, as in "is not ...". reasons: losses that count lines outside the grammar.
    """

    def judging(read: _Read) -> _Read:
        @wraps(read)
        def reading(stream: BinaryIO, source: str = "this file") -> Profile:
            lines = LineCountingStream(stream)
            profile = read(lines, source)  # type: ignore[arg-type]
            return _judge(profile, lines.count, reasons, source, text)

        return reading

    return judging


def _judge(profile: Profile, lines: int, reasons: tuple[str, ...], source: str, text: str) -> Profile:
    """The profile, marked incomplete if necessary. Raises UnreadableInput."""
    rows = [row for row in profile.losses.to_pylist() if row["reason"] in reasons]
    count = sum(row["count"] for row in rows)
    # If a text is truncated, its last line does not count.
    if count <= max(MAX_SHARE_COMPLETE * lines, int(not profile.meta.complete)):
        return profile
    how_many = f"{count:,} of {lines:,} lines of {source} are not {text}"
    first = f"The first is {min((row['example'] for row in rows), key=_parse_line_number)}"
    if count > MAX_SHARE_READABLE * lines:
        raise UnreadableInput(
            f"{how_many}, too many to use the rest. {first}. Check these lines: was the file written by "
            "another tool, or with other fields?"
        )
    reason = f"{how_many}; their data is missing. {first}."
    meta = replace(profile.meta, complete=False, reasons=(*profile.meta.reasons, reason))
    return replace(profile, meta=meta)


def _parse_line_number(example: str) -> int:
    """The number in "line 17: …"; examples without one come last."""
    number = example.partition(" ")[2].partition(":")[0]
    return int(number) if number.isdecimal() and len(number) < 19 else 1 << 62
