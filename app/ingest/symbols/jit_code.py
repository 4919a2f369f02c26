"""Machine code and lines of a just-in-time compiler, from its dump (see `jit_dump`).

Addresses are places in the file: an address of the process may have had several functions, one after another.
"""

import platform
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...domain.arrays import Array
from ..machine_code.debug_lines import LineRows
from ..machine_code.elf import MACHINES, Symbols
from .jit_dump import JitDump, parse_jit_dump

_THIS_MACHINE = {"x86_64": "x64", "aarch64": "AArch64"}


@dataclass(eq=False)
class JitCode:
    """The code of a dump, see `GeneratedCode`."""

    data: bytes
    dump: JitDump
    machine: str
    symbols: Symbols
    build_id: str | None = None

    @property
    def is_little_endian(self) -> bool:
        return self.dump.order == "<"

    def read(self, start: int, size: int) -> bytes:
        """See GeneratedCode."""
        return self.data[start : start + size]

    def name_at(self, place: int) -> str:
        """See GeneratedCode."""
        return self.symbols.name_of(int(np.searchsorted(self.symbols.start, np.uint64(place))))

    @cached_property
    def _first_addresses(self) -> dict[int, int]:
        pairs = zip(self.dump.place.tolist()[::-1], self.dump.start.tolist()[::-1], strict=True)
        return dict(pairs)

    @cached_property
    def _by_start(self) -> Array:
        """The rows of the dump by start, of several at one start the last one last."""
        return np.argsort(self.dump.start, kind="stable")

    def find_address(self, place: int) -> int:
        """See GeneratedCode."""
        return self._first_addresses[place]

    def find_places(self, address: Array) -> Array:
        """See GeneratedCode."""
        if not len(self._by_start):
            return np.full(len(address), 2**64 - 1, np.uint64)
        at = np.searchsorted(self.dump.start[self._by_start], address, "right") - 1
        row = self._by_start[np.maximum(at, 0)]
        offset = address - self.dump.start[row]
        inside = (at >= 0) & (offset < self.dump.size[row])
        found: Array = np.where(inside, self.dump.place[row] + offset, np.uint64(2**64 - 1))
        return found

    def read_lines(self, place: int) -> LineRows:
        """See GeneratedCode."""
        lines = self.dump.read_lines(self.data, place)
        number_of = {name: number for number, name in enumerate(dict.fromkeys(one.file for one in lines))}
        return LineRows(
            np.array([place + max(0, one.offset) for one in lines], np.uint64),
            np.array([number_of[one.file] for one in lines], np.int64),
            np.array([one.line for one in lines], np.int64),
            tuple(number_of),
        )


def open_jit_code(data: bytes) -> JitCode | None:
    """The code in a dump; None for another file."""
    dump = parse_jit_dump(data)
    if dump is None:
        return None
    # Python writes no kind of machine. The dump is read where it was written.
    machine = MACHINES.get(dump.machine, f"machine {dump.machine}")
    if not dump.machine:
        machine = _THIS_MACHINE.get(platform.machine(), platform.machine())
    table = dump.table
    return JitCode(data, dump, machine, Symbols(table.start, table.end, table.name, table.names))
