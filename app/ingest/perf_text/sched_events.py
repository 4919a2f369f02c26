"""Scheduler events as the kernel and perf print them, added to `SchedulerTimeline`.

prev_comm=bash prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=ls next_pid=13 next_prio=120
bash:12 [120] S ==> ls:13 [120]
comm=ls pid=13 prio=120 target_cpu=001
comm=ls pid=13 runtime=63194 [ns]
ls:13 [120] success=1 CPU:001
"""

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.units import NS_PER_S, NS_PER_US
from ..trace.event_builder import NONE, TraceEventBuilder
from ..trace.scheduler import SchedulerTimeline
from ..trace.thread_states import IDLE_TASK, parse_state

SWITCH, WAKING, WAKEUP_NEW, WAKEUP = b"sched_switch", b"sched_waking", b"sched_wakeup_new", b"sched_wakeup"
STAT_RUNTIME = b"sched_stat_runtime"
SCHED_EVENTS = frozenset({SWITCH, WAKING, WAKEUP_NEW, WAKEUP, STAT_RUNTIME})
_SWITCH = re.compile(
    rb"prev_comm=(.*?) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*?) next_pid=(\d+)(?: |\s*$)"
)
_SHORT = re.compile(rb"(.*?):(\d+) \[-?\d+\] (\S+) ==> (.*?):(\d+) \[-?\d+\]")
_WOKEN = re.compile(rb"(?:comm=(.*?) pid=(\d+) prio=|(.*?):(\d+) \[)")
_RAN = re.compile(rb"comm=.*? pid=(\d+) runtime=(\d{1,18}) \[ns\]")
INTERRUPT_SYMBOL = re.compile(
    rb"\b(?:asm_sysvec_|asm_common_interrupt|asm_exc_nmi|common_interrupt|do_IRQ|handle_softirqs|__do_softirq"
    rb"|el[01]h?t?_(?:64_)?irq\b)"
)
"""Frames where an interrupt, or work that it deferred, begins: the frames below are unrelated to it."""
_FLAGS_OF_INTERRUPTS = re.compile(rb"..[hHsZz]")
"""The kernel's flags of a line that was printed within an interrupt."""


@dataclass(frozen=True)
class SchedPatterns:
    """Regular expressions for whole lines of switches, wakeups and runtimes, in a text of many lines."""

    switches: re.Pattern[bytes]
    wakes: re.Pattern[bytes]
    ran: re.Pattern[bytes]


def make_patterns(before: bytes, prefix: bytes, stack: bytes) -> SchedPatterns:
    """before: the text before the event, with the groups tid, pid, cpu, seconds and part. prefix: of its name. stack:
    the text that follows the line and belongs to it."""

    def lines(pattern: bytes) -> re.Pattern[bytes]:
        return re.compile(before + prefix + pattern + rb"[^\n]*+(?P<chain>" + stack + rb")$", re.MULTILINE)

    return SchedPatterns(
        lines(
            rb"sched_switch: ++prev_comm=(?P<before>.{0,40}?) prev_pid=(?P<left>\d{1,10}) prev_prio=-?\d+ "
            rb"prev_state=(?P<state>\S{1,12}) ==> next_comm=(?P<after>.{0,40}?) next_pid=(?P<taken>\d{1,10}) "
            rb"next_prio=-?\d+"
        ),
        lines(
            rb"(?P<kind>sched_waking|sched_wakeup|sched_wakeup_new): ++comm=(?P<comm>.{0,40}?) pid=(?P<woken>\d{1,10}) "
            rb"prio="
        ),
        lines(rb"sched_stat_runtime: ++comm=.{0,40}? pid=(?P<ran>\d{1,10}) runtime=(?P<length>\d{1,18}) \[ns\]"),
    )


FTRACE_PATTERNS = make_patterns(
    rb"^[^\n\[(]{1,60}-(?P<tid>\d{1,10}+) ++(?:\( *(?P<pid>\d++|-++)\) ++)?\[(?P<cpu>\d{1,5}+)\] ++"
    rb"(?:(?P<flags>[^\s\d:]\S{3,7}) ++)?(?P<seconds>\d{1,12}+)\.(?P<part>\d{6}): ++",
    b"",
    b"",
)
PERF_PREFIX = (
    rb"^(?!\t)(?P<task>[^\n\[]{1,60}?)(?:(?P<pid>\d++)/)?(?P<tid>\d{1,10}+) ++\[(?P<cpu>\d{1,5}+)\] ++"
    rb"(?P<flags>)(?:[A-Za-z.]{1,8} ++)?(?P<seconds>\d{1,12}+)\.(?P<part>\d{9}|\d{6}): ++"
    rb"(?:(?P<period>\d{1,18}+) ++)?"
)
"""The text that perf script prints before an event."""
# A program may be called "dd", and its number follows.
PERF_STACK = rb"(?:\n[ \t]++[0-9a-f]++ (?![^\n]* \[\d{1,5}\] )[^\n]*+)*+"
PERF_PATTERNS = make_patterns(PERF_PREFIX, b"sched:", PERF_STACK)


def get_waker(task: int, flags: bytes | None) -> int:
    """The waker if the kernel prints such flags: the current thread, unless it is in an interrupt."""
    return IDLE_TASK if flags and _FLAGS_OF_INTERRUPTS.match(flags) else task


def decode_name(raw: bytes) -> str:
    """A name from any bytes."""
    return raw.decode("utf-8", "backslashreplace")


class SchedEventParser:
    """Collects the scheduler's events, and the names of threads. stacks: the ids of call stacks by their text. skipped:
    how many switches perf did not record, because they were sampled."""

    def __init__(
        self, scheduling: SchedulerTimeline, events: TraceEventBuilder, forms: SchedPatterns = FTRACE_PATTERNS
    ) -> None:
        self._scheduling, self._events, self._forms = scheduling, events, forms
        self.stacks: dict[bytes, int] = {}
        self.unused_stacks = 0
        self.skipped = 0
        self.comms: dict[int, bytes] = {}
        self._states: dict[bytes, int] = {}
        self._places: dict[bytes, int] = {}
        self._interrupts: dict[bytes, int] = {}
        self._switches = array("q")
        self._wakes: dict[bytes, array[int]] = {kind: array("q") for kind in (WAKING, WAKEUP_NEW, WAKEUP)}
        self._ran = array("q")

    def feed(self, kind: bytes, time_ns: int, cpu: int, task: int, text: bytes) -> bool:
        """Add one of the KNOWN events of a thread; False if its text is malformed."""
        if kind == SWITCH:
            return self._add_switch(time_ns, cpu, text)
        if kind == STAT_RUNTIME:
            match = _RAN.match(text)
            if match is None or len(match[1]) > 18:
                return False
            runner = int(match[1])
            self._ran.extend((time_ns, runner, int(match[2]), cpu if runner == task else NONE, NONE))
            return True
        match = _WOKEN.match(text)
        if match is None or len(match[2] or match[4]) > 18:
            return False
        self._wakes[kind].extend((time_ns, int(match[2] or match[4]), task, NONE))
        return True

    def _add_switch(self, time_ns: int, cpu: int, text: bytes) -> bool:
        match = _SWITCH.match(text) or _SHORT.match(text)
        if match is None:
            return False
        before, left, letters, after, next_tid = match.groups()
        if len(left) > 18 or len(next_tid) > 18:
            return False
        state = self._states.get(letters)
        if state is None:
            state = self._states[letters] = parse_state(letters.decode("ascii", "replace"))
        place = self._places.get(after)
        if place is None:
            place = self._places[after] = self._events.intern_text(decode_name(after))
        task, other = int(left), int(next_tid)
        self.comms[task], self.comms[other] = before, after
        self._switches.extend((time_ns, cpu, task, state, other, place, NONE))
        return True

    def feed_lines(self, text: bytes, last_ns: int) -> tuple[bytes, int]:
        """Parse switches, wakeups and runtimes of complete lines, vectorized.

        Returns the text with empty lines instead of those, and the last time in them, if that is after `last_ns`.
        """
        for form, take in (
            (self._forms.switches, self._parse_switches),
            (self._forms.wakes, self._parse_wakes),
            (self._forms.ran, self._parse_runs),
        ):
            parts = form.split(text)
            width = form.groups + 1
            if len(parts) > 1:
                columns = {name: parts[place::width] for name, place in form.groupindex.items()}
                time_ns = parse_times(columns["seconds"], columns["part"])
                last_ns = max(last_ns, int(time_ns.max()))
                take(time_ns, columns)
                text = remove_matches(parts, width, columns["chain"])
        return text, last_ns

    def _parse_switches(self, time_ns: Array, of: dict[str, list[bytes]]) -> None:
        self.skipped += sum(int(period) - 1 for period in of.get("period", ()) if period and period not in (b"0", b"1"))
        tasks, others = _parse_ns_columns(of["left"]), _parse_ns_columns(of["taken"])
        self._note_processes(of["pid"], tasks)
        self.comms.update(zip(others.tolist(), of["after"], strict=True))
        self.comms.update(zip(tasks.tolist(), of["before"], strict=True))
        states = self._intern_texts(of["state"], self._states, lambda raw: parse_state(decode_name(raw)))
        names = self._intern_texts(of["after"], self._places, lambda raw: self._events.intern_text(decode_name(raw)))
        columns = (
            time_ns,
            _parse_ns_columns(of["cpu"]),
            tasks,
            states,
            others,
            names,
            self._intern_chains(of["chain"]),
        )
        self._switches.frombytes(np.stack(columns, axis=1).tobytes())

    def _parse_wakes(self, time_ns: Array, of: dict[str, list[bytes]]) -> None:
        tasks, wakers = _parse_ns_columns(of["woken"]), _parse_ns_columns(of["tid"])
        for task, name in zip(tasks.tolist(), of["comm"], strict=True):
            self.comms.setdefault(task, name)
        stacks = self._intern_chains(of["chain"])
        by_flags = self._intern_texts(of["flags"], {}, lambda raw: get_waker(NONE, raw) == IDLE_TASK)
        by_chain = self._intern_texts(
            of["chain"], self._interrupts, lambda raw: INTERRUPT_SYMBOL.search(raw) is not None
        )
        wakers = np.where((by_flags | by_chain) != 0, IDLE_TASK, wakers)
        sorts = np.array(of["kind"])
        rows = np.stack((time_ns, tasks, wakers, stacks), axis=1)
        for kind, wakes in self._wakes.items():
            wakes.frombytes(rows[sorts == kind].tobytes())

    def _parse_runs(self, time_ns: Array, of: dict[str, list[bytes]]) -> None:
        tasks, cpu, stacks = (
            _parse_ns_columns(of["ran"]),
            _parse_ns_columns(of["cpu"]),
            self._intern_chains(of["chain"]),
        )
        # Another thread may account for it, on another CPU and with another stack.
        own = tasks == _parse_ns_columns(of["tid"])
        self.unused_stacks += int(np.count_nonzero(stacks[~own] >= 0))
        lengths = np.array(of["length"], "S18").astype(np.int64)
        columns = (time_ns, tasks, lengths, np.where(own, cpu, NONE), np.where(own, stacks, NONE))
        self._ran.frombytes(np.stack(columns, axis=1).tobytes())

    def _intern_chains(self, raw: list[bytes]) -> Array:
        """The ids of call stacks."""
        return self._intern_texts(raw, self.stacks, lambda chain: len(self.stacks) if chain else NONE)

    def _note_processes(self, process: Sequence[bytes | None], tasks: Array) -> None:
        """The process of each thread, if it is printed."""
        if any(process):
            processes = self._scheduling.processes
            for task, pid in dict.fromkeys(zip(tasks.tolist(), process, strict=True)):
                if pid and pid[:1] != b"-" and len(pid) < 11:
                    processes.setdefault(task, int(pid))

    @staticmethod
    def _intern_texts(raw: list[bytes], known: dict[bytes, int], number: Callable[[bytes], int]) -> Array:
        """The id of each text."""
        for one in dict.fromkeys(raw):
            if one not in known:
                known[one] = number(one)
        return np.array([known[one] for one in raw], np.int64)

    def finish(self) -> None:
        """Pass all collected events to the timeline."""
        for task, comm in self.comms.items():
            if comm != b"<...>" and task:
                self._scheduling.comms[task] = decode_name(comm)
        switches = np.frombuffer(self._switches, np.int64).reshape(-1, 7).T
        if switches.size:
            self._scheduling.add_switches(*switches)
        if not switches.size:
            return
        # sched_waking precedes sched_wakeup if both are recorded.
        kind = WAKING if len(self._wakes[WAKING]) else WAKEUP
        for wakes in (self._wakes[kind], self._wakes[WAKEUP_NEW]):
            if len(wakes):
                self._scheduling.add_wakeups(*np.frombuffer(wakes, np.int64).reshape(-1, 4).T)
        if len(self._ran):
            self._scheduling.add_runtimes(*np.frombuffer(self._ran, np.int64).reshape(-1, 5).T)


def _parse_ns_columns(raw: list[bytes]) -> Array:
    numbers: Array = np.array(raw, "S10").astype(np.int64)
    return numbers


def parse_times(seconds: list[bytes], part: list[bytes]) -> Array:
    """Times in ns, of seconds and six or nine digits of their fraction."""
    whole: Int64Array = np.array(seconds, "S12").astype(np.int64) * NS_PER_S
    fraction = np.array(part, "S9")
    return whole + fraction.astype(np.int64) * np.where(np.char.str_len(fraction) == 9, 1, NS_PER_US)


def remove_matches(parts: list[bytes], width: int, chain: list[bytes]) -> bytes:
    """A text without some of its parts, with as many lines as before."""
    rest = parts[::width]
    if any(chain):
        ends = [b"\n" * raw.count(b"\n") for raw in chain]
        return b"".join(piece for pair in zip(rest, [*ends, b""], strict=True) for piece in pair)
    return b"".join(rest)
