"""Ends a reader process that waits for a thread that no longer exists.

If memory runs out while a thread starts or ends, Python waits forever: `threading.Thread.start` waits for an event that
the new thread sets, `concurrent.futures` for the result of a worker that died. Limits on memory and CPU time do not end
such a process.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import thread as pools
from types import FrameType

TICK_S = 1.0
TICKS = 4
"""How many checks in a row must find a deadlock."""
IDLE_CPU_S = 0.02
"""A process that used more CPU time since the last check is not deadlocked. The check itself takes less."""


class DeadlockWatchdog:
    """Checks every `tick_s` seconds whether the main thread is deadlocked, and calls `give_up` if so. Must be created
    in the main thread."""

    def __init__(self, give_up: Callable[[], None], tick_s: float = TICK_S) -> None:
        self._give_up = give_up
        self._used_s = time.process_time()
        self._idle = 0
        signal.signal(signal.SIGALRM, self._check)
        signal.setitimer(signal.ITIMER_REAL, tick_s, tick_s)
        # Python restores the default handlers before it exits; then SIGALRM would kill the process.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)

    def _check(self, _: int, frame: FrameType | None) -> None:
        used_s = time.process_time()
        idle = used_s - self._used_s < IDLE_CPU_S and is_deadlocked(frame)
        self._used_s = used_s
        self._idle = self._idle + 1 if idle else 0
        if self._idle >= TICKS:
            self._give_up()


def is_deadlocked(frame: FrameType | None) -> bool:
    """Whether the main thread, which is at `frame`, waits for another thread, and all other threads are idle."""
    if frame is None or frame.f_code.co_filename != threading.__file__:
        return False
    own = threading.get_ident()
    others = (at for ident, at in sys._current_frames().items() if ident != own)
    return all(_is_idle(at) for at in others) and _others_sleep()


def _is_idle(at: FrameType) -> bool:
    """Whether a thread is an idle worker of a thread pool."""
    return (at.f_code.co_filename, at.f_code.co_name) == (pools.__file__, "_worker")


def _others_sleep() -> bool:
    """Whether the kernel reports all other threads of this process as sleeping. A new thread may not have a Python
    frame yet."""
    native_id = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{name}/stat", "rb") as file:
                state = file.read().rpartition(b") ")[2][:1]
        except OSError:
            # The thread has just ended.
            return False
        if int(name) != native_id and state in b"RD":
            return False
    return True
