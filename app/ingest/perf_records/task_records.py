"""Records about tasks and their memory: names, forks, maps of files, symbols of the kernel, losses."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Int64Array
from .record_index import SAMPLE, RecordIndex
from .unsupported import UnsupportedRecords

MMAP, LOST, COMM, EXIT, THROTTLE, UNTHROTTLE, FORK, READ, MMAP2 = 1, 2, 3, 4, 5, 6, 7, 8, 10
AUX, ITRACE_START, LOST_SAMPLES, SWITCH, SWITCH_CPU_WIDE, NAMESPACES, KSYMBOL = 11, 12, 13, 14, 15, 16, 17
BPF_EVENT, CGROUP, TEXT_POKE, AUX_OUTPUT_HW_ID = 18, 19, 20, 21
LAST_KERNEL_KIND = AUX_OUTPUT_HW_ID
USER_KINDS = range(64, 84)
"""Types of records that perf writes, as of Linux 6.15."""
_IGNORED = (EXIT, UNTHROTTLE, READ, NAMESPACES, BPF_EVENT, CGROUP, TEXT_POKE)
CPU_MODE, KERNEL, USER, GUESTS = 7, 1, 2, (4, 5)
"""Bits of the flags of a record, and what they say."""
_MMAP_DATA, _FORK_EXEC, _BUILD_ID_IN_MMAP = 1 << 13, 1 << 13, 1 << 14
_EXECUTABLE = 4
_UNREGISTER = 1
_WORD = 8
_TASK, _TASKS, _COUNT = struct.Struct("<ii"), struct.Struct("<iiii"), struct.Struct("<Q")
_MAP, _PROTECTION, _SYMBOL = struct.Struct("<iiQQQ"), struct.Struct("<I"), struct.Struct("<QIHH")


class NameRecord(NamedTuple):
    """A thread has a new name."""

    tid: int
    name: bytes


class ForkRecord(NamedTuple):
    """A task was created. copies_maps: not for those that were running before the recording."""

    pid: int
    tid: int
    parent_pid: int
    parent_tid: int
    copies_maps: bool


class MapRecord(NamedTuple):
    """Memory was mapped from `start` up to `end`. offset: in the file. build_id: hexadecimal digits, if recorded."""

    pid: int
    start: int
    end: int
    offset: int
    path: bytes
    in_kernel: bool
    executable: bool
    build_id: str | None = None


class KernelSymbolRecord(NamedTuple):
    """The kernel has new code, such as a BPF program, or (size 0) no longer has it."""

    start: int
    size: int
    name: bytes


class LostRecord(NamedTuple):
    """The kernel had no room for some records."""

    record_count: int


TaskRecord = NameRecord | ForkRecord | MapRecord | KernelSymbolRecord | LostRecord


def count_unknown(index: RecordIndex) -> dict[int, int]:
    """How many records have a type that is not known here, by type."""
    kinds, counts = np.unique(index.kind[index.other_rows], return_counts=True)
    known = {*range(1, LAST_KERNEL_KIND + 1), *USER_KINDS}
    return {kind: count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True) if kind not in known}


def iterate_task_records(index: RecordIndex, rows: Int64Array) -> Iterator[tuple[int, TaskRecord]]:
    """(position in `rows`, record). rows: of all records, in the order of delivery. Raises UnsupportedRecords."""
    positions = np.flatnonzero(index.kind[rows] != SAMPLE)
    kinds = index.kind[rows[positions]]
    positions = positions[(kinds <= LAST_KERNEL_KIND) & ~np.isin(kinds, (*_IGNORED, THROTTLE))]
    chosen = rows[positions]
    begin = index.place[chosen] * _WORD
    end = begin + index.size[chosen].astype(np.int64) * _WORD
    columns = (positions, index.kind[chosen], index.flags[chosen], begin, end)
    data = index.words.view(np.uint8).data
    for position, kind, flags, start, end in zip(*(column.tolist() for column in columns), strict=True):
        try:
            found = _parse(kind, flags, data[start:end])
        except struct.error:
            raise UnsupportedRecords("a record is too short") from None
        if found is not None:
            yield position, found


def _parse(kind: int, flags: int, record: memoryview) -> TaskRecord | None:
    if kind in (MMAP, MMAP2):
        return _parse_map(kind, flags, record)
    if kind == COMM:
        _, tid = _TASK.unpack_from(record, 8)
        return NameRecord(tid, _read_text(record, 16))
    if kind == FORK:
        pid, parent_pid, tid, parent_tid = _TASKS.unpack_from(record, 8)
        return ForkRecord(pid, tid, parent_pid, parent_tid, not flags & _FORK_EXEC)
    if kind == LOST:
        return LostRecord(_COUNT.unpack_from(record, 16)[0])
    if kind == LOST_SAMPLES:
        return None
    if kind == KSYMBOL:
        start, size, _, change = _SYMBOL.unpack_from(record, 8)
        return KernelSymbolRecord(start, 0 if change & _UNREGISTER else size, _read_text(record, 24))
    if kind in (AUX, ITRACE_START, AUX_OUTPUT_HW_ID):
        raise UnsupportedRecords("it contains raw data of a processor's trace")
    if kind in (SWITCH, SWITCH_CPU_WIDE):
        raise UnsupportedRecords("it contains switches between threads")
    return None


def _parse_map(kind: int, flags: int, record: memoryview) -> MapRecord:
    pid, _, start, length, offset = _MAP.unpack_from(record, 8)
    build_id, executable, name_at = None, not flags & _MMAP_DATA, 40
    if kind == MMAP2:
        size, protection = record[40], _PROTECTION.unpack_from(record, 64)[0]
        if flags & _BUILD_ID_IN_MMAP and size <= 20:
            build_id = record[44 : 44 + size].hex()
        executable, name_at = bool(protection & _EXECUTABLE), 72
    mode = flags & CPU_MODE
    if mode in GUESTS:
        raise UnsupportedRecords("it contains maps of a virtual machine")
    end = min(start + length, 2**64 - 1)
    return MapRecord(pid, start, end, offset, _read_text(record, name_at), mode == KERNEL, executable, build_id)


def _read_text(record: memoryview, at: int) -> bytes:
    return bytes(record[at:]).split(b"\0", 1)[0]
