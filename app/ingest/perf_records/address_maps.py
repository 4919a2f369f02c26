"""Which code object is mapped at an address: in a process at a time, and in the kernel.

Like perf (tools/perf/util/maps.c of Linux), an exec does not remove maps: it only covers those that the new program
overlaps.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from .code_objects import CodeObject, ObjectKind
from .task_records import KernelSymbolRecord, MapRecord

KERNEL_NAME = "[kernel.kallsyms]"
ANONYMOUS = ("//anon", "/dev/zero", "/anon_hugepage")
_WITHOUT_FILE = ("[stack", "/SYSV", "[heap]")
_VDSO = ("[vdso]", "[vdso32]", "[vdsox32]")
_X86_KERNEL, _X86_MODULES = 0xFFFFFFFF80000000, 0xFFFFFFFFC0000000
"""x86-64: where the kernel may be, and where its modules begin (Linux, Documentation/arch/x86/x86_64/mm.rst)."""
_MODULE_ENDINGS = (".gz", ".xz", ".bz2", ".zst")


@dataclass(frozen=True)
class Mapping:
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

    def find(self, addresses: Array) -> Int64Array:
        """The index of the mapping at each address (uint64), -1 where there is none."""
        if not self.starts:
            return np.full(len(addresses), -1)
        starts, ends = np.array(self.starts, np.uint64), np.array(self.ends, np.uint64)
        at = np.searchsorted(starts, addresses, "right") - 1
        inside = (at >= 0) & (addresses < ends[at])
        return np.where(inside, at, -1)


def make_user_mapping(record: MapRecord, build_ids: dict[str, str]) -> Mapping:
    """What a map of a process shows. build_ids: of the whole recording, by path."""
    path = record.path.decode("utf-8", "surrogateescape")
    anonymous = path.startswith(ANONYMOUS)
    build_id = record.build_id or build_ids.get(path)
    if path in _VDSO:
        return Mapping(CodeObject(ObjectKind.VDSO, path, build_id), path, -record.start)
    if path.startswith(_WITHOUT_FILE):
        return Mapping(CodeObject(ObjectKind.FILE, path), path, 0)
    if anonymous:
        # The label is that of the file which a just-in-time compiler writes.
        label = f"/tmp/perf-{record.pid}.map" if record.executable else path
        kind = ObjectKind.PERF_MAP if record.executable else ObjectKind.FILE
        return Mapping(CodeObject(kind, label, pid=record.pid), label, 0)
    return Mapping(CodeObject(ObjectKind.FILE, path, build_id), path, record.offset - record.start)


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
        place = self.space.find(np.array([record.start], np.uint64))[0]
        if record.size and (place < 0 or self.space.mappings[place].symbol is not None):
            name = record.name.decode("utf-8", "surrogateescape")
            added = Mapping(CodeObject(ObjectKind.KERNEL, name), name, -record.start, symbol=name)
            self.space.add(record.start, record.start + record.size, added)


def _find_module_name(path: str) -> str:
    """The name of the kernel module in a file: "nf_tables" for "/lib/modules/…/nf-tables.ko.xz"."""
    name = path.rpartition("/")[2]
    for ending in _MODULE_ENDINGS:
        name = name.removesuffix(ending)
    return name.removesuffix(".ko").replace("-", "_")
