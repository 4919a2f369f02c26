"""Reads the machine code, lines and inlined calls of functions of one binary."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, number_values
from ...domain.arrow import functions as pc
from ...domain.schemas.code import Code, CodeStatus
from ...domain.symbols.demangler import Demangler
from ...domain.text import shorten
from .code_tables import make_table, transpose
from .debug_lines import DebugLines, InlinedCall, LineRows, OutOfTime
from .debug_sections import MAX_BYTES, NAMES, DebugSections
from .disassembly import Disassembler, Instructions
from .elf import DAMAGED, Binary
from .elf_image import ElfImage
from .generated_code import GeneratedCode

BATCH_BYTES = 128 << 10
"""Of functions that are disassembled together."""
MAX_FUNCTION_BYTES = 8 << 20
MAX_NAME = 100
UNKNOWN = np.uint64(2**64 - 1)


@dataclass
class FunctionReader:
    """Collects the rows of `Code` of one binary. deadline_s: CPU time of this process until which debug information may
    be read. max_instructions: about so many are read."""

    binary: Binary | GeneratedCode
    deadline_s: float
    demangler: Demangler
    max_instructions: int
    symbols: list[tuple[int, str, int, int]] = field(default_factory=list)
    instructions: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)
    """Of each function: symbol, address, bytes, target; the greatest target is unknown."""
    texts: list[pa.StringArray] = field(default_factory=list)
    target_names: dict[int, str] = field(default_factory=dict)
    """By row of all instructions: the functions outside that they jump to or call."""
    instruction_count: int = 0
    instruction_places: list[Array] = field(default_factory=list)
    places: dict[tuple[int, str, int, int], int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    unread: set[int] = field(default_factory=set)
    """The starts of functions whose lines could not be read."""
    left_out: int = 0
    """How many functions have too many instructions."""
    status: CodeStatus = CodeStatus.NO_LINES
    detail: str = ""
    """What concerns all functions of the binary."""
    failure: str = ""
    """What could not be read."""

    def read(self, rows: Array) -> Code:
        """The code of functions: rows of the symbols of the binary. It has neither objects nor frames."""
        engine = Disassembler(self.binary.machine, self.binary.is_little_endian)
        if not engine.is_known:
            self.detail = f"Code of {self.binary.machine} cannot be disassembled."
            return Code()
        addresses: dict[int, Array] = {}
        batch: list[int] = []
        batch_bytes = 0
        for row in rows.tolist():
            size = int(self.binary.symbols.end[row]) - int(self.binary.symbols.start[row])
            if self.instruction_count > self.max_instructions or size > MAX_FUNCTION_BYTES:
                self.left_out += 1
                continue
            batch.append(row)
            batch_bytes += size
            if batch_bytes > BATCH_BYTES:
                addresses |= self._disassemble(engine, batch)
                batch, batch_bytes = [], 0
        addresses |= self._disassemble(engine, batch)
        if isinstance(self.binary, Binary):
            self._add_lines(self.binary, addresses)
        else:
            self._add_jit_lines(self.binary, addresses)
        return self._finish()

    def _disassemble(self, engine: Disassembler, rows: Sequence[int]) -> dict[int, Array]:
        """Add functions together, which is faster. Returns the addresses of the instructions of each, by its start."""
        if not rows:
            return {}
        binary = self.binary
        starts, ends = binary.symbols.start[list(rows)], binary.symbols.end[list(rows)]
        code = [
            (binary.read(start, end - start), start) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        found = engine.disassemble(code)
        function = np.repeat(np.arange(len(rows)), found.count)
        target = np.full(len(found.address), UNKNOWN)
        jumps = found.jumps
        if not isinstance(binary, Binary):
            found = replace(found, targets=self._move_targets(binary, starts, ends, function[jumps], found))
        target[jumps] = found.targets
        self._name_targets(starts[function[jumps]], ends[function[jumps]], found)
        self.instructions.append((function + len(self.symbols), found.address, found.size, target))
        self.texts.append(found.texts)
        self.instruction_count += len(found.address)
        self.symbols += [
            (0, binary.symbols.name_of(row), start, end)
            for row, start, end in zip(rows, starts.tolist(), ends.tolist(), strict=True)
        ]
        return dict(zip(starts.tolist(), np.split(found.address, np.cumsum(found.count)[:-1]), strict=True))

    def _move_targets(
        self, code: GeneratedCode, start: Array, end: Array, function: Array, found: Instructions
    ) -> Array:
        """The targets of jumps as places of a dump. Those outside of their functions, [start, end), are relative to
        where the code was in memory; if there was none, the text gets the address. function: of each jump."""
        targets = found.targets.copy()
        outside = np.flatnonzero((targets < start[function]) | (targets >= end[function]))
        moved = [code.find_address(place) - place for place in start[function[outside]].tolist()]
        address = targets[outside] + np.array([one % 2**64 for one in moved], np.uint64)
        targets[outside] = code.find_places(address)
        for at, one in zip(outside.tolist(), address.tolist(), strict=True):
            if targets[at] == UNKNOWN:
                self.target_names[self.instruction_count + int(found.jumps[at])] = f" <{one:#x}>"
        return targets

    def _name_targets(self, start: Array, end: Array, found: Instructions) -> None:
        """Name the functions of the targets outside of the functions [start, end) that jump."""
        outside = np.flatnonzero((found.targets <= start) | (found.targets >= end))
        if not len(outside):
            return
        targets = found.targets[outside]
        rows = zip(
            found.jumps[outside].tolist(), targets.tolist(), self.binary.symbols.find(targets).tolist(), strict=True
        )
        for at, target, row in rows:
            if row >= 0 and target != int(UNKNOWN):
                offset = target - int(self.binary.symbols.start[row])
                name = shorten(self.demangler.format(self.binary.symbols.name_of(row)), MAX_NAME)
                self.target_names[self.instruction_count + at] = f" <{name}{f'+{offset:#x}' if offset else ''}>"

    def _add_lines(self, binary: Binary, addresses: dict[int, Array]) -> None:
        names = {start: self.symbols[place][1] for place, start in enumerate(addresses)}
        place_of = {start: np.full(len(found), -1, np.int32) for start, found in addresses.items()}
        self.unread = set(addresses)
        try:
            sections, self.detail = _open_debug(binary.debug)
            if sections is not None:
                self.status = CodeStatus.COMPLETE
                lines = DebugLines(sections, self.deadline_s)
                units = lines.find_units(list(addresses))
                self.unread = {start for starts in units.values() for start in starts}
                for offset, starts in units.items():
                    try:
                        rows = lines.read_lines(offset)
                        scopes = lines.list_scopes(offset, starts)
                    except DAMAGED:
                        lines.damaged += 1
                        continue
                    for start in starts:
                        place_of[start] = self._place(addresses[start], names[start], rows, scopes.get(start, []))
                        self.unread.discard(start)
                if lines.damaged:
                    self.failure = "Parts of its debug information are damaged."
            else:
                self.unread = set()
        except OutOfTime:
            self.failure = "Its debug information was not read completely, because that takes too long."
        except DAMAGED:
            self.failure = "Its debug information is damaged."
        self.instruction_places += place_of.values()

    def _add_jit_lines(self, code: GeneratedCode, addresses: dict[int, Array]) -> None:
        for start, found in addresses.items():
            rows = code.read_lines(start)
            if len(rows.files):
                self.status = CodeStatus.COMPLETE
            self.instruction_places.append(self._place(found, code.name_at(start), rows, ()))

    def _place(self, address: Array, name: str, rows: LineRows, scopes: Sequence[InlinedCall]) -> Array:
        """The row of `places` of each instruction of a function."""
        inside = _find_scopes(address, scopes)
        file, line = rows.find(address)
        calls: dict[int, int] = {-1: -1}

        def add_call(number: int) -> int:
            """The row of the place that called a scope."""
            if number not in calls:
                scope = scopes[number]
                function = scopes[scope.parent].function if scope.parent >= 0 else name
                calls[number] = self._intern_place(add_call(scope.parent), function, scope.file, scope.line)
            return calls[number]

        which, at = number_values(inside, file, line)
        interned = []
        for scope_number, number, line_number in zip(*(v[at].tolist() for v in (inside, file, line)), strict=True):
            if number < 0:
                interned.append(-1)
                continue
            function = scopes[scope_number].function if scope_number >= 0 else name
            interned.append(self._intern_place(add_call(scope_number), function, rows.files[number], line_number))
        return np.array(interned, np.int32)[which] if interned else np.zeros(0, np.int32)

    def _intern_place(self, parent: int, function: str, file: str, line: int) -> int:
        key = (parent, function, self.files.setdefault(file, len(self.files)), line)
        return self.places.setdefault(key, len(self.places))

    def _finish(self) -> Code:
        columns: dict[str, list[Any]] = {
            "symbols": transpose(self.symbols, 4),
            "instructions": self._join_instructions(),
            "places": transpose(list(self.places), 4),
            "files": [list(self.files), [None] * len(self.files), [None] * len(self.files)],
        }
        return Code(**{name: make_table(name, parts) for name, parts in columns.items()})

    def _join_instructions(self) -> list[Any]:
        """The columns of the table of instructions."""
        if not self.instructions:
            return [[] for _ in range(6)]
        symbol, address, size, target = (np.concatenate(column) for column in zip(*self.instructions, strict=True))
        targets = pa.array(target, pa.uint64(), mask=target == UNKNOWN)
        texts = pa.concat_arrays(self.texts)
        if self.target_names:
            rows = np.fromiter(self.target_names, np.int64)
            is_named = np.zeros(len(texts), bool)
            is_named[rows] = True
            named = pa.array([texts[row].as_py() + name for row, name in sorted(self.target_names.items())])
            texts = pc.replace_with_mask(texts, is_named, named)
        return [symbol, address, size, texts, targets, np.concatenate(self.instruction_places)]


def _find_scopes(address: Array, scopes: Sequence[InlinedCall]) -> Array:
    """The innermost scope of each instruction, -1 for none."""
    inside = np.full(len(address), -1)
    ranges = [(number, *one) for number, scope in enumerate(scopes) for one in scope.ranges]
    if ranges:
        number, low, high = zip(*ranges, strict=True)
        ends = (np.searchsorted(address, np.array(column, np.uint64)).tolist() for column in (low, high))
        for one, first, last in zip(number, *ends, strict=True):
            inside[first:last] = one
    return inside


def _open_debug(image: ElfImage) -> tuple[DebugSections | None, str]:
    """(the debug information of a binary, why there is none)."""
    found = [image.find_section(name) for name in NAMES]
    if found[0] is None or found[1] is None:
        return None, ""
    if sum(image.measure_section(section) for section in found if section is not None) > MAX_BYTES:
        return None, "Its debug information is larger than 1 GiB, and was not read."
    return DebugSections.of_image(image), ""
