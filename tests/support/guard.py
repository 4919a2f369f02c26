"""Runs servers, and ends them with everything they ever started once its standard input is closed.

    python -I -S guard.py '[{"argv": [...], "log": "/path"}, ...]'

The parent process has the other end of the pipe, so that even a killed test run leaves nothing behind. Batch systems
start jobs in new sessions that outlive their daemons: as their subreaper this process inherits them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def reap(*_: object) -> None:
    """Reap children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def children() -> list[int]:
    """The processes whose parent this one is."""
    mine = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain anything.
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                mine.append(int(stat.parent.name))
    return mine


def end_all() -> None:
    """Kill children until there are none: those of a killed one become children of this process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def end_at_once(*_: object) -> None:
    """The same as when the pipe is closed, which may happen at this moment: raise nothing into that code."""
    end_all()
    os._exit(0)


def main() -> None:
    """Start the servers of the first argument, and wait for the end of standard input."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, end_at_once)
    try:
        for server in json.loads(sys.argv[1]):
            with open(server["log"], "wb") as log:
                subprocess.Popen(server["argv"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        signal.signal(signal.SIGCHLD, reap)
        reap()
        while os.read(0, 4096):
            pass
    finally:
        end_all()


if __name__ == "__main__":
    main()
