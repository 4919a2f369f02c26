"""Branch stacks taken out of perf script's text, so that the rest can be read as the text of a recording without them.

perf prints a branch stack behind the frame of a sample, or on a separate line below the call stack. That line becomes
empty, as after a sample without branch stacks. The numbers of lines do not change.
"""

import io
import re
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from ...domain.arrays import Int64Array
from .branch_entries import ENTRY_END, BranchPlace, find_first_entry, may_have_entries, parse_entry
from .branch_loops import NO_FUNCTION, EdgePlaces, is_backward
from .grammar import format_example
from .losses import BAD_BRANCH, BRANCHES_BEYOND

BAD_ENTRY, NOT_TAKEN = -1, -2
"""The codes of an entry that could not be read, and of one that was not taken, which is left out."""
_LINE_END = 10
_BLOCK_BYTES = 1 << 17
EDGE_BITS = 20
MAX_EDGES = 1 << EDGE_BITS
MAX_CODES = 1 << 18
"""Distinct entries that are known by their text."""
MAX_LINE_BYTES = 64 << 20
MAX_STACK_LINES = 1000
"""How far above a branch stack its sample's header is searched in an earlier part of the text."""
Loss = Callable[[str, str, int], None]


class BranchEdges:
    """Distinct branches. from_place, to_place, kind: of each, by its number. places: the same for `trace_loops`."""

    def __init__(self) -> None:
        self.from_place: list[BranchPlace] = []
        self.to_place: list[BranchPlace] = []
        self.kind: list[str] = []
        self.places: list[EdgePlaces] = []
        self._known: dict[tuple[BranchPlace, BranchPlace, str], int] = {}
        self._functions: dict[tuple[str, str], int] = {}

    def intern(self, source: BranchPlace, target: BranchPlace, kind: str) -> int:
        """The number of a branch; BAD_ENTRY if there are too many."""
        key = (source, target, kind)
        edge = self._known.get(key)
        if edge is not None:
            return edge
        if len(self.kind) >= MAX_EDGES:
            return BAD_ENTRY
        edge = self._known[key] = len(self.kind)
        self.from_place.append(source)
        self.to_place.append(target)
        self.kind.append(kind)
        ends = (*self._locate(source), *self._locate(target))
        self.places.append(EdgePlaces(*ends, is_backward(*ends, kind)))
        return edge

    def _locate(self, place: BranchPlace) -> tuple[int, int]:
        if place.offset is None:
            return NO_FUNCTION, -1
        return self._functions.setdefault((place.symbol, place.module), len(self._functions)), place.offset


class BranchStackFilter:
    """A stream of perf script's text without its branch stacks.

    stacks: those of the text that was read, (line of the sample's header, codes of the entries, the newest first).
    table: the branches in them. lost: called with a reason, an example and a count. A longer line than max_line_bytes
    is passed on unchanged.
    """

    def __init__(self, stream: BinaryIO, lost: Loss, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.table = BranchEdges()
        self.stacks: deque[tuple[int, list[int]]] = deque()
        self.lose = lost
        self._stream = stream
        self._max_line_bytes = max_line_bytes
        self._codes: dict[bytes, int] = {}
        self._edges: dict[tuple[bytes, bytes], int] = {}
        self._rest = b""
        self._number = 1
        self._header = 0

    @property
    def defect(self) -> str | None:
        """See `compression.PlainStream`."""
        return getattr(self._stream, "defect", None)

    def read(self, size: int) -> bytes:
        """About `size` bytes, complete lines unless one is longer; empty at the end."""
        while True:
            data = self._stream.read(size)
            if not data:
                text, self._rest = self._rest, b""
                return self._take(text) if text else b""
            # The end of a sample, so that the caller needs not copy the text to divide it there.
            end = data.rfind(b"\n\n") + 2 if len(data) >= size else 0
            if end < 2:
                end = data.rfind(b"\n") + 1
            if end or len(self._rest) > self._max_line_bytes:
                end = end or len(data)
                text = b"".join((self._rest, memoryview(data)[:end]))
                self._rest = data[end:]
                return self._take(text)
            self._rest += data

    def _take(self, text: bytes) -> bytes:
        if may_have_entries(text):
            return self._take_lines(text)
        # The branch stack of the last sample can follow in the next part.
        count = self._count_line_ends(text)
        self._header = self._find_last_header(text, count)
        self._number += count
        return text

    def _count_line_ends(self, text: bytes) -> int:
        """The number of line ends in the text that was read last, and not yet numbered."""
        total = getattr(self._stream, "line_ends", None)
        if total is None:
            return _count_line_ends(text)
        count: int = total - self._rest.count(b"\n") - (self._number - 1)
        return count

    def _find_last_header(self, text: bytes, count: int) -> int:
        """The number of the last line that may be a sample's header with its call stack below. count: of line ends."""
        end, lines = len(text), 0
        while end > 0 and lines < MAX_STACK_LINES:
            start = text.rfind(b"\n", 0, end - 1) + 1
            if text[start : start + 1] not in b" \t\n#":
                return self._number + count - text.count(b"\n", start)
            end, lines = start, lines + 1
        return self._header

    def _take_lines(self, text: bytes) -> bytes:
        lines = text.split(b"\n")
        for at, line in enumerate(lines):
            first = line[:1]
            if first in b"\t#" or not line:
                continue
            number = self._number + at
            found = self._split(line, number) if b"/-/" in line or b"/A/" in line else None
            if found is not None:
                cut, codes = found
                lines[at] = line[:cut] if line[:cut].strip() else b""
                own = bool(lines[at])
                self._header = number if own else self._header
                self.stacks.append((self._header, codes))
            elif first != b" ":
                self._header = number
        self._number += len(lines) - 1
        return b"\n".join(lines)

    def _split(self, line: bytes, number: int) -> tuple[int, list[int]] | None:
        """(where the branch stack starts in a line, its codes); None if there is none."""
        cut: int | None = None
        begin, codes = 0, []
        for end in ENTRY_END.finditer(line):
            if cut is None:
                place = find_first_entry(line[begin : end.start()])
                if place is None:
                    begin = end.end()
                    continue
                cut = begin = begin + place
                known = [self._codes.get(raw) for raw in line[cut:].split()]
                if None not in known:
                    # The usual case: no spaces in names, and all entries seen before.
                    return cut, [code for code in known if code is not None and code != NOT_TAKEN]
            raw = line[begin : end.end()].strip()
            code = self._codes.get(raw)
            if code is None:
                code = self._read_entry(raw, line[begin : end.start()].strip(), end, number)
            if code != NOT_TAKEN:
                codes.append(code)
            begin = end.end()
        if cut is None:
            return None
        if line[begin:].strip():
            self.lose(BAD_BRANCH, format_example(line[begin:].strip(), number), 1)
        return cut, codes

    def _read_entry(self, raw: bytes, text: bytes, end: re.Match[bytes], number: int) -> int:
        """The code of an entry that is not known yet. text: of it, before its end."""
        if end[2]:
            self._codes[raw] = NOT_TAKEN
            return NOT_TAKEN
        kind = end[4] or b""
        # The cycles of one branch differ.
        edge = self._edges.get((text, kind))
        if edge is None:
            places = parse_entry(text)
            if places is None:
                self.lose(BAD_BRANCH, format_example(raw, number), 1)
                return BAD_ENTRY
            edge = self.table.intern(*places, "" if kind in (b"-", b"N/A") else kind.decode())
            if edge == BAD_ENTRY:
                self.lose(BRANCHES_BEYOND, format_example(raw, number), 1)
                return BAD_ENTRY
            self._edges[text, kind] = edge
        if len(self._codes) >= MAX_CODES:
            self._codes.clear()
        code = self._codes[raw] = pack_code(edge, end[1] == b"M", end[1] == b"P", int(end[3]))
        return code


def pack_code(edge: int, mispredicted: bool, predicted: bool, cycles: int) -> int:
    """The code of an entry, see `unpack_codes`."""
    return edge | mispredicted << EDGE_BITS | predicted << EDGE_BITS + 1 | cycles << EDGE_BITS + 2


def unpack_codes(codes: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """(edge, mispredicted, predicted, cycles) of codes that are not negative."""
    edge = codes & (MAX_EDGES - 1)
    return edge, codes >> EDGE_BITS & 1, codes >> EDGE_BITS + 1 & 1, codes >> EDGE_BITS + 2


def strip_branch_stacks(text: bytes) -> bytes:
    """A text without its branch stacks."""
    if not may_have_entries(text):
        return text
    stream = BranchStackFilter(io.BytesIO(text), lambda *_: None)
    return stream.read(len(text)) + stream.read(len(text))


def _count_line_ends(text: bytes) -> int:
    """Like bytes.count, in a third of the time for short lines."""
    letters = np.frombuffer(text, np.uint8)
    blocks = (letters[start : start + _BLOCK_BYTES] for start in range(0, len(letters), _BLOCK_BYTES))
    return sum(int(np.count_nonzero(block == _LINE_END)) for block in blocks)
