"""Series on the timeline: the values in a window, or if there are too many, the range in each cell of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column
from ..core.flame_groups import FlameGroup
from ..core.memo import memoize
from ..formulas.resolution import ResolvedFormula
from ..ml.devices import devices_of, sm_efficiency_of
from .formula_curves import compute_formula_curve
from .model import Timeline
from .tracks import series_bounds, time_extent
from .usage import MinimapSeries, compute_cpu_use, compute_event_rate

BLOCK = 64


@dataclass(frozen=True, eq=False)
class SeriesValues:
    """Values of a series, in order of time: each holds until the next. at: ns. low, high: the range until the next
    entry; last: the value at its end. If nothing was omitted, all three are equal."""

    at: Array
    low: Array
    high: Array
    last: Array


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The lowest and highest of every `BLOCK` values, counted from the beginning of the table."""

    low: Array
    high: Array


def load_series_values(profile: Profile, series: int, start_ns: int, end_ns: int, cell: int, most: int) -> SeriesValues:
    """The values of a series in [start_ns, end_ns), beginning with the value at its start, if any.

    If there are more than `most` values, one entry for every cell of 2^`cell` ns with values.
    """
    bounds = series_bounds(profile)
    begin, stop = int(bounds[series]), int(bounds[series + 1])
    time_ns, value = get_column(profile.counters, "time_ns"), get_column(profile.counters, "value")
    # Of several values at one time the last one holds.
    low = max(begin, begin + int(np.searchsorted(time_ns[begin:stop], start_ns, "right")) - 1)
    high = max(low, begin + int(np.searchsorted(time_ns[begin:stop], end_ns, "left")))
    if high - low <= most:
        known = value[low:high]
        return SeriesValues(time_ns[low:high], known, known, known)
    # There are as many cells as pixels: one binary search for each is faster than a pass over all values.
    edges = np.arange((start_ns >> cell) + 1, (end_ns >> cell) + 1) << cell
    first = np.unique(np.append(low, low + np.searchsorted(time_ns[low:high], edges)))
    first = first[first < high]
    after = np.append(first[1:], high)
    return SeriesValues(
        time_ns[first],
        _extremes(profile, first, after, np.minimum, "low"),
        _extremes(profile, first, after, np.maximum, "high"),
        value[after - 1],
    )


def load_busy_share(
    profile: Profile, device: int, efficiency: bool, start_ns: int, end_ns: int, cell: int
) -> SeriesValues:
    """How much of its time (0–100) a device of `devices_of` was busy with kernels, or with `efficiency` how much of its
    multiprocessors was, in cells of four times 2^`cell` ns: narrower ones would show single kernels."""
    cell += 2
    edges = np.arange(start_ns >> cell, (end_ns >> cell) + 2) << cell
    low, high = edges[:-1], edges[1:]
    found = devices_of(profile)[device]
    rate = sm_efficiency_of(profile, found) if efficiency else None
    covered = rate.integrate(low, high) if rate else found.kernels.length_within(low, high)
    percent = 100.0 * covered / (1 << cell)
    # Omit unchanged values.
    new = np.ones(len(low), bool)
    new[1:] = percent[1:] != percent[:-1]
    percent = np.round(percent[new], 2)
    return SeriesValues(low[new], percent, percent, percent)


def load_event_rate(
    profile: Profile, timeline: Timeline, selection: Selection, event: int, start_ns: int, end_ns: int
) -> SeriesValues:
    """The curve of an event's rate in [start_ns, end_ns), beginning with the value at its start. Its parts are those of
    the total time, whatever the window."""
    whole = time_extent(profile, timeline)
    rate = compute_event_rate(profile, timeline, selection, event, whole.first_ns, whole.last_ns)
    return _cut(rate, whole.first_ns, start_ns, end_ns)


def load_formula_curve(
    profile: Profile,
    timeline: Timeline,
    selection: Selection,
    formula: ResolvedFormula,
    start_ns: int,
    end_ns: int,
) -> SeriesValues:
    """The curve of a formula in [start_ns, end_ns), beginning with the value at its start, with parts of the total
    time."""
    whole = time_extent(profile, timeline)
    curve = compute_formula_curve(profile, timeline, selection, formula, whole)
    return _cut(curve, whole.first_ns, start_ns, end_ns)


def load_cpu_use(
    profile: Profile,
    timeline: Timeline,
    selection: Selection,
    group: FlameGroup,
    number: int,
    start_ns: int,
    end_ns: int,
) -> SeriesValues:
    """The curve of the CPUs in use by a thread, process or host in [start_ns, end_ns), with parts of the total time."""
    whole = time_extent(profile, timeline)
    use = compute_cpu_use(profile, timeline, selection, group, number, (whole.first_ns, whole.last_ns))
    return _cut(use, whole.first_ns, start_ns, end_ns)


def _cut(rate: MinimapSeries, first_ns: int, start_ns: int, end_ns: int) -> SeriesValues:
    at = first_ns + rate.bin_ns * np.arange(len(rate.values))
    low = max(0, int(np.searchsorted(at, start_ns, "right")) - 1)
    inside = slice(low, max(low, int(np.searchsorted(at, end_ns, "left"))))
    values = np.array([float(f"{value:.4g}") for value in rate.values[inside].tolist()])
    return SeriesValues(at[inside], values, values, values)


def _extremes(profile: Profile, first: Array, after: Array, of: Any, word: str) -> Array:
    """The least or greatest of value[first:after], whole blocks at once."""
    value = get_column(profile.counters, "value")
    whole_first, whole_after = -(-first // BLOCK), after // BLOCK
    extremes: Array = value[first].copy()
    blocks = getattr(_blocks(profile), word)
    for n in range(len(first)):
        a, b = int(whole_first[n]), int(whole_after[n])
        if b <= a:
            extremes[n] = of.reduce(value[first[n] : after[n]])
            continue
        parts = (value[first[n] : a * BLOCK], blocks[a:b], value[b * BLOCK : after[n]])
        extremes[n] = of.reduce([of.reduce(part) for part in parts if len(part)])
    return extremes


def _blocks(profile: Profile) -> _Blocks:
    def build() -> _Blocks:
        value = get_column(profile.counters, "value")
        edges = np.arange(0, len(value), BLOCK)
        return _Blocks(np.minimum.reduceat(value, edges), np.maximum.reduceat(value, edges))

    return memoize(profile, "timeline blocks", build)
