"""What threads did from one moment to the next, from the switches and wakeups of a scheduler."""

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
"""The kernel's letters of states, but for R, the state of what wants to run on."""
UNKNOWN_TASK = -1
IDLE_TASK = 0
"""The number of the thread that represents an idle CPU. What wakes in its place is an interrupt."""
_IN, _WOKEN, _SEEN, _NOTHING, _GONE = -1, -2, -3, -4, -5


def parse_state(letters: str) -> int:
    """The state in which a thread was left, by what the kernel prints of it: "S", "R+", "D|K"."""
    return STATE_LETTERS.get(letters[:1], PREEMPTED)


def parse_state_bits(bits: int) -> int:
    """The state in which a thread was left, by the kernel's bits, as they are since Linux 4.14."""
    return next((STATE_LETTERS[letter] for bit, letter in enumerate("SDTtXZPI") if bits >> bit & 1), PREEMPTED)


@dataclass(frozen=True, eq=False)
class StateIntervals:
    """Times in which threads were in one state. task: the number of the thread. cpu: -1 unless it ran. stack: where it
    was when the stretch began, a number of the caller's, -1 none.

    waker: of a sleep, the thread that ended it (NOBODY: an interrupt), else UNKNOWN_TASK. call: the stack
    from which that was done, as `stack`.
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
    """Events of a scheduler. switches: time, CPU, the thread it left and in which state, the one it took, that one's
    name (a number of the caller's) and the stack from which it left. wakes: time, thread, waker and its stack. ran:
    up to when a thread is known to have run, the thread, for how long, and on which CPU (-1: unknown). ends: when a
    thread ended, and which."""

    switches: Array
    wakes: Array
    ran: Array
    ends: Array

    def has_thread_filter(self) -> bool:
        """Whether some threads alone were recorded, and not CPUs: then most that were taken never leave.

        Where all is recorded, what is on each CPU at the end was taken and did not leave.
        """
        _, cpu, left, _, taken, _, _ = self.switches
        never = int(np.count_nonzero(~np.isin(taken, left)))
        return never > len(np.unique(cpu)) + len(taken) // 10


def compute_state_intervals(events: SchedulerEvents, last_ns: int) -> tuple[StateIntervals, Array]:
    """What each thread did from one thing that happened to it to the next.

    Also, of what was recorded of some threads alone, the times up to which it is not known what a thread did, as
    the start or length of a run is unknown: there are no intervals there.
    """
    few = events.has_thread_filter()
    rows = _rows(events, few)
    task, time, _, kind = rows[:4]
    # Of several signs that it ran, the first has the start; a running or runnable thread cannot be woken.
    before, switched = _before(task, kind), _before(task, kind, np.flatnonzero(kind != _WOKEN))
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
    # It was left, and so it ran: since when? Or it was taken, and not left: how long did it run?
    unknown = lasting & few & np.where(kind == _IN, after == _NOTHING, after >= 0)
    woken = after == _WOKEN
    waker, call = np.where(woken, np.roll(waker, -1), UNKNOWN_TASK), np.where(woken, np.roll(call, -1), -1)
    columns = (task, state, time, stop, on, stack, waker, call)
    return StateIntervals(*(values[lasting & ~unknown] for values in columns)), stop[unknown]


def _rows(events: SchedulerEvents, few: bool) -> Array:
    """What happened to each thread, in order: thread, time, place among what is at one time, kind, CPU, stack, waker,
    the waker's stack, and since when it ran."""
    time_ns, cpu, left, state, taken, _, stack = events.switches
    # At equal times, order is that of the switches, preceded by other signs of a thread.
    place = 2 * np.arange(len(time_ns))
    of_left = _block(left, time_ns, place, state, stack=stack)
    of_taken = _block(taken, time_ns, place + 1, _IN, cpu=cpu)
    wake_ns, woken, waker, call = events.wakes
    of_woken = _block(woken, wake_ns, -2, _WOKEN, waker=waker, call=call)
    until, runner, length, where = events.ran
    of_seen = _block(runner, until, -1, _SEEN, cpu=where, begun=until - length)
    blocks = [of_left, of_taken, of_woken, of_seen]
    if few:
        # Of all others there is no telling when they stop. A thread that ends is not seen to leave.
        known = np.concatenate((left, runner[where >= 0]))
        when, ended = events.ends
        blocks = [block[:, np.isin(block[0], known)] for block in (*blocks, _block(ended, when, -3, DEAD))]
    else:
        # Where another leaves than was taken, that one had left before.
        order = np.lexsort((place, cpu))
        before, then = order[:-1], order[1:]
        other = (cpu[before] == cpu[then]) & (taken[before] != left[then]) & (left[then] != UNKNOWN_TASK)
        blocks.append(_block(taken[before][other], time_ns[then][other], place[then][other], _GONE))
    rows = np.concatenate(blocks, axis=1)
    rows = rows[:, np.lexsort((rows[2], rows[1], rows[0]))]
    return rows[:, rows[0] > 0]


def _block(
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


def _before(task: Array, kind: Array, among: Array | None = None) -> Array:
    """Of what kind was the thing before each, among some of them, of the same thread; ASLEEP where it is the first."""
    if among is None:
        among = np.arange(len(task))
    place = np.searchsorted(among, np.arange(len(task))) - 1
    before = among[np.maximum(place, 0)] if len(among) else np.zeros(len(task), np.int64)
    known = (place >= 0) & (task[before] == task) if len(among) else np.zeros(len(task), bool)
    return np.where(known, kind[before], ASLEEP)
