"""The process that perf started: the recorded program, or a perf stat with the program as its child. Standard library
only.

perf may be killed (by the kernel when memory is low, or by a user) while the program runs. Then the program becomes a
child of the supervisor, which has to distinguish it from other orphans.
"""

import contextlib
import locale
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..base import processes

TAIL_BYTES = 8192


class RecordedProcess:
    """perf's child and, if that is a perf stat (inside), the child of it."""

    def __init__(self, perf: int, *, inside: bool) -> None:
        self._perf, self._inside = perf, inside
        self.counter: processes.ProcessStat | None = None
        self.program: processes.ProcessStat | None = None
        self._ended: dict[int, int] = {}
        self._first: tuple[int, int] | None = None

    @property
    def complete(self) -> bool:
        """Whether the program is known."""
        return self.program is not None

    def update(self) -> None:
        """Find the processes that are not known yet."""
        if self.program is not None:
            return
        if self._inside and self.counter is None:
            self.counter = _first_child(self._perf)
        above = self._perf if not self._inside else self.counter.pid if self.counter else None
        self.program = None if above is None else _first_child(above)

    def record_exit(self, pid: int, wait_status: int, started: int) -> None:
        """Record the end of a process that was reparented to this one. started: its time in /proc/PID/stat."""
        if any(one is not None and one.pid == pid for one in (self.counter, self.program)):
            self._ended[pid] = wait_status
        if self._first is None or started < self._first[0]:
            self._first = (started, wait_status)

    def unreported_exit(self) -> int | None:
        """How the program ended, where perf stat did not wait for it: it does not wait for a child that ends before it
        begins to wait (skip_signal in tools/perf/builtin-stat.c), and ends with 0. The program is then reparented to
        this process. If it was not known before, it is the orphan that was started first."""
        if not self._inside:
            return None
        if self.program is not None:
            return self._ended.get(self.program.pid)
        return self._first[1] if self._first else None

    def remaining(self) -> tuple[int, int | None] | None:
        """The process to wait for instead of a killed perf: (pid, wait status or None); None if none remains."""
        for one in (self.counter, self.program):
            if one is None:
                continue
            if one.pid in self._ended:
                return one.pid, self._ended[one.pid]
            now = processes.read_stat(one.pid)
            if now is not None and now.started == one.started and now.parent == os.getpid():
                return one.pid, None
        return None

    def request_end(self) -> bool:
        """End the program as perf record would, and have a perf stat that observes it print its counts. False if there
        is neither."""
        self.update()
        if not self._inside or self.counter is None:
            return False
        if self.program is None:
            return processes.send_signal(self.counter, signal.SIGINT)
        return processes.send_signal(self.program, signal.SIGTERM) and processes.send_signal(
            self.program, signal.SIGCONT
        )


def _first_child(pid: int) -> processes.ProcessStat | None:
    """The child of a process that was started first."""
    with contextlib.suppress(OSError):
        # Not every kernel has it; reading it costs much less than listing all processes.
        parts = Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()
        children = [process for process in map(processes.read_stat, map(int, parts)) if process is not None]
        return min(children, key=lambda process: (process.started, process.pid), default=None)
    children = [
        process
        for process in processes.list_processes().values()
        if process.parent == pid and process.state not in "ZX"
    ]
    return min(children, key=lambda process: (process.started, process.pid), default=None)


def parse_signal(argv: Sequence[str], output: Path, environment: Mapping[str, str]) -> int | None:
    """The signal that ended the program below perf stat, which prints its description and ends with 0 (psignal(3) in
    tools/perf/builtin-stat.c). None if it prints none."""
    inside = list(argv)[list(argv).index("--") + 1 :]
    if "--" not in inside or len(inside) <= inside.index("--") + 1:
        return None
    program = inside[inside.index("--") + 1]
    with contextlib.suppress(locale.Error):
        language = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "C")
        locale.setlocale(locale.LC_MESSAGES, language)
    messages = {
        f"{program}: {signal.strsignal(number)}".encode(errors="surrogateescape"): int(number)
        for number in signal.valid_signals()
    }
    try:
        with open(output, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return None
    return next((messages[line] for line in reversed(lines) if line in messages), None)
