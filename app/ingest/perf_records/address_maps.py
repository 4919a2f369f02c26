"""Which code object is mapped at an address: in a process at a time, and in the kernel.

Like perf (tools/perf/util/maps.c of Linux), an exec does not remove maps: it only covers those that the new program
overlaps.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array, Int64Array, rank_values, sort_distinct, sort_rows
from .code_objects import CodeObject, ObjectKind
from .task_records import KernelSymbolRecord, MapRecord

KERNEL_NAME = "[kernel.kallsyms]"
ANONYMOUS = ("//anon", "/dev/zero", "/anon_hugepage")
_WITHOUT_FILE = ("[stack", "/SYSV", "[heap]")
_VDSO = ("[vdso]", "[vdso32]", "[vdsox32]")
_X86_KERNEL, _X86_MODULES = 0xFFFFFFFF80000000, 0xFFFFFFFFC0000000
"""x86-64: where the kernel may be, and where its modules begin (Linux, Documentation/arch/x86/x86_64/mm.rst)."""
_AT_ONCE = 1 << 17
"""About how many mappings are searched at once, to need little memory."""
_MODULE_ENDINGS = (".gz", ".xz", ".bz2", ".zst")


class Mapping(NamedTuple):
    """A part of an address space. shift: added to an address it gives the address in the object. label: the name that
    perf prints for the object. symbol: that of all its addresses, None if they are looked up in the object."""

    object: CodeObject
    label: str
    shift: int
    symbol: str | None = None


class AddressSpace:
    """Disjoint mappings in the order of their addresses. It is shared until it is changed."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.mappings: list[Mapping] = []

    def copy(self) -> "AddressSpace":
        copied = AddressSpace()
        copied.starts, copied.ends, copied.mappings = self.starts[:], self.ends[:], self.mappings[:]
        return copied

    def add(self, start: int, end: int, mapping: Mapping) -> None:
        """Add a mapping. Of others only what lies outside of it remains."""
        if start >= end:
            return
        first = bisect_right(self.ends, start)
        last = bisect_left(self.starts, end)
        pieces = [(start, end, mapping)]
        if first < last:
            if self.starts[first] < start:
                pieces.insert(0, (self.starts[first], start, self.mappings[first]))
            if self.ends[last - 1] > end:
                pieces.append((end, self.ends[last - 1], self.mappings[last - 1]))
        self.starts[first:last] = [piece[0] for piece in pieces]
        self.ends[first:last] = [piece[1] for piece in pieces]
        self.mappings[first:last] = [piece[2] for piece in pieces]

    def is_free(self, start: int, end: int) -> bool:
        """Whether only memory without a file is mapped there."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        return all(mapping.object.kind is ObjectKind.PERF_MAP for mapping in self.mappings[first:last])

    def find(self, address: int) -> Mapping | None:
        """The mapping at an address."""
        at = bisect_right(self.starts, address) - 1
        return self.mappings[at] if at >= 0 and address < self.ends[at] else None


def find_mappings(
    spaces: Sequence[AddressSpace], number: Int64Array, addresses: Array
) -> tuple[Int64Array, list[Mapping]]:
    """(the index of the mapping at each address (uint64), -1 where there is none, the mappings). number: the space in
    `spaces` of each address."""
    which, found = np.full(len(addresses), -1), list[Mapping]()
    order = sort_rows(number)
    bounds = np.searchsorted(number[order], np.arange(len(spaces) + 1))
    for first, last in _group_spaces(spaces):
        rows = order[bounds[first] : bounds[last]]
        places, mappings = _find_in_spaces(spaces[first:last], number[rows] - first, addresses[rows])
        inside = places >= 0
        distinct, rank = rank_values(places[inside])
        which[rows[inside]] = len(found) + rank
        found += [mappings[place] for place in distinct.tolist()]
    return which, found


def _group_spaces(spaces: Sequence[AddressSpace]) -> Iterator[tuple[int, int]]:
    """Ranges of spaces that have not too many mappings together."""
    first = size = 0
    for last, space in enumerate(spaces, 1):
        size += len(space.starts)
        if size >= _AT_ONCE or last == len(spaces):
            yield first, last
            first, size = last, 0


def _find_in_spaces(
    spaces: Sequence[AddressSpace], number: Int64Array, addresses: Array
) -> tuple[Int64Array, list[Mapping]]:
    """Like `find_mappings`, but with all mappings."""
    mappings, starts, ends = (
        list(chain.from_iterable(getattr(space, name) for space in spaces)) for name in ("mappings", "starts", "ends")
    )
    if not mappings:
        return np.full(len(addresses), -1), mappings
    owner = np.repeat(np.arange(len(spaces)), [len(space.starts) for space in spaces])
    # Spaces and addresses have too many bits for one number, but not spaces and the ranks of starts.
    start = np.array(starts, np.uint64)
    bounds = sort_distinct(start)
    keys = owner * (len(bounds) + 1) + np.searchsorted(bounds, start) + 1
    wanted = number * (len(bounds) + 1) + np.searchsorted(bounds, addresses, "right")
    at = np.searchsorted(keys, wanted, "right") - 1
    inside = (at >= 0) & (owner[at] == number) & (addresses < np.array(ends, np.uint64)[at])
    return np.where(inside, at, -1), mappings


class _MappedFile(NamedTuple):
    """What maps of a path show. adds_offset, subtracts_start: whether addresses in it depend on these of the map."""

    object: CodeObject
    adds_offset: bool = False
    subtracts_start: bool = False


class UserMappings:
    """Makes the mappings of processes."""

    def __init__(self, build_ids: dict[str, str]) -> None:
        """build_ids: of the whole recording, by path."""
        self._build_ids = build_ids
        self._files: dict[tuple[bytes, str | None], _MappedFile | None] = {}

    def make(self, record: MapRecord) -> Mapping:
        """What a map of a process shows."""
        key = record.path, record.build_id
        if key not in self._files:
            self._files[key] = self._find_file(record.path.decode("utf-8", "surrogateescape"), record.build_id)
        file = self._files[key]
        if file is None:
            return _make_anonymous(record)
        shift = record.offset * file.adds_offset - record.start * file.subtracts_start
        return Mapping(file.object, file.object.path, shift)

    def _find_file(self, path: str, build_id: str | None) -> _MappedFile | None:
        """What is mapped; None for memory of its process."""
        build_id = build_id or self._build_ids.get(path)
        if path in _VDSO:
            return _MappedFile(CodeObject(ObjectKind.VDSO, path, build_id), subtracts_start=True)
        if path.startswith(_WITHOUT_FILE):
            return _MappedFile(CodeObject(ObjectKind.FILE, path))
        if path.startswith(ANONYMOUS):
            return None
        return _MappedFile(CodeObject(ObjectKind.FILE, path, build_id), adds_offset=True, subtracts_start=True)


def _make_anonymous(record: MapRecord) -> Mapping:
    if not record.executable:
        path = record.path.decode("utf-8", "surrogateescape")
        return Mapping(CodeObject(ObjectKind.FILE, path, pid=record.pid), path, 0)
    # The label is that of the file which a just-in-time compiler writes.
    label = f"/tmp/perf-{record.pid}.map"
    return Mapping(CodeObject(ObjectKind.PERF_MAP, label, pid=record.pid), label, 0)


class KernelSpace:
    """The maps of the kernel: its text, modules, and code that was added later. All processes share it, at all times
    of a recording, as in perf, which has it before the first sample."""

    def __init__(self) -> None:
        self.space = AddressSpace()

    def add_map(self, record: MapRecord, build_ids: dict[str, str]) -> None:
        path = record.path.decode("utf-8", "surrogateescape")
        if path.startswith(KERNEL_NAME):
            build_id = record.build_id or build_ids.get(KERNEL_NAME)
            kernel = CodeObject(ObjectKind.KERNEL, KERNEL_NAME, build_id, text_start=record.offset)
            # perf record notes the code up to _etext, but the code that starts the kernel and idle CPUs follows later.
            end = _X86_MODULES if _X86_KERNEL <= record.start < record.end < _X86_MODULES else record.end
            self.space.add(record.start, end, Mapping(kernel, KERNEL_NAME, 0))
            return
        label = path if path.startswith("[") else f"[{_find_module_name(path)}]"
        build_id = record.build_id or build_ids.get(path) or build_ids.get(label)
        module = CodeObject(ObjectKind.MODULE, path, build_id, text_start=record.start)
        self.space.add(record.start, record.end, Mapping(module, label, record.offset - record.start))

    def add_symbol(self, record: KernelSymbolRecord) -> None:
        """Add code with its own symbol. Within the kernel or a module, that has the symbol too."""
        place = self.space.find(record.start)
        if record.size and (place is None or place.symbol is not None):
            name = record.name.decode("utf-8", "surrogateescape")
            added = Mapping(CodeObject(ObjectKind.KERNEL, name), name, -record.start, symbol=name)
            self.space.add(record.start, record.start + record.size, added)


def _find_module_name(path: str) -> str:
    """The name of the kernel module in a file: "nf_tables" for "/lib/modules/…/nf-tables.ko.xz"."""
    name = path.rpartition("/")[2]
    for ending in _MODULE_ENDINGS:
        name = name.removesuffix(ending)
    return name.removesuffix(".ko").replace("-", "_")
