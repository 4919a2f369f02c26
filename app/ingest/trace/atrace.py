"""Marks that programs write into the kernel's trace: begins, ends, counters, as Android's atrace does.

B|1234|name   E|1234   C|1234|name|value   I|1234|name   S|1234|name|cookie   F|1234|name|cookie
G|1234|track|name|cookie   H|1234|track|cookie   N|1234|track|name
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...domain.arrays import MISSING, Array, IndexArray
from ..jit.hashing import factorize
from .event_builder import NONE, TraceEventBuilder
from .scheduler import CPUS

LETTERS = frozenset("BECISFGHN")
MARK = "marks"
"""The category of slices of threads that come from marks of programs."""
COUNTER = ord("C")
OF_TASK, MAX_VALUE = -(1 << 63), (1 << 63) - 1
"""Represents the process of the thread. No process id is this far from zero."""
CPU_TASK = -2
"""The thread id for marks of which only the CPU is known: this minus the CPU's number."""


class AtraceMarkers:
    """Collects marks. processes: the process of each thread, if known; markers add more."""

    def __init__(self, events: TraceEventBuilder, processes: dict[int, int]) -> None:
        self._events, self._processes = events, processes
        self._rows: list[tuple[int, ...]] = []
        self._blocks: list[Array] = []
        self._ids: dict[tuple[str, ...], int] = {}
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows) + sum(len(block[0]) for block in self._blocks)

    def feed(self, time_ns: int, task: int, mark: str) -> bool:
        """Add a mark of a thread; False if it is none."""
        meant = self._parse_mark(mark)
        if meant is None:
            return False
        letter, name, category, process, id, owner, value = meant
        if letter == COUNTER:
            self._events.add_counter_value(self._events.get_texts()[name], time_ns, value, process=process)
            return True
        if owner > 0:
            self._processes.setdefault(task, owner)
        if process == OF_TASK:
            self.threads.add(task)
        row = (task, category, NONE) if process == OF_TASK else (NONE, category, process)
        self._rows.append((letter, time_ns, name, *row, id, MISSING, NONE))
        return True

    def feed_many(self, time_ns: Array, task: Array, code: Array, marks: Sequence[str]) -> IndexArray:
        """Add marks of threads: code is the index into `marks`, each of which is parsed once. Returns which are
        invalid."""
        meant = [self._parse_mark(mark) for mark in marks]
        none = np.flatnonzero(np.array([one is None for one in meant], bool)[code])
        columns = np.array([one[:-1] if one else [0] * 6 for one in meant], np.int64).reshape(-1, 6).T[:, code]
        letter, name, category, process, id, owner = columns
        counted = np.flatnonzero(letter == COUNTER)
        if len(counted):
            value = np.array([one[-1] if one else 0.0 for one in meant])[code[counted]]
            self._events.add_events("C", time_ns[counted], name[counted], NONE, process=process[counted], value=value)
        owned = np.flatnonzero(owner > 0)
        _, first = factorize(task[owned])
        for one, pid in zip(task[owned[first]].tolist(), owner[owned[first]].tolist(), strict=True):
            self._processes.setdefault(one, pid)
        rows = np.flatnonzero((letter != 0) & (letter != COUNTER))
        of_task = process[rows] == OF_TASK
        self.threads.update(np.unique(task[rows[of_task]]).tolist())
        same = np.full(len(rows), NONE)
        self._blocks.append(
            np.stack(
                (
                    *(letter[rows], time_ns[rows], name[rows], np.where(of_task, task[rows], NONE), category[rows]),
                    *(np.where(of_task, NONE, process[rows]), id[rows], np.full(len(rows), MISSING), same),
                )
            )
        )
        return none

    def _parse_mark(self, mark: str) -> tuple[int, int, int, int, int, int, float] | None:
        """(letter, index of the name, index of the category, the process of a mark without a thread (of a counter the
        index of its text) or OF_TASK, id, the process of the thread or 0, the value of a counter) of a mark."""
        letter, _, rest = mark.partition("|")
        if letter not in LETTERS or (not rest and letter != "E"):
            return None
        owner, _, body = rest.partition("|")
        try:
            pid = int(owner) if owner else 0
        except ValueError:
            return None
        if abs(pid) > MAX_VALUE:
            return None
        text = self._events.intern_text
        if letter == "B":
            return ord("B"), text(body or "unnamed"), text(MARK), OF_TASK, NONE, pid, 0.0
        if letter == "E":
            return ord("E"), NONE, text(MARK), OF_TASK, NONE, pid, 0.0
        if letter == "I":
            return ord("i"), text(body), text(MARK), OF_TASK, NONE, pid, 0.0
        if letter == "N":
            track, _, name = body.partition("|")
            return ord("i"), text(name or track), text(track), OF_TASK, NONE, 0, 0.0
        if letter == "C":
            name, _, number = body.rpartition("|")
            try:
                value = float(number)
            except ValueError:
                return None
            if not math.isfinite(value):
                return None
            return COUNTER, text(name), NONE, text(str(pid)) if pid > 0 else NONE, NONE, 0, value
        head, _, cookie = body.rpartition("|")
        track, _, name = head.partition("|") if letter == "G" else (head, "", head)
        if letter == "H":
            name = ""
        id = self._ids.setdefault((str(pid), track, cookie), len(self._ids))
        phase = ord("b" if letter in "SG" else "e")
        return phase, text(name) if name else NONE, text(track or "unnamed"), pid, id, 0, 0.0

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
        """Add a begin, an end or a complete slice of a thread."""
        self.threads.add(task)
        place = NONE if name is None else self._events.intern_text(name)
        self._rows.append((ord(phase), time_ns, place, task, category, NONE, NONE, duration_ns, arguments))

    def finish(self, process: Callable[[int], str]) -> None:
        """Add all marks to the events. process: the text of the process of a thread."""
        rows = np.concatenate((np.array(self._rows, np.int64).reshape(-1, 9).T, *self._blocks), axis=1)
        self._rows, self._blocks = [], []
        phase, time_ns, name, task, category, pid, id, duration_ns, arguments = rows
        tasks, inverse = np.unique(task, return_inverse=True)
        texts = [(process(one), str(one)) if one >= 0 else (CPUS, f"CPU {CPU_TASK - one}") for one in tasks.tolist()]
        places = [tuple(map(self._events.intern_text, pair)) for pair in texts]
        of, thread = np.array(places or [(0, 0)], np.int64).T
        thread = np.where(tasks == NONE, NONE, thread)
        owners, which = np.unique(pid, return_inverse=True)
        owner = np.array(
            [self._events.intern_text(str(one)) if one > 0 else NONE for one in owners.tolist()] or [0], np.int64
        )
        processes = np.where(task != NONE, of[inverse], owner[which])
        self._events.add_events(
            *(phase, time_ns, name, thread[inverse]),
            duration_ns=duration_ns,
            category=category,
            process=processes,
            id=id,
            arguments=arguments,
        )
