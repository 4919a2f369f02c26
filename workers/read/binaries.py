"""Opens the binaries and source files of a recording, if they are those that were recorded.

A recording may be an upload, and a binary may name any file as its source. So a binary is opened only if it has the
build id of the recording, or was there before a recording of this machine began. Where programs run as another user,
only files that everyone may read are opened. Content that is not source code is never returned. Files that came from
elsewhere, such as the host that recorded, are in directories by build id.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.schemas.code import CodeStatus
from perfloom.ingest.machine_code.code_builder import ObjectFile, SourceText
from perfloom.ingest.machine_code.elf import is_same_build
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.ingest.machine_code.source_text import NOT_SOURCE, decode_source, is_source_name
from perfloom.ingest.symbols.jit_code import open_jit_code
from perfloom.paths import os_error_text
from perfloom.store.files.binary_cache import BinaryFolder, FileKind, is_build_id
from perfloom.store.files.known_code import KnownCode, find_known_code

from ..base.kernel_modules import read_module
from ..base.regular_files import get_real_path, open_regular

MAX_DUMP_BYTES = 1 << 30
"""Of a just-in-time compiler."""
MAX_SOURCE_BYTES = 64 << 20
MAX_ALL_SOURCE_BYTES = 512 << 20
BESIDE = (Path("/usr/lib/debug/.build-id"),)
MODULES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
_JIT_DUMP = re.compile(r"/jit-([0-9]{1,10})\.dump$", re.ASCII)
_PERF_MAP = re.compile(r"/tmp/perf-[0-9]{1,10}\.map", re.ASCII)
"""The module of code of a just-in-time compiler that only has names."""
KERNEL = "[kernel.kallsyms]"
VMLINUX = (
    *("/usr/lib/debug/boot/vmlinux-{}", "/usr/lib/debug/lib/modules/{}/vmlinux", "/boot/vmlinux-{}"),
    "/lib/modules/{}/build/vmlinux",
)
"""Where distributions have the kernel with symbols and debug information, by its release."""


@dataclass
class Binaries:
    """The files of one recording. build_ids: by path. recorded_here: whether it was recorded on this machine.
    started: when, seconds since the epoch, None if unknown. public: only open files that everyone may read.
    buildid_dir: perf's cache of binaries. folders: with files that came from elsewhere. built: when the last of the
    opened binaries was written. opened: the build ids of the recording of the opened binaries. received: the
    modules of which a file came from elsewhere. written: when the dumps of just-in-time compilers were.
    recorders: the users who recorded, whose dumps are used, as those of root and this user are.
    lines: the directory of known code, None for no use of it.
    reads_dumps: whether they are read: who uploads a recording must not choose files of this machine by their path."""

    build_ids: dict[str, str]
    recorded_here: bool
    started: float | None
    public: bool
    buildid_dir: str
    folders: tuple[BinaryFolder, ...] = ()
    reads_dumps: bool = False
    recorders: frozenset[int] = frozenset()
    lines: Path | None = None
    source_bytes: int = 0
    built: float | None = None
    opened: list[str] = field(default_factory=list)
    received: set[str] = field(default_factory=set)
    written: dict[str, float] = field(default_factory=dict)

    def open_object(self, module: str) -> ObjectFile:
        """The binary of a module, as perf names it."""
        build_id = self.build_ids.get(module)
        if module.startswith(KERNEL) and build_id is not None:
            return self._open_kernel(module, build_id)
        if module.endswith(MODULES) and build_id is not None:
            return self._open_module(module, build_id)
        if module.startswith(("[kernel", "[guest")) or module.endswith(MODULES):
            return ObjectFile(None, CodeStatus.KERNEL)
        if marker := _JIT_DUMP.search(module):
            return self._open_dump(module, int(marker[1]))
        path = module.removesuffix(" (deleted)")
        if _PERF_MAP.fullmatch(path):
            return ObjectFile(None, CodeStatus.NO_FILE)
        if not path.startswith("/") or path.startswith(("//", "/memfd:", "/dev/", "/SYSV", "/anon_hugepage")):
            return ObjectFile(None, CodeStatus.NO_FILE, build_id=build_id)
        if build_id is not None:
            self.opened.append(build_id)
            # Files of this machine first: who made a binary elsewhere must not choose source files of this machine.
            here = (*self._list_kept(path, build_id), Path(path))
            stream = next((found for one in here if (found := self._open_build(one, build_id)) is not None), None)
            if stream is None:
                stream = self._open_received(module, build_id, FileKind.EXECUTABLE)
            if stream is not None:
                self._note_age(stream)
                debug = partial(self._open_debug, module)
                return ObjectFile(stream, build_id=build_id, debug=debug, find_cache=self._find_cache(build_id))
        elif not self.recorded_here:
            detail = "The recording does not contain its build id, so that no file is known to be the same."
            return ObjectFile(None, CodeStatus.MISSING, detail)
        stream = self._open(Path(path))
        if stream is None:
            return ObjectFile(None, CodeStatus.MISSING, build_id=build_id)
        changed = os.fstat(stream.fileno()).st_mtime
        if build_id is None and (self.started is None or changed >= self.started):
            stream.close()
            return ObjectFile(None, CodeStatus.REBUILT, "The file was changed after the recording began.")
        self._note_age(stream)
        return ObjectFile(stream, build_id=build_id, debug=partial(self._open_debug, module))

    def _open_kernel(self, module: str, build_id: str) -> ObjectFile:
        """The kernel's vmlinux of a build id, with its debug information."""
        names = Path(build_id[:2], f"{build_id[2:]}.debug"), Path(build_id[:2], build_id[2:], "vmlinux")
        places = [folder / name for folder in BESIDE for name in names]
        kept = Path(self.buildid_dir, ".build-id", build_id[:2], build_id[2:])
        places += [kept / name for name in ("vmlinux", "debug", "elf")]
        places += [Path(pattern.format(os.uname().release)) for pattern in VMLINUX]
        stream = next((found for one in places if (found := self._open_build(one, build_id))), None)
        for kind in FileKind:
            stream = stream or self._open_received(module, build_id, kind)
        if stream is None:
            return ObjectFile(None, CodeStatus.KERNEL, build_id=build_id)
        self.opened.append(build_id)
        return ObjectFile(stream, build_id=build_id, find_cache=self._find_cache(build_id))

    def _open_module(self, path: str, build_id: str) -> ObjectFile:
        """A module of the kernel, which may be compressed."""
        self.opened.append(build_id)
        for place in (*self._list_kept(path, build_id), Path(path)):
            stream = self._open(place) if place.is_absolute() else None
            if stream is None:
                continue
            with stream:
                unpacked = BytesIO(read_module(stream, Path(path).suffix))
            with suppress(UnreadableInput):
                if is_same_build(ElfImage.read(unpacked).build_id, build_id):
                    return ObjectFile(unpacked, build_id=build_id, debug=partial(self._open_debug, path))
        received = self._open_received(path, build_id, FileKind.EXECUTABLE)
        status = CodeStatus.COMPLETE if received else CodeStatus.MISSING
        return ObjectFile(received, status, build_id=build_id, debug=partial(self._open_debug, path))

    def _find_cache(self, build_id: str) -> Callable[[Sequence[BinaryIO]], KnownCode | None]:
        root = self.lines
        return lambda streams: None if root is None else find_known_code(root, build_id, streams)

    def _open_dump(self, path: str, pid: int) -> ObjectFile:
        """The dump of a just-in-time compiler that root, this user or who recorded wrote. Anyone can write such a
        file."""
        stream = self._open(Path(path)) if self.reads_dumps and path.startswith("/") else None
        if stream is None:
            return ObjectFile(None, CodeStatus.MISSING)
        owner = os.fstat(stream.fileno()).st_uid
        with stream:
            code = None
            if owner in (0, os.geteuid(), *self.recorders):
                code = open_jit_code(stream.read(MAX_DUMP_BYTES))
            # Other numbers of processes are those of another recording.
            if code is None or code.dump.pid != pid:
                return ObjectFile(None, CodeStatus.MISSING)
            self.written[path] = os.fstat(stream.fileno()).st_mtime
            return ObjectFile(None, generated=code)

    def _open_build(self, path: Path, build_id: str) -> BinaryIO | None:
        """A binary with a build id; None if it has another."""
        stream = self._open(path)
        if stream is None:
            return None
        try:
            if is_same_build(ElfImage.read(stream).build_id, build_id):
                return stream
        except (UnreadableInput, OSError):
            pass
        stream.close()
        return None

    def _note_age(self, binary: BinaryIO) -> None:
        self.built = max(self.built or 0.0, os.fstat(binary.fileno()).st_mtime)

    def read_source(self, path: str, module: str) -> SourceText:
        """The text of a source file that a module names."""
        if not is_source_name(path):
            return SourceText(None, NOT_SOURCE)
        stream = self._open_received_source(path)
        is_received = stream is not None
        if stream is None and not path.startswith("/"):
            return SourceText(None, "Its directory is not known.")
        # Who made a binary elsewhere must not choose files of this machine.
        if stream is None and module not in self.received:
            stream = self._open(Path(path))
        if stream is None:
            where = "known" if module in self.received else "on the machine that read the recording"
            return SourceText(None, f"It is not {where}.")
        try:
            with stream:
                # The name may be a link to anything.
                if not is_received and not is_source_name(get_real_path(stream.fileno())):
                    return SourceText(None, NOT_SOURCE)
                about = os.fstat(stream.fileno())
                if about.st_size > MAX_SOURCE_BYTES or self.source_bytes + about.st_size > MAX_ALL_SOURCE_BYTES:
                    return SourceText(None, "It is too large.")
                data = stream.read(MAX_SOURCE_BYTES)
        except OSError as error:
            return SourceText(None, f"It cannot be read: {os_error_text(error)}.")
        self.source_bytes += len(data)
        if self.started is not None and about.st_mtime > self.started:
            return SourceText(decode_source(data), "It was changed after the recording began.")
        if module in self.written:
            detail = "It was changed after the recording." if about.st_mtime > self.written[module] else ""
            return SourceText(decode_source(data), detail)
        if self.built is not None and about.st_mtime > self.built:
            return SourceText(decode_source(data), "It was changed after the program was built.")
        return SourceText(decode_source(data), "")

    def _list_kept(self, path: str, build_id: str) -> list[Path]:
        """Copies of a binary in perf's cache."""
        root = Path(self.buildid_dir)
        return [root / path.lstrip("/") / build_id / "elf", root / ".build-id" / build_id[:2] / build_id[2:] / "elf"]

    def _open_debug(self, module: str, build_id: str) -> BinaryIO | None:
        """The separate debug information of a build id."""
        folders = (*BESIDE, Path(self.buildid_dir, ".build-id"))
        names = (Path(build_id[:2], f"{build_id[2:]}.debug"), Path(build_id[:2], build_id[2:], "debug"))
        for folder in folders:
            for name in names:
                stream = self._open(folder / name)
                if stream is not None:
                    return stream
        return self._open_received(module, build_id, FileKind.DEBUG)

    def _open_received(self, module: str, build_id: str, kind: FileKind) -> BinaryIO | None:
        """A file of a build id that came from elsewhere."""
        for folder in self.folders if is_build_id(build_id) else ():
            stream = _open_own(folder.file(build_id, kind))
            if stream is not None:
                self.received.add(module)
                folder.keep(build_id)
                return stream
        return None

    def _open_received_source(self, path: str) -> BinaryIO | None:
        known = [build_id for build_id in self.opened if is_build_id(build_id)]
        places = (folder.source(build_id, path) for folder in self.folders for build_id in known)
        return next((stream for place in places if (stream := _open_own(place)) is not None), None)

    def _open(self, path: Path) -> BinaryIO | None:
        return open_regular(path, self.public)


def _open_own(path: Path) -> BinaryIO | None:
    """A file that Perfloom wrote; None without it."""
    try:
        return cast(BinaryIO, os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb"))
    except OSError:
        return None
