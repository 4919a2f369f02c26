"""Code that a just-in-time compiler wrote to jit-PID.dump: names, machine code, lines, and when it was where.

Format: Linux, tools/perf/Documentation/jitdump-specification.txt. Node.js writes it (--perf-prof), Python 3.13
(-X perf_jit), and Java with the agent of perf. Of a damaged or truncated file, what comes before is read.
"""

import mmap
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array, Int64Array
from .symbol_table import EMPTY, GLOBAL, SymbolTable

MAX_RECORDS = 2_000_000
MAX_LINES = 1_000_000
"""Of one piece of code."""
MAX_NAME_BYTES = 16_384
_MAGIC, _VERSION = 0x4A695444, 1
_LOAD, _MOVE, _DEBUG_INFO, _CLOSE = 0, 1, 2, 3
_OTHER_CLOCK = 1
"""The flag of a file whose times are of the processor's counter."""
_HEADER, _PREFIX, _LOAD_FIELDS, _MOVE_FIELDS = "IIIIIIQQ", "IIQ", "IIQQQQ", "IIQQQQQ"
_LINE_FIELDS, _SAME_FILE = "QII", b"\xff"
_ELF_HEADER_BYTES = 64
"""Node.js adds the size of an ELF header to the addresses of lines, because perf once wrote code behind one."""

Data = bytes | mmap.mmap


class CodeLine(NamedTuple):
    """From an address of a piece of code on, relative to its start, it is of this line."""

    offset: int
    file: str
    line: int


@dataclass(frozen=True, eq=False)
class JitDump:
    """The pieces of code of a dump.

    machine: as in ELF files. pid: of the process. has_times: whether times are those of CLOCK_MONOTONIC.
    time (ns), start, size, place: uint64, in the order of the file: from a time on, code was at an address; `place` is
    where its bytes are in the file. table: the names, by place. debug: where the lines of a place are in the file.
    """

    machine: int
    pid: int
    has_times: bool
    order: str
    time: Array
    start: Array
    size: Array
    place: Array
    table: SymbolTable
    debug: dict[int, tuple[int, int, int, int]]

    def read_lines(self, data: Data, place: int) -> list[CodeLine]:
        """The lines of the code at a place by address; none if there are none, or they are damaged."""
        if place not in self.debug:
            return []
        at, end, count, start = self.debug[place]
        size = int(self.table.end[np.searchsorted(self.table.start, np.uint64(place))]) - place
        try:
            return _read_lines(data[at:end], self.order, count, start, size)
        except (struct.error, ValueError):
            return []


def parse_jit_dump(data: Data) -> JitDump | None:
    """The code in a dump; None if it is no dump of a known version."""
    order = "<" if data[:4] == _MAGIC.to_bytes(4, "little") else ">"
    try:
        magic, version, header_bytes, machine, _, pid, _, flags = struct.unpack_from(order + _HEADER, data)
    except struct.error:
        return None
    if magic != _MAGIC or version != _VERSION:
        return None
    loads = _Loads(order)
    loads.read(data, header_bytes)
    time, start, size, place = np.array(loads.rows, np.uint64).reshape(-1, 4).T
    has_times = not flags & _OTHER_CLOCK
    return JitDump(machine, pid, has_times, order, time, start, size, place, loads.make_table(), loads.debug)


class _Loads:
    """Collects the records of a dump. rows: (time, start, size, place)."""

    def __init__(self, order: str) -> None:
        self._order = order
        self.rows: list[tuple[int, int, int, int]] = []
        self.debug: dict[int, tuple[int, int, int, int]] = {}
        self._names: list[tuple[int, int, bytes]] = []
        self._place_of: dict[int, tuple[int, int]] = {}
        self._lines: dict[int, tuple[int, int, int]] = {}
        """Where the lines of the code are that is loaded next at an address."""

    def read(self, data: Data, at: int) -> None:
        """Read the records from `at` on."""
        prefix, end = struct.Struct(self._order + _PREFIX), len(data)
        for _ in range(MAX_RECORDS):
            if at + prefix.size > end:
                return
            kind, size, time = prefix.unpack_from(data, at)
            if size < prefix.size or at + size > end or kind == _CLOSE:
                return
            body = at + prefix.size
            try:
                if kind == _LOAD:
                    self._load(data, body, at + size, time)
                elif kind == _MOVE:
                    self._move(data, body, time)
                elif kind == _DEBUG_INFO:
                    address, count = struct.unpack_from(f"{self._order}QQ", data, body)
                    self._lines[address] = body + 16, at + size, min(count, MAX_LINES)
            except struct.error:
                return
            at += size

    def _load(self, data: Data, at: int, end: int, time: int) -> None:
        fields = struct.Struct(self._order + _LOAD_FIELDS)
        _, _, _, start, size, index = fields.unpack_from(data, at)
        name_at = at + fields.size
        name_end = data.find(b"\0", name_at, end)
        lines = self._lines.pop(start, None)
        if name_end < 0 or not 0 < size <= end - name_end - 1 or start + size >= 2**64:
            return
        place = name_end + 1
        self.rows.append((time, start, size, place))
        self._names.append((place, place + size, data[name_at : min(name_end, name_at + MAX_NAME_BYTES)]))
        self._place_of[index] = place, size
        if lines is not None:
            self.debug[place] = *lines, start

    def _move(self, data: Data, at: int, time: int) -> None:
        _, _, _, _, start, size, index = struct.unpack_from(self._order + _MOVE_FIELDS, data, at)
        place, known = self._place_of.get(index, (0, 0))
        if 0 < size <= known and start + size < 2**64:
            self.rows.append((time, start, size, place))

    def make_table(self) -> SymbolTable:
        """The names by place, which is in the order of the file."""
        if not self._names:
            return EMPTY
        start, end = (np.array([row[at] for row in self._names], np.uint64) for at in (0, 1))
        names = [row[2] for row in self._names]
        name: Int64Array = np.cumsum([0, *(len(one) + 1 for one in names[:-1])])
        return SymbolTable(start, end, name, np.full(len(start), GLOBAL, np.uint8), b"\0".join(names) + b"\0")


def _read_lines(data: bytes, order: str, count: int, start: int, size: int) -> list[CodeLine]:
    """data: of one record, so that records with few bytes cannot have the lines of others again and again."""
    fields = struct.Struct(order + _LINE_FIELDS)
    found: list[CodeLine] = []
    file, at = "", 0
    for _ in range(count):
        address, line, _ = fields.unpack_from(data, at)
        end = data.index(b"\0", at + fields.size)
        if not start <= address <= start + size + _ELF_HEADER_BYTES or line >= 2**31:
            raise ValueError("a line of other code")
        name = data[at + fields.size : end][:MAX_NAME_BYTES]
        file = file if name == _SAME_FILE else name.decode(errors="replace")
        found.append(CodeLine(address - start, file, line))
        at = end + 1
    # No compiler begins with code without a line.
    shift = _ELF_HEADER_BYTES if found and min(one.offset for one in found) == _ELF_HEADER_BYTES else 0
    return sorted(one._replace(offset=one.offset - shift) for one in found)
