"""Finds the symbols of a recording on this machine, as perf does: in its caches, debug files and the binaries.

Only files with the build id of the recording are used, if it has one. The order of places is that of perf 6.1
(tools/perf/util/symbol.c, binary_type_symtab). Added to them: MiniDebugInfo, files that were uploaded or fetched from
debuginfod, and deleted files that were written again by the same build.
"""

import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from perfloom.domain.arrays import Array
from perfloom.domain.errors import UnreadableInput
from perfloom.ingest.machine_code.elf import is_same_build
from perfloom.ingest.machine_code.elf_image import SHT_DYNSYM, SHT_SYMTAB, ElfImage, parse_build_id
from perfloom.ingest.perf_records.code_objects import CodeObject, JitLoads, ObjectKind, SymbolNames, SymbolSource
from perfloom.ingest.symbols.elf_symbols import (
    list_plt_sections,
    read_elf_symbols,
    read_kernel_symbols,
    read_module_symbols,
    read_plt_symbols,
)
from perfloom.ingest.symbols.java_names import format_java_name
from perfloom.ingest.symbols.jit_dump import JitDump, parse_jit_dump
from perfloom.ingest.symbols.kallsyms import TEXT_STARTS, KernelSymbols, parse_kallsyms
from perfloom.ingest.symbols.perf_map import parse_perf_map
from perfloom.ingest.symbols.perf_names import PerfNames
from perfloom.ingest.symbols.symbol_table import EMPTY, SymbolTable
from perfloom.store.files.binary_cache import BinaryFolder, FileKind, is_build_id

from ..base.kernel_modules import read_module
from ..base.regular_files import open_regular

MAX_TEXT_BYTES = 256 << 20
"""Of kallsyms and maps of symbols."""
MAX_VDSO_BYTES = 1 << 20
DEBUG_ROOT = Path("/usr/lib/debug")
NOTES, KALLSYMS = Path("/sys/kernel/notes"), Path("/proc/kallsyms")
DELETED = " (deleted)"
_KERNEL_CACHE, _VDSO_CACHE = "[kernel.kallsyms]", "[vdso]"
_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class _Tables:
    """The symbols of a code object. shift: what is added to the addresses that are looked up, modulo 2**64. entries:
    (start, end) of the sections with entries of the procedure linkage table, which `read_entries` reads."""

    table: SymbolTable = EMPTY
    format_name: Callable[[bytes], str] = PerfNames.keep
    shift: int = 0
    entries: tuple[tuple[int, int], ...] = ()
    read_entries: Callable[[], SymbolTable] = lambda: EMPTY


@dataclass
class SymbolFiles:
    """The files with symbols. buildid_dir: perf's cache of binaries. folders: files that came from elsewhere, by build
    id. public: only open files that everyone may read. recorded_here: whether it was recorded on this machine, whose
    files, running kernel and maps of symbols belong to it even without a build id. owns_cache: whether Perfloom filled
    buildid_dir, so that it is read in any case. recorder: the user who recorded, whose maps are used, as those of root
    and this user are. vdso: the build id of [vdso] if the recording has none."""

    buildid_dir: Path
    folders: tuple[BinaryFolder, ...] = ()
    public: bool = False
    recorded_here: bool = True
    owns_cache: bool = False
    recorder: int = 0
    vdso: str | None = None
    names: PerfNames = field(default_factory=PerfNames)
    _kernels: dict[Path, KernelSymbols | None] = field(default_factory=dict)
    _running: "Future[KernelSymbols | None] | None" = None
    _dumps: dict[CodeObject, JitDump | None] = field(default_factory=dict)

    def read_ahead(self) -> None:
        """Begin to read the symbols of the running kernel in a thread: the kernel takes 0.05 s to write them."""
        if self.recorded_here:
            self._running = ThreadPoolExecutor(1).submit(_read_running_kernel)

    def find(self, code: CodeObject, addresses: Array) -> SymbolNames:
        """See SymbolSource."""
        with ExitStack() as opened:
            tables = self._open(code, opened)
            shifted = addresses + np.uint64(tables.shift % 2**64)
            row = tables.table.find(shifted, tables.format_name)
            found = [tables.table]
            inside = np.zeros(len(shifted), bool)
            for low, high in tables.entries:
                inside |= (shifted >= np.uint64(low)) & (shifted < np.uint64(high))
            if inside.any():
                # Reading the entries takes longer than the table, and few recordings have samples in them.
                found.append(tables.read_entries())
                entry = found[1].find(shifted[inside], tables.format_name)
                row[inside] = np.where(entry >= 0, entry + len(tables.table), row[inside])
        return _list_names(found, row, tables)

    def read_jit(self, code: CodeObject) -> JitLoads | None:
        """See JitSource."""
        dump = self._read_dump(code)
        return JitLoads(dump.has_times, dump.time, dump.start, dump.size, dump.place) if dump else None

    def _open(self, code: CodeObject, opened: ExitStack) -> _Tables:
        match code.kind:
            case ObjectKind.FILE:
                return self._open_file(code, opened)
            case ObjectKind.KERNEL:
                return self._open_kernel(code, opened)
            case ObjectKind.MODULE:
                return self._open_module(code)
            case ObjectKind.VDSO:
                return self._open_vdso(code)
            case ObjectKind.PERF_MAP:
                return _Tables(parse_perf_map(self._read_perf_map(code.pid)))
            case ObjectKind.JIT_DUMP:
                dump = self._read_dump(code)
                return _Tables(dump.table, self._format_jit_name) if dump else _Tables()

    def _open_file(self, code: CodeObject, opened: ExitStack) -> _Tables:
        binary, beside = self._choose(code, opened)
        image = binary or beside
        if image is None:
            return _Tables()
        return self._make_tables(image, beside)

    def _make_tables(self, binary: ElfImage, beside: ElfImage | None = None) -> _Tables:
        entries = tuple((one.offset, min(one.offset + one.size, 2**64 - 1)) for one in list_plt_sections(binary))
        table = read_elf_symbols(binary, beside)
        return _Tables(table, self.names.format, entries=entries, read_entries=lambda: read_plt_symbols(binary))

    def _choose(self, code: CodeObject, opened: ExitStack) -> tuple[ElfImage | None, ElfImage | None]:
        """(the binary, the file with its symbol table): of each the first one that is found."""
        build_id = code.build_id
        binary = beside = None
        if build_id is None and not self.recorded_here:
            return None, None
        # Without a build id of the recording, perf takes the file as it is now.
        if build_id is None and (found := self._read_image(Path(code.path), None, opened)):
            build_id = found.build_id
        for path in self._list_places(code.path, build_id, opened):
            image = self._read_image(path, build_id, opened)
            if image is None:
                continue
            kinds = {section.type for section in image.sections}
            beside = beside or (image if SHT_SYMTAB in kinds else None)
            binary = binary or (image if SHT_DYNSYM in kinds else None)
            if binary and beside:
                break
        return binary, beside

    def _list_places(self, path: str, build_id: str | None, opened: ExitStack) -> Iterator[Path]:
        yield from self._list_links(path, build_id, opened)
        if build_id:
            yield from (self._cache(build_id) / name for name in ("elf", "debug"))
            yield self.buildid_dir / path.lstrip("/") / build_id / "elf"
        if path.startswith("/"):
            yield Path(f"{DEBUG_ROOT}{path}.debug")
            yield Path(f"{DEBUG_ROOT}{path}")
        if build_id:
            yield DEBUG_ROOT / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        if path.startswith("/"):
            yield Path(path)
            yield Path(path).parent / ".debug" / Path(path).name
            if build_id and path.endswith(DELETED):
                yield Path(path.removesuffix(DELETED))
        if build_id and is_build_id(build_id):
            yield from (folder.file(build_id, kind) for kind in FileKind for folder in self.folders)

    def _list_links(self, path: str, build_id: str | None, opened: ExitStack) -> Iterator[Path]:
        """The files that .gnu_debuglink of the binary names. Without build ids their checksum must be right."""
        image = self._read_image(Path(path), None, opened) if path.startswith("/") else None
        link = image.debug_link if image else None
        if link is None:
            return
        name, checksum = os.fsdecode(link[0]), link[1]
        folder = Path(path).parent
        for place in (folder / name, folder / ".debug" / name, Path(f"{DEBUG_ROOT}{folder}") / name):
            if build_id or self._sum(place) == checksum:
                yield place

    def _sum(self, path: Path) -> int | None:
        stream = self._open_stream(path)
        if stream is None:
            return None
        value = 0
        with stream, suppress(OSError):
            while data := stream.read(_CHUNK):
                value = zlib.crc32(data, value)
        return value

    def _cache(self, build_id: str) -> Path:
        return self.buildid_dir / ".build-id" / build_id[:2] / build_id[2:]

    def _open_stream(self, path: Path) -> BinaryIO | None:
        own = [folder.root for folder in self.folders] + [self.buildid_dir] * self.owns_cache
        # A recording can have a path that only begins there.
        if ".." not in path.parts and any(path.is_relative_to(root) for root in own):
            return open_regular(path, public=False)
        return open_regular(path, self.public)

    def _read_image(self, path: Path, build_id: str | None, opened: ExitStack) -> ElfImage | None:
        """An ELF file with a build id, or with any if that is None."""
        stream = self._open_stream(path)
        if stream is None:
            return None
        opened.enter_context(stream)
        with suppress(UnreadableInput, OSError):
            image = ElfImage.read(stream)
            if build_id is None or is_same_build(image.build_id, build_id):
                return image
        return None

    def _open_kernel(self, code: CodeObject, opened: ExitStack) -> _Tables:
        kernel = self._read_kernel(code.build_id)
        if kernel is None and code.build_id:
            return self._open_vmlinux(code, code.build_id, opened)
        if kernel is None or kernel.text_start is None:
            return _Tables()
        # The kernel may have started again at another address.
        return _Tables(kernel.table, shift=kernel.text_start - code.text_start if code.text_start else 0)

    def _read_kernel(self, build_id: str | None) -> KernelSymbols | None:
        """The symbols of a kernel with a build id, or of the running one."""
        running = None
        with suppress(OSError):
            running = parse_build_id(NOTES.read_bytes())
        is_running = is_same_build(running, build_id) if build_id else self.recorded_here
        places = [KALLSYMS] if is_running else []
        if build_id:
            places += [self._cache(build_id) / "kallsyms", self.buildid_dir / _KERNEL_CACHE / build_id / "kallsyms"]
        for place in places:
            if place not in self._kernels:
                self._kernels[place] = self._read_kallsyms(place)
            kernel = self._kernels[place]
            if kernel is not None and kernel.text_start:
                return kernel
        return None

    def _read_kallsyms(self, path: Path) -> KernelSymbols | None:
        if path != KALLSYMS:
            text = self._read_text(path)
            return parse_kallsyms(text) if text else None
        return self._running.result() if self._running else _read_running_kernel()

    def _open_vmlinux(self, code: CodeObject, build_id: str, opened: ExitStack) -> _Tables:
        places = [self._cache(build_id) / name for name in ("elf", "debug")]
        places.append(DEBUG_ROOT / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug")
        for place in places:
            image = self._read_image(place, build_id, opened)
            if image is None:
                continue
            table = read_kernel_symbols(image)
            start = table.address_of(TEXT_STARTS)
            # The kernel may have been loaded at another address than it was linked for.
            return _Tables(table, shift=start - code.text_start if start and code.text_start else 0)
        return _Tables()

    def _open_module(self, code: CodeObject) -> _Tables:
        """The file of a module; without it the running kernel, if the recording says where the module was."""
        is_known = code.build_id is not None or self.recorded_here
        data = self._read_module(Path(code.path)) if code.path.startswith("/") and is_known else b""
        with suppress(UnreadableInput):
            image = ElfImage.read(BytesIO(data))
            text = image.find_section(b".text")
            if text and (code.build_id is None or is_same_build(image.build_id, code.build_id)):
                # perf maps the beginning of a module to its section .text.
                return _Tables(read_module_symbols(image, text), shift=text.offset)
        name = Path(code.path).name.strip("[]").partition(".ko")[0].replace("-", "_")
        loaded = None
        with suppress(OSError, ValueError):
            loaded = parse_build_id(Path("/sys/module", name, "notes/.note.gnu.build-id").read_bytes())
        if code.text_start and (is_same_build(loaded, code.build_id) if code.build_id else self.recorded_here):
            kernel = self._read_kernel(None) if self.recorded_here else None
            if kernel:
                return _Tables(kernel.select_module(f"[{name}]".encode()), shift=code.text_start)
        return _Tables()

    def _read_module(self, path: Path) -> bytes:
        stream = self._open_stream(path)
        if stream is None:
            return b""
        with stream:
            return read_module(stream, path.suffix)

    def _open_vdso(self, code: CodeObject) -> _Tables:
        own = _read_own_vdso()
        build_id = code.build_id or self.vdso
        if build_id:
            places = (self._cache(build_id) / "vdso", self.buildid_dir / _VDSO_CACHE / build_id / "vdso")
            images = [own, *(self._read_text(place) for place in places)]
        else:
            images = [own] if self.recorded_here else []
        for data in images:
            with suppress(UnreadableInput):
                image = ElfImage.read(BytesIO(data))
                if build_id is None or is_same_build(image.build_id, build_id):
                    return self._make_tables(image)
        return _Tables()

    def _read_text(self, path: Path) -> bytes:
        stream = self._open_stream(path)
        if stream is None:
            return b""
        with stream, suppress(OSError):
            return stream.read(MAX_TEXT_BYTES)
        return b""

    def _read_perf_map(self, pid: int) -> bytes:
        stream = self._open_trusted(Path(f"/tmp/perf-{pid}.map"))
        if stream is None:
            return b""
        with stream, suppress(OSError):
            return stream.read(MAX_TEXT_BYTES)
        return b""

    def _read_dump(self, code: CodeObject) -> JitDump | None:
        """The dump of a just-in-time compiler, if it is of the process that was recorded."""
        if code not in self._dumps:
            stream = self._open_trusted(Path(code.path))
            dump = None
            if stream is not None:
                with stream, suppress(OSError, ValueError):
                    # It contains the code, which is not needed here.
                    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                        dump = parse_jit_dump(data)
            self._dumps[code] = dump if dump and dump.pid == code.pid else None
        return self._dumps[code]

    def _open_trusted(self, path: Path) -> BinaryIO | None:
        """A file about a process that root, this user or who recorded wrote. Anyone can write into /tmp."""
        stream = open_regular(path, public=False) if self.recorded_here else None
        if stream is None:
            return None
        if os.fstat(stream.fileno()).st_uid in (0, os.geteuid(), self.recorder):
            return stream
        stream.close()
        return None

    def _format_jit_name(self, raw: bytes) -> str:
        return format_java_name(PerfNames.keep(raw)) or self.names.format(raw)


def make_symbol_files(
    buildid_dir: str | None,
    folders: tuple[BinaryFolder, ...] = (),
    *,
    public: bool = False,
    recorded_here: bool = True,
    owns_cache: bool = False,
    recorder: int = 0,
    vdso: str | None = None,
) -> SymbolFiles:
    """The files of this machine: see SymbolFiles."""
    return SymbolFiles(Path(buildid_dir or os.devnull), folders, public, recorded_here, owns_cache, recorder, vdso)


def make_symbol_source(
    buildid_dir: str | None,
    folders: tuple[BinaryFolder, ...] = (),
    *,
    public: bool = False,
    recorded_here: bool = True,
) -> SymbolSource:
    """A source of symbols from such files."""
    return make_symbol_files(buildid_dir, folders, public=public, recorded_here=recorded_here).find


def _list_names(tables: list[SymbolTable], row: Array, opened: _Tables) -> SymbolNames:
    """row: in the first table, or from its length on in the second one."""
    found, position = np.unique(row, return_inverse=True)
    if len(found) and found[0] < 0:
        found, position = found[1:], position - 1
    size = len(tables[0])
    places = [(tables[0], one) if one < size else (tables[1], one - size) for one in found.tolist()]
    names = [opened.format_name(table.name_of(one)) for table, one in places]
    starts = [(int(table.start[one]) - opened.shift) % 2**64 for table, one in places]
    return SymbolNames(position.astype(np.int64), names, np.array(starts, np.uint64))


def _read_running_kernel() -> KernelSymbols | None:
    with suppress(OSError), open(KALLSYMS, "rb") as file:
        return parse_kallsyms(file.read(MAX_TEXT_BYTES))
    return None


def _read_own_vdso() -> bytes:
    """The code that the running kernel maps into every process; empty without it."""
    with suppress(OSError, ValueError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line.endswith("[vdso]\n"):
                low, high = (int(text, 16) for text in line.split()[0].split("-"))
                with open("/proc/self/mem", "rb", buffering=0) as memory:
                    memory.seek(low)
                    return memory.read(min(high - low, MAX_VDSO_BYTES))
    return b""
