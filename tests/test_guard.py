"""The guard of test servers ends all their processes, however the test run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.recording.schedulers.jobs import until
from tests.support.batch import guarded

# Starts a new session twice, and writes down its process id.
SCATTERS = """
setsid sh -c 'echo $$ >>"$0"; exec sleep 600' "$1" &
(setsid sh -c 'trap "" TERM HUP; setsid sleep 600 & echo $! >>"$0"; echo $$ >>"$0"; wait' "$1" &)
exec sleep 600
"""


def find_alive(pids: Path) -> list[str]:
    """The recorded processes that are still alive."""
    states = []
    for pid in pids.read_text().split():
        stat = Path("/proc", pid, "stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
            states.append(pid)
    return states


def test_processes_end_with_the_block(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with guarded([(["sh", "-c", SCATTERS, "sh", pids], tmp_path / "log")]):
        until(lambda: pids.read_text().split() if pids.exists() else [], lambda seen: len(seen) == 3)
        assert len(find_alive(pids)) == 3
    assert not find_alive(pids)


def test_processes_end_when_the_test_run_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run = f"""
        import time
        from pathlib import Path
        from tests.support.batch import guarded
        with guarded([(["sh", "-c", {SCATTERS!r}, "sh", {str(pids)!r}], Path({str(tmp_path)!r}) / "log")]):
            time.sleep(600)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(run)], env=environment) as killed:
        until(lambda: pids.read_text().split() if pids.exists() else [], lambda seen: len(seen) == 3)
        killed.send_signal(signal.SIGKILL)
    until(lambda: find_alive(pids), lambda left: not left)
