"""Waiting for something that another process does, with a deadline and never longer than needed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from perfloom.workers.base import processes

T = TypeVar("T")


def until(look: Callable[[], T], what: str, limit_s: float = 20.0) -> T:
    """The first true value of `look()`. Fails, naming `what`, when the limit is over."""
    end = time.monotonic() + limit_s
    while not (value := look()):
        if time.monotonic() > end:
            pytest.fail(f"not within {limit_s} s: {what}")
        time.sleep(0.01)
    return value


def has_ended(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    status = processes.read_stat(pid)
    return status is None or status.state in "ZX"


def pids_in(path: Path, count: int) -> list[int]:
    """The process numbers that a test's program wrote to `path`, once there are `count` lines."""
    text = until(lambda: path.exists() and path.read_text().count("\n") >= count and path.read_text(), f"{path.name}")
    return [int(word) for word in str(text).split()]
