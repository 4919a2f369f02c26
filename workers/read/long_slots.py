"""Places for readings that take long: one fewer than there are for all, so that short ones never wait for them.

A place is a lock on a file of this machine, which the kernel gives back when whoever has it ends, however that happens.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from perfloom.config import Settings

TakeSlot = Callable[[], bool]
"""Take a place, unless it has one. False where there is none."""


@contextlib.contextmanager
def long_slots(settings: Settings) -> Iterator[TakeSlot]:
    """A function that takes a place for the time of the block, where there is one."""
    held: list[int] = []

    def take() -> bool:
        if settings.reads_at_once == 1 or held:
            return True
        folder = settings.prepare_runtime()
        for number in range(settings.reads_at_once - 1):
            descriptor = os.open(folder / f"long-read-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            held.append(descriptor)
            return True
        return False

    try:
        yield take
    finally:
        for descriptor in held:
            os.close(descriptor)
