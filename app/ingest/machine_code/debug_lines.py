"""Lines and inlined functions of machine code, from DWARF.

Only the units that contain wanted functions are read. Terms as in the DWARF 5 standard: a unit is a compiled source
file; its line program (section 6.2) assigns lines to addresses; an inlined subroutine (3.3.8) is an entry with ranges
of addresses, and with the line that called it.
"""

import posixpath
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...domain.arrays import Array
from .debug_entries import (
    CALL_FILE,
    CALL_LINE,
    LOW_PC,
    RANGES,
    TAG_INLINED,
    TAG_SUBPROGRAM,
    DebugSections,
    DebugUnit,
    Entry,
)
from .elf import DAMAGED
from .line_program import run_line_program

MAX_DEPTH = 200
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

    def __init__(self, dwarf: Any, deadline_s: float) -> None:
        self._dwarf = dwarf
        self._sections = DebugSections(dwarf)
        self._deadline_s = deadline_s
        self._units: list[tuple[int, int, Any]] | None = None
        self._aranges: Any = None
        self.damaged = 0
        """How many units could not be read."""
        try:
            self._aranges = dwarf.get_aranges()
        except DAMAGED:
            self.damaged += 1

    def find_units(self, starts: Sequence[int]) -> dict[int, list[int]]:
        """The given starts of functions by the offset of their unit. Functions without a unit are left out."""
        found: dict[int, list[int]] = {}
        rest = []
        for start in starts:
            offset = None if self._aranges is None else self._aranges.cu_offset_at_addr(start)
            if offset is None:
                rest.append(start)
            else:
                found.setdefault(int(offset), []).append(start)
        if rest:
            ranges = self._unit_ranges()
            lows = np.array([low for low, _, _ in ranges], np.uint64)
            for start in rest:
                place = int(np.searchsorted(lows, np.uint64(start), "right")) - 1
                if place >= 0 and start < ranges[place][1]:
                    found.setdefault(ranges[place][2], []).append(start)
        return found

    def read_lines(self, offset: int) -> LineRows:
        """The line program of the unit at an offset."""
        unit = self._dwarf.get_CU_at(offset)
        program = self._dwarf.line_program_for_CU(unit)
        if program is None:
            return LineRows(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64), ())
        program.stream.seek(program.program_start_offset)
        code = program.stream.read(program.program_end_offset - program.program_start_offset)
        address, number_of, line = run_line_program(
            code, program.header, little_endian=self._dwarf.config.little_endian, check=self._check_time
        )
        files = _list_files(unit, program)
        # Where one sequence ends and another begins, the latter has the code.
        order = np.lexsort((number_of >= 0, address))
        address, number_of = address[order], number_of[order]
        first = 0 if program.header["version"] >= 5 else 1
        file = np.where((number_of >= first) & (number_of - first < len(files)), number_of - first, -1)
        line = np.clip(line[order], 0, 2**31 - 1)
        return LineRows(address, file, line, tuple(files))

    def list_scopes(self, offset: int, starts: Sequence[int]) -> dict[int, list[InlinedCall]]:
        """The inlined calls in functions of a unit, by the start of the function; callers before what they call."""
        header = self._dwarf.get_CU_at(offset)
        unit = DebugUnit(self._sections, header, self._check_time)
        program = self._dwarf.line_program_for_CU(header)
        files = _list_files(header, program) if program is not None else []
        first = 0 if program is not None and program.header["version"] >= 5 else 1
        wanted = set(starts)
        found: dict[int, list[InlinedCall]] = {}
        # Looking for functions in functions reads the variables of all functions, which few programs need.
        for nested in (False, True):
            for function in self._functions(unit, unit.top, 0, nested=nested):
                for start in {low for low, _ in unit.list_ranges(function)} & wanted:
                    scopes: list[InlinedCall] = []
                    self._collect(unit, function, -1, scopes, files, first, 0)
                    found[start] = scopes
                    wanted.discard(start)
                if not wanted:
                    return found
        return found

    def _functions(self, unit: DebugUnit, parent: Entry, depth: int, *, nested: bool) -> Iterator[Entry]:
        """The functions in an entry. nested: also those in functions."""
        for entry in unit.iterate_children(parent, _FUNCTIONS_AND_SCOPES):
            if entry.tag == TAG_SUBPROGRAM:
                if _has_code(entry):
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
        files: list[str],
        first: int,
        depth: int,
    ) -> None:
        if depth > MAX_DEPTH:
            return
        for child in unit.iterate_children(entry, _CALLS_AND_BLOCKS):
            if child.tag == TAG_INLINED:
                ranges = tuple(unit.list_ranges(child))
                number = _number(child, CALL_FILE) - first
                file = files[number] if 0 <= number < len(files) else ""
                scopes.append(InlinedCall(parent, unit.name_of(child), file, _number(child, CALL_LINE), ranges))
                self._collect(unit, child, len(scopes) - 1, scopes, files, first, depth + 1)
            else:
                self._collect(unit, child, parent, scopes, files, first, depth + 1)

    def _unit_ranges(self) -> list[tuple[int, int, int]]:
        """(start, end, offset) of the code of all units, by start."""
        if self._units is None:
            self._units = []
            for header in self._dwarf.iter_CUs():
                self._check_time()
                try:
                    unit = DebugUnit(self._sections, header, self._check_time)
                    self._units += [(low, high, unit.offset) for low, high in unit.list_ranges(unit.top)]
                except DAMAGED:
                    self.damaged += 1
            self._units.sort()
        return self._units

    def _check_time(self) -> None:
        if time.process_time() > self._deadline_s:
            raise OutOfTime


def _has_code(entry: Entry) -> bool:
    return LOW_PC in entry.values or RANGES in entry.values


def _number(entry: Entry, attribute: int) -> int:
    value = entry.values.get(attribute, (0, 0))[1]
    return min(value, 2**31 - 1) if isinstance(value, int) and value > 0 else 0


def _list_files(unit: Any, program: Any) -> list[str]:
    """The paths of the files of a line program, absolute if the compiler recorded its directory."""
    top = unit.get_top_DIE().attributes
    directory = _text(top["DW_AT_comp_dir"].value) if "DW_AT_comp_dir" in top else ""
    header = program.header
    known = [_text(name) for name in header["include_directory"]]
    # Before version 5, directory 0 is that of the compilation and not listed.
    directories = known if header["version"] >= 5 else [directory, *known]
    files = []
    for entry in header["file_entry"]:
        number = entry["dir_index"] or 0
        inside = directories[number] if 0 <= number < len(directories) else ""
        files.append(posixpath.normpath(posixpath.join(directory, inside, _text(entry["name"]))))
    return files


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
