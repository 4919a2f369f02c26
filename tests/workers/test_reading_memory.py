"""Reading where memory is short: what was asked for, or an error that says what to set; never without an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.workers.read import reading
from perfloom.workers.read.child import EXIT_OUT_OF_MEMORY, ran_out_of_memory
from perfloom.workers.read.request import Limits
from tests.support.formats import FILES
from tests.support.marks import slow_but_every
from tests.support.parts import require

LIMITS = (200, 300, 400, 500, 600)
"""In MB: libraries alone do not fit into the first, small files of every format into the last, or nearly."""
BEGINNING = """
import os, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
from perfloom.workers.read.watchdog import DeadlockWatchdog
DeadlockWatchdog(lambda: os._exit(3), tick_s=0.2)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path / "data", environ={}, runtime=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but_every(4, list(FILES)))
def test_memory_limit_reads_or_rejects_every_format(settings: Settings, tmp_path: Path, name: str) -> None:
    if name == "perf-data":
        require("perf")
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    # Two of the limits for each, and each for some of those that are alike.
    at = list(FILES).index(name)
    for megabytes in (LIMITS[at % len(LIMITS)], LIMITS[(at + 2) % len(LIMITS)]):
        # Loops that were never compiled here are compiled first, which takes most of the time. One that waits in vain
        # would take all of it, and say so.
        limited = replace(settings, read_memory_bytes=megabytes * 10**6, read_seconds=240)
        try:
            assert reading.read_profile(limited, [path]).meta.format
        except UnreadableInput as error:
            wanted = f"limit of {megabytes / 1e3:.3g} GB. Set PERFLOOM_READ_MEMORY_BYTES="
            assert wanted in error.message, megabytes
            # A smaller recording would need as much.
            assert error.message.split("BYTES=")[1] in ("1GB.", "2GB.")


@pytest.mark.slow
def test_json_that_exceeds_the_memory_limit_is_not_reported_as_damaged(settings: Settings, tmp_path: Path) -> None:
    """orjson does not raise a MemoryError."""
    frames = [{"name": f"function {at}"} for at in range(200_000)]
    samples = [[at] for at in range(200_000)]
    profile = {
        "type": "sampled",
        "name": "a",
        "unit": "seconds",
        "startValue": 0,
        "endValue": 2e5,
        "samples": samples,
        "weights": [1] * 200_000,
    }
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"shared": {"frames": frames}, "profiles": [profile]}))
    for megabytes in (450, 600):
        with pytest.raises(UnreadableInput, match="Reading needs more than the memory limit"):
            reading.read_profile(replace(settings, read_memory_bytes=megabytes * 10**6), [path])


@pytest.mark.parametrize("name", ["chrome-trace", "pprof", "perf-script", "pytorch-memory-snapshot"])
def test_the_memory_that_the_error_names_is_enough(settings: Settings, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    assert reading.read_profile(replace(settings, read_memory_bytes=10**9), [path]).meta.complete


@pytest.mark.parametrize(
    "code",
    [
        # The thread never gives the sign that it began: what Python waits for where its first step finds no memory.
        "threading._start_new_thread = threading._start_joinable_thread = lambda *_, **__: 0\n"
        "threading.Thread(target=print).start()",
        # A worker of a pool ends with its task, which no other will do.
        "pool = ThreadPoolExecutor(2)\n"
        "import concurrent.futures.thread as t\n"
        "def end(self): raise MemoryError\n"
        "t._WorkItem.run = end\n"
        "pool.submit(print).result()",
    ],
    ids=["a thread that never begins", "a worker that ends"],
)
def test_waiting_for_a_thread_that_is_not_there_ends(code: str) -> None:
    assert (
        subprocess.run([sys.executable, "-c", BEGINNING + code], timeout=60, check=False).returncode
        == EXIT_OUT_OF_MEMORY
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "pool = ThreadPoolExecutor(2)\npool.submit(time.sleep, 3).result()",
        "pool = ThreadPoolExecutor(2)\npool.submit(lambda: os.read(0, 1)).result()",
        "os.read(0, 1)",
        "import subprocess\nsubprocess.run(['sleep', '3'])",
    ],
    ids=["a worker that sleeps", "a worker that waits for input", "input", "another program"],
)
def test_watchdog_ignores_threads_that_work(code: str) -> None:
    held, given = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", BEGINNING + code], stdin=held)
    try:
        time.sleep(3)
        os.write(given, b"x")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(held)
        os.close(given)


def test_out_of_memory_is_distinguished_from_damaged_file() -> None:
    small, large = (Limits(size, 1, 1, 1) for size in (500_000_000, 8_000_000_000))
    assert ran_out_of_memory("LLVM ERROR: out of memory\nAllocation failed\n", large, crashed=True)
    assert ran_out_of_memory("terminate called after throwing an instance of 'std::bad_alloc'\n", large, crashed=True)
    assert ran_out_of_memory("", small, crashed=True)
    assert not ran_out_of_memory("", large, crashed=True)
    internal = "Traceback (most recent call last):\nSystemError: error return without exception set\n"
    assert ran_out_of_memory(internal, small, crashed=False)
    assert not ran_out_of_memory(internal, large, crashed=False)
    assert not ran_out_of_memory("KeyError: 'memory'\n", small, crashed=False)


def test_a_watched_process_ends_by_itself() -> None:
    """No timer signal arrives while Python shuts down, after it has restored the default handler."""
    code = (
        "import signal\nfrom perfloom.workers.read.watchdog import DeadlockWatchdog\n"
        "class Slow:\n    def __del__(self, sleep=__import__('time').sleep): sleep(0.5)\n"
        "import sys\nsys.modules['slow'] = Slow()\nDeadlockWatchdog(lambda: None, tick_s=0.1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
