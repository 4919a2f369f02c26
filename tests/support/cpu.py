"""A limit of CPU time for code that hostile input must not slow down."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limit_cpu_s(limit_s: float) -> Iterator[None]:
    """Fails if the block uses more CPU time of this thread than `limit_s`.

    Neither other processes nor other threads count, nor garbage collection, whose time depends on earlier tests.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        begin_s = time.thread_time()
        yield
        used_s = time.thread_time() - begin_s
    finally:
        if enabled:
            gc.enable()
    assert used_s < limit_s, f"{used_s:.2f} s of CPU time"
