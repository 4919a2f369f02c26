"""Keeps browsers and network changes of this machine apart.

Chromium aborts loading (ERR_NETWORK_CHANGED) when any interface is added, is removed or loses its carrier, even an
unused one. Test processes share these locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SETTLE_S = 2.0
"""Chromium collects changes for half a second or more before it reacts."""


def _open(name: str) -> int:
    path = Path(tempfile.gettempdir(), f"perfloom-tests-{os.geteuid()}-{name}.lock")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _locked(name: str, kind: int) -> Iterator[None]:
    handle = _open(name)
    try:
        fcntl.flock(handle, kind)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def stable_network() -> Iterator[None]:
    """No interface changes within the block. Several processes may be in such a block at the same time."""
    with contextlib.ExitStack() as stack:
        # A waiting change goes first, or a sequence of browsers could delay it forever.
        with _locked("queue", fcntl.LOCK_EX):
            stack.enter_context(_locked("network", fcntl.LOCK_SH))
        yield


@contextlib.contextmanager
def network_change() -> Iterator[None]:
    """Interfaces may change within the block; no browser test runs."""
    with _locked("queue", fcntl.LOCK_EX), _locked("network", fcntl.LOCK_EX):
        yield
        time.sleep(SETTLE_S)
