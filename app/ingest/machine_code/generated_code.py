"""What is needed of code that a program generated while it ran."""

from typing import Protocol

from ...domain.arrays import Array
from .debug_lines import LineRows
from .elf import Symbols


class GeneratedCode(Protocol):
    """Code of a just-in-time compiler. Its addresses are places in a file: one of the process may have had several
    functions, one after another. machine, build_id: as in `Binary`. symbols: the functions by place."""

    machine: str
    symbols: Symbols
    build_id: str | None

    @property
    def is_little_endian(self) -> bool: ...

    def read(self, start: int, size: int) -> bytes:
        """Machine code from a place on."""

    def name_at(self, place: int) -> str:
        """The raw name of the function at a place."""

    def find_address(self, place: int) -> int:
        """Where in memory the code at a place was loaded first."""

    def find_places(self, address: Array) -> Array:
        """The place of the code that was last loaded at each address of the process; the greatest uint64 for none."""

    def read_lines(self, place: int) -> LineRows:
        """The lines of the function at a place; empty without any."""
