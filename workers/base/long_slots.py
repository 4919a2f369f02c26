"""Slots for readings that take long. There is one slot fewer than readings at once, so short readings never wait.

A slot is a lock on a file on this machine. The kernel releases it when the process that holds it ends.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from perfloom.config import Settings

TakeSlot = Callable[[], bool]
"""Acquires a slot, unless the caller holds one. Returns False if no slot is free."""


@contextlib.contextmanager
def long_slots(settings: Settings) -> Iterator[TakeSlot]:
    """A function that acquires a slot. The slot is released at the end of the block."""
    descriptors: list[int] = []

    def take() -> bool:
        if settings.reads_at_once == 1 or descriptors:
            return True
        folder = settings.prepare_runtime()
        for number in range(settings.reads_at_once - 1):
            descriptor = os.open(folder / f"long-read-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            descriptors.append(descriptor)
            return True
        return False

    try:
        yield take
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
