"""What programs write into the kernel's trace of themselves: begins, ends, counters, as Android's atrace does.

B|1234|name   E|1234   C|1234|name|value   I|1234|name   S|1234|name|cookie   F|1234|name|cookie
G|1234|track|name|cookie   H|1234|track|cookie   N|1234|track|name
"""

import math
from collections.abc import Callable

import numpy as np

from .events import MISSING
from .made import NONE, MadeEvents
from .scheduling import CPUS

LETTERS = frozenset("BECISFGHN")
MARK = "marks"
"""The category of slices of threads that programs told of themselves."""
CPU_TASK = -2
"""The number in place of a thread's for what is known to be of a CPU alone: this less the CPU's."""


class Markers:
    """Marks while they are collected. processes: that of each thread, as far as known; marks tell more."""

    def __init__(self, events: MadeEvents, processes: dict[int, int]) -> None:
        self._events, self._processes = events, processes
        self._rows: list[tuple[int, ...]] = []
        self._ids: dict[tuple[str, ...], int] = {}
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, time_ns: int, task: int, mark: str) -> bool:
        """Take in a mark of a thread; False for what is none."""
        letter, _, rest = mark.partition("|")
        if letter not in LETTERS or (not rest and letter != "E"):
            return False
        owner, _, told = rest.partition("|")
        try:
            pid = int(owner) if owner else 0
        except ValueError:
            return False
        if pid > 0 and letter in "BEI":
            self._processes.setdefault(task, pid)
        text = self._events.text
        if letter == "B":
            self.add("B", time_ns, told or "unnamed", task, text(MARK))
        elif letter == "E":
            self.add("E", time_ns, None, task, text(MARK))
        elif letter == "I":
            self.add("i", time_ns, told, task, text(MARK))
        elif letter == "N":
            track, _, name = told.partition("|")
            self.add("i", time_ns, name or track, task, text(track))
        elif letter == "C":
            name, _, number = told.rpartition("|")
            return self._counter(time_ns, name, number, pid)
        else:
            self._asynchronous(letter, time_ns, pid, told)
        return True

    def add(
        self,
        phase: str,
        time_ns: int,
        name: str | None,
        task: int,
        category: int,
        *,
        duration_ns: int = MISSING,
        arguments: int = NONE,
    ) -> None:
        """Add something of a thread, that begins, ends or lasts."""
        self.threads.add(task)
        place = NONE if name is None else self._events.text(name)
        self._rows.append((ord(phase), time_ns, place, task, category, NONE, NONE, duration_ns, arguments))

    def _counter(self, time_ns: int, name: str, number: str, pid: int) -> bool:
        try:
            value = float(number)
        except ValueError:
            return False
        if not math.isfinite(value):
            return False
        process = self._events.text(str(pid)) if pid > 0 else NONE
        self._events.counter(name, time_ns, value, process=process)
        return True

    def _asynchronous(self, letter: str, time_ns: int, pid: int, told: str) -> None:
        head, _, cookie = told.rpartition("|")
        track, _, name = head.partition("|") if letter == "G" else (head, "", head)
        if letter == "H":
            name = ""
        id = self._ids.setdefault((str(pid), track, cookie), len(self._ids))
        phase = "b" if letter in "SG" else "e"
        place = self._events.text(name) if name else NONE
        category = self._events.text(track or "unnamed")
        self._rows.append((ord(phase), time_ns, place, NONE, category, pid, id, MISSING, NONE))

    def finish(self, process: Callable[[int], str]) -> None:
        """Give all that was taken in to the events. process: the text of the process of a thread."""
        rows = np.array(self._rows, np.int64).reshape(-1, 9).T
        self._rows = []
        phase, time_ns, name, task, category, pid, id, duration_ns, arguments = rows
        tasks, inverse = np.unique(task, return_inverse=True)
        texts = [(process(one), str(one)) if one >= 0 else (CPUS, f"CPU {CPU_TASK - one}") for one in tasks.tolist()]
        places = [tuple(map(self._events.text, pair)) for pair in texts]
        of, thread = np.array(places or [(0, 0)], np.int64).T
        thread = np.where(tasks == NONE, NONE, thread)
        owners, which = np.unique(pid, return_inverse=True)
        owner = np.array([self._events.text(str(one)) if one > 0 else NONE for one in owners.tolist()] or [0], np.int64)
        processes = np.where(task != NONE, of[inverse], owner[which])
        self._events.many(
            *(phase, time_ns, name, thread[inverse]),
            duration_ns=duration_ns,
            category=category,
            process=processes,
            id=id,
            arguments=arguments,
        )
