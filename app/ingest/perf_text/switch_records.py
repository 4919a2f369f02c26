"""Time off the CPU from the kernel's context-switch records (`perf record --switch-events`), among samples.

    app 5/7 [000] 50.000120: PERF_RECORD_SWITCH OUT preempt
    app 5/7 [000] 50.000150: PERF_RECORD_SWITCH IN
    app 5/7 [000] 50.000170: PERF_RECORD_EXIT(5:7):(1:1)

A record has no call stack. The sample of context-switches or sched:sched_switch that precedes it in the same thread has
one: the kernel writes both when the thread leaves the CPU (`perf_event_task_sched_out` in kernel/events/core.c).
Records say whether a thread was preempted; the tracepoints also say in which state it left, and what woke it.
"""

import re
from array import array

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.builder import ProfileBuilder
from ...domain.profile import Profile
from ...domain.units import NS_PER_S
from ..trace.event_builder import NONE
from ..trace.scheduler import SchedulerTimeline
from ..trace.thread_states import (
    ASLEEP,
    IDLE_TASK,
    PREEMPTED,
    READY,
    RUN,
    UNKNOWN_TASK,
    WAITING,
    StateIntervals,
    parse_state,
)
from .callchains import Callchains
from .losses import CLOCK_WENT_BACK, LOST_BETWEEN_SWITCHES, MISSING_SWITCH, UNKNOWN_END
from .sched_events import INTERRUPT_SYMBOL, PERF_STACK, decode_name
from .sched_profile import select_frames
from .script_builder import ThreadedProfileBuilder
from .state_rows import StateRows

RECORD = b"PERF_RECORD_SWITCH"
_LINE = re.compile(
    rb"^(?P<comm>[^\n\t]{0,60}?) *+(?:(?P<pid>\d{1,10})/)?(?P<tid>-1|\d{1,10}) ++(?:\[(?P<cpu>\d{1,5})\] ++)?"
    rb"(?P<seconds>[0-8]?\d{1,9})\.(?P<part>\d{9}|\d{6}): ++(?:"
    rb"PERF_RECORD_(?:SWITCH(?:_CPU_WIDE)? (?P<way>OUT preempt|OUT|IN)|EXIT\(\d{1,10}:(?P<ended>\d{1,10})\)"
    rb"|FORK\(\d{1,10}:(?P<begun>\d{1,10})\)|(?P<lost>LOST)|(?P<task>COMM))[^\n]*+"
    rb"|(?:\d{1,18} ++)?(?:(?:context-switches|cs)(?:/[^/\n]{0,200}/)?:?[A-Za-z]{0,8}:"
    rb"|sched:sched_switch: ++prev_comm=[^\n]{0,40}? prev_pid=(?P<left>\d{1,10}) prev_prio=-?\d++ "
    rb"prev_state=(?P<state>\S{1,12}) ==>"
    rb"|(?P<wake>sched:sched_wak(?:ing|eup_new|eup)): ++comm=[^\n]{0,40}? pid=(?P<woken>\d{1,10}) prio=)"
    rb"[^\n]*+(?P<stack>" + PERF_STACK + rb"))$",
    re.MULTILINE,
)
_IN, _OUT, _EXIT, _FORK, _STACK, _WOKEN = range(6)
_WIDTH = 7


class SwitchRecords:
    """Collects the context-switch records of a text whose samples another parser reads."""

    def __init__(self) -> None:
        self._rows = array("q")
        self._losses: list[int] = []
        self._stacks: dict[bytes, int] = {}
        self._raw: list[bytes] = []
        self._chains: Callchains | None = None
        self._knows_ends = False
        self._has_waking = False
        self._states: StateRows | None = None
        self.scheduling = SchedulerTimeline()

    def __bool__(self) -> bool:
        return bool(self._rows)

    def feed(self, text: bytes) -> None:
        """Add whole lines with the call stacks that belong to them."""
        for match in _LINE.finditer(text):
            self._add(match)

    def _add(self, match: re.Match[bytes]) -> None:
        part = match["part"]
        time_ns = int(match["seconds"]) * NS_PER_S + int(part) * 10 ** (9 - len(part))
        if match["lost"]:
            self._losses.append(time_ns)
            return
        self._knows_ends |= bool(match["task"] or match["ended"] or match["begun"])
        if match["task"]:
            return
        task = int(match["ended"] or match["begun"] or match["left"] or match["tid"])
        cpu = NONE if match["cpu"] is None else int(match["cpu"])
        kind, state, stack, waker = _STACK, NONE, self._intern_stack(match["stack"]), UNKNOWN_TASK
        if match["ended"] or match["begun"]:
            kind = _EXIT if match["ended"] else _FORK
        elif way := match["way"]:
            kind, state = (_IN, NONE) if way == b"IN" else (_OUT, PREEMPTED if way.endswith(b"preempt") else WAITING)
        elif match["wake"]:
            kind, waker, task = _WOKEN, self._find_waker(task, match["stack"]), int(match["woken"])
            waking = match["wake"].endswith(b"waking")
            if self._has_waking and not waking and not match["wake"].endswith(b"new"):
                # sched_waking precedes sched_wakeup if both are recorded.
                return
            self._has_waking |= waking
        elif letters := match["state"]:
            state = parse_state(decode_name(letters))
        if task > 0:
            if not (match["wake"] or match["begun"]) and match["comm"]:
                self.scheduling.comms[task] = decode_name(match["comm"]).strip()
                if match["pid"]:
                    self.scheduling.processes.setdefault(task, int(match["pid"]))
            self._rows.extend((task, time_ns, kind, state, cpu, stack, waker))

    def _intern_stack(self, raw: bytes | None) -> int:
        return self._stacks.setdefault(raw, len(self._stacks)) if raw else NONE

    @staticmethod
    def _find_waker(task: int, stack: bytes) -> int:
        return IDLE_TASK if INTERRUPT_SYMBOL.search(stack) else task

    def add_samples(self, builder: ThreadedProfileBuilder) -> str:
        """Add samples of how long threads ran and were off the CPU, at times of the text's clock.

        Returns "": whatever is unknown is a loss.
        """
        rows = np.frombuffer(self._rows, np.int64).reshape(-1, _WIDTH)
        if not len(rows):
            return ""
        last_ns = max(int(rows[:, 1].max()), (builder.get_time_span_ns() or (0, 0))[1])
        self._add_threads(builder, rows)
        intervals = self._compute_intervals(builder, rows, last_ns)
        self.scheduling.set_intervals(intervals)
        self.scheduling.add_samples(builder, last_ns, self._get_frames)
        self._states = StateRows(builder, intervals) if len(intervals.task) else None
        return ""

    def add_states(self, profile: Profile) -> Profile:
        """The finished profile with the states of its threads over time, as slices of tracks."""
        return profile if self._states is None else self._states.add_to(profile)

    def _add_threads(self, builder: ThreadedProfileBuilder, rows: Array) -> None:
        """Add the threads that have no samples: they only waited."""
        known = builder.get_threads("thread")
        hosts = builder.get_hosts()
        for task in np.unique(rows[rows[:, 2] <= _OUT, 0]).tolist():
            if task not in known:
                pid, name = self.scheduling.processes.get(task), self.scheduling.comms.get(task)
                thread = builder.intern_thread(pid=pid, tid=task, host=hosts[0] if len(hosts) == 1 else None)
                if name:
                    builder.set_thread_name(thread, int(rows[0, 1]), name)

    def _compute_intervals(self, builder: ThreadedProfileBuilder, rows: Array, last_ns: int) -> StateIntervals:
        """The intervals between the switches of each thread, as far as they are known; the others are losses."""
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        switches, stack, state = _attach_stacks(rows)
        task, time, kind, _, cpu = switches[:, :5].T
        more = np.append(task[1:] == task[:-1], False)
        after = np.where(more, np.roll(kind, -1), NONE)
        stop = np.where(more, np.roll(time, -1), last_ns)
        begun = ((kind == _IN) | (kind == _OUT)) & ~_find_ended(task, kind)
        backward = begun & (stop < time)
        # Every interval ends with the opposite switch; a running thread also with its end.
        missing = begun & more & ((after == kind) | ((kind == _OUT) & (after == _EXIT)) | (after == _FORK))
        unknown = (kind == _IN) & ~more & (not self._knows_ends)
        lost_ns = np.sort(np.array(self._losses, np.int64))
        gap = begun & (np.searchsorted(lost_ns, time) != np.searchsorted(lost_ns, stop, "right"))
        for reason, found in (
            (CLOCK_WENT_BACK, backward),
            (MISSING_SWITCH, missing & ~backward),
            (UNKNOWN_END, unknown & ~backward),
            (LOST_BETWEEN_SWITCHES, gap & ~(backward | missing | unknown)),
        ):
            if found.any():
                first = int(np.flatnonzero(found)[0])
                builder.add_loss(reason, f"thread {task[first]} at {time[first]} ns", int(found.sum()))
        kept = np.flatnonzero(begun & ~(backward | missing | unknown | gap) & (stop > time))
        intervals = StateIntervals(
            task[kept],
            np.where(kind == _IN, RUN, state)[kept],
            time[kept],
            stop[kept],
            np.where(kind == _IN, cpu, NONE)[kept],
            np.where(kind == _IN, NONE, stack)[kept],
            np.full(len(kept), UNKNOWN_TASK),
            np.full(len(kept), NONE),
        )
        return _split_at_wakeups(intervals, rows[rows[:, 2] == _WOKEN])

    def _get_frames(self, builder: ProfileBuilder, stack: int, part: str) -> list[int]:
        """The frames of a stack, outermost first; see `scheduler.Frames`."""
        if self._chains is None:
            self._chains = Callchains(builder)
            self._raw = list(self._stacks)
        return self._chains.intern_frames(select_frames(self._chains.parse(self._raw[stack]), part))


def _attach_stacks(rows: Array) -> tuple[Array, Array, Array]:
    """Switches and ends, with the stack and state of each: those of the last sample of the thread since its previous
    switch."""
    places = np.flatnonzero(rows[:, 2] <= _FORK)
    sampled = np.flatnonzero(rows[:, 2] == _STACK)
    switches = rows[places]
    at = np.searchsorted(sampled, places) - 1
    previous = np.append(-1, places[:-1])
    source = sampled[np.maximum(at, 0)] if len(sampled) else np.zeros(len(places), np.int64)
    found = (at >= 0) & (source > previous) & (rows[source, 0] == switches[:, 0]) if len(sampled) else at >= 0
    stack = np.where(found, rows[source, 5], NONE)
    state = np.where(found & (rows[source, 3] != NONE), rows[source, 3], switches[:, 3])
    # A preempted thread is runnable, whatever state it was about to enter.
    return switches, stack, np.where(switches[:, 3] == PREEMPTED, PREEMPTED, state)


def _find_ended(task: Array, kind: Array) -> Array:
    """Which records follow the end of their thread: a CPU-wide recording has its last switches, too."""
    place = np.arange(len(task))
    first = np.searchsorted(task, task)
    ended, forked = (np.maximum.accumulate(np.where(kind == each, place, -1)) for each in (_EXIT, _FORK))
    return (ended >= first) & (ended > forked)


def _split_at_wakeups(intervals: StateIntervals, wakes: Array) -> StateIntervals:
    """The intervals, of which those that contain a wakeup are divided into a sleep and the time in the run queue."""
    if not len(wakes) or not len(intervals.task):
        return intervals
    # The first wakeup after each start, within the thread: both are sorted by thread and then by time.
    wakes = wakes[np.lexsort((wakes[:, 1], wakes[:, 0]))]
    base = int(min(wakes[:, 1].min(), intervals.start_ns.min()))
    span = int(max(wakes[:, 1].max(), intervals.stop_ns.max())) - base + 1
    tasks, number = np.unique(np.concatenate((wakes[:, 0], intervals.task)), return_inverse=True)
    if len(tasks) * span >= 1 << 62:
        return intervals
    key = number[: len(wakes)] * span + wakes[:, 1] - base
    of = number[len(wakes) :] * span
    at = np.searchsorted(key, of + intervals.start_ns - base)
    place = np.minimum(at, len(key) - 1)
    woken = (at < len(key)) & (key[place] <= of + intervals.stop_ns - base)
    woken &= (intervals.state >= ASLEEP) & (intervals.start_ns <= wakes[place, 1])
    rows = np.flatnonzero(woken)
    when = wakes[place[rows], 1]
    columns = [intervals.task, intervals.state, intervals.start_ns, intervals.stop_ns, intervals.cpu, intervals.stack]
    columns += [intervals.waker, intervals.call]
    asleep: list[Int64Array] = [column.copy() for column in columns]
    asleep[3][rows], asleep[6][rows], asleep[7][rows] = when, wakes[place[rows], 6], wakes[place[rows], 5]
    queued = [column[rows].copy() for column in columns]
    queued[1][:], queued[2], queued[5][:] = READY, when, NONE
    both = StateIntervals(*(np.concatenate(pair) for pair in zip(asleep, queued, strict=True)))
    return both.take(np.flatnonzero(both.stop_ns > both.start_ns))
