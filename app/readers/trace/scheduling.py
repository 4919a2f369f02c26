"""Which thread ran on which CPU, and what it did otherwise: from the switches and wakeups of a scheduler, or stretches.

Each thread has a row of its states (running, runnable, sleeping …) and each CPU one of what ran there. Neither is code
that a thread ran, so neither counts as host time, and no time counts twice: the time of threads in each state stands in
samples of three events, a row of which is a stretch of a thread, with the CPU where it ran.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...domain.builder import ProfileBuilder
from ...domain.tables import FrameKind
from .events import Array
from .lines import TRACK
from .made import NONE, MadeEvents
from .phases import FARTHEST_NS
from .slices import What

RUNNING, RUNNABLE, SLEEPING = "running time", "runnable time", "sleeping time"
"""The events: how long threads ran, waited for a CPU, and waited for anything else, in ns."""
STATES = (
    *("running", "runnable", "runnable (preempted)", "sleeping", "uninterruptible sleep", "stopped", "traced"),
    *("dead", "zombie", "parked", "idle", "waiting"),
)
RUN, READY, PREEMPTED, ASLEEP, UNINTERRUPTIBLE, STOPPED, TRACED, DEAD, ZOMBIE, PARKED, IDLE, WAITING = range(
    len(STATES)
)
LETTERS = {
    "S": ASLEEP,
    "D": UNINTERRUPTIBLE,
    "T": STOPPED,
    "t": TRACED,
    "X": DEAD,
    "x": DEAD,
    "Z": ZOMBIE,
    "P": PARKED,
    "I": IDLE,
    "K": ASLEEP,
    "W": ASLEEP,
    "N": ASLEEP,
}
"""The kernel's letters of states, but for R, the state of what wants to run on."""
_KINDS = {STATES[RUN]: FrameKind.USER, STATES[READY]: FrameKind.ANNOTATION, STATES[PREEMPTED]: FrameKind.ANNOTATION}
"""How states are drawn: running as code is, waiting for a CPU as what is told beside it; all else is grey."""
STATE, ON_CPU, CPUS = "state of a thread", "what a CPU ran", "CPUs"
"""The categories of the two sorts of slices, and the process in which the CPUs stand."""
NOT_THERE = "switch away from a thread that did not run there: switches before it were lost"
UNKNOWN_TASK = -1
_IN, _WOKEN = -1, -2


def state_of(letters: str) -> int:
    """The state in which a thread was left, by what the kernel prints of it: "S", "R+", "D|K"."""
    return LETTERS.get(letters[:1], PREEMPTED)


def what(category: str, name: str) -> What | None:
    """What is meant by a category and a name of these slices; None for others."""
    if category == STATE:
        return What("other", _KINDS.get(name, FrameKind.UNKNOWN), TRACK)
    return What("other", FrameKind.USER, TRACK) if category == ON_CPU else None


@dataclass(frozen=True, eq=False)
class Stretches:
    """Times in which threads were in one state. task: the number of the thread. cpu: -1 unless it ran. stack: where it
    was when the stretch began, a number of the caller's, -1 none."""

    task: Array
    state: Array
    start_ns: Array
    stop_ns: Array
    cpu: Array
    stack: Array


@dataclass(eq=False)
class Scheduling:
    """What is known of threads and CPUs while it is collected. comms: the name of each thread, the last it had.
    processes: the process of a thread, as far as known."""

    comms: dict[int, str] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)
    _switches: list[Array] = field(default_factory=list)
    _wakes: list[Array] = field(default_factory=list)
    _stretches: Stretches | None = None

    def switches(
        self,
        time_ns: Sequence[int] | Array,
        cpu: Sequence[int] | Array,
        left: Sequence[int] | Array,
        state: Sequence[int] | Array,
        taken: Sequence[int] | Array,
        comm: Sequence[int] | Array,
        stack: Sequence[int] | Array | int = NONE,
    ) -> None:
        """Add switches: the thread that a CPU left (UNKNOWN_TASK: not told) and in which state, the one it took, as a
        number and the place of its name among the texts of the events, and the stack from which it left."""
        block = np.empty((7, len(time_ns)), np.int64)
        for row, values in zip(block, (time_ns, cpu, left, state, taken, comm, stack), strict=True):
            row[:] = values
        self._switches.append(block)

    def wakes(self, time_ns: Sequence[int] | Array, task: Sequence[int] | Array) -> None:
        """Add times at which threads became runnable."""
        self._wakes.append(np.array((time_ns, task), np.int64).reshape(2, -1))

    def stretches(self, found: Stretches) -> None:
        """Take what is known already of states, in place of switches."""
        self._stretches = found

    def __bool__(self) -> bool:
        return bool(self._switches) or self._stretches is not None

    def add(
        self,
        events: MadeEvents,
        last_ns: int,
        lost: Callable[[str, str, int], None],
        frames: Callable[[ProfileBuilder, int], list[int]] | None = None,
    ) -> Callable[[ProfileBuilder, int], None]:
        """Add the slices of threads and CPUs to the events. last_ns: when the last thing was seen. lost: is told a
        reason, an example and how many. frames: those of a stack, outermost first.

        Returns what adds the samples, for `Dialect.more`.
        """
        found = self._stretches
        if found is None:
            switches = np.concatenate(self._switches or [np.zeros((7, 0), np.int64)], axis=1)
            switches = switches[:, np.argsort(switches[0], kind="stable")]
            wakes = np.concatenate(self._wakes or [np.zeros((2, 0), np.int64)], axis=1)
            self._switches, self._wakes = [], []
            _add_cpus(events, switches, last_ns, lost, self.processes)
            found = _states(switches, wakes, last_ns)
        else:
            self._add_runs(events, found)
        self._add_states(events, found)

        def samples(builder: ProfileBuilder, zero: int) -> None:
            _add_samples(builder, found, zero, frames)

        return samples

    def _add_runs(self, events: MadeEvents, found: Stretches) -> None:
        """Slices of CPUs, of stretches in which threads ran."""
        ran = np.flatnonzero((found.state == RUN) & (found.cpu >= 0))
        tasks, inverse = np.unique(found.task[ran], return_inverse=True)
        names = np.array([events.text(self.name(task)) for task in tasks.tolist()] or [0], np.int64)
        _add_lanes(
            *(events, found.cpu[ran], found.start_ns[ran], found.stop_ns[ran], found.task[ran], names[inverse]),
            self.processes,
        )

    def name(self, task: int) -> str:
        """The name of a thread."""
        return self.comms.get(task) or f"thread {task}"

    def process(self, task: int) -> str:
        """The text that stands for the process of a thread: where it is not known, the thread's name tells."""
        pid = self.processes.get(task)
        return self.name(task) if pid is None else str(pid)

    def _add_states(self, events: MadeEvents, found: Stretches) -> None:
        tasks, inverse = np.unique(found.task, return_inverse=True)
        texts = [(events.text(str(task)), events.text(self.process(task))) for task in tasks.tolist()]
        thread, process = np.array(texts or [(0, 0)], np.int64).T
        cpus, on = np.unique(found.cpu, return_inverse=True)
        told = [events.arguments({"cpu": cpu}) if cpu >= 0 else NONE for cpu in cpus.tolist()]
        events.many(
            "X",
            found.start_ns,
            np.array([events.text(state) for state in STATES])[found.state],
            thread[inverse],
            duration_ns=found.stop_ns - found.start_ns,
            category=events.text(STATE),
            process=process[inverse],
            arguments=np.array(told or [NONE])[on],
        )
        for task in tasks.tolist():
            events.about("thread_name", str(task), self.process(task), name=self.name(task))


def _add_cpus(
    events: MadeEvents,
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
    other = np.flatnonzero(same & (left[1:] != taken[:-1]) & (left[1:] != UNKNOWN_TASK))
    if len(other):
        at = int(other[0]) + 1
        lost(NOT_THERE, f"thread {left[at]} on CPU {cpu[at]} at {time_ns[at]} ns", len(other))
    ran = np.flatnonzero(taken != 0)
    _add_lanes(events, cpu[ran], time_ns[ran], np.maximum(stop, time_ns)[ran], taken[ran], comm[ran], processes)


def _add_lanes(
    events: MadeEvents, cpu: Array, start: Array, stop: Array, task: Array, name: Array, processes: dict[int, int]
) -> None:
    cpus, on = np.unique(cpu, return_inverse=True)
    lanes = np.array([events.text(f"CPU {number}") for number in cpus.tolist()] or [0], np.int64)
    tasks, inverse = np.unique(task, return_inverse=True)
    told = []
    for number in tasks.tolist():
        pid = {"pid": processes[number]} if number in processes else {}
        told.append(events.arguments({"tid": number} | pid))
    events.many(
        "X",
        start,
        name,
        lanes[on],
        duration_ns=stop - start,
        category=events.text(ON_CPU),
        process=events.text(CPUS),
        arguments=np.array(told or [NONE])[inverse],
    )
    for place, number in enumerate(cpus.tolist()):
        events.about("thread_sort_index", f"CPU {number}", CPUS, sort_index=place)
    events.about("process_sort_index", f"CPU {cpus[0]}" if len(cpus) else "", CPUS, sort_index=-1)


def _states(switches: Array, wakes: Array, last_ns: int) -> Stretches:
    """What each thread did from one thing that happened to it to the next."""
    time_ns, cpu, left, state, taken, _, stack = switches
    nothing = np.full(len(time_ns), -1, np.int64)
    none = np.full(wakes.shape[1], -1, np.int64)
    task = np.concatenate((left, taken, wakes[1]))
    time = np.concatenate((time_ns, time_ns, wakes[0]))
    kind = np.concatenate((state, np.full(len(taken), _IN), np.full(len(none), _WOKEN)))
    on = np.concatenate((nothing, cpu, none))
    of = np.concatenate((stack, nothing, none))
    # At one time things are in the order of the switches, and wakeups before them.
    number = np.arange(len(time_ns))
    order = np.lexsort((np.concatenate((2 * number, 2 * number + 1, none)), time, task))
    order = order[task[order] > 0]
    task, time, kind, on, of = (values[order] for values in (task, time, kind, on, of))
    same = np.zeros(len(task), bool)
    same[1:] = task[1:] == task[:-1]
    before = np.full(len(task), ASLEEP, np.int64)
    before[1:] = np.where(same[1:], kind[:-1], ASLEEP)
    # Who runs or wants to run cannot be woken.
    idle = (kind == _WOKEN) & ((before == _IN) | (before == _WOKEN) | (before == PREEMPTED))
    kept = np.flatnonzero(~idle)
    task, time, kind, on, of = (values[kept] for values in (task, time, kind, on, of))
    stop = np.full(len(task), last_ns, np.int64)
    stop[:-1] = np.where(task[1:] == task[:-1], time[1:], last_ns)
    state = np.where(kind == _IN, RUN, np.where(kind == _WOKEN, READY, kind))
    lasting = np.flatnonzero((state != DEAD) & (state != ZOMBIE) & (stop > time))
    return Stretches(*(values[lasting] for values in (task, state, time, stop, on, of)))


def _add_samples(
    builder: ProfileBuilder,
    found: Stretches,
    zero: int,
    frames: Callable[[ProfileBuilder, int], list[int]] | None,
) -> None:
    tasks, inverse = np.unique(found.task, return_inverse=True)
    known = builder.threads_of("track")
    thread = np.array([known.get(task, NONE) for task in tasks.tolist()] or [NONE], np.int64)[inverse]
    start, length = found.start_ns - zero, found.stop_ns - found.start_ns
    good = (thread >= 0) & (start >= 0) & (start < 2 * FARTHEST_NS)
    pairs, which = np.unique((found.stack + 1) * len(STATES) + found.state, return_inverse=True)
    nodes = []
    for pair in pairs.tolist():
        of, state = pair // len(STATES) - 1, pair % len(STATES)
        above = frames(builder, of) if frames is not None and of >= 0 else []
        nodes.append(
            builder.stack(
                [
                    *above,
                    builder.frame(builder.function(STATES[state]), kind=_KINDS.get(STATES[state], FrameKind.UNKNOWN)),
                ]
            )
        )
    node = np.array(nodes or [0], np.int64)[which]
    for name, states in (
        (RUNNING, [RUN]),
        (RUNNABLE, [READY, PREEMPTED]),
        (SLEEPING, list(range(ASLEEP, len(STATES)))),
    ):
        rows = np.flatnonzero(good & np.isin(found.state, states))
        if len(rows):
            event = np.full(len(rows), builder.event(name, "ns"))
            builder.samples(start[rows], thread[rows], found.cpu[rows], event, node[rows], length[rows])


def state_of_bits(bits: int) -> int:
    """The state in which a thread was left, by the kernel's bits, as they are since Linux 4.14."""
    return next((LETTERS[letter] for bit, letter in enumerate("SDTtXZPI") if bits >> bit & 1), PREEMPTED)
