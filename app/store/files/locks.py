"""Locks on files between processes. The end of a process releases its locks."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ...domain.errors import Unavailable
from .disk import disk_errors

POLL_S = 0.2


def open_locked(path: Path, timeout_s: float = 0.0) -> int | None:
    """A descriptor that holds the lock on `path` until it, and its copies in other processes, are closed; None if
    another descriptor holds the lock all the time. Raises Unavailable."""
    end = time.monotonic() + timeout_s
    with disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked, descriptor = descriptor, -1
                return locked
            if time.monotonic() >= end:
                return None
            time.sleep(POLL_S)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Whether this process locks the file `path` during the block."""
    descriptor = open_locked(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def wait_for_lock(path: Path, timeout_s: float, message: str) -> Iterator[None]:
    """Lock the file `path` during the block. Raises Unavailable with `message` after `timeout_s` seconds."""
    descriptor = open_locked(path, timeout_s)
    if descriptor is None:
        raise Unavailable(message)
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock on `path` now. This takes the lock for a moment: who needs it has to wait
    for it, not only to try."""
    if not path.exists():
        return False
    with try_lock(path) as free:
        return not free
