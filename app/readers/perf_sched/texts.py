"""What the kernel and perf print of the scheduler's events, told to `Scheduling`.

prev_comm=bash prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=ls next_pid=13 next_prio=120
bash:12 [120] S ==> ls:13 [120]
comm=ls pid=13 prio=120 target_cpu=001
ls:13 [120] success=1 CPU:001
"""

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..trace.events import Array
from ..trace.made import NONE, MadeEvents
from ..trace.scheduling import Scheduling, state_of

SWITCH, WAKING, NEW, WAKEUP = b"sched_switch", b"sched_waking", b"sched_wakeup_new", b"sched_wakeup"
KNOWN = frozenset({SWITCH, WAKING, NEW, WAKEUP})
_SWITCH = re.compile(
    rb"prev_comm=(.*?) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*?) next_pid=(\d+)(?: |\s*$)"
)
_SHORT = re.compile(rb"(.*?):(\d+) \[-?\d+\] (\S+) ==> (.*?):(\d+) \[-?\d+\]")
_WOKEN = re.compile(rb"(?:comm=(.*?) pid=(\d+) prio=|(.*?):(\d+) \[)")


@dataclass(frozen=True)
class Patterns:
    """How whole lines of switches and of wakeups look, in a text of many lines."""

    switches: re.Pattern[bytes]
    wakes: re.Pattern[bytes]


def patterns(before: bytes, prefix: bytes, stack: bytes) -> Patterns:
    """before: what stands before the event, with groups for process, CPU, seconds and their fraction. prefix: of its
    name. stack: what follows the line and belongs to it."""
    return Patterns(
        re.compile(
            before + prefix + rb"sched_switch: ++prev_comm=(.{0,40}?) prev_pid=(\d{1,10}) prev_prio=-?\d+ "
            rb"prev_state=(\S{1,12}) ==> next_comm=(.{0,40}?) next_pid=(\d{1,10}) next_prio=-?\d+[^\n]*+"
            rb"(" + stack + rb")$",
            re.MULTILINE,
        ),
        re.compile(
            before + prefix + rb"(sched_waking|sched_wakeup|sched_wakeup_new): ++comm=(.{0,40}?) pid=(\d{1,10}) prio="
            rb"[^\n]*+(" + stack + rb")$",
            re.MULTILINE,
        ),
    )


OF_FTRACE = patterns(
    rb"^[^\n\[(]{1,60}+(?:\( *(\d++|-++)\) ++)?\[(\d{1,5}+)\] ++(?:[^\s\d:]\S{3,7} ++)?(\d{1,12}+)\.(\d{6}): ++",
    b"",
    b"",
)
OF_PERF = patterns(
    rb"^(?!\t)[^\n\[]{1,60}?(?:(\d++)/)?\d++ ++\[(\d{1,5}+)\] ++(?:[A-Za-z.]{1,8} ++)?(\d{1,12}+)\.(\d{9}|\d{6}): ++"
    rb"(?:\d++ ++)?",
    b"sched:",
    # A program may be called "dd", and its number stands behind it.
    rb"(?:\n[ \t]++[0-9a-f]++ (?![^\n]* \[\d{1,5}\] )[^\n]*+)*+",
)


def decoded(raw: bytes) -> str:
    """A name, whatever its bytes are."""
    return raw.decode("utf-8", "backslashreplace")


class SchedTexts:
    """Collects the scheduler's events, and the names of threads."""

    def __init__(self, scheduling: Scheduling, events: MadeEvents, forms: Patterns = OF_FTRACE) -> None:
        self._scheduling, self._events, self._forms = scheduling, events, forms
        self.stacks: dict[bytes, int] = {}
        self.unused_stacks = 0
        self.comms: dict[int, bytes] = {}
        self._states: dict[bytes, int] = {}
        self._places: dict[bytes, int] = {}
        self._switches = array("q")
        self._wakes: dict[bytes, array[int]] = {kind: array("q") for kind in (WAKING, NEW, WAKEUP)}

    def take(self, kind: bytes, time_ns: int, cpu: int, told: bytes, stack: int = NONE) -> bool:
        """Take in one of the KNOWN events; False where its text cannot be understood."""
        if kind == SWITCH:
            found = _SWITCH.match(told) or _SHORT.match(told)
            if found is None:
                return False
            before, left, letters, after, taken = found.groups()
            if len(left) > 18 or len(taken) > 18:
                return False
            state = self._states.get(letters)
            if state is None:
                state = self._states[letters] = state_of(letters.decode("ascii", "replace"))
            place = self._places.get(after)
            if place is None:
                place = self._places[after] = self._events.text(decoded(after))
            task, other = int(left), int(taken)
            self.comms[task], self.comms[other] = before, after
            self._switches.extend((time_ns, cpu, task, state, other, place, stack))
            return True
        found = _WOKEN.match(told)
        if found is None or len(found[2] or found[4]) > 18:
            return False
        self._wakes[kind].extend((time_ns, int(found[2] or found[4])))
        return True

    def most(self, text: bytes, last_ns: int) -> tuple[bytes, int]:
        """Take in what whole lines tell of switches and wakeups, all at once.

        Returns the text with empty lines in place of those, and the last time in them, if that is after `last_ns`.
        """
        parts = self._forms.switches.split(text)
        width = self._forms.switches.groups + 1
        if len(parts) > 1:
            process, cpu, seconds, part, before, left, state, after, taken, chain = (
                parts[i::width] for i in range(1, width)
            )
            time_ns = _times(seconds, part)
            last_ns = max(last_ns, int(time_ns.max()))
            tasks, others = (np.array(numbers, "S10").astype(np.int64) for numbers in (left, taken))
            self._told(process, tasks)
            self.comms.update(zip(others.tolist(), after, strict=True))
            self.comms.update(zip(tasks.tolist(), before, strict=True))
            states = self._each(state, self._states, lambda raw: state_of(decoded(raw)))
            names = self._each(after, self._places, lambda raw: self._events.text(decoded(raw)))
            columns = (time_ns, np.array(cpu, "S5").astype(np.int64), tasks, states, others, names)
            stacks = self._each(chain, self.stacks, lambda raw: len(self.stacks) if raw else NONE)
            block = np.stack((*columns, stacks), axis=1)
            self._switches.frombytes(block.tobytes())
            text = _joined(parts, width, chain)
        parts = self._forms.wakes.split(text)
        width = self._forms.wakes.groups + 1
        if len(parts) > 1:
            _, _, seconds, part, kinds, comm, woken, chain = (parts[i::width] for i in range(1, width))
            time_ns, tasks = _times(seconds, part), np.array(woken, "S10").astype(np.int64)
            last_ns = max(last_ns, int(time_ns.max()))
            for task, name in zip(tasks.tolist(), comm, strict=True):
                self.comms.setdefault(task, name)
            sorts = np.array(kinds)
            for kind, wakes in self._wakes.items():
                wakes.frombytes(np.stack((time_ns, tasks), axis=1)[sorts == kind].tobytes())
            self.unused_stacks += sum(map(bool, chain))
            text = _joined(parts, width, chain)
        return text, last_ns

    def _told(self, process: list[bytes | None], tasks: Array) -> None:
        """Which process the threads are in, where that is told."""
        if any(process):
            known = self._scheduling.processes
            for task, pid in dict.fromkeys(zip(tasks.tolist(), process, strict=True)):
                if pid and pid[:1] != b"-" and len(pid) < 11:
                    known.setdefault(task, int(pid))

    @staticmethod
    def _each(raw: list[bytes], known: dict[bytes, int], number: Callable[[bytes], int]) -> Array:
        """The number of each text."""
        for one in dict.fromkeys(raw):
            if one not in known:
                known[one] = number(one)
        return np.array([known[one] for one in raw], np.int64)

    def finish(self) -> None:
        """Give all that was taken in to the scheduling."""
        for task, comm in self.comms.items():
            if comm != b"<...>" and task:
                self._scheduling.comms[task] = decoded(comm)
        switches = np.frombuffer(self._switches, np.int64).reshape(-1, 7).T
        if switches.size:
            self._scheduling.switches(*switches)
        # What is about to be woken is told before it is, where both are.
        kind = WAKING if len(self._wakes[WAKING]) else WAKEUP
        for wakes in (self._wakes[kind], self._wakes[NEW]):
            if len(wakes) and switches.size:
                self._scheduling.wakes(*np.frombuffer(wakes, np.int64).reshape(-1, 2).T)


def _times(seconds: list[bytes], part: list[bytes]) -> Array:
    whole: Array = np.array(seconds, "S12").astype(np.int64) * 1_000_000_000
    fraction = np.array(part, "S9")
    return whole + fraction.astype(np.int64) * np.where(np.char.str_len(fraction) == 9, 1, 1_000)


def _joined(parts: list[bytes], width: int, chain: list[bytes]) -> bytes:
    """What is left of a text, with as many lines as it had."""
    rest = parts[::width]
    if any(chain):
        ends = [b"\n" * raw.count(b"\n") for raw in chain]
        return b"".join(piece for pair in zip(rest, [*ends, b""], strict=True) for piece in pair)
    return b"".join(rest)
