"""Which thread ran on which CPU, and in which states it was otherwise: from the switches and wakeups of a scheduler, or
from state intervals.

Each thread has a row of its states (running, runnable, sleeping …) and each CPU one of the threads that ran there.
Neither is code that a thread ran, so neither counts as host time, and no time counts twice: the time of threads in each
state is in samples of three events, each row an interval of a thread, with the CPU where it ran. In addition, sleeps
count once more, by their waker, and each switch separately.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...domain import timed_events
from ...domain.arrays import Array, Int64Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import FrameKind
from .event_builder import NONE, TraceEventBuilder
from .losses import LOST_SWITCHES, UNKNOWN_RUNTIME
from .phases import MAX_TIME_NS
from .slices import SliceType
from .thread_states import (
    ASLEEP,
    IDLE_TASK,
    PREEMPTED,
    READY,
    RUN,
    STATES,
    UNKNOWN_TASK,
    SchedulerEvents,
    StateIntervals,
    compute_state_intervals,
)
from .tracks import OTHER_TRACK

RUNNING, RUNNABLE, SLEEPING = timed_events.RUNNING, timed_events.RUNNABLE, timed_events.SLEEPING
"""The events: how long threads ran, waited for a CPU, and waited for anything else, in ns."""
BY_WAKER = timed_events.SLEEPING_BY_WAKER
"""The sleeps that something in the trace ended, by their waker."""
BY_STACK = timed_events.RUNNING_BY_STACK
"""The run times that the kernel accounts to threads, at switches and clock ticks, by call stack."""
SWITCHES = "switches"
"""How often threads left a CPU, by state."""
_KINDS = {STATES[RUN]: FrameKind.USER, STATES[READY]: FrameKind.ANNOTATION, STATES[PREEMPTED]: FrameKind.ANNOTATION}
"""The colors of states: running as code, waiting for a CPU as this name; all others are gray."""
STATE, ON_CPU, CPUS = "state of a thread", "what a CPU ran", "CPUs"
"""The categories of the two kinds of slices, and the process of the CPU tracks."""
Frames = Callable[[ProfileBuilder, int, str], list[int]]
"""The frames of a stack by its id, outermost first: where a thread LEFT a CPU, what it RAN, or what an INTERRUPT that
woke another thread did."""
SWITCH_OUT, RUNTIME, INTERRUPT, WAKEUP = "left", "ran", "interrupt", "woke"


def classify(category: str, name: str) -> SliceType | None:
    """The meaning of a category and a name of these slices; None for others."""
    if category == STATE:
        return SliceType("other", classify_state(name), OTHER_TRACK)
    return SliceType("other", FrameKind.USER, OTHER_TRACK) if category == ON_CPU else None


def classify_state(name: str) -> FrameKind:
    """The kind of the frame of a state, for its color."""
    return _KINDS.get(name, FrameKind.UNKNOWN)


@dataclass(eq=False)
class SchedulerTimeline:
    """What is known of threads and CPUs while it is collected. comms: the name of each thread, the last it had.
    processes: the process of a thread, as far as known. requires_runtimes: leave out the states of threads where only
    switches of some threads were recorded, without how long they ran: the few known runs would look like all of them.
    lacks_runtimes: whether that happened."""

    comms: dict[int, str] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)
    requires_runtimes: bool = False
    lacks_runtimes: bool = False
    _switches: list[Array] = field(default_factory=list)
    _wakes: list[Array] = field(default_factory=list)
    _ran: list[Array] = field(default_factory=list)
    _ends: list[tuple[int, int]] = field(default_factory=list)
    _stretches: StateIntervals | None = None

    def add_switches(
        self,
        time_ns: Sequence[int] | Array,
        cpu: Sequence[int] | Array,
        left: Sequence[int] | Array,
        state: Sequence[int] | Array,
        taken: Sequence[int] | Array,
        comm: Sequence[int] | Array,
        stack: Sequence[int] | Array | int = NONE,
    ) -> None:
        """Add switches: the thread that left a CPU (UNKNOWN_TASK: unknown) and its state, the thread that was switched
        in, as a number and the index of its name among the texts of the events, and the stack from which the first one
        left."""
        self._switches.append(_stack_columns(time_ns, cpu, left, state, taken, comm, stack))

    def add_wakeups(
        self,
        time_ns: Sequence[int] | Array,
        task: Sequence[int] | Array,
        waker: Sequence[int] | Array | int = UNKNOWN_TASK,
        stack: Sequence[int] | Array | int = NONE,
    ) -> None:
        """Add times at which threads became runnable, with the thread that woke them (IDLE_TASK: an interrupt) and its
        stack."""
        self._wakes.append(_stack_columns(time_ns, task, waker, stack))

    def add_runtimes(self, until_ns: Array, task: Array, length_ns: Array, cpu: Array, stack: Array) -> None:
        """Add times up to which threads are known to have run, for how long, on which CPU (-1: unknown), and the stack
        at the end."""
        self._ran.append(_stack_columns(until_ns, task, length_ns, cpu, stack))

    def add_exit(self, time_ns: int, task: int) -> None:
        """Add the end of a thread."""
        self._ends.append((time_ns, task))

    def set_intervals(self, state_intervals: StateIntervals) -> None:
        """Add state intervals, instead of switches."""
        self._stretches = state_intervals

    def __bool__(self) -> bool:
        return bool(self._switches) or self._stretches is not None

    def add_slices(
        self,
        events: TraceEventBuilder,
        last_ns: int,
        lost: Callable[[str, str, int], None],
        frames: Frames | None = None,
    ) -> Callable[[ProfileBuilder, int], None]:
        """Add the slices of threads and CPUs to the events. last_ns: the time of the last observation. lost: called
        with a reason, an example and a count.

        Returns the function that adds the samples, for `Dialect.more`.
        """
        whole, found, switches, ran = self._compute_states(last_ns, lost)
        if whole:
            _add_cpus(events, switches, last_ns, lost, self.processes)
        else:
            self._add_runs(events, found)
        self._add_states(events, found)

        def samples(builder: ProfileBuilder, zero: int) -> None:
            _SampleWriter(builder, zero, zero, self, frames).add(found, switches, ran)

        return samples

    def add_samples(self, builder: ProfileBuilder, last_ns: int, frames: Frames) -> StateIntervals:
        """Add to a profile of samples, which include switches, how long its threads ran and waited, at these times.

        Returns the states of all threads.
        """
        _, found, switches, ran = self._compute_states(
            last_ns, lambda reason, first, count: builder.add_loss(reason, first, count)
        )
        _SampleWriter(builder, 0, int(switches[0].min(initial=last_ns)), self, frames, "thread").add(
            found, switches[:, :0], ran
        )
        return found

    def _compute_states(
        self, last_ns: int, lost: Callable[[str, str, int], None]
    ) -> tuple[bool, StateIntervals, Array, Array]:
        """(whether the switches of whole CPUs are recorded, the states of threads, the switches, the runs)."""
        switches, ran = _concatenate(self._switches, 7), _concatenate(self._ran, 5)
        switches = switches[:, np.argsort(switches[0], kind="stable")]
        if self._stretches is not None:
            return False, self._stretches, switches, ran
        ends = np.array(self._ends, np.int64).reshape(-1, 2).T
        scheduler_events = SchedulerEvents(switches, _concatenate(self._wakes, 4), ran[:4], ends)
        self._switches, self._wakes, self._ran, self._ends = [], [], [], []
        found, unknown = compute_state_intervals(scheduler_events, last_ns)
        if len(unknown):
            lost(UNKNOWN_RUNTIME, f"at {unknown[0]} ns", len(unknown))
        has_filter = scheduler_events.has_thread_filter()
        self.lacks_runtimes = self.requires_runtimes and has_filter and len(unknown) > 0 and not ran.shape[1]
        if self.lacks_runtimes:
            found = found.take(np.zeros(0, np.int64))
        return not has_filter, found, switches, ran

    def _add_runs(self, events: TraceEventBuilder, state_intervals: StateIntervals) -> None:
        """Slices of CPUs, from intervals in which threads ran."""
        rows = np.flatnonzero((state_intervals.state == RUN) & (state_intervals.cpu >= 0))
        tasks, inverse = np.unique(state_intervals.task[rows], return_inverse=True)
        names = np.array([events.intern_text(self.get_thread_name(task)) for task in tasks.tolist()] or [0], np.int64)
        _add_lanes(
            *(
                events,
                state_intervals.cpu[rows],
                state_intervals.start_ns[rows],
                state_intervals.stop_ns[rows],
                state_intervals.task[rows],
                names[inverse],
            ),
            self.processes,
        )

    def get_thread_name(self, task: int) -> str:
        """The name of a thread."""
        return self.comms.get(task) or f"thread {task}"

    def get_program_name(self, task: int) -> str:
        """The name of a thread's process: that of its main thread, if known. Kernel threads are in brackets, like in
        ps, if they look like paths."""
        name = self.comms.get(self.processes.get(task, task)) or self.get_thread_name(task)
        return f"[{name}]" if "/" in name else name

    def get_process(self, task: int) -> str:
        """The text that represents the process of a thread: the thread's name if it is unknown."""
        pid = self.processes.get(task)
        return self.get_thread_name(task) if pid is None else str(pid)

    def _add_states(self, events: TraceEventBuilder, state_intervals: StateIntervals) -> None:
        tasks, inverse = np.unique(state_intervals.task, return_inverse=True)
        texts = [(events.intern_text(str(task)), events.intern_text(self.get_process(task))) for task in tasks.tolist()]
        thread, process = np.array(texts or [(0, 0)], np.int64).T
        cpus, on = np.unique(state_intervals.cpu, return_inverse=True)
        argument_sets = [events.intern_arguments({"cpu": cpu}) if cpu >= 0 else NONE for cpu in cpus.tolist()]
        events.add_events(
            "X",
            state_intervals.start_ns,
            np.array([events.intern_text(state) for state in STATES])[state_intervals.state],
            thread[inverse],
            duration_ns=state_intervals.stop_ns - state_intervals.start_ns,
            category=events.intern_text(STATE),
            process=process[inverse],
            arguments=np.array(argument_sets or [NONE])[on],
        )
        for task in tasks.tolist():
            events.add_metadata("thread_name", str(task), self.get_process(task), name=self.get_thread_name(task))


def _add_cpus(
    events: TraceEventBuilder,
    switches: Array,
    last_ns: int,
    lost: Callable[[str, str, int], None],
    processes: dict[int, int],
) -> None:
    """Slices of CPUs, each from one switch to the next."""
    order = np.lexsort((switches[0], switches[1]))
    time_ns, cpu, left, _, taken, comm, _ = switches[:, order]
    if not len(time_ns):
        return
    same = cpu[1:] == cpu[:-1]
    stop = np.append(np.where(same, time_ns[1:], last_ns), last_ns)
    rows = np.flatnonzero(same & (left[1:] != taken[:-1]) & (left[1:] != UNKNOWN_TASK))
    if len(rows):
        at = int(rows[0]) + 1
        lost(LOST_SWITCHES, f"thread {left[at]} on CPU {cpu[at]} at {time_ns[at]} ns", len(rows))
    ran = np.flatnonzero(taken != 0)
    _add_lanes(events, cpu[ran], time_ns[ran], np.maximum(stop, time_ns)[ran], taken[ran], comm[ran], processes)


def _add_lanes(
    events: TraceEventBuilder,
    cpu: Array,
    start: Array,
    stop: Array,
    task: Array,
    name: Array,
    processes: dict[int, int],
) -> None:
    cpus, on = np.unique(cpu, return_inverse=True)
    lanes = np.array([events.intern_text(f"CPU {number}") for number in cpus.tolist()] or [0], np.int64)
    tasks, inverse = np.unique(task, return_inverse=True)
    argument_sets = []
    for number in tasks.tolist():
        pid = {"pid": processes[number]} if number in processes else {}
        argument_sets.append(events.intern_arguments({"tid": number} | pid))
    events.add_events(
        "X",
        start,
        name,
        lanes[on],
        duration_ns=stop - start,
        category=events.intern_text(ON_CPU),
        process=events.intern_text(CPUS),
        arguments=np.array(argument_sets or [NONE])[inverse],
    )
    for index, number in enumerate(cpus.tolist()):
        events.add_metadata("thread_sort_index", f"CPU {number}", CPUS, sort_index=index)
    events.add_metadata("process_sort_index", f"CPU {cpus[0]}" if len(cpus) else "", CPUS, sort_index=-1)


@dataclass(eq=False)
class _SampleWriter:
    """Adds the samples, at times that count from `zero`, to threads of a kind. first: when the recording began."""

    builder: ProfileBuilder
    zero: int
    first: int
    scheduling: SchedulerTimeline
    frames: Frames | None
    kind: str = "track"

    def add(self, state_intervals: StateIntervals, switches: Array, ran: Array) -> None:
        """Add all of them: of state intervals, of switches, and of known runs."""
        length = state_intervals.stop_ns - state_intervals.start_ns
        stacks = self._intern_stacks(
            state_intervals.task, state_intervals.state, state_intervals.stack, self._add_state
        )
        asleep = state_intervals.state >= ASLEEP
        for name, of in (
            (RUNNING, state_intervals.state == RUN),
            (RUNNABLE, (state_intervals.state == READY) | (state_intervals.state == PREEMPTED)),
            (SLEEPING, asleep),
        ):
            self._add(
                name,
                "ns",
                np.flatnonzero(of),
                state_intervals.start_ns,
                state_intervals.task,
                state_intervals.cpu,
                stacks,
                length,
            )
        woken = np.flatnonzero(asleep & (state_intervals.waker != UNKNOWN_TASK))
        stacks = np.zeros(len(asleep), np.int64)
        stacks[woken] = self._intern_stacks(
            state_intervals.waker[woken], state_intervals.waker[woken] * 0, state_intervals.call[woken], self._add_waker
        )
        self._add(
            BY_WAKER, "ns", woken, state_intervals.start_ns, state_intervals.task, state_intervals.cpu, stacks, length
        )
        until, task, length, cpu, stack = ran[:, (ran[4] >= 0) & (ran[2] > 0) & (ran[2] < MAX_TIME_NS)]
        stacks = self._intern_stacks(task, task * 0 + RUN, stack, self._add_state)
        # The time before the recording does not count.
        start = np.maximum(until - length, self.first)
        self._add(BY_STACK, "ns", np.flatnonzero(until > start), start, task, cpu, stacks, until - start)
        time_ns, cpu, left, state, _, _, stack = switches
        stacks = self._intern_stacks(left, state, stack, self._add_state)
        self._add(SWITCHES, "count", np.flatnonzero(left > 0), time_ns, left, cpu, stacks, np.ones(len(left), np.int64))

    def _add(
        self, name: str, unit: str, rows: Array, time_ns: Array, task: Array, cpu: Array, stack: Array, weight: Array
    ) -> None:
        threads = self.builder.get_threads(self.kind)
        tasks, inverse = np.unique(task[rows], return_inverse=True)
        thread = np.array([threads.get(one, NONE) for one in tasks.tolist()] or [NONE], np.int64)[inverse]
        start = time_ns[rows] - self.zero
        good = np.flatnonzero((thread >= 0) & (start >= 0) & (start < 2 * MAX_TIME_NS))
        rows = rows[good]
        if len(rows):
            every: dict[str, Any] = {} if unit == "ns" else {"weighted": False, "sampling": "period", "rate": 1.0}
            event = np.full(len(rows), self.builder.intern_event(name, unit, **every))
            self.builder.add_samples(start[good], thread[good], cpu[rows], event, stack[rows], weight[rows])

    def _intern_stacks(
        self, task: Array, state: Array, stack: Array, made: Callable[[int, int, int], int]
    ) -> Int64Array:
        """The call stacks of threads in a state, each created once."""
        tasks, of = np.unique(task, return_inverse=True)
        width = int(stack.max(initial=0)) + 2
        keys, inverse = np.unique((of * len(STATES) + state) * width + stack + 1, return_inverse=True)
        nodes = [
            made(int(tasks[key // width // len(STATES)]), key // width % len(STATES), key % width - 1)
            for key in keys.tolist()
        ]
        return np.array(nodes or [0], np.int64)[inverse]

    def _add_state(self, task: int, state: int, stack: int) -> int:
        """The state of a thread, its program, and its call stack."""
        name, part = STATES[state], RUNTIME if state == RUN else SWITCH_OUT
        return self._intern_stack(
            name, self.scheduling.get_program_name(task), _KINDS.get(name, FrameKind.UNKNOWN), stack, part
        )

    def _add_waker(self, waker: int, _: int, stack: int) -> int:
        """The waker of a thread, and its stack."""
        if waker == IDLE_TASK:
            return self._intern_stack("woken by an interrupt", "", FrameKind.ANNOTATION, stack, INTERRUPT)
        called = f"woken by {self.scheduling.get_thread_name(waker)}"
        return self._intern_stack(called, self.scheduling.get_program_name(waker), FrameKind.ANNOTATION, stack, WAKEUP)

    def _intern_stack(self, name: str, program: str, kind: FrameKind, stack: int, part: str) -> int:
        root = self.builder.intern_frame(self.builder.intern_function(name, program), kind=kind)
        inner = self.frames(self.builder, stack, part) if self.frames is not None and stack >= 0 else []
        return self.builder.intern_stack([root, *inner])


def _stack_columns(*columns: Sequence[int] | Array | int) -> Int64Array:
    """Columns stacked as rows; the first determines their length."""
    block = np.empty((len(columns), len(np.asarray(columns[0]))), np.int64)
    for row, values in zip(block, columns, strict=True):
        row[:] = values
    return block


def _concatenate(blocks: list[Array], width: int) -> Array:
    return np.concatenate([*blocks, np.zeros((width, 0), np.int64)], axis=1)
