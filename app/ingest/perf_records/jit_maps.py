"""Where the code of just-in-time compilers was, at which time of a recording.

A compiler maps the file jit-PID.dump, so that the recording names it; the file says when code was loaded where. As
`perf inject --jit` does (tools/perf/util/jitdump.c of Linux), what it says replaces the maps of memory without a file.
"""

import heapq
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array, Int64Array
from .address_maps import ANONYMOUS, Mapping
from .code_objects import CodeObject, JitSource, ObjectKind
from .task_records import MapRecord

_MARKER = re.compile(rb"(?:^|/)jit-([0-9]{1,10})\.dump$")
_ENDING = b".dump"
_FILES_IN_MEMORY = (*ANONYMOUS, "[anon:", "/memfd:")


class JitMap(NamedTuple):
    """From a position on, a process has code at [start, end). number: in the order of the recording."""

    position: int
    number: int
    pid: int
    start: int
    end: int
    mapping: Mapping


class JitMaps:
    """The maps of a recording's dumps. untimed: how many pieces of code are in dumps whose times do not fit those of
    the recording: they count as loaded when the dump was mapped."""

    def __init__(self, source: JitSource, times: Array, positions: Int64Array, *, is_monotonic: bool) -> None:
        """times: of samples (ns, uint64), ascending, with their positions. is_monotonic: of CLOCK_MONOTONIC."""
        self._source, self._times, self._positions = source, times, positions
        self._is_monotonic = is_monotonic
        self._waiting: list[JitMap] = []
        self._pids: set[int] = set()
        self._count = 0
        self.untimed = 0

    def take(self, record: MapRecord, position: int) -> bool:
        """Whether a record only says that there is a dump, or maps memory whose code the dump lists."""
        is_marker = record.executable and record.path.endswith(_ENDING)
        if is_marker and (found := _MARKER.search(record.path)) and int(found[1]) == record.pid:
            return record.pid in self._pids or self._open(record, position)
        return record.pid in self._pids and record.path.decode(errors="replace").startswith(_FILES_IN_MEMORY)

    def pop(self, position: int) -> Iterator[JitMap]:
        """The maps up to a position, in order."""
        while self._waiting and self._waiting[0].position <= position:
            yield heapq.heappop(self._waiting)

    def _open(self, record: MapRecord, position: int) -> bool:
        path = record.path.decode("utf-8", "surrogateescape")
        code = CodeObject(ObjectKind.JIT_DUMP, path, pid=record.pid)
        loads = self._source(code)
        if loads is None:
            return False
        self._pids.add(record.pid)
        at = np.full(len(loads.time), position)
        if loads.has_times and self._is_monotonic:
            row = np.searchsorted(self._times, loads.time)
            last = self._positions[-1:] + 1 if len(self._positions) else np.array([position])
            at = np.maximum(np.concatenate((self._positions, last))[row], position)
        else:
            self.untimed += len(at)
        columns = (column.tolist() for column in (at, loads.start, loads.size, loads.place))
        for where, start, size, place in zip(*columns, strict=True):
            mapping = Mapping(code, path, place - start)
            self._count += 1
            heapq.heappush(self._waiting, JitMap(where, self._count, record.pid, start, start + size, mapping))
        return True
