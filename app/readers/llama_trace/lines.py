"""What a line of a text trace says, and the columns that hold it: see `columns` for how a file becomes these."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .format import NO_LINE

Array = np.ndarray[Any, Any]
CHUNK_BYTES = 8 << 20
LONGEST_LINE = 1 << 20
MOST_NS = 1 << 61
SHOWN = 160
MARK = b"\xef\xbb\xbf"
BEGIN, END, COUNTER = 0, 1, 2
"""Kinds of lines."""
NONE = -1
COLUMNS = {"kind": np.uint8, "thread": np.int32, "name": np.int32, "number": np.int64} | {
    "time_ns": np.int64,
    "line": np.int64,
}
THREAD, NAME, COUNTED, VALUE, TIME, PREFIX = b"thr:", b", name: ", b", counter: ", b", value: ", b", time:", b"end_"
"""What stands in lines besides what they say."""
NO_TIME = "line with a time that cannot be"

_TIME = re.compile(rb", time: *(\d+)(?:\.(\d*))?\s*")
_VALUE = re.compile(rb"\S+")
_EDGE = re.compile(rb"(start_time|end_time|lost): *(\d+)(?:\.(\d*))?\s*")
_NAME = re.compile(rb"(?P<end>" + PREFIX + rb")?(?:(?P<bare>.+)_(?P<number>\d+)|(?P<whole>.*))", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Lines:
    """What the lines of a file say, in its order, one entry each in every column.

    texts: every distinct text once. kind: uint8. thread, name: int32 places in `texts`; a name is without the number of
    its own, and without what makes it an end. number: int64, that number; NONE, or another below it for each text of
    digits that is not to be counted with; of a counter the place of its value's text. time_ns, line: int64.
    edges: what stands at the file's ends, in ns. lost: by reason how many lines were left out, and the first.
    """

    texts: list[str]
    kind: Array
    thread: Array
    name: Array
    number: Array
    time_ns: Array
    line: Array
    edges: dict[str, int]
    lost: dict[str, tuple[int, str]]


Row = tuple[int, int, int, int, int, int]
"""As the columns. Texts are counted downwards from -2: upwards are those of the scanner."""


class ByHand:
    """Takes in line by line."""

    def __init__(self) -> None:
        self.texts: dict[bytes, int] = {}
        self.edges: dict[str, int] = {}
        self.lost: dict[str, tuple[int, str]] = {}
        self._digits: dict[bytes, int] = {}

    def row(self, line: bytes, number: int) -> Row | None:
        """What a line says; None where it is none of a thread's."""
        if edge := _EDGE.fullmatch(line):
            self.edges.setdefault(edge[1].decode(), _ns(edge[2], edge[3]) or 0)
        elif line.strip():
            found = self._of_thread(line, number)
            if isinstance(found, tuple):
                return found
            self.leave_out(found, line, number)
        return None

    def _of_thread(self, line: bytes, number: int) -> Row | str:
        """What a line says; why it is left out. Nothing is looked for more than once: lines may be long."""
        at = line.rfind(TIME)
        time = _TIME.fullmatch(line, at) if at >= 0 else None
        if time is None or not line.startswith(THREAD):
            return NO_LINE
        rest = line[len(THREAD) : at].lstrip(b" ")
        of_name, of_counter = rest.find(NAME), rest.find(COUNTED)
        if of_name < 0 and of_counter < 0:
            return NO_LINE
        time_ns = _ns(time[1], time[2])
        if of_name < 0 or 0 <= of_counter < of_name:
            counter, between, value = rest[of_counter + len(COUNTED) :].rpartition(VALUE)
            if not between or not _VALUE.fullmatch(value):
                return NO_LINE
            if time_ns is None:
                return NO_TIME
            return COUNTER, self._text(rest[:of_counter]), self._text(counter), self._text(value), time_ns, number
        if time_ns is None:
            return NO_TIME
        name = _NAME.fullmatch(rest, of_name + len(NAME))
        assert name is not None
        thread, kind = self._text(rest[:of_name]), BEGIN if name["end"] is None else END
        if name["bare"] is None:
            return kind, thread, self._text(name["whole"]), NONE, time_ns, number
        return kind, thread, self._text(name["bare"]), self._number(name["number"]), time_ns, number

    def leave_out(self, reason: str, line: bytes, number: int) -> None:
        """Note what could not be read."""
        count, first = self.lost.get(reason, (0, f"line {number}: {line[:SHOWN].decode('utf-8', 'replace')}"))
        self.lost[reason] = count + 1, first

    def _text(self, text: bytes) -> int:
        return -2 - self.texts.setdefault(text, len(self.texts))

    def _number(self, digits: bytes) -> int:
        """The number; below NONE where it is too long, or begins with a 0: it is the same only where its text is."""
        if len(digits) > 18 or (len(digits) > 1 and digits.startswith(b"0")):
            return -2 - self._digits.setdefault(digits, len(self._digits))
        return int(digits)


def _ns(us: bytes, part: bytes | None) -> int | None:
    """Nanoseconds, exactly; None where no clock tells such a time."""
    if len(us) > 18:
        return None
    found = int(us) * 1000 + int((part or b"").ljust(3, b"0")[:3])
    return found if found < MOST_NS else None
