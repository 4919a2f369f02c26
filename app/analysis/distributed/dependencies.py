"""Dependencies: of device work on its launch, on the previous work and on other streams; of host calls on device work;
of ranks on each other in collectives.

A trace does not record dependencies; they are inferred from times if these are unambiguous. Work launched before the
end of the previous work of its stream waited for that work. Work that began within DEPENDENCY_NS after work of another
stream, which ended after its launch, waited for that (an event between streams). A synchronizing call waited for the
last work that ended before it returned, and for a memcpy that ends before its call returns, the call waited.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import NO_ID, DeviceWorkKind
from ..core.functions import match_functions
from ..core.intervals import TIME_LIMIT_NS
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.slice_selection import device_work_of, slices_of
from .collectives import collectives_of

DEPENDENCY_NS = 10_000
SYNCHRONIZE_PATTERN = (
    "(Device|Stream|Event|Ctx|Context)Synchronize|^(cuda|hip)(Memcpy|Memset|Free|Malloc)$|^cuMemcpy.*_v2$"
)
"""Calls of the runtime and driver that return when the device is done."""


@dataclass(frozen=True, eq=False)
class WorkDependencies:
    """By row of `device_work`. rank: -1 none. launch_end: the end of its launch, or its start if that is earlier
    (-EDGE: unknown). after_previous: it waited for the row before it. waited_for: the row of another stream that it
    waited for, or of another rank that came last to the same collective; -1 none. is_straggler: the latter. group:
    equal for the same collective, -1 none.

    calls: see `BlockingCalls`.
    """

    start: Array
    end: Array
    rank: Array
    launch_end: Array
    after_previous: Array
    waited_for: Array
    is_straggler: Array
    group: Array
    calls: dict[int, "BlockingCalls"]


@dataclass(frozen=True, eq=False)
class BlockingCalls:
    """Calls of a rank that waited for device work, in order of their ends. work: the device work. start, end: of the
    call."""

    start: Array
    end: Array
    work: Array


def dependencies_of(profile: Profile) -> WorkDependencies:
    """The dependencies of a profile; built once."""
    return memoize(profile, "waiting", lambda: _build(profile))


def _build(profile: Profile) -> WorkDependencies:
    slices, work = slices_of(profile), device_work_of(profile)
    rank = threads_of(profile).rank[work.thread]
    start, end = work.start.astype(np.int64), (work.start + work.duration).astype(np.int64)
    known = work.launch >= 0
    launched = np.full(len(work), -TIME_LIMIT_NS, np.int64)
    call = work.launch[known]
    launched[known] = np.minimum(slices.start[call] + slices.duration[call], start[known])
    after = np.zeros(len(work), bool)
    after[1:] = (work.thread[1:] == work.thread[:-1]) & (end[:-1] > launched[1:]) & (end[:-1] <= start[1:])
    on = np.full(len(work), NO_ID)
    for one in np.unique(rank).tolist():
        mine = np.flatnonzero(rank == one)
        by_end = mine[np.argsort(end[mine], kind="stable")]
        free = mine[~after[mine]]
        place = np.searchsorted(end[by_end], start[free], "right") - 1
        other = by_end[np.maximum(place, 0)]
        waited = (place >= 0) & (end[other] > launched[free]) & (start[free] - end[other] <= DEPENDENCY_NS)
        # Work that began no earlier cannot be waited for, nor can work without duration.
        waited &= (start[other] < start[free]) & (work.device[other] == work.device[free])
        on[free[waited]] = other[waited]
    late, group = _late(profile, on)
    return WorkDependencies(start, end, rank, launched, after & ~late, on, late, group, _calls(profile, end, rank))


def _late(profile: Profile, on: Array) -> tuple[Array, Array]:
    """(which collectives waited for another rank, which are the same collective), also set in `on`."""
    work, found = device_work_of(profile), collectives_of(profile)
    late, group = np.zeros(len(work), bool), np.full(len(work), NO_ID)
    place = np.searchsorted(work.slice, found.slice)
    on_device = (place < len(work)) & (found.match >= 0)
    on_device[on_device] &= work.slice[place[on_device]] == found.slice[on_device]
    rows = place[on_device]
    match, began = found.match[on_device], found.start[on_device]
    order = np.lexsort((began, match))
    rows, match = rows[order], match[order]
    last = np.append(match[1:] != match[:-1], True) if len(match) else np.zeros(0, bool)
    of_match = rows[last][np.searchsorted(match[last], match)]
    behind = of_match != rows
    late[rows[behind]] = True
    on[rows[behind]] = of_match[behind]
    group[rows] = match
    return late, group


def _calls(profile: Profile, end: Array, rank: Array) -> dict[int, BlockingCalls]:
    """The calls that waited, by rank."""
    slices, work = slices_of(profile), device_work_of(profile)
    runtime = slices.is_kind("runtime") & match_functions(profile, SYNCHRONIZE_PATTERN, "focus")[slices.function]
    rows = np.flatnonzero(runtime)
    rank_of = threads_of(profile).rank[slices.thread]
    copies = np.flatnonzero((work.kind == DeviceWorkKind.MEMCPY) & (work.launch >= 0))
    own = work.launch[copies]
    copies = copies[end[copies] <= slices.start[own] + slices.duration[own]]
    found = {}
    for one in np.unique(rank).tolist():
        mine = np.flatnonzero(rank == one)
        by_end = mine[np.argsort(end[mine], kind="stable")]
        calls = rows[rank_of[rows] == one]
        begins, returns = slices.start[calls], slices.start[calls] + slices.duration[calls]
        place = np.searchsorted(end[by_end], returns, "right") - 1
        waited = by_end[np.maximum(place, 0)]
        some = (place >= 0) & (end[waited] > begins)
        of_copy = copies[rank[copies] == one]
        call = work.launch[of_copy]
        starts = np.concatenate((begins[some], slices.start[call]))
        ends = np.concatenate((returns[some], slices.start[call] + slices.duration[call]))
        order = np.argsort(ends, kind="stable")
        found[one] = BlockingCalls(starts[order], ends[order], np.concatenate((waited[some], of_copy))[order])
    return found
