"""Since when an outlier is one: its excess over the others in bins of time, and the change point."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.sample_selection import clip_weights, filter_samples, samples_of
from ..timeline.heat_map import has_heat_map
from .cells import MatrixRows
from .groups import NO_GROUP, MatrixGroups
from .outliers import find_change

BIN_COUNT = 100


@dataclass(frozen=True)
class Since:
    """When an excess began, from the start of the recording, and how far it may be from there (ns)."""

    at_ns: int
    error_ns: int


def find_since(
    profile: Profile,
    selection: Selection,
    event: int,
    groups: MatrixGroups,
    rows: MatrixRows,
    outliers: Sequence[tuple[int, int]],
) -> list[Since | None]:
    """For each outlier (row of the matrix, group), since when it is one in the selected time; None if it is one from
    the start, or if no change exceeds its error."""
    if not outliers or event == NO_ID or not has_heat_map(profile):
        return [None] * len(outliers)
    samples, picked = samples_of(profile), filter_samples(profile, selection, event)
    time_ns, thread = samples.time_ns[picked], samples.thread[picked]
    if not len(time_ns):
        return [None] * len(outliers)
    start = int(time_ns[0]) if selection.start_ns is None else max(selection.start_ns, int(time_ns[0]))
    width = max(1, -(-(int(time_ns[-1]) + 1 - start) // BIN_COUNT))
    # The rows of outliers by number, several outliers may be in one.
    distinct = sorted({row for row, _ in outliers})
    number = np.full(len(rows), -1, np.int64)
    number[distinct] = np.arange(len(distinct))
    of_sample = number[rows.of_call][samples.call[samples.stack[picked]]]
    group = groups.of_thread[thread]
    kept = np.flatnonzero((of_sample >= 0) & (group != NO_GROUP))
    of_sample, group = of_sample[kept], group[kept]
    part = np.clip((time_ns[kept] - start) // width, 0, BIN_COUNT - 1)
    weight = clip_weights(profile, selection, picked)[kept]
    found = []
    for row, top in outliers:
        mine = np.flatnonzero((of_sample == number[row]) & (groups.role[group] == groups.role[top]))
        change = find_change(*_excess(part[mine], weight[mine], group[mine] == top, _others(groups, top)))
        found.append(None if change is None else Since(start + change.at * width, (change.error_bins + 1) * width))
    return found


def _others(groups: MatrixGroups, top: int) -> int:
    return max(1, int((groups.role == groups.role[top]).sum()) - 1)


def _excess(part: Array, weight: Array, own: Array, others: int) -> tuple[Array, Array]:
    """The excess of a group over the mean of the others in each bin, and its sampling variance."""
    value, square = (
        [np.bincount(part[which], some[which], BIN_COUNT) for which in (own, ~own)]
        for some in (weight.astype(np.float64), weight.astype(np.float64) ** 2)
    )
    return value[0] - value[1] / others, square[0] + square[1] / (others * others)
