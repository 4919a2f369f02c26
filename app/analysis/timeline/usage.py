"""Usage over time: how much of an event there was in each part of the total time, in a readable unit.

The sum of the weights in each part ÷ its length. For clocks this is the number of CPUs in use; for other events a rate
per second: of samples, if their weights give no total. The weight of a sample is spread evenly over its span. Events
with a duration count as far as they cover the part.
"""

from dataclasses import dataclass

import numpy as np

from ...domain import timed_events
from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, get_strings
from ...domain.units import NS_PER_S
from ..core.flame_groups import FlameGroup, groups_of
from ..core.measurements import find_share_only_events
from ..core.memo import memoize
from ..core.sample_selection import event_names, samples_of, select_threads, sum_by_index, threads_of
from ..core.sample_spans import SampleSpan, spans_of
from .mipmap import MAX_FILL, MipmapItems
from .model import Timeline

BINS = 512
"""Maximum number of parts of the total time."""
MIN_BINS, MIN_SAMPLES_PER_BIN = 32, 8
"""Parts are at least this many samples long, unless there would be fewer than the minimum number of parts: in shorter
parts, single samples would dominate."""
MAX_CURVES = 32
"""Maximum number of events with a curve."""
MAX_TIME_STEPS = BINS // 4
"""With more times than this, their distance is no reason for longer parts."""
MIN_SAMPLES_PER_TIME = 4
CPUS_UNIT = "CPUs in use"
UNITS = {
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


def compute_event_rate(
    profile: Profile, timeline: Timeline, selection: Selection, event: int, first_ns: int, last_ns: int
) -> MinimapSeries:
    """The usage of one event by the threads of a selection, over the total time."""
    shown = selection.only_places()

    def build() -> MinimapSeries:
        chosen = select_threads(profile, shown)
        rows = np.arange(timeline.threads) if chosen is None else np.flatnonzero(chosen)
        guessed = sorted(find_share_only_events(profile))
        unit = usage_unit(profile, timeline, event)
        if unit == CPUS_UNIT:
            rows = without_idle_task(profile, rows)
        return compute_usage(timeline, np.full(len(rows), event), rows, first_ns, last_ns, unit, guessed)

    return memoize(profile, ("timeline rate", event, shown), build)


def without_idle_task(profile: Profile, rows: Array) -> Array:
    """Threads without those of the idle task, swapper."""
    threads = threads_of(profile)
    idle = [tid == 0 and name.startswith("swapper") for tid, name in zip(threads.tid, threads.name, strict=True)]
    busy: Array = rows[~np.array(idle, bool)[rows]]
    return busy


def has_slice_time(profile: Profile) -> bool:
    """Whether its samples are the time in slices, unlike the states of sampled threads."""
    return HOST_TIME in event_names(profile) or DEVICE_TIME in event_names(profile)


def sum_by_thread(profile: Profile) -> tuple[Array, Array]:
    """(weight, number of samples) by event and thread."""

    def build() -> tuple[Array, Array]:
        samples = samples_of(profile)
        shape = (profile.events.num_rows, profile.threads.num_rows)
        cell = samples.event.astype(np.int64) * shape[1] + samples.thread
        weight = sum_by_index(cell, samples.weight, shape[0] * shape[1])
        return weight.reshape(shape), np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)

    return memoize(profile, "timeline totals", build)


def find_cpu_event(profile: Profile) -> int | None:
    """The event that tells how long threads ran on a CPU: context switches, else a clock, else cycles, whose samples
    are as long as they are drawn. None without such an event, and for slices."""
    if has_slice_time(profile) or profile.meta.clock == timed_events.IN_ORDER:
        return None
    names, spans = event_names(profile), spans_of(profile)
    sampled = samples_of(profile).count_by_event > 0
    ranks = [
        [timed_events.RUNNING, timed_events.CPU_TIME].index(name)
        if name in (timed_events.RUNNING, timed_events.CPU_TIME)
        else 2
        if timed_events.is_clock(name) and span is SampleSpan.BEFORE
        else 3
        if timed_events.is_cycles(name) and span is SampleSpan.SINCE
        else 4
        for name, span in zip(names, spans, strict=True)
    ]
    best = min((rank, event) for event, rank in enumerate([*ranks, 4]) if event == len(ranks) or sampled[event])
    return best[1] if best[0] < 4 else None


def compute_cpu_use(
    profile: Profile, timeline: Timeline, selection: Selection, group: FlameGroup, number: int, whole: tuple[int, int]
) -> MinimapSeries:
    """The CPUs in use by the selected threads of a group (a thread, process or host), over the total time. whole: its
    first and last time. The idle task does not count. Raises ValueError without `find_cpu_event`."""
    shown = selection.only_places()
    event = find_cpu_event(profile)
    if event is None:
        raise ValueError("no event tells how long threads ran")

    def build() -> MinimapSeries:
        chosen = select_threads(profile, shown)
        members = groups_of(profile, group).thread_groups == number
        rows = without_idle_task(profile, np.flatnonzero(members if chosen is None else members & chosen))
        # Unlike clocks and running times, cycles have no length.
        drawn = timeline.spans[event] is SampleSpan.SINCE
        return compute_usage(timeline, np.full(len(rows), event), rows, *whole, CPUS_UNIT, [], drawn=drawn)

    return memoize(profile, ("timeline CPU use", group, number, shown), build)


def list_rated_events(profile: Profile) -> list[int]:
    """The events that have a curve: those with samples, if there are several. A single one is on the strip."""
    if profile.slices.num_rows:
        return []
    found = np.flatnonzero(samples_of(profile).count_by_event).tolist()
    return found[:MAX_CURVES] if len(found) > 1 else []


def describe_rate(profile: Profile, timeline: Timeline, event: int) -> str:
    """The name of the curve of an event, with its unit."""
    unit, name = usage_unit(profile, timeline, event), event_names(profile)[event]
    return unit if name in unit else f"{name}, {unit}"


def usage_unit(profile: Profile, timeline: Timeline, event: int) -> str:
    """What the usage of an event is, in words; NO_ID: of slices."""
    if event == NO_ID:
        return UNITS[HOST_TIME]
    name, unit = get_strings(profile.events, "name")[event], get_strings(profile.events, "unit")[event]
    if event in find_share_only_events(profile) or not profile.events["weighted"][event].as_py():
        return f"samples of {name} per second"
    if name in UNITS:
        return UNITS[name]
    if timeline.spans[event] is SampleSpan.BEFORE:
        return CPUS_UNIT if timed_events.is_clock(name) else f"threads in {name}"
    if timeline.spans[event] is SampleSpan.AFTER:
        return f"threads in {name}"
    return f"{name if unit == 'count' else f'{unit} of {name}'} per second"


def compute_usage(
    timeline: Timeline,
    event: Array,
    thread: Array,
    first_ns: int,
    last_ns: int,
    unit: str,
    guessed: list[int],
    *,
    drawn: bool = False,
    bin_ns: int = 0,
) -> MinimapSeries:
    """The usage by events of threads, pair by pair, from `first_ns` to `last_ns`. guessed: the events whose samples are
    counted, because their weights give no total. drawn: count the time over which samples are drawn. bin_ns: the least
    length of the parts."""
    length = last_ns - first_ns
    finest = max(1, -(-length // BINS))
    wanted = event * timeline.threads + thread
    lasts = np.array([drawn or span is SampleSpan.AFTER for span in timeline.spans], bool)
    scale = np.array([scale_of(span) for span in timeline.spans])
    parts: list[tuple[MipmapItems, Array]] = []
    covered_ns = samples = 0.0
    for pyramid in timeline.samples:
        level = pyramid.levels[pyramid.level(finest.bit_length() - 1)]
        places = np.flatnonzero(np.isin(level.rows, wanted))
        if not len(places):
            continue
        of = np.repeat(level.rows[places], np.diff(level.bounds)[places]) // max(timeline.threads, 1)
        items = level.read_rows(places)
        covered = (items.end - items.start) * (items.fill / MAX_FILL)
        weight = np.where(np.isin(of, guessed), items.count, items.weight)
        parts.append((items, np.where(lasts[of], covered, weight * scale[of])))
        taken = ~lasts[of] | drawn
        covered_ns, samples = covered_ns + covered[taken].sum(), samples + items.count[taken].sum()
    grain = MIN_SAMPLES_PER_BIN * covered_ns / samples if samples else 0.0
    step = _find_time_step([items for items, _ in parts])
    size = max(finest, min(int(grain), length // MIN_BINS), step, bin_ns)
    # A slice that begins at the last time is a part, too.
    used = np.zeros(-(-(length + (size == step)) // size))
    for items, weight in parts:
        used += bin_weights(items, weight, first_ns, size, len(used))
    return MinimapSeries(used / size, size, unit)


def scale_of(span: SampleSpan) -> float:
    """What the usage of an event is per weight and ns: weights of clocks are in ns, as the parts; others are counts per
    second."""
    return 1.0 if span is SampleSpan.BEFORE else float(NS_PER_S)


def _find_time_step(parts: list[MipmapItems]) -> int:
    """The least distance of the times of samples in ns, if many samples share few times, as those of a format with time
    slices do; else 0. In shorter parts the rate would be 0 between the times."""
    if not parts:
        return 0
    times = np.unique(np.concatenate([items.start for items in parts]))
    samples = sum(int(items.count.sum()) for items in parts)
    few = 1 < len(times) <= MAX_TIME_STEPS and samples >= MIN_SAMPLES_PER_TIME * len(times)
    return int(np.diff(times).min()) if few else 0


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
