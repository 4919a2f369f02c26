"""The activities of each rank as interval sets: kernels, memcpy, memset, communication, runtime, DataLoader, operators.

As torch-tb-profiler classifies them (event_parser.py of its last revision); docs/metrics.md has each rule, and where
this differs.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, IndexArray, Int8Array, Int64Array
from ...domain.arrow import functions as pc
from ...domain.profile import Profile
from ...domain.tables import CATEGORY_KINDS, NO_ID, NUMERIC_ARGUMENTS, DeviceWorkKind, get_column, get_strings
from ..core.intervals import IntervalSet, merge_intervals, union_intervals
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.slice_selection import device_work_of, slices_of

STEP_PREFIX = "ProfilerStep#"
LIBRARIES = ("nccl", "gloo")
CALLS = ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
"""Slices of these names (nccl:all_reduce) count as communication; others do not for torch-tb-profiler."""


class Role(IntEnum):
    """Categories of time by priority: a time belongs to the first that applies."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    COMMUNICATION = 3
    RUNTIME = 4
    DATALOADER = 5
    CPU_EXEC = 6


NO_ROLE = len(Role)
"""The value for a slice without a role."""
_OF_WORK = {
    DeviceWorkKind.COMPUTATION: Role.KERNEL,
    DeviceWorkKind.COMMUNICATION: Role.KERNEL,
    DeviceWorkKind.MEMCPY: Role.MEMCPY,
    DeviceWorkKind.MEMSET: Role.MEMSET,
}
_OF_CATEGORY = {"runtime": Role.RUNTIME, "operator": Role.CPU_EXEC, "annotation": Role.CPU_EXEC}


@dataclass(frozen=True, eq=False)
class RankTime:
    """One rank. roles: the time of each Role. exclusive: the union of each Role with those before it. computation,
    communication: of compute kernels and of those of communication libraries; computing: of compute kernels that have
    the Role. device: of all device work."""

    rank: int
    roles: tuple[IntervalSet, ...]
    exclusive: tuple[IntervalSet, ...]
    computation: IntervalSet
    communication: IntervalSet
    computing: IntervalSet
    device: IntervalSet


def rank_times(profile: Profile) -> tuple[RankTime, ...]:
    """Every rank with slices, ascending; -1 represents no rank. Built once."""
    return memoize(profile, "rank times", lambda: _build(profile), pin=True)


def communication_calls(profile: Profile) -> Array:
    """The slices that are calls of collectives, on the host or as their annotations on a device: row numbers."""
    wanted = pa.array([f"{library}:{call}" for library in LIBRARIES for call in CALLS])
    mine = pc.is_in(profile.functions.column("name"), wanted).to_numpy()
    if not mine.any():
        return np.zeros(0, np.int64)
    slices = slices_of(profile)
    rows: IndexArray = np.flatnonzero(
        mine[slices.function] & slices.is_kind("operator", "annotation", "device_annotation")
    )
    return rows


def external_ids(profile: Profile, rows: Array) -> Int64Array:
    """The External id of each of these slices (ascending row numbers), -1 where it has none."""
    numbers = profile.slice_numbers
    with_id = np.flatnonzero(get_column(numbers, "key") == NUMERIC_ARGUMENTS.index("External id"))
    of, found = get_column(numbers, "slice")[with_id], np.full(len(rows), NO_ID, np.int64)
    if len(of):
        place = np.minimum(np.searchsorted(of, rows), len(of) - 1)
        known = of[place] == rows
        found[known] = get_column(numbers, "value")[with_id][place[known]]
    return found


def _roles(profile: Profile) -> Array:
    """The Role of each slice, as int8."""
    slices, work = slices_of(profile), device_work_of(profile)
    roles: Int8Array = np.array([_OF_CATEGORY.get(kind, NO_ROLE) for kind in CATEGORY_KINDS], np.int8)[slices.kind]
    # The annotations of the first versions of PyTorch. The later python_function does not count.
    old = np.array([name.lower() == "python" for name in get_strings(profile.categories, "name")], bool)
    if old.any():
        roles[old[get_column(profile.slices, "category")]] = Role.CPU_EXEC
    names = profile.functions.column("name")
    loads = pc.or_(
        pc.and_(pc.starts_with(names, "enumerate(DataLoader)#"), pc.ends_with(names, ".__next__")),
        pc.starts_with(names, "enumerate(DataPipe)#"),
    )
    # Lightning wraps everything in its own annotations.
    around = pc.or_(pc.starts_with(names, STEP_PREFIX), pc.starts_with(names, "[pl]["))
    other = np.full(profile.functions.num_rows, NO_ROLE, np.int8)
    other[around.to_numpy()], other[loads.to_numpy()] = NO_ROLE + 1, Role.DATALOADER
    if (other != NO_ROLE).any():
        changed = other[slices.function]
        changed[roles != Role.CPU_EXEC] = NO_ROLE
        np.copyto(roles, np.minimum(changed, NO_ROLE), where=(changed == Role.DATALOADER) | (changed > NO_ROLE))
    role = np.array([_OF_WORK.get(kind, NO_ROLE) for kind in DeviceWorkKind], np.int8)[work.kind]
    calls = communication_calls(profile)
    if len(calls):
        ids = external_ids(profile, calls)
        kernels = work.slice[role == Role.KERNEL]
        role[role == Role.KERNEL] = np.where(
            np.isin(external_ids(profile, kernels), ids[ids > 0]), Role.COMMUNICATION, Role.KERNEL
        )
        roles[calls] = Role.COMMUNICATION
    roles[work.slice] = role
    return roles


def _build(profile: Profile) -> tuple[RankTime, ...]:
    slices, work = slices_of(profile), device_work_of(profile)
    start, end = slices.start, slices.start + slices.duration
    rank = threads_of(profile).rank
    present = np.unique(rank[np.unique(slices.thread)]).tolist() if len(slices) else []

    def by_rank(rows: Array) -> list[Array]:
        """These rows of `slices`, those of each rank that is present."""
        if len(present) == 1:
            return [rows]
        of_row = rank[slices.thread[rows]]
        order = np.argsort(of_row, kind="stable")
        return np.split(rows[order], np.searchsorted(of_row[order], present[1:]))

    def covers(rows: Array) -> list[IntervalSet]:
        return [merge_intervals(start[mine], end[mine]) for mine in by_rank(rows)]

    if not present:
        return ()
    roles = _roles(profile)
    computes, communicates = (work.kind == kind for kind in (DeviceWorkKind.COMPUTATION, DeviceWorkKind.COMMUNICATION))
    computation, communication = covers(work.slice[computes]), covers(work.slice[communicates])
    # As a rule no kernel has the role of communication, see `communication_calls`.
    usual = not (roles[work.slice[computes | communicates]] != Role.KERNEL).any()
    times = {role: covers(np.flatnonzero(roles == role)) for role in Role if not usual or role is not Role.KERNEL}
    computing = computation
    if usual:
        times[Role.KERNEL] = [union_intervals(*both) for both in zip(computation, communication, strict=True)]
    else:
        computing = covers(work.slice[computes & (roles[work.slice] == Role.KERNEL)])
    other = covers(work.slice[work.kind == DeviceWorkKind.OTHER])
    found = []
    for place, number in enumerate(present):
        mine = tuple(times[role][place] for role in Role)
        first = [mine[0]]
        for one in mine[1:]:
            first.append(union_intervals(first[-1], one))
        copies = mine[Role.MEMCPY], mine[Role.MEMSET]
        found.append(
            RankTime(
                rank=number,
                roles=mine,
                exclusive=tuple(first),
                computation=computation[place],
                communication=communication[place],
                computing=computing[place],
                device=union_intervals(computation[place], communication[place], *copies, other[place]),
            )
        )
    return tuple(found)
