"""The names of threads and the maps of processes over the time of a recording."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array, Int64Array, sort_distinct
from .address_maps import AddressSpace, KernelSpace, Mapping, UserMappings
from .code_objects import ObjectKind
from .jit_maps import JitMaps
from .task_records import ForkRecord, KernelSymbolRecord, LostRecord, NameRecord, TaskRecord
from .unsupported import UnsupportedRecords

MAX_SPACES = 1 << 17
MAX_MAPPINGS, MAX_IN_SPACE = 1 << 22, 1 << 17
"""Of all states together, and of one."""
IDLE_NAME = b"swapper"
_PART = 1 << 18
"""How many values are looked up at once, to need little memory."""
_MOST_IN_TABLE = 1 << 22
"""Numbers of tasks up to this one are looked up in a table: the largest that Linux gives (pid_max)."""
_END = 2**63 - 1
"""A position after all records."""


class _Change(NamedTuple):
    """From a position on, a task has another value."""

    task: int
    position: int
    value: int


class _Timeline:
    """Values of tasks over time."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []

    def set(self, task: int, position: int, value: int) -> None:
        self._changes.append(_Change(task, position, value))

    def look_up(self, tasks: Array, positions: Int64Array) -> Array:
        """The value (int32) of each task at its position, -1 before the first one."""
        result = np.full(len(tasks), -1, np.int32)
        if not self._changes or not len(tasks):
            return result
        columns = np.array(self._changes, np.int64)
        numbers = sort_distinct(columns[:, 0].astype(tasks.dtype))
        width = max(int(columns[:, 1].max()), int(positions.max())) + 2
        keys = np.searchsorted(numbers, columns[:, 0]) * width + columns[:, 1]
        order = np.argsort(keys, kind="stable")
        keys, task, value = keys[order], columns[order, 0], columns[order, 2]

        def find(number: Array, position: Array) -> Array:
            """The last change of each task up to a position, -1 without one."""
            wanted = number.astype(np.int64) * width + position
            at = np.searchsorted(keys, wanted, "right") - 1
            at[(at >= 0) & (task[at] != numbers[number])] = -1
            return at

        number_of = _number_tasks(numbers)
        every = np.arange(len(numbers))

        def get_values(at: Array) -> Array:
            return np.where(at >= 0, value[at], -1).astype(np.int32)

        for start in range(0, len(tasks), _PART):
            part = slice(start, start + _PART)
            position, number = positions[part], number_of(tasks[part])
            first, last = find(every, position.min()), find(every, position.max())
            result[part] = np.append(get_values(first), np.int32(-1))[number]
            # Few tasks change between two samples of a part.
            changes = np.append(first != last, False)
            if changes.any() and len(changed := np.flatnonzero(changes[number])):
                result[start + changed] = get_values(find(number[changed], position[changed]))
        return result


def _number_tasks(numbers: Array) -> Callable[[Array], Array]:
    """A function for the places of tasks (int32) in `numbers`, which ascend; after the last for another task."""
    count = len(numbers)
    if numbers[0] < 0 or numbers[-1] > _MOST_IN_TABLE:

        def search(tasks: Array) -> Array:
            at = np.minimum(np.searchsorted(numbers, tasks), count - 1)
            return np.where(numbers[at] == tasks, at, count)

        return search
    table = np.full(int(numbers[-1]) + 2, count, np.int32)
    table[numbers] = np.arange(count)
    # Tasks below zero are above all others, too.
    return lambda tasks: table.take(tasks.view(np.uint32), mode="clip")


class TaskHistory:
    """What the records of tasks say.

    spaces: the states of address spaces that samples refer to; the first is empty. names: of threads. lost: how many
    records the kernel lost, each time.
    """

    def __init__(self, build_ids: dict[str, str], sample_positions: dict[int, Int64Array], jit: JitMaps) -> None:
        """build_ids: of the whole recording, by path. sample_positions: of the samples of each process, ascending."""
        self._build_ids, self._jit = build_ids, jit
        self._user_mappings = UserMappings(build_ids)
        self._sample_positions = sample_positions
        self.kernel = KernelSpace()
        self.spaces: list[AddressSpace] = [AddressSpace()]
        self.names: list[bytes] = []
        self.lost: list[int] = []
        self._name_codes: dict[bytes, int] = {}
        self._thread_names: dict[int, int] = {0: self._encode(IDLE_NAME)}
        self._name_times = _Timeline()
        self._name_times.set(0, 0, self._thread_names[0])
        self._space_times = _Timeline()
        self._current: dict[int, tuple[int, int]] = {}
        self._shared = {0}
        self._size = 0

    def feed(self, records: Iterable[tuple[int, TaskRecord]]) -> None:
        """Take in records, each with its position, in the order of their delivery. Raises UnsupportedRecords."""
        for position, record in records:
            self._add_jit(position)
            if isinstance(record, NameRecord):
                self._name(record.tid, position, record.name)
            elif isinstance(record, ForkRecord):
                self._fork(record, position)
            elif isinstance(record, LostRecord):
                self.lost.append(record.record_count)
            elif isinstance(record, KernelSymbolRecord):
                self.kernel.add_symbol(record)
            elif record.in_kernel:
                self.kernel.add_map(record, self._build_ids)
            elif not self._jit.take(record, position):
                self._map(record.pid, position, record.start, record.end, self._user_mappings.make(record))
        self._add_jit(_END)

    def look_up_names(self, tids: Array, positions: Int64Array) -> Array:
        """The index in `names` of each thread's name at a position, -1 for a thread without one."""
        return self._name_times.look_up(tids, positions)

    def look_up_spaces(self, pids: Array, positions: Int64Array) -> Array:
        """The index in `spaces` of each process's address space at a position."""
        return np.maximum(self._space_times.look_up(pids, positions), 0)

    def _encode(self, name: bytes) -> int:
        code = self._name_codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code

    def _name(self, tid: int, position: int, name: bytes) -> None:
        self._thread_names[tid] = self._encode(name)
        self._name_times.set(tid, position, self._thread_names[tid])

    def _fork(self, record: ForkRecord, position: int) -> None:
        name = self._thread_names.get(record.parent_tid, -1)
        if name < 0:
            self._thread_names.pop(record.tid, None)
        else:
            self._thread_names[record.tid] = name
        self._name_times.set(record.tid, position, name)
        if record.pid == record.parent_pid:
            return
        number = self._current[record.parent_pid][0] if record.copies_maps and record.parent_pid in self._current else 0
        self._shared.add(number)
        self._set_space(record.pid, position, number)

    def _set_space(self, pid: int, position: int, number: int) -> None:
        self._current[pid] = number, position
        self._space_times.set(pid, position, number)

    def _add_jit(self, position: int) -> None:
        """Add the code that just-in-time compilers loaded up to a position."""
        for one in self._jit.pop(position):
            self._map(one.pid, one.position, one.start, one.end, one.mapping)

    def _map(self, pid: int, position: int, start: int, end: int, mapping: Mapping) -> None:
        number, since = self._current.get(pid, (0, 0))
        # Before code was loaded where no other was, no sample can be in it: then one state shows both times.
        is_new = mapping.object.kind is ObjectKind.JIT_DUMP and self.spaces[number].is_free(start, end)
        if number in self._shared or (not is_new and self._has_samples(pid, since, position)):
            space = self.spaces[number].copy()
            self._size += len(space.starts)
            number = len(self.spaces)
            self.spaces.append(space)
            self._set_space(pid, position, number)
        self._size += 1
        many = len(self.spaces[number].starts) > MAX_IN_SPACE
        if many or len(self.spaces) > MAX_SPACES or self._size > MAX_MAPPINGS:
            raise UnsupportedRecords("its processes changed their memory very often")
        self.spaces[number].add(start, end, mapping)

    def _has_samples(self, pid: int, start: int, end: int) -> bool:
        """Whether a process has samples between two positions."""
        positions = self._sample_positions.get(pid)
        if positions is None:
            return False
        return bool(positions.searchsorted(start) < positions.searchsorted(end))
