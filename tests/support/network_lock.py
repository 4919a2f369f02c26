"""Browsers and changes of the network of this machine keep apart.

Chromium gives up what it loads (ERR_NETWORK_CHANGED) when an interface comes, goes or loses its carrier, also one that
it does not use. Test processes share these locks.
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
"""Chromium collects changes for half a second or more before it acts on them."""


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
    """No interface changes within the block. Several may be in such a block at the same time."""
    with contextlib.ExitStack() as stack:
        # A change that waits goes first, else browsers after browsers could hold it up.
        with _locked("queue", fcntl.LOCK_EX):
            stack.enter_context(_locked("network", fcntl.LOCK_SH))
        yield


@contextlib.contextmanager
def network_change() -> Iterator[None]:
    """Interfaces may change within the block; no browser test runs."""
    with _locked("queue", fcntl.LOCK_EX), _locked("network", fcntl.LOCK_EX):
        yield
        time.sleep(SETTLE_S)
