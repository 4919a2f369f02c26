"""Collectives with their steps and their matches on other ranks.

docs/metrics.md has the definitions.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import NO_ID, DeviceWorkKind
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.slice_selection import device_work_of, slices_of
from ..ml.steps import steps_of
from .collective_calls import CALL_PATTERN, CollectiveKind, collective_calls_of, match_collectives, match_function_names

_BUS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}


@dataclass(frozen=True, eq=False)
class Collectives:
    """Collectives, sorted by rank and start. slice: its row. step: of `steps_of`, -1 none. kind: an index into `kinds`.
    match: equal for the same collective on several ranks, -1 if unmatched. basis: a `MatchBasis`. transfer_ns: duration
    on the rank that arrived last; -1 if unmatched."""

    rank: Array
    slice: Array
    start: Array
    end: Array
    step: Array
    kind: Array
    kinds: tuple[CollectiveKind, ...]
    match: Array
    basis: Array
    transfer_ns: Array

    def __len__(self) -> int:
        return len(self.slice)

    @property
    def waiting_ns(self) -> Array:
        """How long each waited for the last rank to arrive; 0 if unknown."""
        waited: Array = np.where(self.match >= 0, self.end - self.start - self.transfer_ns, 0)
        return waited


def has_communication(profile: Profile) -> bool:
    """Whether there is communication: kernels or calls of collectives, or slices of several ranks."""

    def build() -> bool:
        return (
            bool((device_work_of(profile).kind == DeviceWorkKind.COMMUNICATION).any())
            or bool(match_function_names(profile, CALL_PATTERN).any())
            or len(np.unique(threads_of(profile).rank)) > 1
        )

    return bool(profile.slices.num_rows) and memoize(profile, "communicates", build)


def bus_factor(name: str, size: int) -> float | None:
    """The factor of nccl-tests from algorithm bandwidth to bus bandwidth; None if the size is unknown."""
    if size < 1:
        return None
    return float(_BUS[name](size)) if name in _BUS else 1.0


def collectives_of(profile: Profile) -> Collectives:
    """All collectives of a profile; built once."""
    return memoize(profile, "collectives", lambda: _build(profile), pin=True)


def _build(profile: Profile) -> Collectives:
    slices, found = slices_of(profile), collective_calls_of(profile)
    began = np.where(found.launch >= 0, slices.start[found.launch], found.start)
    step = _steps(profile, found.rank, began)
    words: dict[str, int] = {}
    named_step = np.array([words.setdefault(name, len(words)) for name in steps_of(profile).name] + [NO_ID])[step]
    matching = match_collectives(found.rank, found.kind, found.kinds, found.sequence, named_step, found.end)
    match = matching.number
    length = found.end - found.start
    shortest = np.full(int(match.max(initial=NO_ID)) + 2, np.iinfo(np.int64).max)
    np.minimum.at(shortest, match, length)
    transfer = np.where(match >= 0, shortest[match], NO_ID)
    columns = found.rank, found.slice, found.start, found.end, step, found.kind, found.kinds
    return Collectives(*columns, match, matching.basis, transfer)


def _steps(profile: Profile, rank: Array, time: Array) -> Array:
    """The row of `steps_of` in which the host was at each of these times, -1 for none."""
    steps = steps_of(profile)
    step = np.full(len(rank), NO_ID)
    for one in np.unique(rank).tolist():
        first, last = (int(at) for at in np.searchsorted(steps.rank, [one, one + 1]))
        rows = np.flatnonzero(rank == one)
        place = first + np.searchsorted(steps.host_start_ns[first:last], time[rows], "right") - 1
        inside = (place >= first) & (time[rows] < steps.host_end_ns[np.maximum(place, 0)])
        step[rows[inside]] = place[inside]
    return step
