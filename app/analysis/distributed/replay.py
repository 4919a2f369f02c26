"""What-if replay: how long the recording would last if a function took no time.

Preserved are: the order of work on the host and in streams, dependencies (`dependencies`), and the delay from the
launch or dependency of device work to its start. Only start times are recomputed. A replay without changes lasts as
long as the recording; the difference of another replay is the possible saving.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import NO_ID, get_column
from ..core.intervals import EMPTY, TIME_LIMIT_NS, IntervalSet, merge_intervals, union_intervals
from ..core.memo import memoize
from ..core.slice_selection import device_work_of, slices_of
from .dependencies import dependencies_of
from .host_timeline import UNKNOWN_TIMELINE, host_timelines

MAX_DEVICE_WORK = 100_000
"""With more device work, a replay takes too long for a page."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """The input of all replays.

    order: events sorted by time: rows of `device_work`, or −1 − the index of a call in `calls`, (rank, end of the
    device work, work). before: for each work, the number of calls of its rank that ended before its launch. members: of
    each collective of several ranks, by its number. waits: of each rank, the times in which the host only waited. ends:
    the end of host activity of each rank.
    """

    order: list[int]
    calls: list[tuple[int, int, int]]
    before: list[int]
    members: dict[int, list[int]]
    waits: dict[int, IntervalSet]
    ends: dict[int, int]


@dataclass(frozen=True, eq=False)
class _ReplayTimes:
    """Start and end of each work; for each call how long its host has waited at its end."""

    start: list[int]
    done: list[int]
    waited: list[int]


def replay_saving_ns(profile: Profile, function: int) -> int | None:
    """How much sooner the recording would end if the self time of `function`, on host and devices, were 0.

    None if unknown: too much device work.
    """
    if len(device_work_of(profile)) > MAX_DEVICE_WORK:
        return None
    whole = memoize(profile, ("replay", NO_ID), lambda: replay_length_ns(profile, NO_ID))
    return max(0, whole - memoize(profile, ("replay", function), lambda: replay_length_ns(profile, function)))


def replay_length_ns(profile: Profile, function: int) -> int:
    """The end of the replay without `function` (-1: with everything), in ns from the profile's zero."""
    plan = memoize(profile, "replay plan", lambda: _plan(profile))
    delays = memoize(profile, "replay delays", lambda: _delays(profile, plan))
    found, hosts = _replay(profile, plan, function, delays)
    ends = [int(host.at_work(np.array([plan.ends[rank]]))[0]) + host.waited for rank, host in hosts.items()]
    return max([*ends, *found.done], default=0)


def _delays(profile: Profile, plan: _Plan) -> _ReplayTimes:
    """The delays of all work relative to the earliest possible time, so that a complete replay equals the recording."""
    waiting = dependencies_of(profile)
    nothing = _ReplayTimes([0] * len(waiting.start), [0] * len(waiting.start), [0] * len(plan.calls))
    waited = [int(plan.waits[rank].length_until(np.array([over]))[0]) for rank, over, _ in plan.calls]
    recorded = _ReplayTimes(waiting.start.tolist(), waiting.end.tolist(), waited)
    _replay(profile, plan, NO_ID, nothing, recorded)
    return nothing


class _Host:
    """The clock of a rank's host. shifts: how long it has waited after each of its calls, at first not at all."""

    def __init__(self, profile: Profile, rank: int, waits: IntervalSet, function: int) -> None:
        line = host_timelines(profile).get(rank, UNKNOWN_TIMELINE)
        intervals = EMPTY
        if function != NO_ID:
            of = get_column(profile.calls, "function")[line.call]
            some = (of == function) & (line.call >= 0)
            intervals = merge_intervals(line.start[some], line.end[some])
        self._skipped = union_intervals(waits, intervals)
        self.shifts = [0]

    @property
    def waited(self) -> int:
        """How long it has waited until now."""
        return self.shifts[-1]

    def at_work(self, time: Array) -> Array:
        """These times of the host without its waits and the omitted function."""
        found: Array = time - self._skipped.length_until(time)
        return found


def _replay(
    profile: Profile, plan: _Plan, function: int, delays: _ReplayTimes, recorded: _ReplayTimes | None = None
) -> tuple[_ReplayTimes, dict[int, _Host]]:
    """Replay the recording without `function`. recorded: compute the delays that reproduce the recording."""
    waiting, work = dependencies_of(profile), device_work_of(profile)
    lasts = waiting.end - waiting.start
    if function != NO_ID:
        lasts = np.where(slices_of(profile).function[work.slice] == function, 0, lasts)
    hosts = {rank: _Host(profile, rank, waits, function) for rank, waits in plan.waits.items()}
    launched, resumes = waiting.launch_end, np.zeros(len(plan.calls), np.int64)
    of_call = np.array([rank for rank, _, _ in plan.calls], np.int64)
    over = np.array([at for _, at, _ in plan.calls], np.int64)
    for rank, host in hosts.items():
        launched = np.where(waiting.rank == rank, host.at_work(waiting.launch_end), launched)
        resumes = np.where(of_call == rank, host.at_work(over), resumes)
    known, began = waiting.launch_end > -TIME_LIMIT_NS, waiting.start
    ready = np.where(known, launched, began).tolist()
    before = np.where(
        waiting.after_previous, np.arange(len(began)) - 1, np.where(waiting.is_straggler, NO_ID, waiting.waited_for)
    ).tolist()
    group, ranks, length_of, resumed = waiting.group.tolist(), waiting.rank.tolist(), lasts.tolist(), resumes.tolist()
    last_of = {number: max(rows, key=lambda row: int(began[row])) for number, rows in plan.members.items()}
    found = _ReplayTimes([0] * len(began), [0] * len(began), [0] * len(plan.calls))

    def settle(value: int, of: str, place: int) -> int:
        fixed: list[int] = getattr(delays, of)
        if recorded is not None:
            fixed[place] = getattr(recorded, of)[place] - value
        getattr(found, of)[place] = value + fixed[place]
        return value + fixed[place]

    for event in plan.order:
        if event < 0:
            place = -1 - event
            rank, _, row = plan.calls[place]
            shifts = hosts[rank].shifts
            shifts.append(settle(max(shifts[-1], found.done[row] - resumed[place]), "waited", place))
            continue
        start = ready[event] + (hosts[ranks[event]].shifts[plan.before[event]] if known[event] else 0)
        if before[event] >= 0:
            start = max(start, found.done[before[event]])
        start = settle(start, "start", event)
        if group[event] < 0:
            settle(start + length_of[event], "done", event)
        elif last_of[group[event]] == event:
            # The last rank to arrive starts the transfer for all.
            rows = plan.members[group[event]]
            transfer = max(found.start[row] for row in rows)
            for row in rows:
                settle(transfer + min(length_of[row], length_of[event]), "done", row)
    return found, hosts


def _plan(profile: Profile) -> _Plan:
    waiting = dependencies_of(profile)
    calls = [
        (rank, min(int(waiting.end[work]), end), work)
        for rank, of in waiting.calls.items()
        for end, work in zip(of.end.tolist(), of.work.tolist(), strict=True)
    ]
    returned = np.concatenate([np.zeros(0, np.int64), *(of.end for of in waiting.calls.values())])
    moments = np.concatenate((waiting.start, returned))
    events = np.concatenate((np.arange(len(waiting.start)), -1 - np.arange(len(calls))))
    before = np.zeros(len(waiting.start), np.int64)
    waits, ends = {}, {}
    for rank in sorted({*np.unique(waiting.rank).tolist(), *host_timelines(profile)}):
        of = waiting.calls.get(rank)
        mine = waiting.rank == rank
        waits[rank] = EMPTY
        if of is not None:
            before[mine] = np.searchsorted(of.end, waiting.launch_end[mine], "right")
            waits[rank] = merge_intervals(of.start, np.minimum(waiting.end[of.work], of.end))
        line = host_timelines(profile).get(rank, UNKNOWN_TIMELINE)
        ends[rank] = int(line.end[line.call >= 0].max(initial=0))
    members: dict[int, list[int]] = {}
    for row in np.flatnonzero(waiting.group >= 0).tolist():
        members.setdefault(int(waiting.group[row]), []).append(row)
    return _Plan(
        order=events[np.argsort(moments, kind="stable")].tolist(),
        calls=calls,
        before=before.tolist(),
        members=members,
        waits=waits,
        ends=ends,
    )
