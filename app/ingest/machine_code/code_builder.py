"""Builds `Code` for a profile from the binaries of its functions."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Protocol

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.schemas.code import Code, CodeStatus
from ...domain.symbols.demangler import Demangler
from ...domain.tables import FrameKind, get_column, get_strings
from .code_tables import count_instructions, join_code, make_table, select_functions
from .elf import Binary, is_same_build, open_binary
from .function_reader import FunctionReader
from .generated_code import GeneratedCode
from .placement import place_addresses

MAX_INSTRUCTIONS = 3_000_000


class CodeCache(Protocol):
    """The code of functions of a binary that were read before, for one state of its files."""

    def read(self) -> Code | None:
        """The code, with functions in the order of their starts and one object; None if there is none."""

    def write(self, code: Code) -> None:
        """Replace it, if possible."""


@dataclass(frozen=True)
class ObjectFile:
    """A binary, or why there is none. build_id: of the recording, None if it is unknown. debug: a separate file with
    its debug information, opened by build id. generated: code that is in no binary, instead of `stream`. find_cache:
    the cache for the opened files of the binary, None without one."""

    stream: BinaryIO | None
    status: CodeStatus = CodeStatus.COMPLETE
    detail: str = ""
    build_id: str | None = None
    debug: Callable[[str], BinaryIO | None] = lambda build_id: None
    generated: GeneratedCode | None = None
    find_cache: Callable[[Sequence[BinaryIO]], CodeCache | None] = lambda streams: None


@dataclass(frozen=True)
class SourceText:
    """The text of a source file, or why there is none."""

    text: str | None
    detail: str = ""


@dataclass
class CodeBuilder:
    """Collects the code of binaries. read_source: the text of a source file, by its path and the module that names it.
    deadline_s: CPU time of this process until which debug information may be read."""

    open_object: Callable[[str], ObjectFile]
    read_source: Callable[[str, str], SourceText]
    deadline_s: float
    demangler: Demangler = field(default_factory=Demangler)
    parts: list[Code] = field(default_factory=list)
    instruction_count: int = 0
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
            self.frames.append((rows, len(self.parts), target))
            # A caller's address is behind its call, maybe in the next function.
            both = np.concatenate((target, target[calling[placed]] - np.uint64(1)))
            inside = np.unique(binary.symbols.find(both))
            inside = inside[inside >= 0]
            if isinstance(binary, Binary):
                streams = list(dict.fromkeys((binary.image.stream, binary.debug.stream)))
                code, reader = self._read_functions(binary, inside, opened.find_cache(streams))
            else:
                code, reader = self._read_functions(binary, inside, None)
            detail = " ".join(filter(None, (_describe_rest(reader.left_out), reader.detail, reader.failure)))
            self.instruction_count += code.instructions.num_rows
            self._add_object(module, binary.build_id, binary.machine, reader.status, detail or opened.detail, code)

    def _read_functions(
        self, binary: Binary | GeneratedCode, rows: Array, cache: CodeCache | None
    ) -> tuple[Code, FunctionReader]:
        """The code of functions, as far as possible from the cache, and what read the others or would have. rows: of
        the symbols of the binary, ascending."""
        most = max(0, MAX_INSTRUCTIONS - self.instruction_count)
        known = cache.read() if cache else None
        if cache is None or known is None:
            reader = FunctionReader(binary, self.deadline_s, self.demangler, most)
            code = reader.read(rows)
            if cache is not None:
                _write(cache, code, reader)
            return code, reader
        start, known_start = binary.symbols.start[rows], get_column(known.symbols, "start")
        symbol = np.searchsorted(known_start, start)
        is_known = np.append(known_start, np.uint64(0))[symbol] == start
        sizes = np.cumsum(count_instructions(known)[symbol[is_known]])
        fits = int(np.searchsorted(sizes, most, "right"))
        wanted = start[is_known][:fits]
        reader = FunctionReader(binary, self.deadline_s, self.demangler, most - int(sizes[fits - 1]) if fits else most)
        about = known.objects.to_pylist()[0]
        reader.status, reader.detail = CodeStatus(about["status"]), about["detail"] or ""
        reader.left_out = int(is_known.sum()) - fits
        if not is_known.all():
            new = reader.read(rows[~is_known])
            wanted = np.append(wanted, get_column(new.symbols, "start"))
            known = join_code([known, replace(new, objects=known.objects)], same_object=True)
            known = select_functions(known, np.argsort(get_column(known.symbols, "start"), kind="stable"))
            _write(cache, known, reader)
        return select_functions(known, np.searchsorted(get_column(known.symbols, "start"), np.sort(wanted))), reader

    def _add_object(
        self,
        module: str,
        build_id: str | None,
        machine: str | None,
        status: CodeStatus,
        detail: str,
        code: Code | None = None,
    ) -> None:
        objects = make_table("objects", [[module], [build_id], [machine], [status.value], [detail or None]])
        self.parts.append(replace(code or Code(), objects=objects))

    def _finish(self) -> Code:
        module_of: dict[str, str] = {}
        for part in self.parts:
            for path in part.files.column("path").to_pylist():
                module_of.setdefault(path, part.objects.column("module")[0].as_py())
        code = join_code(self.parts)
        paths = code.files.column("path").to_pylist()
        texts = [self.read_source(path, module_of[path]) for path in paths]
        frame, number, place = (
            zip(*((rows, np.full(len(rows), number), at) for rows, number, at in self.frames), strict=True)
            if self.frames
            else [(np.zeros(0, np.int64),)] * 3
        )
        return replace(
            code,
            files=make_table("files", [paths, [one.text for one in texts], [one.detail or None for one in texts]]),
            frames=make_table("frames", [np.concatenate(parts) for parts in (frame, number, place)]),
        )


def _write(cache: CodeCache, code: Code, reader: FunctionReader) -> None:
    """Keep the code of functions, except of those whose lines could not be read now."""
    if not code.symbols.num_rows or code.instructions.num_rows > MAX_INSTRUCTIONS:
        return
    if reader.unread:
        unread = np.fromiter(reader.unread, np.uint64)
        code = select_functions(code, np.flatnonzero(~np.isin(get_column(code.symbols, "start"), unread)))
    about = [[None], [None], [None], [reader.status.value], [reader.detail or None]]
    cache.write(replace(code, objects=make_table("objects", about)))


def _describe_rest(left_out: int) -> str:
    return f"{left_out:,} functions were left out, because they have too many instructions." if left_out else ""


def _open_binary(opened: ObjectFile) -> Binary:
    assert opened.stream is not None
    return open_binary(opened.stream, opened.debug)


def deadline_after(seconds: float) -> float:
    """The CPU time of this process in so many seconds."""
    return time.process_time() + seconds
