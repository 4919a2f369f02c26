"""The output of a job as safe text for pages.

A client follows the file by byte offsets. A part never ends inside a character or control sequence, so that
concatenated parts equal the complete output. If a program prints more than the limit, the end of the file is rewritten
(see workers/local/capture.py): this is detected by a checksum of the bytes before the offset, and the client restarts
from the end.
"""

import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 64 * 1024
"""Maximum size of a response."""
MAX_BEHIND_BYTES = 4 * CHUNK_BYTES
"""Clients further behind get only the end of the output."""
MAX_SEQUENCE_BYTES = 4096
"""Bytes; a control sequence that does not end within this length is treated as text."""

MARK_BYTES = 64

# ECMA-48: control sequences (colors, cursor), control strings (window titles, links), and two-character escapes.
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[\]PX^_][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)|[ -/]{1,8}[0-~]|[0-OQ-WYZ\\`-~])"
)
_OPEN_END = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
# C0, DEL and C1, direction characters, and line separators of JavaScript.
_CONTROL = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True)
class OutputChunk:
    """A part of the output. offset, next: of its first byte and of the byte behind it; size: of the file now.

    mark: of the bytes before `next`; the client gives both back. text may hold carriage returns: what follows one
    overwrites its line (`apply_carriage_returns`).
    """

    offset: int
    next: int
    size: int
    mark: str
    text: str


def sanitize_output(data: bytes) -> str:
    """`data` as text: without colors and cursor movements, other control characters as symbols."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return _CONTROL.sub(_sign, _SEQUENCE.sub("", text))


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def apply_carriage_returns(text: str) -> str:
    """`text` as in a terminal: in a line with carriage returns, the last text."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def read_tail(path: Path, final: bool = False) -> OutputChunk:
    """The end of the output, from the start of a line if possible. A missing file is empty."""
    size = _size(path)
    start = max(0, size - CHUNK_BYTES)
    data = _read(path, start, size - start)
    if start:
        newline = data.find(b"\n", 0, len(data) - 1)
        cut = newline + 1 if 0 <= newline < len(data) // 2 else _first_whole(data)
        start, data = start + cut, data[cut:]
    return _piece(data, 0, start, size, final)


def read_after(path: Path, offset: int, mark: str, final: bool = False) -> OutputChunk:
    """The output after byte `offset`; the end of the output if that is far behind, or if `mark` does not match."""
    size = _size(path)
    if not 0 <= offset <= size or size - offset > MAX_BEHIND_BYTES:
        return read_tail(path, final)
    start = max(0, offset - MARK_BYTES)
    data = _read(path, start, offset - start + min(CHUNK_BYTES, size - offset))
    if _mark(data[: offset - start]) != mark:
        return read_tail(path, final)
    return _piece(data, offset - start, start, size, final)


def _piece(data: bytes, before: int, start: int, size: int, final: bool) -> OutputChunk:
    """A piece of `data`, which starts at byte `start` of the file with `before` bytes that are known already."""
    end = len(data)
    if not (final and start + end >= size):
        end = before + _displayable_length(data[before:])
    text = sanitize_output(data[before:end])
    return OutputChunk(start + before, start + end, size, _mark(data[max(0, end - MARK_BYTES) : end]), text)


def _mark(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def _first_whole(data: bytes) -> int:
    """Where the first whole character starts."""
    return next((at for at, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)


def _displayable_length(data: bytes) -> int:
    """How much of `data` can be shown before more is known: up to an unfinished character, sequence or \\r."""
    end = len(data)
    for back in range(1, min(4, end) + 1):
        byte = data[end - back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        end -= back if length > back else 0
        break
    opening = _OPEN_END.search(data, max(0, end - MAX_SEQUENCE_BYTES), end)
    if opening:
        end = opening.start()
    elif data[:end].endswith(b"\r"):
        end -= 1
    return end


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read(path: Path, start: int, length: int) -> bytes:
    if length <= 0:
        return b""
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), length, start)
    except FileNotFoundError:
        return b""
