"""Tracks of CPUs: what ran on each, and how many are in use by processes and hosts."""

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.flame_groups import FlameGroup, groups_of, host_label
from ..core.measurements import weight_unit
from ..core.sample_selection import event_id, select_threads
from .model import Timeline, hosts_of
from .track import GLOBAL_GROUP, TimeExtent, TimelineTrack, group_label
from .usage import CPUS_UNIT, compute_cpu_use, find_cpu_event, has_slice_time, list_rated_events, sum_by_thread

USE_LETTERS = {"g": FlameGroup.PROCESS, "h": FlameGroup.HOST, "w": FlameGroup.THREAD}
"""The first letters of the ids of curves of CPU use, with what they are of."""
MAX_PROCESS_CURVES = 50
"""Maximum number of processes with a curve; each takes a few milliseconds."""


def list_cpu_tracks(profile: Profile, timeline: Timeline, selection: Selection) -> list[TimelineTrack]:
    """A track for each CPU on which the selected event was sampled."""
    if has_slice_time(profile) or not len(timeline.cpu_rows):
        return []
    event, hosts = event_id(profile, selection.event), hosts_of(profile)
    several = len(set(timeline.cpu_rows[:, 0].tolist())) > 1
    counts = timeline.count_cpu_samples(event)
    found = []
    for place, (host, cpu) in enumerate(timeline.cpu_rows.tolist()):
        if counts[place]:
            label = host_label(hosts[host])
            found.append(
                TimelineTrack(
                    id=f"x{place}",
                    key=f"cpu/{label}/{cpu}",
                    kind="cpu",
                    name=f"CPU {cpu}",
                    group=f"CPUs · {label}" if several else "CPUs",
                    lane=True,
                    samples=int(counts[place]),
                    unit=weight_unit(profile, event),
                    drawn=timeline.spans[event],
                )
            )
    return found


def list_use_tracks(
    profile: Profile, timeline: Timeline, selection: Selection, whole: TimeExtent
) -> tuple[list[TimelineTrack], list[TimelineTrack]]:
    """The curves of the CPUs in use by (processes, hosts): by the busiest processes with several threads, and by hosts
    if there are several, or several processes and no other curve of all."""
    event = find_cpu_event(profile)
    if event is None:
        return [], []
    chosen = select_threads(profile, selection)
    shown = np.arange(profile.threads.num_rows) if chosen is None else np.flatnonzero(chosen)
    ranks = profile.threads.column("rank").to_pylist()
    of_process, of_host = groups_of(profile, FlameGroup.PROCESS), groups_of(profile, FlameGroup.HOST)
    threads = np.bincount(of_process.thread_groups[shown], minlength=len(of_process.labels))
    busy = np.bincount(of_process.thread_groups[shown], sum_by_thread(profile)[0][event, shown], len(threads))
    busiest = np.argsort(np.where(threads > 1, -busy, np.inf), kind="stable")[:MAX_PROCESS_CURVES]
    hosts = np.unique(of_host.thread_groups[shown]).tolist()
    range_ns = whole.first_ns, whole.last_ns

    def track(letter: str, number: int, name: str, group: str, rank: int | None) -> TimelineTrack | None:
        use = compute_cpu_use(profile, timeline, selection, USE_LETTERS[letter], number, range_ns)
        most = float(use.values.max(initial=0))
        of = "-" if rank is None else str(rank)
        key = f"{letter}/{of}/{group if letter == 'g' else name}"
        return TimelineTrack(f"{letter}{number}", key, "counter", name, group, low=0.0, high=most) if most else None

    processes = []
    for number in sorted(busiest[threads[busiest] > 1].tolist()):
        rank = ranks[int(np.flatnonzero(of_process.thread_groups == number)[0])]
        group = group_label(of_process.labels[number], NO_ID if rank is None else rank)
        processes.append(track("g", number, CPUS_UNIT, group, rank))
    several = len(hosts) > 1 or (np.count_nonzero(threads) > 1 and not list_rated_events(profile))
    of_hosts = [
        track("h", number, f"{CPUS_UNIT}, {of_host.labels[number]}", GLOBAL_GROUP, None)
        for number in (hosts if several else [])
    ]
    return [one for one in processes if one], [one for one in of_hosts if one]
