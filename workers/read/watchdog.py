"""Ends a process that reads where it waits for a thread that is not there.

Where memory runs out while a thread begins or ends, Python's own waiting has no end: `threading.Thread.start` waits
for a sign of the new thread, `concurrent.futures` for the result of a worker that died with it. Nobody but that thread
could end it, and no limit on memory or time of the processor does.
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
"""So often in a row it has to look as if nothing could go on."""
IDLE_CPU_S = 0.02
"""Who used more of the processor since the last look than looking takes did something."""


class DeadlockWatchdog:
    """Looks every second whether the main thread waits in vain, and calls `give_up` then. Begin it in that thread."""

    def __init__(self, give_up: Callable[[], None], tick_s: float = TICK_S) -> None:
        self._give_up = give_up
        self._used_s = time.process_time()
        self._idle = 0
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, tick_s, tick_s)
        # Python takes its handlers away before it ends, and the next tick would end it instead.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)

    def _look(self, _: int, frame: FrameType | None) -> None:
        used_s = time.process_time()
        idle = used_s - self._used_s < IDLE_CPU_S and is_deadlocked(frame)
        self._used_s = used_s
        self._idle = self._idle + 1 if idle else 0
        if self._idle >= TICKS:
            self._give_up()


def is_deadlocked(frame: FrameType | None) -> bool:
    """Whether the main thread, which is at `frame`, waits for another thread and none of them has anything to do."""
    if frame is None or frame.f_code.co_filename != threading.__file__:
        return False
    own = threading.get_ident()
    others = (at for ident, at in sys._current_frames().items() if ident != own)
    return all(_is_idle(at) for at in others) and _others_sleep()


def _is_idle(at: FrameType) -> bool:
    """Whether a thread is a worker of a pool that waits for work."""
    return (at.f_code.co_filename, at.f_code.co_name) == (pools.__file__, "_worker")


def _others_sleep() -> bool:
    """Whether the kernel has no other thread of this process to run: one that just began may be one."""
    native_id = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{name}/stat", "rb") as file:
                state = file.read().rpartition(b") ")[2][:1]
        except OSError:
            # It has ended meanwhile.
            return False
        if int(name) != native_id and state in b"RD":
            return False
    return True
