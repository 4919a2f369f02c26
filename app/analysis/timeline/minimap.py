"""The strip above the timeline: usage in each part of the total time, in a readable unit."""

from dataclasses import dataclass

import numpy as np

from ...domain import timed_events
from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, get_strings
from ...domain.units import NS_PER_S
from ..core.measurements import find_share_only_events
from ..core.memo import memoize
from ..core.sample_selection import event_id, select_threads, threads_of
from ..core.sample_spans import SampleSpan
from .mipmap import MAX_FILL, MipmapItems
from .model import Timeline
from .tracks import TimeExtent, lane_event

BINS = 512
"""Maximum number of parts of the total time."""
MIN_BINS, MIN_SAMPLES_PER_BIN = 32, 8
"""Parts are at least this many samples long, unless there would be fewer than the minimum number of parts: in shorter
parts, single samples would dominate."""
CPUS_UNIT = "CPUs in use"
_UNITS = {
    HOST_TIME: "threads busy",
    DEVICE_TIME: "streams busy",
    timed_events.RUNNING: CPUS_UNIT,
    timed_events.CPU_TIME: CPUS_UNIT,
}


@dataclass(frozen=True, eq=False)
class MinimapSeries:
    """Usage over time. values: one for each part of `bin_ns`, from `TimeExtent.first_ns` on; unit: in words."""

    values: Array
    bin_ns: int
    unit: str


@dataclass(frozen=True, eq=False)
class Minimap:
    """host: of threads; device: of streams of devices, None without any."""

    host: MinimapSeries
    device: MinimapSeries | None


def build_minimap(profile: Profile, timeline: Timeline, selection: Selection, extent: TimeExtent) -> Minimap:
    """The strips of an event and of some threads.

    For samples: the sum of their weights in each part ÷ its length. For clocks this is the number of CPUs in use,
    without the idle task (swapper); for other events a rate per second: of samples, if their weights give no total. The
    weight of a sample is spread evenly over its span. Events with a duration count as far as they cover the part.
    """
    shown = Selection(event=selection.event, threads=selection.threads, ranks=selection.ranks)

    def build() -> Minimap:
        threads, event = threads_of(profile), lane_event(profile, shown)
        chosen = select_threads(profile, shown)
        rows = np.flatnonzero((event != NO_ID) & (True if chosen is None else chosen))
        streams = np.array([kind == "gpu_stream" for kind in threads.kind], bool)
        host, device = rows[~streams[rows]], rows[streams[rows]]
        main = event[host[0]] if len(host) else event_id(profile, selection.event)
        unit, guessed = _unit(profile, timeline, int(main)), sorted(find_share_only_events(profile))
        if unit == CPUS_UNIT:
            idle = [
                tid == 0 and name.startswith("swapper") for tid, name in zip(threads.tid, threads.name, strict=True)
            ]
            host = host[~np.array(idle, bool)[host]]
        of_device = (
            _strip(timeline, event[device], device, extent, _UNITS[DEVICE_TIME], guessed) if streams.any() else None
        )
        return Minimap(_strip(timeline, event[host], host, extent, unit, guessed), of_device)

    return memoize(profile, ("timeline strips", shown), build)


def _unit(profile: Profile, timeline: Timeline, event: int) -> str:
    if event == NO_ID:
        return _UNITS[HOST_TIME]
    name, unit = get_strings(profile.events, "name")[event], get_strings(profile.events, "unit")[event]
    if event in find_share_only_events(profile) or not profile.events["weighted"][event].as_py():
        return f"samples of {name} per second"
    if name in _UNITS:
        return _UNITS[name]
    if timeline.spans[event] is SampleSpan.BEFORE:
        return CPUS_UNIT if timed_events.is_clock(name) else f"threads in {name}"
    if timeline.spans[event] is SampleSpan.AFTER:
        return f"threads in {name}"
    return f"{name if unit == 'count' else f'{unit} of {name}'} per second"


def _strip(
    timeline: Timeline, event: Array, thread: Array, extent: TimeExtent, unit: str, guessed: list[int]
) -> MinimapSeries:
    length = extent.last_ns - extent.first_ns
    finest = max(1, -(-length // BINS))
    wanted = event * timeline.threads + thread
    lasts = np.array([span is SampleSpan.AFTER for span in timeline.spans], bool)
    # Weights of clocks are in ns, like the parts; other events are counts per second.
    scale = np.array([1.0 if span is SampleSpan.BEFORE else float(NS_PER_S) for span in timeline.spans])
    parts: list[tuple[MipmapItems, Array]] = []
    covered_ns = samples = 0.0
    for pyramid in timeline.samples:
        level = pyramid.levels[pyramid.level(finest.bit_length() - 1)]
        mine = np.repeat(np.isin(level.rows, wanted), np.diff(level.bounds))
        if not mine.any():
            continue
        of = np.repeat(level.rows, np.diff(level.bounds))[mine] // max(timeline.threads, 1)
        items = level.read(slice(0, len(level))).take(mine)
        covered = (items.end - items.start) * (items.fill / MAX_FILL)
        weight = np.where(np.isin(of, guessed), items.count, items.weight)
        parts.append((items, np.where(lasts[of], covered, weight * scale[of])))
        taken = ~lasts[of]
        covered_ns, samples = covered_ns + covered[taken].sum(), samples + items.count[taken].sum()
    grain = MIN_SAMPLES_PER_BIN * covered_ns / samples if samples else 0.0
    size = max(finest, min(int(grain), length // MIN_BINS))
    used = np.zeros(-(-length // size))
    for items, weight in parts:
        used += bin_weights(items, weight, extent.first_ns, size, len(used))
    return MinimapSeries(used / size, size, unit)


def bin_weights(items: MipmapItems, weight: Array, start: int, size: int, bins: int) -> Array:
    """The weights in each of `bins` parts of `size` ns from `start`: each is spread evenly over its item."""
    low, high = items.start - start, items.end - start
    first = np.clip(low // size, 0, bins - 1)
    last = np.clip(np.maximum(high - 1, low) // size, 0, bins - 1)
    rate = weight / np.maximum(high - low, 1)
    several = last > first
    head = np.where(several, rate * ((first + 1) * size - low), weight)
    tail = np.where(several, rate * (high - last * size), 0.0)
    # Between the first and the last part, an item fills each.
    change = np.bincount(first + 1, rate * several, bins + 1)[: bins + 1]
    change -= np.bincount(last, rate * several, bins + 1)[: bins + 1]
    return np.bincount(first, head, bins) + np.bincount(last, tail, bins) + np.cumsum(change)[:bins] * size
