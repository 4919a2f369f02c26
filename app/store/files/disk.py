"""Disk operations of the store: error messages with advice, flushing, safe names, sizes."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...domain.errors import Unavailable
from ...paths import os_error_text

MAX_NAME_BYTES = 180


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Converts errors of writing below `path` to Unavailable, with advice."""
    try:
        yield
    except OSError as error:
        raise unavailable(path, error) from error


def unavailable(path: Path, error: OSError) -> Unavailable:
    """The error for a failure to write below `path`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(
            f"The disk that holds {path} is full{_free(path)}. Delete results or other files there, then try again; "
            f"existing results are not affected."
        )
    if error.errno == errno.EROFS:
        return Unavailable(f"The disk that holds {path} is read-only; make it writable, then try again.")
    return Unavailable(
        f"{path} cannot be written: {os_error_text(error)}. Check the disk and its permissions, then try again."
    )


def sync_file(path: Path) -> None:
    """Flush a file's content to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_full(path: Path) -> bool:
    """Whether the disk of `path` has almost no free space."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize < 1 << 20


def disk_usage(path: Path) -> int:
    """Disk space of the files in a directory, in bytes; links are not followed."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            total += found.st_blocks * 512
    return total


def remove_tree(path: Path) -> None:
    """Remove a directory tree, also if a recorded program left directories without permissions."""

    for _ in range(3):
        try:
            for folder, folders, _names in os.walk(path):
                for name in folders:
                    below = os.path.join(folder, name)
                    if not os.path.islink(below) and os.lstat(below).st_mode & 0o700 != 0o700:
                        os.chmod(below, 0o700)
            shutil.rmtree(path)
        except FileNotFoundError:
            # Another process is removing it, too.
            if not os.path.lexists(path):
                return
    if os.path.lexists(path):
        shutil.rmtree(path)


def safe_name(name: str, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """A file name that is safe to store and to offer: no directory, no control characters, not hidden, not too long.

    taken: existing names, from which it must differ.
    """
    base = re.split(r"[/\\]", os.fsencode(name).decode("utf-8", "replace"))[-1]
    base = "".join("_" if ord(c) < 32 or c in '\x7f"<>|:*?\ufffd' else c for c in base).strip(" .")
    base = base.lstrip("-.") or "file"
    stem, dot, suffix = base.partition(".")
    while len((stem + dot + suffix).encode()) > MAX_NAME_BYTES:
        stem, suffix = (stem[:-1], suffix) if len(stem) > 8 else (stem, suffix[1:])
    unique = stem + dot + suffix
    number = 2
    while unique in taken:
        unique = f"{stem}-{number}{dot}{suffix}"
        number += 1
    return unique


def _free(path: Path) -> str:
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return f" ({shutil.disk_usage(path).free // 10**6} MB are free)"
    except OSError:
        return ""
