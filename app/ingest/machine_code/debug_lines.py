"""Lines and inlined functions of machine code, from DWARF.

Only the units that contain wanted functions are read. Terms as in the DWARF 5 standard: a unit is a compiled source
file; its line program (section 6.2) assigns lines to addresses; an inlined subroutine (3.3.8) is an entry with ranges
of addresses, and with the line that called it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array
from .abbreviations import CALL_FILE, CALL_LINE, COMP_DIR, STMT_LIST
from .debug_entries import TAG_INLINED, TAG_SUBPROGRAM, DebugUnit, Entry
from .debug_sections import AddressRanges, DebugSections
from .elf import DAMAGED
from .line_header import LineHeader, read_line_header
from .line_program import run_line_program

MAX_DEPTH = 200
_CLOCK_EVERY = 64
"""Checks of the time between two looks at the clock."""
_FUNCTIONS_AND_SCOPES = frozenset({TAG_SUBPROGRAM, 0x39, 0x02, 0x13, 0x1E, 0x17})
"""And DW_TAG_namespace, class_type, structure_type, module, union_type."""
_CALLS_AND_BLOCKS = frozenset({TAG_INLINED, 0x0B, 0x32, 0x25})
"""And DW_TAG_lexical_block, try_block, catch_block."""


class OutOfTime(Exception):
    """The debug information takes longer to read than allowed."""


class InlinedCall(NamedTuple):
    """An inlined call. parent: its index, -1 in the function itself. function: raw name of the inlined function.
    file, line: of the call. ranges: [start, end) of its code."""

    parent: int
    function: str
    file: str
    line: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class LineRows:
    """Rows of line programs by address. address: uint64. file: index in `files`, -1 where the code of a sequence ends.
    line: 0 if unknown."""

    address: Array
    file: Array
    line: Array
    files: tuple[str, ...]

    def find(self, address: Array) -> tuple[Array, Array]:
        """(file, line) of each address; file -1 if unknown."""
        if not len(self.address):
            return np.full(len(address), -1), np.zeros(len(address), np.int64)
        row = np.searchsorted(self.address, address, "right") - 1
        file = np.where(row >= 0, self.file[np.maximum(row, 0)], -1)
        return file, np.where(file >= 0, self.line[np.maximum(row, 0)], 0)


class DebugLines:
    """The debug information of a binary. deadline_s: CPU time of this process until which it may be read."""

    def __init__(self, sections: DebugSections, deadline_s: float) -> None:
        self._sections, self._deadline_s = sections, deadline_s
        self._units: dict[int, tuple[DebugUnit, LineHeader | None]] = {}
        self._checks = 0
        self.damaged = 0
        """How many units could not be read."""

    def find_units(self, starts: Sequence[int]) -> dict[int, list[int]]:
        """The given starts of functions by the offset of their unit. Functions without a unit are left out."""
        wanted = np.array(starts, np.uint64)
        listed = self._sections.read_address_ranges()
        unit_of = listed.find(wanted)
        rest = np.flatnonzero(unit_of < 0)
        if len(rest):
            unit_of[rest] = self._list_ranges(set(listed.unit.tolist())).find(wanted[rest])
        found: dict[int, list[int]] = {}
        for start, offset in zip(starts, unit_of.tolist(), strict=True):
            if offset >= 0:
                found.setdefault(offset, []).append(start)
        return found

    def read_lines(self, offset: int) -> LineRows:
        """The line program of the unit at an offset."""
        _, header = self._open_unit(offset)
        if header is None:
            return LineRows(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), ())
        is_little = self._sections.order == "<"
        address, number_of, line = run_line_program(header, little_endian=is_little, check=self._check_time)
        # Where one sequence ends and another begins, the latter has the code.
        order = np.lexsort((number_of >= 0, address))
        address, number_of = address[order], number_of[order] - header.first_file
        file = np.where((number_of >= 0) & (number_of < len(header.files)), number_of, -1)
        line = np.clip(line[order], 0, 2**31 - 1)
        return LineRows(address, file, line, header.files)

    def list_scopes(self, offset: int, starts: Sequence[int]) -> dict[int, list[InlinedCall]]:
        """The inlined calls in functions of a unit, by the start of the function; callers before what they call."""
        unit, header = self._open_unit(offset)
        wanted = set(starts)
        found: dict[int, list[InlinedCall]] = {}
        # Looking for functions in functions reads the variables of all functions, which few programs need.
        for nested in (False, True):
            for function in self._functions(unit, unit.top, 0, nested=nested):
                for start in {low for low, _ in unit.list_ranges(function)} & wanted:
                    scopes: list[InlinedCall] = []
                    self._collect(unit, function, -1, scopes, header, 0)
                    found[start] = scopes
                    wanted.discard(start)
                if not wanted:
                    return found
        return found

    def _open_unit(self, offset: int) -> tuple[DebugUnit, LineHeader | None]:
        """(the unit at an offset, the header of its line program)."""
        if offset not in self._units:
            # One unit is read after another.
            self._units.clear()
            unit = DebugUnit(self._sections, self._sections.read_header(offset), self._check_time)
            header, values = None, unit.top.values
            if STMT_LIST in values:
                directory = unit.text_of(values[COMP_DIR]) if COMP_DIR in values else ""
                header = read_line_header(self._sections, values[STMT_LIST][1], unit, directory)
            self._units[offset] = unit, header
        return self._units[offset]

    def _functions(self, unit: DebugUnit, parent: Entry, depth: int, *, nested: bool) -> Iterator[Entry]:
        """The functions in an entry. nested: also those in functions."""
        for entry in unit.iterate_children(parent, _FUNCTIONS_AND_SCOPES, with_code=not nested):
            if entry.tag == TAG_SUBPROGRAM:
                yield entry
                # A function may contain others, such as those of closures, also one that is inlined everywhere.
                if nested and entry.has_children and depth < MAX_DEPTH:
                    yield from self._functions(unit, entry, depth + 1, nested=nested)
            elif entry.has_children and depth < MAX_DEPTH:
                yield from self._functions(unit, entry, depth + 1, nested=nested)

    def _collect(
        self,
        unit: DebugUnit,
        entry: Entry,
        parent: int,
        scopes: list[InlinedCall],
        header: LineHeader | None,
        depth: int,
    ) -> None:
        if depth > MAX_DEPTH:
            return
        for child in unit.iterate_children(entry, _CALLS_AND_BLOCKS):
            inside = parent
            if child.tag == TAG_INLINED:
                number = _number(child, CALL_FILE) - (header.first_file if header else 0)
                file = header.files[number] if header and 0 <= number < len(header.files) else ""
                ranges = tuple(unit.list_ranges(child))
                scopes.append(InlinedCall(parent, unit.name_of(child), file, _number(child, CALL_LINE), ranges))
                inside = len(scopes) - 1
            if child.has_children:
                self._collect(unit, child, inside, scopes, header, depth + 1)

    def _list_ranges(self, known: set[int]) -> AddressRanges:
        """The code of units, by their first entries. known: the offsets of those whose code is listed elsewhere:
        compilers list all code of a unit, or none."""
        ranges: list[tuple[int, int, int]] = []
        for header in self._sections.list_headers(self._check_time):
            self._check_time()
            if header.offset in known:
                continue
            try:
                unit = DebugUnit(self._sections, header, self._check_time)
                ranges += [(low, high, unit.offset) for low, high in unit.list_ranges(unit.top)]
            except DAMAGED:
                self.damaged += 1
        ranges.sort()
        low, high, offset = zip(*ranges, strict=True) if ranges else ((), (), ())
        return AddressRanges(np.array(low, np.uint64), np.array(high, np.uint64), np.array(offset, np.int64))

    def _check_time(self) -> None:
        # The clock of the process is a system call, which may take as long as reading 50 entries.
        self._checks += 1
        if self._checks % _CLOCK_EVERY == 1 and time.process_time() > self._deadline_s:
            raise OutOfTime


def _number(entry: Entry, attribute: int) -> int:
    value = entry.values.get(attribute, (0, 0))[1]
    return min(value, 2**31 - 1) if isinstance(value, int) and value > 0 else 0
