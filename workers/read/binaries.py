"""Opens the binaries and source files of a recording, if they are those that were recorded.

A recording may be an upload, and a binary may name any file as its source. So a binary is opened only if it has the
build id of the recording, or was there before a recording of this machine began. Where programs run as another user,
only files that everyone may read are opened. Content that is not source code is never returned.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from perfloom.domain.schemas.code import CodeStatus
from perfloom.ingest.machine_code.code_builder import ObjectFile, SourceText
from perfloom.paths import os_error_text

MAX_SOURCE_BYTES = 64 << 20
MAX_ALL_SOURCE_BYTES = 512 << 20
SUFFIXES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inc", ".inl"),
        *(".ipp", ".tcc", ".def", ".s", ".asm", ".rs", ".go", ".f", ".for", ".f77", ".f90", ".f95"),
        *(".f03", ".f08", ".d", ".zig", ".nim", ".swift", ".m", ".mm", ".adb", ".ads", ".pas", ".cu"),
        *(".cuh", ".cl", ".ml", ".hs", ".v", ".cr", ".y", ".l", ".py", ".pyx", ".java", ".kt"),
        *(".jl", ".ispc"),
    )
)
"""Files with other names may be anything. The headers of the C++ library have none."""
BESIDE = (Path("/usr/lib/debug/.build-id"),)
KERNEL_FOLDERS = ("/proc/", "/sys/", "/dev/")
NOT_SOURCE = "Its name is not that of source code."
_HEADER_FOLDERS = ("/include/c++/", "/include/bits/")


@dataclass
class Binaries:
    """The files of one recording. build_ids: by path. recorded_here: whether it was recorded on this machine.
    started: when, seconds since the epoch, None if unknown. public: only open files that everyone may read.
    buildid_dir: perf's cache of binaries. built: when the last of the opened binaries was written."""

    build_ids: dict[str, str]
    recorded_here: bool
    started: float | None
    public: bool
    buildid_dir: str
    source_bytes: int = 0
    built: float | None = None

    def open_object(self, module: str) -> ObjectFile:
        """The binary of a module, as perf names it."""
        build_id = self.build_ids.get(module)
        if module.startswith(("[kernel", "[guest")) or module.endswith((".ko", ".ko.xz", ".ko.zst", ".ko.gz")):
            return ObjectFile(None, CodeStatus.KERNEL)
        path = module.removesuffix(" (deleted)")
        if not path.startswith("/") or path.startswith(("//", "/memfd:", "/dev/", "/SYSV", "/anon_hugepage")):
            return ObjectFile(None, CodeStatus.NO_FILE, build_id=build_id)
        if build_id is not None:
            for kept in self._list_kept(path, build_id):
                stream = self._open(kept)
                if stream is not None:
                    self._note_age(stream)
                    return ObjectFile(stream, build_id=build_id, debug=self._open_debug)
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
        return ObjectFile(stream, build_id=build_id, debug=self._open_debug)

    def _note_age(self, binary: BinaryIO) -> None:
        self.built = max(self.built or 0.0, os.fstat(binary.fileno()).st_mtime)

    def read_source(self, path: str) -> SourceText:
        """The text of a source file."""
        if not path.startswith("/"):
            return SourceText(None, "Its directory is not known.")
        if not _is_source_name(path):
            return SourceText(None, NOT_SOURCE)
        stream = self._open(Path(path))
        if stream is None:
            return SourceText(None, "It is not on the machine that read the recording.")
        try:
            with stream:
                # The name may be a link to anything.
                if not _is_source_name(_get_real_path(stream.fileno())):
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
        if self.built is not None and about.st_mtime > self.built:
            return SourceText(decode_source(data), "It was changed after the program was built.")
        return SourceText(decode_source(data), "")

    def _list_kept(self, path: str, build_id: str) -> list[Path]:
        """Copies of a binary in perf's cache."""
        root = Path(self.buildid_dir)
        return [root / path.lstrip("/") / build_id / "elf", root / ".build-id" / build_id[:2] / build_id[2:] / "elf"]

    def _open_debug(self, build_id: str) -> BinaryIO | None:
        """The separate debug information of a build id."""
        folders = (*BESIDE, Path(self.buildid_dir, ".build-id"))
        names = (Path(build_id[:2], f"{build_id[2:]}.debug"), Path(build_id[:2], build_id[2:], "debug"))
        for folder in folders:
            for name in names:
                stream = self._open(folder / name)
                if stream is not None:
                    return stream
        return None

    def _open(self, path: Path) -> BinaryIO | None:
        """A regular file, None if it cannot or must not be opened."""
        try:
            # Opening a pipe or a device could wait forever.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except (OSError, ValueError):
            return None
        if self._is_allowed(descriptor):
            return cast(BinaryIO, os.fdopen(descriptor, "rb"))
        os.close(descriptor)
        return None

    def _is_allowed(self, descriptor: int) -> bool:
        """Whether it is a regular file that may be read. What the kernel shows in /proc and /sys depends on who
        reads."""
        try:
            about, path = os.fstat(descriptor), _get_real_path(descriptor)
            if not stat.S_ISREG(about.st_mode) or path.startswith(KERNEL_FOLDERS):
                return False
            if about.st_dev == os.stat("/proc").st_dev:
                return False
            return not self.public or bool(about.st_mode & stat.S_IROTH and _is_reachable(path))
        except OSError:
            return False


def _get_real_path(descriptor: int) -> str:
    """The path of an open file without links. Resolving its name again could lead to another file."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _is_source_name(path: str) -> bool:
    return Path(path).suffix.lower() in SUFFIXES or any(folder in path for folder in _HEADER_FOLDERS)


def _is_reachable(path: str) -> bool:
    """Whether everyone may reach a file: may search all directories above it. path: without links."""
    return all(os.lstat(above).st_mode & stat.S_IXOTH for above in Path(path).parents)


def decode_source(data: bytes) -> str:
    """Source code as text: UTF-8 or UTF-16 with a byte order mark, else UTF-8, else Latin-1. Control characters other
    than tabs and line breaks are replaced."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", errors="replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    return text.replace("\r\n", "\n").translate(_CONTROL)


_CONTROL: dict[int, str] = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "\ufffd") | {13: "\n"}
