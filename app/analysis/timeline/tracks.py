"""The tracks of a timeline for a selection: order and content."""

from collections import Counter
from typing import Any

import numpy as np

from ...domain.arrays import Array, IndexArray
from ...domain.memory import get_device_name
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, get_column
from ..core.flame_groups import FlameGroup, groups_of, rank_label
from ..core.measurements import weight_unit
from ..core.memo import memoize
from ..core.sample_selection import (
    event_id,
    event_names,
    match_places,
    samples_of,
    select_threads,
    threads_of,
)
from ..core.sample_spans import SampleSpan
from ..core.slice_selection import device_work_of
from ..core.windows import find_duration_events
from ..ml.devices import devices_of, sm_efficiency_of
from .cpu_tracks import list_cpu_tracks, list_use_tracks
from .formula_curves import compute_formula_curve, list_curve_formulas
from .model import Timeline
from .track import GLOBAL_GROUP, EventTicks, TimeExtent, TimelineTrack, group_label
from .usage import compute_event_rate, describe_rate, find_cpu_event, has_slice_time, list_rated_events, sum_by_thread

MAX_TRACKS = 2_000
"""Maximum number of tracks in a response; if there are more, the busiest."""
MAX_TICK_EVENTS = 4
"""Maximum number of other events on the track of a thread."""


def lane_event(profile: Profile, selection: Selection) -> Array:
    """The event whose samples are on the lane of each thread, NO_ID for none: the event selected; of the time in
    slices, that of the host or of devices, depending on the thread."""
    threads, names = profile.threads.num_rows, event_names(profile)
    times = [names.index(name) for name in (HOST_TIME, DEVICE_TIME) if name in names]
    if not times or selection.event not in (None, HOST_TIME, DEVICE_TIME):
        return np.full(threads, event_id(profile, selection.event), np.int64)
    number = sum_by_thread(profile)[1]
    found = np.full(threads, NO_ID, np.int64)
    for event in reversed(times):
        found[number[event] > 0] = event
    return found


def list_tracks(
    profile: Profile, timeline: Timeline, selection: Selection, search: str = ""
) -> tuple[list[TimelineTrack], int]:
    """(the tracks of a selection, how many were left out): steps first; then by process, those with ranks in the order
    of these, else the busiest first: streams of devices, threads, other tracks, counters. search: in their names."""
    processes, hosts = list_use_tracks(profile, timeline, selection, time_extent(profile, timeline))
    found = [
        *_step_tracks(profile, timeline, selection),
        *_thread_tracks(profile, timeline, selection, processes),
        *list_cpu_tracks(profile, timeline, selection),
        *_series_tracks(profile, selection),
        *hosts,
        *_rate_tracks(profile, timeline, selection),
        *_formula_tracks(profile, timeline, selection),
    ]
    words = search.casefold().split()
    if words:
        found = [t for t in found if all(word in f"{t.name} {t.group} {t.key}".casefold() for word in words)]
    left_out = len(found) - MAX_TRACKS
    if left_out > 0:
        kept = sorted(range(len(found)), key=lambda n: (found[n].kind != "steps", -found[n].weight))[:MAX_TRACKS]
        found = [found[n] for n in sorted(kept)]
    return found, max(left_out, 0)


def time_extent(profile: Profile, timeline: Timeline) -> TimeExtent:
    """The time range of a profile."""

    def build() -> TimeExtent:
        starts: list[int] = []
        ends: list[int] = []
        last = find_duration_events(profile)
        if profile.samples.num_rows:
            time_ns = samples_of(profile).time_ns
            over = int(time_ns[-1]) if last is None else max(int(time_ns[-1]), int(last.block_end_ns.max()))
            ends.append(over)
            # Some are drawn over the time before they were taken.
            starts.append(min(int(pyramid.levels[-1].start.min()) for pyramid in timeline.samples))
        for pyramids in (timeline.slices, timeline.steps):
            for pyramid in pyramids:
                top = pyramid.levels[-1]
                items = top.read(slice(0, len(top)))
                starts.append(int(items.start.min()))
                ends.append(int(items.end.max()))
        moments = get_column(profile.instants, "time_ns")
        # Instants on no thread, such as the end of the profiler, say nothing about the program.
        on_threads = moments[get_column(profile.instants, "thread") != NO_ID]
        if len(on_threads) or (len(moments) and not starts):
            moments = on_threads if len(on_threads) else moments
            starts.append(int(moments.min()))
            ends.append(int(moments.max()))
        for name, of in (("counters", "time_ns"), ("allocations", "start_ns"), ("allocations", "end_ns")):
            times = profile.tables()[name].column(of).drop_null().to_numpy()
            if len(times):
                starts.append(int(times.min()))
                ends.append(int(times.max()))
        duration_ns = profile.meta.duration_ns or 0
        start = min([0, *starts])
        end = max([duration_ns, start + 1, *ends])
        first, last_ns = min(starts, default=start), max(ends, default=end)
        if last_ns <= first:
            first, last_ns = start, end
        return TimeExtent(start, end, first, last_ns)

    return memoize(profile, "timeline extent", build, pin=True)


def _step_tracks(profile: Profile, timeline: Timeline, selection: Selection) -> list[TimelineTrack]:
    ranks = match_places(profile, selection, np.array(timeline.ranks, np.int64))
    several = len(timeline.ranks) > 1
    return [
        TimelineTrack(
            id=f"s{place}",
            key=f"steps/{'-' if rank == NO_ID else rank}",
            kind="steps",
            name=f"Steps, {rank_label(rank)}" if several else "Steps",
            group="",
            rows=1,
        )
        for place, rank in enumerate(timeline.ranks)
        if rank == NO_ID or ranks[place]
    ]


def _list_ticks(profile: Profile, timeline: Timeline) -> list[int]:
    """The events that are ticks on the tracks of threads while another one is selected: those that just occur."""
    if has_slice_time(profile):
        return []
    often = sum_by_thread(profile)[1].sum(axis=1)
    return [e for e, span in enumerate(timeline.spans) if span is SampleSpan.TICK and often[e]][:MAX_TICK_EVENTS]


def _thread_tracks(
    profile: Profile, timeline: Timeline, selection: Selection, processes: list[TimelineTrack]
) -> list[TimelineTrack]:
    threads, chosen = threads_of(profile), select_threads(profile, selection)
    units = [weight_unit(profile, each) for each in range(profile.events.num_rows)]
    event = lane_event(profile, selection)
    weight, number = sum_by_thread(profile)
    slices = np.bincount(get_column(profile.slices, "thread"), minlength=len(threads.key))
    instants = np.bincount(get_column(profile.instants, "thread") + 1, minlength=len(threads.key) + 1)[1:]
    often, names, others = Counter(threads.key), event_names(profile), _list_ticks(profile, timeline)
    cpu_event = find_cpu_event(profile)
    process = groups_of(profile, FlameGroup.PROCESS)
    timeline_tracks = []
    running = {key for key, kind in zip(threads.key, threads.kind, strict=True) if kind == "thread"}
    shown = np.ones(len(threads.key), bool) if chosen is None else chosen
    for t in np.flatnonzero(shown).tolist():
        of = int(event[t])
        samples = int(number[of, t]) if of != NO_ID else 0
        if not (samples or slices[t] or instants[t]):
            continue
        kind = {"gpu_stream": "stream", "track": "track"}.get(threads.kind[t], "thread")
        name = _name(threads.name[t] or threads.process[t], threads.tid[t], kind)
        timeline_tracks.append(
            TimelineTrack(
                id=f"t{t}",
                key=threads.key[t] if often[threads.key[t]] == 1 else f"{threads.key[t]}/{t}",
                kind=kind,
                # States of a thread by the scheduler, next to its samples.
                name=f"{name} states" if kind == "track" and threads.key[t] in running else name,
                group=group_label(process.labels[process.thread_groups[t]], int(threads.rank[t])),
                thread=threads.key[t],
                rows=int(timeline.depths[t]),
                lane=samples > 0,
                stacks=int(timeline.stack_depths[of, t]) if samples and not slices[t] else 0,
                ticks=tuple(EventTicks(e, names[e], int(number[e, t])) for e in others if e != of and number[e, t]),
                has_cpu_use=cpu_event is not None and kind == "thread" and bool(number[cpu_event, t]),
                instants=bool(instants[t]),
                weight=int(weight[of, t]) if of != NO_ID else 0,
                samples=samples,
                slices=int(slices[t]),
                unit=units[of] if of != NO_ID else "",
                drawn=timeline.spans[of] if of != NO_ID else "",
                clipped=int(timeline.clipped_ns[of, t]) if of != NO_ID else 0,
            )
        )
    timeline_tracks += processes
    timeline_tracks += (
        _device_tracks(profile, selection, process.labels, process.thread_groups) if not selection.divides_ranks else []
    )
    if NO_ID in get_column(profile.instants, "thread") and chosen is None:
        timeline_tracks.append(TimelineTrack("t-1", "instants", "track", "Instants", GLOBAL_GROUP, instants=True))
    return _sort_tracks(timeline_tracks, profile)


def _device_tracks(
    profile: Profile, selection: Selection, labels: tuple[str, ...], of_thread: Array
) -> list[TimelineTrack]:
    """Tracks with the utilization of devices, in the group of their streams."""
    device_tracks = []
    for place, device in enumerate(devices_of(profile)):
        if not match_places(profile, selection, np.array([device.rank]))[0]:
            continue
        thread = int(device_work_of(profile).thread[device.work[0]])
        name = "device" if device.row == NO_ID else _device(profile, device.row)
        shown = [("u", "busy")] + ([("e", "SM efficiency")] if sm_efficiency_of(profile, device) else [])
        device_tracks += [
            TimelineTrack(
                id=f"{letter}{place}",
                key=f"{letter}/{'-' if device.rank == NO_ID else device.rank}/{device.row}",
                kind="counter",
                name=f"{name} {what}",
                group=group_label(labels[of_thread[thread]], device.rank),
                unit="percent",
                low=0.0,
                high=100.0,
            )
            for letter, what in shown
        ]
    return device_tracks


def _name(name: str, tid: int | None, kind: str) -> str:
    """Streams are called by their numbers; of threads many have one name."""
    if tid is None or str(tid) in name or (kind == "stream" and name):
        return name or kind
    return f"{name or kind} {tid}"


def _sort_tracks(timeline_tracks: list[TimelineTrack], profile: Profile) -> list[TimelineTrack]:
    ranked = bool((threads_of(profile).rank >= 0).any())
    busiest: Counter[str] = Counter()
    for track in timeline_tracks:
        busiest[track.group] += track.weight
    place = {group: n for n, group in enumerate(dict.fromkeys(t.group for t in timeline_tracks))}
    kinds = ("stream", "counter", "thread", "track")
    # The states of a thread are below what it ran.
    threads = {track.thread: n for n, track in enumerate(timeline_tracks) if track.kind == "thread"}
    together: Counter[int] = Counter()
    for track in timeline_tracks:
        together[threads.get(track.thread, -1)] += track.weight

    def key(track: TimelineTrack) -> tuple[Any, ...]:
        of_group = (_rank_of(track) if ranked else 0, -busiest[track.group], place[track.group])
        thread = threads.get(track.thread, -1) if track.kind in ("thread", "track") else -1
        if thread >= 0:
            return (*of_group, kinds.index("thread"), -together[thread], thread, kinds.index(track.kind))
        return (*of_group, kinds.index(track.kind), -track.weight if track.kind == "track" else 0)

    return sorted(timeline_tracks, key=key)


def _rank_of(track: TimelineTrack) -> int:
    rank = (track.thread or track.key.partition("/")[2]).partition("/")[0]
    return int(rank) if rank.isdecimal() else 1 << 31


def _series_tracks(profile: Profile, selection: Selection) -> list[TimelineTrack]:
    if selection.divides_ranks:
        return []
    table = profile.series
    bounds = series_bounds(profile)
    value = get_column(profile.counters, "value")
    series_tracks = []
    often: Counter[str] = Counter()
    for number, row in enumerate(table.to_pylist()):
        inside = value[bounds[number] : bounds[number + 1]]
        if not match_places(profile, selection, np.array([NO_ID if row["rank"] is None else row["rank"]]))[0]:
            continue
        if not len(inside):
            continue
        group = " · ".join(
            [*([rank_label(row["rank"])] if row["rank"] is not None else []), *filter(None, [row["process"]])]
        )
        name = row["name"] if row["device"] == NO_ID else f"{row['name']}, {_device(profile, row['device'])}"
        key = f"series/{'-' if row['rank'] is None else row['rank']}/{row['pid']}/{name}"
        often[key] += 1
        series_tracks.append(
            TimelineTrack(
                id=f"c{number}",
                key=key if often[key] == 1 else f"{key}/{often[key]}",
                kind="counter",
                name=name,
                group=group or GLOBAL_GROUP,
                unit=row["unit"],
                low=float(np.nanmin(inside)) if not np.isnan(inside).all() else None,
                high=float(np.nanmax(inside)) if not np.isnan(inside).all() else None,
            )
        )
    return series_tracks


def _rate_tracks(profile: Profile, timeline: Timeline, selection: Selection) -> list[TimelineTrack]:
    """The curves of the rates of events, of the selected threads together."""
    whole = time_extent(profile, timeline)
    found = []
    for event in list_rated_events(profile):
        rate = compute_event_rate(profile, timeline, selection, event, whole.first_ns, whole.last_ns)
        most = float(rate.values.max(initial=0))
        if most:
            name = describe_rate(profile, timeline, event)
            key = f"rate/{event_names(profile)[event]}"
            found.append(TimelineTrack(f"r{event}", key, "counter", name, GLOBAL_GROUP, low=0.0, high=most))
    return found


def _formula_tracks(profile: Profile, timeline: Timeline, selection: Selection) -> list[TimelineTrack]:
    """The curves of formulas, of the selected threads together."""
    whole, found = time_extent(profile, timeline), []
    for number, formula in enumerate(list_curve_formulas(profile)):
        curve = compute_formula_curve(profile, timeline, selection, formula, whole)
        known = curve.values[~np.isnan(curve.values)]
        if len(known):
            found.append(
                TimelineTrack(
                    id=f"f{number}",
                    key=f"formula/{formula.name}",
                    kind="counter",
                    name=formula.title,
                    group=GLOBAL_GROUP,
                    low=min(0.0, float(known.min())),
                    high=float(known.max()),
                )
            )
    return found


def series_bounds(profile: Profile) -> IndexArray:
    """Where in `counters` the values of each series begin, with the end of the last one appended."""
    return np.searchsorted(get_column(profile.counters, "series"), np.arange(profile.series.num_rows + 1))


def _device(profile: Profile, device: int) -> str:
    row = profile.devices.slice(device, 1).to_pylist()[0]
    return "host memory" if row["kind"] == "cpu" else get_device_name(row["properties"]) or f"GPU {row['device']}"
