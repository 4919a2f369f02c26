"""Alignment of the clocks of ranks, by the ends of collectives in which several ranks took part.

A synchronizing collective ends on all ranks at about the same time. So the median of the differences between the ends
on two ranks, over all collectives of both, is the offset of their clocks. Ranks without common collectives are aligned
through others. docs/metrics.md has the definitions.

Also used while files are read, so it does not need pandas.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import NO_ID, get_column, get_strings
from ...ingest.clock_alignment import ClockShift
from ..core.sample_selection import threads_of
from ..core.slice_selection import slices_of
from .collective_calls import (
    SYNCHRONIZING_COLLECTIVES,
    CollectiveKind,
    collective_calls_of,
    match_collectives,
)

RESIDUAL_SHARE = 0.75
"""This share of collectives ends within the residual skew, so a few wrong matches do not affect it."""
MIN_COLLECTIVES = 5
"""Differences based on fewer collectives are used last."""
MIN_DRIFT_COLLECTIVES = 20
"""Minimum number of collectives to estimate a drift."""


@dataclass(frozen=True, eq=False)
class CollectiveEnds:
    """Ends of collectives. clock: number of the clock that recorded each, from 0. match: equal for the same collective
    on several clocks. synchronizing: whether no rank could end it before all had arrived."""

    clock: Array
    end_ns: Array
    match: Array
    synchronizing: Array


@dataclass(frozen=True)
class ClockEstimate:
    """The estimate of a clock from the ends of collectives.

    group: clocks with known relative offsets have the same number. reference: whether it is the reference of its group.
    ahead_ns: offset from the reference. residual_ns: after correction, three of four of its collectives end on all
    ranks within this time; farthest_ns: all of them. collectives: number shared with others. drift_ppm: how much faster
    it runs than the median of clocks with common collectives, if evident.
    """

    group: int
    reference: bool
    ahead_ns: int
    residual_ns: int
    farthest_ns: int
    collectives: int
    drift_ppm: float | None = None

    @property
    def is_off(self) -> bool:
        """Whether its offset exceeds the spread of the ends of its collectives."""
        return abs(self.ahead_ns) > self.residual_ns


def estimate_clocks(ends: CollectiveEnds, count: int) -> list[ClockEstimate | None]:
    """The estimate for each of `count` clocks; None if it shares no collective with another."""
    some = np.flatnonzero(ends.match >= 0)
    order = some[np.lexsort((ends.clock[some], ends.match[some]))]
    clock, end, match, together = (
        values[order] for values in (ends.clock, ends.end_ns.astype(np.int64), ends.match, ends.synchronizing)
    )
    if not len(clock):
        return [None] * count
    ahead, group = _chain_offsets(clock, end, match, together, count)
    first = np.flatnonzero(np.append(True, match[1:] != match[:-1]))
    held = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(match))))
    level = end - ahead[clock]
    spread = np.maximum.reduceat(level, first) - np.minimum.reduceat(level, first)
    # Ends of collectives that do not synchronize are less exact: a fallback.
    by_clock = _by_clock(clock, together)
    shared = np.bincount(clock, minlength=count)
    residual = [_quantile(spread[held[rows]], RESIDUAL_SHARE) for rows in by_clock]
    references = {
        number: _reference(np.flatnonzero(group == number), ahead, residual) for number in set(group.tolist())
    }
    clock_estimates: list[ClockEstimate | None] = []
    for one in range(count):
        if not shared[one]:
            clock_estimates.append(None)
            continue
        base = references[int(group[one])]
        clock_estimates.append(
            ClockEstimate(
                group=int(group[one]),
                reference=one == base,
                ahead_ns=int(ahead[one] - ahead[base]),
                residual_ns=residual[one],
                farthest_ns=_quantile(spread[held[by_clock[one]]], 1.0),
                collectives=int(shared[one]),
                drift_ppm=_drift(end, level, first, held, by_clock[one]),
            )
        )
    return clock_estimates


def _chain_offsets(clock: Array, end: Array, match: Array, together: Array, count: int) -> tuple[Array, Array]:
    """(offset of each clock from the first one of its group, the number of the group)."""
    new = np.append(True, match[1:] != match[:-1])
    hub = np.flatnonzero(new)[np.cumsum(new) - 1]
    rows = np.flatnonzero(hub != np.arange(len(clock)))
    rows = rows[clock[hub[rows]] != clock[rows]]
    apart = end[rows] - end[hub[rows]]
    pair = clock[hub[rows]].astype(np.int64) * count + clock[rows]
    order = np.lexsort((apart, pair, ~together[rows]))
    pair, apart, sure = pair[order], apart[order], together[rows][order]
    fresh = np.append(np.ones(min(1, len(pair)), bool), (pair[1:] != pair[:-1]) | (sure[1:] != sure[:-1]))
    starts = np.flatnonzero(fresh).tolist()
    edges = []
    for low, high in pairwise([*starts, len(pair)]):
        mine = apart[low:high]
        middle = int(mine[(len(mine) - 1) // 2])
        spread = int(np.sort(np.abs(mine - middle))[(len(mine) - 1) // 2])
        edges.append(
            (not sure[low], len(mine) < MIN_COLLECTIVES, spread, -len(mine), *divmod(int(pair[low]), count), middle)
        )
    ahead, group = np.zeros(count, np.int64), np.arange(count)
    members = {one: [one] for one in range(count)}
    # The most reliable differences first, until all connected clocks are joined.
    for *_, one, other, difference in sorted(edges):
        left, right = int(group[one]), int(group[other])
        if left == right:
            continue
        moved = int(ahead[one]) + difference - int(ahead[other])
        joining = members.pop(right)
        ahead[joining] += moved
        group[joining] = left
        members[left] += joining
    return ahead, group


def _by_clock(clock: Array, together: Array) -> list[Array]:
    """The rows of each clock; only those of synchronizing collectives, if it has any."""
    found = []
    for one in range(int(clock.max()) + 1):
        rows = np.flatnonzero(clock == one)
        sure = rows[together[rows]]
        found.append(sure if len(sure) else rows)
    return found


def _reference(members: Array, ahead: Array, residual: Sequence[int]) -> int:
    """The clock with which most others agree; the first of several."""
    near = max(residual[one] if one < len(residual) else 0 for one in members.tolist())
    level = ahead[members]
    order = np.sort(level)
    agree = np.searchsorted(order, level + near, "right") - np.searchsorted(order, level - near, "left")
    return int(members[int(np.argmax(agree))])


def _quantile(values: Array, share: float) -> int:
    """The quantile for this share, a value that occurs; 0 without values."""
    if not len(values):
        return 0
    return int(np.sort(values)[max(0, int(np.ceil(share * len(values))) - 1)])


def _median_of_others(level: Array, first: Array, held: Array) -> Array:
    """For each end the median of the other ends of its collective, the mean of two middle values. Unlike the mean, it
    is not affected by one drifting clock."""
    order = np.lexsort((level, held))
    place = np.empty(len(level), np.int64)
    place[order] = np.arange(len(level)) - first[held]
    others = (np.diff(np.append(first, len(level))) - 1)[held]
    middles = []
    for at in (np.maximum(others - 1, 0) // 2, others // 2):
        # Exclude the end itself.
        passed = np.minimum(at + (at >= place), others)
        middles.append(level[order][first[held] + passed].astype(np.float64))
    found: Array = (middles[0] + middles[1]) / 2
    return found


def _drift(end: Array, level: Array, first: Array, held: Array, rows: Array) -> float | None:
    """How much faster a clock runs than the median of the others, in ppm; None if not evident: the medians of the first
    and the last third must differ by more than their spread."""
    if len(rows) < MIN_DRIFT_COLLECTIVES:
        return None
    rows = rows[np.argsort(end[rows], kind="stable")]
    # Subtract first: floats are not exact for nanoseconds since the epoch.
    after = level - np.minimum.reduceat(level, first)[held]
    beyond = (after - _median_of_others(after, first, held))[rows]
    third = len(rows) // 3
    early, late = beyond[:third], beyond[-third:]
    change = float(np.median(late) - np.median(early))
    noise = max(float(np.quantile(np.abs(part - np.median(part)), RESIDUAL_SHARE)) for part in (early, late))
    span = float(np.median(end[rows[-third:]]) - np.median(end[rows[:third]]))
    return 1e6 * change / span if span > 0 and abs(change) > 2 * noise and change else None


@dataclass
class _ProcessCollectives:
    """Collectives of a process: their kinds and ends on its clock."""

    process: int
    part: int
    end_ns: Array
    what: Array
    sequence: Array
    step: Array
    kinds: tuple[CollectiveKind, ...]
    steps: tuple[str, ...]


@dataclass
class ClockAligner:
    """Aligns the clocks of profiles that are merged: an `Aligner` of `ingest.merge`."""

    _of_run: dict[Hashable, list[_ProcessCollectives]] = field(default_factory=lambda: defaultdict(list))

    def add(self, profile: Profile, part: int, process: int, run: Hashable) -> None:
        """Record the collectives of a profile. run: collectives of different runs are unrelated."""
        if not profile.slices.num_rows:
            return
        collective_calls = collective_calls_of(profile)
        if len(np.unique(threads_of(profile).rank[np.unique(slices_of(profile).thread)])) > 1:
            # It has several ranks, whose clocks are aligned already.
            return
        launched = slices_of(profile).start[collective_calls.launch]
        began = np.where(collective_calls.launch >= 0, launched, collective_calls.start)
        step, names = _steps_at(profile, began)
        # Copies, because the profile is freed.
        end, what, sequence = (
            np.array(values) for values in (collective_calls.end, collective_calls.kind, collective_calls.sequence)
        )
        self._of_run[run].append(
            _ProcessCollectives(process, part, end, what, sequence, step, collective_calls.kinds, names)
        )

    def compute_shifts(self, added: Sequence[int]) -> Mapping[int, ClockShift]:
        """The shift of the times of each process, by number. added: shifts already applied to each part."""
        shifts: dict[int, ClockShift] = {}
        for sightings in self._of_run.values():
            processes = sorted({sighting.process for sighting in sightings})
            place = {process: at for at, process in enumerate(processes)}
            ends = _together(sightings, place, added)
            for process, clock in zip(processes, estimate_clocks(ends, len(processes)), strict=True):
                if clock is not None:
                    shifts[process] = ClockShift(-clock.ahead_ns if clock.is_off else 0, clock.collectives)
        return shifts


def _steps_at(profile: Profile, time: Array) -> tuple[Array, tuple[str, ...]]:
    """(the place in names of the step that each of these times is in, -1 for none; names). Without steps, everything is
    in one."""
    table = profile.steps
    if not table.num_rows:
        return np.zeros(len(time), np.int64), ("",)
    order = np.argsort(get_column(table, "start_ns"), kind="stable")
    start, end = (get_column(table, name)[order] for name in ("start_ns", "end_ns"))
    names = get_strings(table, "name")
    at = np.searchsorted(start, time, "right") - 1
    inside = (at >= 0) & (time < end[np.maximum(at, 0)])
    return np.where(inside, order[np.maximum(at, 0)], NO_ID), tuple(names)


def _together(
    sightings: Sequence[_ProcessCollectives], place: Mapping[int, int], added: Sequence[int]
) -> CollectiveEnds:
    """The ends of all collectives, on the current clocks."""
    kinds: dict[CollectiveKind, int] = {}
    steps: dict[str, int] = {}
    columns: list[tuple[Array, ...]] = []
    for sighting in sightings:
        kind = np.array([kinds.setdefault(what, len(kinds)) for what in sighting.kinds] + [NO_ID])
        step = np.array([steps.setdefault(name, len(steps)) for name in sighting.steps] + [NO_ID])
        clock = np.full(len(sighting.end_ns), place[sighting.process])
        columns.append(
            (clock, sighting.end_ns + added[sighting.part], kind[sighting.what], sighting.sequence, step[sighting.step])
        )
    clock, end, what, sequence, step = (np.concatenate(values) for values in zip(*columns, strict=True))
    # Sorted by time within a process, which can have several parts.
    order = np.lexsort((end, clock))
    clock, end, what, sequence, step = (values[order] for values in (clock, end, what, sequence, step))
    match = match_collectives(clock, what, tuple(kinds), sequence, step, end).number
    together = np.array([kind.name in SYNCHRONIZING_COLLECTIVES for kind in kinds] + [False])
    return CollectiveEnds(clock, end, match, together[what])
