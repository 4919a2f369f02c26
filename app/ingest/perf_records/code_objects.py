"""What addresses of a recording are looked up in, and the symbols that were found."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ...domain.arrays import Array


class ObjectKind(StrEnum):
    """How the symbols of a code object are found."""

    FILE = "file"
    KERNEL = "kernel"
    MODULE = "module"
    """Of the kernel."""
    VDSO = "vdso"
    PERF_MAP = "perf map"
    """Code of a just-in-time compiler, whose symbols /tmp/perf-PID.map lists."""
    JIT_DUMP = "jit dump"
    """Code that is in a file jit-PID.dump, of which `path` is the path."""


@dataclass(frozen=True)
class CodeObject:
    """A file or other source of machine code that was mapped.

    path: as recorded ("/usr/bin/x", "[kernel.kallsyms]", "[vdso]", "//anon"). build_id: hexadecimal digits, of the
    MMAP2 record or of the feature BUILD_ID. pid: of the process for a PERF_MAP or JIT_DUMP, else 0. text_start: the
    address of _text or _stext at recording time for a KERNEL, the start of its map for a MODULE, else 0.
    """

    kind: ObjectKind
    path: str
    build_id: str | None = None
    pid: int = 0
    text_start: int = 0

    @property
    def is_in_kernel(self) -> bool:
        """Whether perf prints addresses in it as they are."""
        return self.kind in (ObjectKind.KERNEL, ObjectKind.MODULE)


@dataclass(frozen=True, eq=False)
class SymbolNames:
    """Symbols of addresses.

    row: int64, for each address the index into `names`, -1 without a symbol. names: as perf script prints them.
    starts: uint64, for each name where the symbol starts, in the address space of the addresses.
    """

    row: Array
    names: list[str]
    starts: Array


@dataclass(frozen=True, eq=False)
class JitLoads:
    """When code of a JIT_DUMP was where. has_times: whether `time` is of CLOCK_MONOTONIC. time (ns), start, size,
    place: uint64, of each piece of code, in order; `place` is its offset in the file."""

    has_times: bool
    time: Array
    start: Array
    size: Array
    place: Array


JitSource = Callable[[CodeObject], JitLoads | None]
"""Reads a JIT_DUMP; None if it is not there."""
SymbolSource = Callable[[CodeObject, Array], SymbolNames]
"""Finds the symbols of addresses (uint64, sorted, unique) in a code object.

Addresses in a FILE, MODULE, VDSO or JIT_DUMP are offsets in the file (address - start of the map + offset of the map);
in a KERNEL or PERF_MAP, the addresses themselves.
"""
