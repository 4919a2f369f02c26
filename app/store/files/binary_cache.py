"""Binaries, their debug information and source files that came from elsewhere, by build id: `<data>/binaries`.

    <origin>/<build id>/executable
                        debug             its separate debug information
                        sources/<sha256>  the text of a source file, by the hash of its path

    lines/<build id>        what was read of binaries: see `known_code`

Anyone can write a file with a given build id, so those of one origin are not used for recordings of another. A file
appears completely or not at all. What was not used for the longest time is removed first.
"""

import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..ids import is_id, require_id
from . import symbol_cache
from .disk import disk_errors, disk_usage, remove_tree

FOLDER = "binaries"
UPLOADS, DEBUGINFOD = "uploads", "debuginfod"
LINES = "lines"
"""The directory with what was read of binaries, also by build id: see `known_code`."""
SHARED = (UPLOADS, DEBUGINFOD)
"""The origins whose files are used for all recordings."""
TARGET_PREFIX = "target-"
"""Of the origins of files of targets."""
INCOMING_PREFIX = ".incoming-"
REQUESTS = ".requests"
"""The directory with a directory for each result to which files are to be added."""
UPLOAD_S = 60.0
"""How long a request may be without a file, before its uploads are taken for lost."""
_FETCH, _TEXTS, _READ, _REMOVED = ".fetch-", ".texts-", ".read-", ".removed-"
_MAX_PATH_BYTES = 1 << 16
DIGITS = 40
"""Of the build ids in the names of directories. perf records so many."""
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")


class FileKind(StrEnum):
    """What a file is, which is its name."""

    EXECUTABLE = "executable"
    DEBUG = "debug"


@dataclass(frozen=True)
class BinaryFolder:
    """The files of one origin, or those that are being received."""

    root: Path

    def file(self, build_id: str, kind: FileKind) -> Path:
        """The path of a file, which may not exist. Raises ValueError for a text that is no build id."""
        return self._folder(build_id) / kind.value

    def source(self, build_id: str, path: str) -> Path:
        """The file with the text of the source file `path` of a binary."""
        name = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()
        return self._folder(build_id) / "sources" / name

    def add(self, build_id: str, kind: FileKind, received: Path) -> None:
        """Move a complete file here. Raises Unavailable."""
        target = self.file(build_id, kind)
        with disk_errors(target.parent):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            received.replace(target)

    def add_source(self, build_id: str, path: str, content: bytes, changed: float | None) -> None:
        """Store the text of a source file. changed: when it was written last, seconds since the epoch, None if that is
        unknown. Raises Unavailable."""
        target = self.source(build_id, path)
        with disk_errors(target.parent):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
            temporary.write_bytes(content)
            # A file from before every recording is not said to be newer than the program.
            os.utime(temporary, (changed or 0.0, changed or 0.0))
            temporary.replace(target)

    def keep(self, build_id: str) -> None:
        """Note that the files of a build id are in use."""
        with suppress(OSError):
            os.utime(self._folder(build_id))

    def _folder(self, build_id: str) -> Path:
        return self.root / folder_name(build_id)


def is_build_id(text: str) -> bool:
    """Whether a text is a build id: hexadecimal digits."""
    return _BUILD_ID.fullmatch(text) is not None


def folder_name(build_id: str) -> str:
    """The name of the directory of a build id in hexadecimal digits. Raises ValueError for another text."""
    if not is_build_id(build_id):
        raise ValueError(f"not a build id: {build_id[:60]!r}")
    return build_id[:DIGITS].ljust(DIGITS, "0")


def open_origin(data: Path, origin: str) -> BinaryFolder:
    """The files that came from an origin."""
    return BinaryFolder(data / FOLDER / origin)


def open_incoming(data: Path) -> BinaryFolder:
    """A new directory for files that are not checked yet. Raises Unavailable."""
    root = data / FOLDER / f"{INCOMING_PREFIX}{secrets.token_hex(6)}"
    with disk_errors(root):
        root.mkdir(mode=0o700, parents=True)
    return BinaryFolder(root)


@dataclass(frozen=True)
class FileRequest:
    """What is to be added to the machine code of a result. fetch: what is missing, from elsewhere. texts: uploaded
    texts of source files, which are in the cache. read: all, if the result has no machine code. removed: the source
    files whose text was removed. uploads: binaries, by the name that the user knows. paths: the files of the request.
    is_new: whether it is so new that uploads may still be written."""

    fetch: bool
    texts: bool
    uploads: dict[str, Path]
    paths: tuple[Path, ...] = ()
    is_new: bool = False
    read: bool = False
    removed: tuple[str, ...] = ()


def request_files(
    data: Path, id: str, *, fetch: bool = False, texts: bool = False, read: bool = False, removed: str = ""
) -> Path:
    """Note that files are to be added to the machine code of a result: see FileRequest. Returns the directory for
    uploaded ones, in which `name_upload` names them. Raises Unavailable."""
    folder = _request_folder(data, id)
    with disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for is_wanted, name in ((fetch, _FETCH), (texts, _TEXTS), (read, _READ)):
            if is_wanted:
                (folder / f"{name}{secrets.token_hex(4)}").touch(mode=0o600)
        if removed:
            token = secrets.token_hex(4)
            # A worker that reads the request meanwhile sees the whole path, or no file.
            written = folder.parent / f".{token}"
            written.write_bytes(removed.encode(errors="surrogateescape"))
            written.rename(folder / f"{_REMOVED}{token}")
    return folder


def name_upload(name: str) -> str:
    """The name of an uploaded file in the directory of a request. name: safe."""
    return f"{secrets.token_hex(4)}-{name}"


def is_requested(data: Path, id: str) -> bool:
    """Whether files are still to be added to the machine code of a result."""
    return _request_folder(data, id).is_dir()


def read_request(data: Path, id: str) -> FileRequest | None:
    """The request for a result; None without one."""
    folder = _request_folder(data, id)
    try:
        paths = sorted(folder.iterdir())
        is_new = time.time() - folder.stat().st_mtime < UPLOAD_S
    except FileNotFoundError:
        return None
    uploads: dict[str, Path] = {}
    for path in paths:
        if not path.name.startswith((_FETCH, _TEXTS, _READ, _REMOVED)):
            token, _, name = path.name.partition("-")
            uploads[f"{name} ({token})" if name in uploads else name] = path
    fetch, texts, read = (any(path.name.startswith(name) for path in paths) for name in (_FETCH, _TEXTS, _READ))
    removed = tuple(_read_path(path) for path in paths if path.name.startswith(_REMOVED))
    return FileRequest(fetch, texts, uploads, tuple(paths), is_new, read, removed)


def _read_path(file: Path) -> str:
    with suppress(OSError), open(file, "rb") as stream:
        return stream.read(_MAX_PATH_BYTES).decode(errors="surrogateescape")
    return ""


def end_request(data: Path, id: str, request: FileRequest) -> None:
    """Remove a request that was answered. Files that came meanwhile remain."""
    folder = _request_folder(data, id)
    for path in request.paths:
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()


def drop_request(data: Path, id: str) -> None:
    """Remove a request, whatever it asks for."""
    remove_tree(_request_folder(data, id))


def list_requests(data: Path, before: float) -> list[str]:
    """The ids of results with requests that are older than `before`, seconds since the epoch."""
    found = []
    for path in _subdirectories(data / FOLDER / REQUESTS):
        with suppress(FileNotFoundError):
            if is_id(path.name) and path.stat().st_mtime < before:
                found.append(path.name)
    return found


def _request_folder(data: Path, id: str) -> Path:
    return data / FOLDER / REQUESTS / require_id(id, "result")


def name_target(name: str, host: str, user: str | None, port: int | None) -> str:
    """The origin of what a target has. A target that now leads to another host is another origin."""
    text = "\n".join((name, host, user or "", str(port or "")))
    return TARGET_PREFIX + hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:20]


def trim(data: Path, limit_bytes: int, now: float, stale_s: float = 24 * 3600.0) -> int:
    """Remove the build ids that were not used for the longest time, here and in the symbol cache, until the rest has at
    most so many bytes; and what crashes left. now: seconds since the epoch. Returns the bytes removed."""
    removed = 0
    found: list[tuple[float, int, Path]] = []
    for origin in _subdirectories(data / FOLDER):
        if origin.name.startswith(INCOMING_PREFIX) and now - origin.stat().st_mtime > stale_s:
            remove_tree(origin)
        if origin.name.startswith("."):
            continue
        for path in _subdirectories(origin):
            with suppress(FileNotFoundError):
                found.append((path.stat().st_mtime, disk_usage(path), path))
    for path in symbol_cache.list_all_folders(data):
        with suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, disk_usage(path), path))
    excess = sum(size for _, size, _ in found) - limit_bytes
    for _, size, path in sorted(found):
        if excess <= 0:
            break
        remove_tree(path)
        excess -= size
        removed += size
    return removed


def _subdirectories(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from (path for path in list(folder.iterdir()) if path.is_dir() and not path.is_symlink())
