"""Builds `Code` for a profile from the binaries of its functions."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, BoolArray
from ...domain.arrow import functions as pc
from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.schemas.code import CODE_SCHEMAS, Code, CodeStatus
from ...domain.symbols.demangler import Demangler
from ...domain.tables import FrameKind, get_column, get_strings
from ...domain.text import shorten
from .debug_lines import DebugLines, InlinedCall, LineRows, OutOfTime
from .debug_sections import MAX_BYTES, NAMES, DebugSections
from .disassembly import Disassembler, Instructions
from .elf import DAMAGED, Binary, is_same_build, open_binary
from .elf_image import ElfImage
from .generated_code import GeneratedCode
from .placement import place_addresses

MAX_INSTRUCTIONS = 3_000_000
MAX_FUNCTION_BYTES = 8 << 20
BATCH_BYTES = 128 << 10
"""Of functions that are disassembled together."""
MAX_NAME = 100
UNKNOWN = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class ObjectFile:
    """A binary, or why there is none. build_id: of the recording, None if it is unknown. debug: a separate file with
    its debug information, opened by build id. generated: code that is in no binary, instead of `stream`."""

    stream: BinaryIO | None
    status: CodeStatus = CodeStatus.COMPLETE
    detail: str = ""
    build_id: str | None = None
    debug: Callable[[str], BinaryIO | None] = lambda build_id: None
    generated: GeneratedCode | None = None


@dataclass(frozen=True)
class SourceText:
    """The text of a source file, or why there is none."""

    text: str | None
    detail: str = ""


@dataclass
class CodeBuilder:
    """Collects the rows of `Code`. read_source: the text of a source file, by its path and the module that names it.
    deadline_s: CPU time of this process until which debug information may be read."""

    open_object: Callable[[str], ObjectFile]
    read_source: Callable[[str, str], SourceText]
    deadline_s: float
    demangler: Demangler = field(default_factory=Demangler)
    objects: list[tuple[str, str | None, str | None, str, str | None]] = field(default_factory=list)
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
    file_modules: list[str] = field(default_factory=list)
    """Of each file the module that named it first."""
    frames: list[tuple[Array, int, Array]] = field(default_factory=list)

    def build(self, profile: Profile) -> Code:
        """The code of all functions with samples, those of modules with the most samples first."""
        functions, frames = profile.functions, profile.frames
        function = get_column(frames, "function")
        names, modules = get_strings(functions, "name"), get_strings(functions, "module")
        address = frames.column("address").combine_chunks()
        known = address.is_valid().to_numpy(zero_copy_only=False)
        address_of = address.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
        offsets = frames.column("symbol_offset").combine_chunks()
        offset_of = offsets.fill_null(2**64 - 1).to_numpy(zero_copy_only=False).astype(np.uint64)
        kind = get_column(frames, "kind")
        code_of = {name: number for number, name in enumerate(dict.fromkeys(modules))}
        module = np.array([code_of[name] for name in modules], np.int64)[function] if len(names) else np.zeros(0, int)
        weight = self._count_samples(profile, module, len(code_of))
        parents = get_column(profile.stacks, "parent")[1:]
        calling = np.zeros(len(function) + 1, bool)
        calling[get_column(profile.stacks, "frame")[parents]] = True
        by_weight = sorted(code_of, key=lambda name: -weight[code_of[name]])
        for name in by_weight:
            rows = np.flatnonzero((module == code_of[name]) & known)
            rows = rows[kind[rows] != int(FrameKind.INLINED)]
            if len(rows):
                of_rows = [names[f] for f in function[rows].tolist()]
                self._add_module(name, rows, of_rows, address_of[rows], offset_of[rows], calling[rows])
        return self._finish()

    @staticmethod
    def _count_samples(profile: Profile, module: Array, count: int) -> Array:
        frame = get_column(profile.stacks, "frame")[get_column(profile.samples, "stack")]
        frame = frame[frame >= 0]
        return np.bincount(module[frame], minlength=count)

    def _add_module(
        self, module: str, rows: Array, names: Sequence[str], address: Array, offset: Array, calling: BoolArray
    ) -> None:
        """Add a binary. rows: of `frames`. calling: whether each called another function."""
        opened = self.open_object(module)
        if opened.stream is None and opened.generated is None:
            self._add_object(module, opened.build_id, None, opened.status, opened.detail)
            return
        with opened.stream or nullcontext():
            try:
                binary = opened.generated or _open_binary(opened)
            except UnreadableInput as error:
                self._add_object(module, opened.build_id, None, CodeStatus.UNREADABLE, error.message)
                return
            if opened.build_id is not None and not is_same_build(binary.build_id, opened.build_id):
                self._add_object(module, opened.build_id, binary.machine, CodeStatus.REBUILT, opened.detail)
                return
            if not len(binary.symbols.start):
                self._add_object(module, binary.build_id, binary.machine, CodeStatus.NO_SYMBOLS, opened.detail)
                return
            target, placed = place_addresses(names, address, offset, binary.symbols)
            rows, target = rows[placed], target[placed]
            number = len(self.objects)
            self.frames.append((rows, number, target))
            # A caller's address is behind its call, maybe in the next function.
            both = np.concatenate((target, target[calling[placed]] - np.uint64(1)))
            inside = np.unique(binary.symbols.find(both))
            status, detail = self._add_functions(binary, inside[inside >= 0], number)
            self.file_modules += [module] * (len(self.files) - len(self.file_modules))
            self._add_object(module, binary.build_id, binary.machine, status, detail or opened.detail)

    def _add_object(
        self, module: str, build_id: str | None, machine: str | None, status: CodeStatus, detail: str
    ) -> None:
        self.objects.append((module, build_id, machine, status.value, detail or None))

    def _add_functions(self, binary: Binary | GeneratedCode, rows: Array, number: int) -> tuple[CodeStatus, str]:
        """Add functions of a binary. Returns its status, and a detail or an empty text."""
        engine = Disassembler(binary.machine, binary.is_little_endian)
        if not engine.is_known:
            return CodeStatus.NO_LINES, f"Code of {binary.machine} cannot be disassembled."
        addresses: dict[int, Array] = {}
        left_out, batch, batch_bytes = 0, [], 0
        for row in rows.tolist():
            size = int(binary.symbols.end[row]) - int(binary.symbols.start[row])
            if self.instruction_count > MAX_INSTRUCTIONS or size > MAX_FUNCTION_BYTES:
                left_out += 1
                continue
            batch.append(row)
            batch_bytes += size
            if batch_bytes > BATCH_BYTES:
                addresses |= self._disassemble(engine, binary, batch, number)
                batch, batch_bytes = [], 0
        addresses |= self._disassemble(engine, binary, batch, number)
        if not isinstance(binary, Binary):
            status, detail = self._add_jit_lines(binary, addresses)
        else:
            status, detail = self._add_lines(binary, addresses)
        if left_out:
            detail = f"{left_out:,} functions were left out, because they have too many instructions. {detail}".rstrip()
        return status, detail

    def _disassemble(
        self, engine: Disassembler, binary: Binary | GeneratedCode, rows: Sequence[int], number: int
    ) -> dict[int, Array]:
        """Add functions together, which is faster. Returns the addresses of the instructions of each, by its start."""
        if not rows:
            return {}
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
        self._name_targets(binary, starts[function[jumps]], ends[function[jumps]], found)
        self.instructions.append((function + len(self.symbols), found.address, found.size, target))
        self.texts.append(found.texts)
        self.instruction_count += len(found.address)
        self.symbols += [
            (number, binary.symbols.name_of(row), start, end)
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

    def _name_targets(self, binary: Binary | GeneratedCode, start: Array, end: Array, found: Instructions) -> None:
        """Name the functions of the targets outside of the functions [start, end) that jump."""
        outside = np.flatnonzero((found.targets <= start) | (found.targets >= end))
        if not len(outside):
            return
        targets = found.targets[outside]
        rows = zip(found.jumps[outside].tolist(), targets.tolist(), binary.symbols.find(targets).tolist(), strict=True)
        for at, target, row in rows:
            if row >= 0 and target != int(UNKNOWN):
                offset = target - int(binary.symbols.start[row])
                name = shorten(self.demangler.format(binary.symbols.name_of(row)), MAX_NAME)
                self.target_names[self.instruction_count + at] = f" <{name}{f'+{offset:#x}' if offset else ''}>"

    def _add_lines(self, binary: Binary, addresses: dict[int, Array]) -> tuple[CodeStatus, str]:
        first_symbol = len(self.symbols) - len(addresses)
        names = {start: self.symbols[first_symbol + place][1] for place, start in enumerate(addresses)}
        place_of = {start: np.full(len(found), -1, np.int32) for start, found in addresses.items()}
        status, detail = CodeStatus.NO_LINES, ""
        try:
            sections, detail = _open_debug(binary.debug)
            if sections is not None:
                status = CodeStatus.COMPLETE
                lines = DebugLines(sections, self.deadline_s)
                for offset, starts in lines.find_units(list(addresses)).items():
                    try:
                        rows = lines.read_lines(offset)
                        scopes = lines.list_scopes(offset, starts)
                    except DAMAGED:
                        lines.damaged += 1
                        continue
                    for start in starts:
                        place_of[start] = self._place(addresses[start], names[start], rows, scopes.get(start, []))
                if lines.damaged:
                    detail = "Parts of its debug information are damaged."
        except OutOfTime:
            detail = "Its debug information was not read completely, because that takes too long."
        except DAMAGED:
            detail = "Its debug information is damaged."
        self.instruction_places += place_of.values()
        return status, detail

    def _add_jit_lines(self, code: GeneratedCode, addresses: dict[int, Array]) -> tuple[CodeStatus, str]:
        status = CodeStatus.NO_LINES
        for start, found in addresses.items():
            rows = code.read_lines(start)
            if len(rows.files):
                status = CodeStatus.COMPLETE
            self.instruction_places.append(self._place(found, code.name_at(start), rows, ()))
        return status, ""

    def _place(self, address: Array, name: str, rows: LineRows, scopes: Sequence[InlinedCall]) -> Array:
        """The row of `places` of each instruction of a function."""
        inside = np.full(len(address), -1)
        for number, scope in enumerate(scopes):
            for low, high in scope.ranges:
                first, last = np.searchsorted(address, np.array([low, high], np.uint64)).tolist()
                inside[first:last] = number
        file, line = rows.find(address)
        calls: list[int] = []
        for scope in scopes:
            parent, function = (calls[scope.parent], scopes[scope.parent].function) if scope.parent >= 0 else (-1, name)
            calls.append(self._intern_place(parent, function, scope.file, scope.line))
        # One number for each combination: sorting rows of three takes several times as long.
        key = ((inside + 1) * (len(rows.files) + 1) + file + 1) * 2**31 + line
        _, at, which = np.unique(key, return_index=True, return_inverse=True)
        interned = []
        for scope_number, number, line_number in zip(*(v[at].tolist() for v in (inside, file, line)), strict=True):
            if number < 0:
                interned.append(-1)
                continue
            parent, function = (calls[scope_number], scopes[scope_number].function) if scope_number >= 0 else (-1, name)
            interned.append(self._intern_place(parent, function, rows.files[number], line_number))
        return np.array(interned, np.int32)[which.reshape(-1)] if interned else np.zeros(0, np.int32)

    def _intern_place(self, parent: int, function: str, file: str, line: int) -> int:
        key = (parent, function, self.files.setdefault(file, len(self.files)), line)
        return self.places.setdefault(key, len(self.places))

    def _finish(self) -> Code:
        texts = [self.read_source(path, module) for path, module in zip(self.files, self.file_modules, strict=True)]
        frame, number, place = (
            zip(*((rows, np.full(len(rows), number), at) for rows, number, at in self.frames), strict=True)
            if self.frames
            else [(np.zeros(0),)] * 3
        )
        columns: dict[str, list[Any]] = {
            "objects": _transpose(self.objects, 5),
            "symbols": _transpose(self.symbols, 4),
            "instructions": self._join_instructions(),
            "places": _transpose(list(self.places), 4),
            "files": [list(self.files), [one.text for one in texts], [one.detail or None for one in texts]],
            "frames": [_join(frame), _join(number), _join(place)],
        }
        return Code(**{name: _make_table(name, parts) for name, parts in columns.items()})

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
        return [symbol, address, size, texts, targets, _join(self.instruction_places)]


def _open_binary(opened: ObjectFile) -> Binary:
    assert opened.stream is not None
    return open_binary(opened.stream, opened.debug)


def _open_debug(image: ElfImage) -> tuple[DebugSections | None, str]:
    """(the debug information of a binary, why there is none)."""
    found = [image.find_section(name) for name in NAMES]
    if found[0] is None or found[1] is None:
        return None, ""
    if sum(image.measure_section(section) for section in found if section is not None) > MAX_BYTES:
        return None, "Its debug information is larger than 1 GiB, and was not read."
    return DebugSections.of_image(image), ""


def _transpose(rows: Sequence[tuple[Any, ...]], count: int) -> list[Any]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def _join(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if len(parts) else np.zeros(0, np.int64)


def _make_table(name: str, columns: Sequence[Any]) -> pa.Table:
    schema = CODE_SCHEMAS[name]
    arrays = []
    for column, kind in zip(columns, schema.types, strict=True):
        if pa.types.is_dictionary(kind):
            arrays.append(pa.array(column, pa.string()).dictionary_encode())
        else:
            arrays.append(pa.array(column, kind, from_pandas=False))
    return pa.table(arrays, schema=schema)


def deadline_after(seconds: float) -> float:
    """The CPU time of this process in so many seconds."""
    return time.process_time() + seconds
