"""Opens regular files by paths that others chose."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

KERNEL_FOLDERS = ("/proc/", "/sys/", "/dev/")


def open_regular(path: Path, public: bool) -> BinaryIO | None:
    """A regular file, None if it cannot or must not be opened. public: only one that everyone may read."""
    try:
        # Opening a device may have an effect: a watchdog starts, a tape rewinds.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        # Opening what has replaced it since, such as a pipe, could wait forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    if _is_allowed(descriptor, public):
        return cast(BinaryIO, os.fdopen(descriptor, "rb"))
    os.close(descriptor)
    return None


def _is_allowed(descriptor: int, public: bool) -> bool:
    """Whether it is a regular file that may be read. What the kernel shows in /proc and /sys depends on who reads."""
    try:
        about, path = os.fstat(descriptor), get_real_path(descriptor)
        if not stat.S_ISREG(about.st_mode) or path.startswith(KERNEL_FOLDERS):
            return False
        if about.st_dev == os.stat("/proc").st_dev:
            return False
        return not public or bool(about.st_mode & stat.S_IROTH and _is_reachable(path))
    except OSError:
        return False


def get_real_path(descriptor: int) -> str:
    """The path of an open file without links. Resolving its name again could lead to another file."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _is_reachable(path: str) -> bool:
    """Whether everyone may reach a file: may search all directories above it. path: without links."""
    return all(os.lstat(above).st_mode & stat.S_IXOTH for above in Path(path).parents)
