"""The states of threads over time, from the switches and wakeups of a scheduler."""

from dataclasses import dataclass, fields

import numpy as np

from ...domain.arrays import Array, Int64Array

STATES = (
    *("running", "runnable", "runnable (preempted)", "sleeping", "uninterruptible sleep", "stopped", "traced"),
    *("dead", "zombie", "parked", "idle", "waiting"),
)
RUN, READY, PREEMPTED, ASLEEP, UNINTERRUPTIBLE, STOPPED, TRACED, DEAD, ZOMBIE, PARKED, IDLE, WAITING = range(
    len(STATES)
)
STATE_LETTERS = {
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
"""The kernel's letters of states, except R, the state of a thread that is still runnable."""
UNKNOWN_TASK = -1
IDLE_TASK = 0
"""The thread number of an idle CPU. As a waker it means an interrupt."""
_IN, _WOKEN, _SEEN, _NOTHING, _GONE = -1, -2, -3, -4, -5


def parse_state(letters: str) -> int:
    """The state of a thread that was switched out, as the kernel prints it: "S", "R+", "D|K"."""
    return STATE_LETTERS.get(letters[:1], PREEMPTED)


def parse_state_bits(bits: int) -> int:
    """The state of a thread that was switched out, as the kernel's bits, since Linux 4.14."""
    return next((STATE_LETTERS[letter] for bit, letter in enumerate("SDTtXZPI") if bits >> bit & 1), PREEMPTED)


@dataclass(frozen=True, eq=False)
class StateIntervals:
    """Intervals in which threads were in one state. task: the number of the thread. cpu: -1 unless it ran. stack: the
    call stack at the start of the interval, an id of the caller's, -1 none.

    waker: of a sleep, the thread that ended it (IDLE_TASK: an interrupt), else UNKNOWN_TASK. call: the waker's stack,
    like `stack`.
    """

    task: Array
    state: Array
    start_ns: Array
    stop_ns: Array
    cpu: Array
    stack: Array
    waker: Array
    call: Array

    def take(self, rows: Array) -> "StateIntervals":
        """The intervals of these rows."""
        return StateIntervals(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True, eq=False)
class SchedulerEvents:
    """Events of a scheduler. switches: time, CPU, the thread that was switched out and its state, the thread that was
    switched in, that one's name (an id of the caller's) and the stack of the first one. wakes: time, thread, waker and
    its stack. ran: up to when a thread is known to have run, the thread, for how long, and on which CPU (-1: unknown).
    ends: when a thread ended, and which."""

    switches: Array
    wakes: Array
    ran: Array
    ends: Array

    def has_thread_filter(self) -> bool:
        """Whether only some threads were recorded, and not CPUs: then most threads that are switched in never leave.

        If all is recorded, only the thread on each CPU at the end was switched in and did not leave.
        """
        _, cpu, left, _, taken, _, _ = self.switches
        never = int(np.count_nonzero(~np.isin(taken, left)))
        return never > len(np.unique(cpu)) + len(taken) // 10


def compute_state_intervals(events: SchedulerEvents, last_ns: int) -> tuple[StateIntervals, Array]:
    """The state of each thread from each of its events to the next.

    Also, if only some threads were recorded, the times up to which the state of a thread is unknown, because the start
    or length of a run is unknown: there are no intervals there.
    """
    few = events.has_thread_filter()
    rows = _collect_events(events, few)
    task, time, _, kind = rows[:4]
    # Of several events that show it ran, the first has the start; a running or runnable thread cannot be woken.
    before, switched = (
        _find_previous_kinds(task, kind),
        _find_previous_kinds(task, kind, np.flatnonzero(kind != _WOKEN)),
    )
    idle = (kind == _WOKEN) & ((before == _IN) | (before == _WOKEN) | (before == _SEEN) | (before == PREEMPTED))
    idle |= (kind == _SEEN) & ((switched == _IN) | (switched == _SEEN))
    idle |= (kind == _GONE) & (switched != _IN) & (switched != _SEEN)
    if few:
        idle |= switched == DEAD
    task, time, _, kind, on, stack, waker, call, begun = rows[:, ~idle]
    same = np.zeros(len(task), bool)
    same[1:] = task[1:] == task[:-1]
    earliest = int(rows[1].min(initial=last_ns))
    time = np.where(kind == _SEEN, np.maximum(begun, np.where(same, np.roll(time, 1), earliest)), time)
    kind = np.where(kind == _SEEN, _IN, kind)
    more = np.append(same[1:], False)
    after = np.where(more, np.roll(kind, -1), _NOTHING)
    stop = np.where(more, np.roll(time, -1), last_ns)
    state = np.where(kind == _IN, RUN, np.where(kind == _WOKEN, READY, kind))
    lasting = (state != DEAD) & (state != ZOMBIE) & (kind != _GONE) & (stop > time)
    # It was switched out without being switched in: the start of its run is unknown. Or the reverse: its length is.
    unknown = lasting & few & np.where(kind == _IN, after == _NOTHING, after >= 0)
    woken = after == _WOKEN
    waker, call = np.where(woken, np.roll(waker, -1), UNKNOWN_TASK), np.where(woken, np.roll(call, -1), -1)
    columns = (task, state, time, stop, on, stack, waker, call)
    return StateIntervals(*(values[lasting & ~unknown] for values in columns)), stop[unknown]


def _collect_events(events: SchedulerEvents, few: bool) -> Array:
    """The events of each thread, in order: thread, time, order at one time, kind, CPU, stack, waker, the waker's stack,
    and since when it ran."""
    time_ns, cpu, left, state, taken, _, stack = events.switches
    # At equal times, switches keep their order, and other events of a thread precede them.
    place = 2 * np.arange(len(time_ns))
    of_left = _make_block(left, time_ns, place, state, stack=stack)
    of_taken = _make_block(taken, time_ns, place + 1, _IN, cpu=cpu)
    wake_ns, woken, waker, call = events.wakes
    of_woken = _make_block(woken, wake_ns, -2, _WOKEN, waker=waker, call=call)
    until, runner, length, where = events.ran
    of_seen = _make_block(runner, until, -1, _SEEN, cpu=where, begun=until - length)
    blocks = [of_left, of_taken, of_woken, of_seen]
    if few:
        # The end of all other states is unknown. No switch is recorded of a thread that ends.
        known = np.concatenate((left, runner[where >= 0]))
        when, ended = events.ends
        blocks = [block[:, np.isin(block[0], known)] for block in (*blocks, _make_block(ended, when, -3, DEAD))]
    else:
        # If another thread leaves than was switched in, the latter had left before.
        order = np.lexsort((place, cpu))
        before, then = order[:-1], order[1:]
        other = (cpu[before] == cpu[then]) & (taken[before] != left[then]) & (left[then] != UNKNOWN_TASK)
        blocks.append(_make_block(taken[before][other], time_ns[then][other], place[then][other], _GONE))
    rows = np.concatenate(blocks, axis=1)
    rows = rows[:, np.lexsort((rows[2], rows[1], rows[0]))]
    return rows[:, rows[0] > 0]


def _make_block(
    task: Array,
    time: Array,
    place: Array | int,
    kind: Array | int,
    *,
    cpu: Array | int = -1,
    stack: Array | int = -1,
    waker: Array | int = UNKNOWN_TASK,
    call: Array | int = -1,
    begun: Array | int = 0,
) -> Int64Array:
    columns = (task, time, place, kind, cpu, stack, waker, call, begun)
    block = np.empty((len(columns), len(task)), np.int64)
    for row, values in zip(block, columns, strict=True):
        row[:] = values
    return block


def _find_previous_kinds(task: Array, kind: Array, among: Array | None = None) -> Array:
    """The kind of the previous event of the same thread, among some events; ASLEEP for the first one."""
    if among is None:
        among = np.arange(len(task))
    place = np.searchsorted(among, np.arange(len(task))) - 1
    before = among[np.maximum(place, 0)] if len(among) else np.zeros(len(task), np.int64)
    known = (place >= 0) & (task[before] == task) if len(among) else np.zeros(len(task), bool)
    return np.where(known, kind[before], ASLEEP)
