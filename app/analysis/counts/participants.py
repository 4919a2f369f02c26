"""Participants of counts (processes, threads, ranks, hosts): their labels, their counts, and how to select them."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import UNKNOWN_HOST, Selection
from ..core.flame_groups import FlameGroup, FlameGroups, groups_of, host_label, rank_label
from ..core.measurements import Measurement, measure_counts, running_percent
from ..core.sample_selection import (
    match_places,
    process_rows,
    ranks_by_host,
    ranks_of,
    select_threads,
    threads_of,
)

MAX_THREADS = 50
"""Of more threads no selection is made: its address would be too long."""
Changes = Mapping[str, object]
"""Fields of a selection and their values."""


def counted_values(
    profile: Profile, selection: Selection, event: int, group: FlameGroup
) -> tuple[dict[str, int | float], float | None]:
    """The counts of an event by label of process, thread, rank or host, "(all)" for all of them; and the percentage of
    the time in which the event had a hardware counter."""
    groups = groups_of(profile, group)
    found: dict[str, int | float] = {}
    rows = [m for m in measure_counts(profile, selection, each_cpu=False) if m.event == event]
    for m in rows:
        if m.value is not None:
            label = label_participant(m, group, groups)
            found[label] = found.get(label, 0) + m.value
    return found, running_percent(rows)


def _counted_labels(profile: Profile, group: FlameGroup) -> set[str]:
    """The labels of everything that was counted, as in `counted_values`."""
    groups = groups_of(profile, group)
    return {label_participant(m, group, groups) for m in measure_counts(profile, Selection(), each_cpu=False)}


def label_participant(m: Measurement, group: FlameGroup, groups: FlameGroups) -> str:
    """The label of the participant of which something was measured: a group, or where no thread is known, the CPU, the
    rank or "(all)". groups: those of `group`."""
    return groups.labels[groups.thread_groups[m.thread]] if m.thread >= 0 else _total_label(m, group)


def _total_label(m: Measurement, group: FlameGroup) -> str:
    """The label of a count of all threads; by rank or host, that of its threads."""
    if group is FlameGroup.RANK:
        return rank_label(m.rank)
    if group is FlameGroup.HOST:
        return host_label(m.host)
    label = "(all)" if m.cpu is None else f"CPU {m.cpu}"
    return label if m.rank is None else f"{label} · {rank_label(m.rank)}"


def list_labels(profile: Profile, by: str) -> set[str]:
    """The labels of all participants, whether they have values or not."""
    labels = set(groups_of(profile, FlameGroup(by)).labels) | _counted_labels(profile, FlameGroup(by))
    if by == FlameGroup.RANK:
        labels |= {rank_label(rank) for rank in ranks_of(profile).tolist()}
    if by == FlameGroup.HOST:
        labels |= {host_label(host) for host in ranks_by_host(profile)}
    return labels


def list_selected_labels(profile: Profile, selection: Selection, by: str) -> list[str]:
    """The labels of the participants with selected threads or ranks, in the order of the recording."""
    groups, chosen = groups_of(profile, FlameGroup(by)), select_threads(profile, selection)
    inside = groups.thread_groups if chosen is None else groups.thread_groups[chosen]
    labels = [groups.labels[group] for group in dict.fromkeys(inside.tolist())]
    if by == FlameGroup.RANK and not selection.divides_ranks:
        ranks = ranks_of(profile)
        known = ranks[match_places(profile, selection, ranks)]
        labels += [rank_label(rank) for rank in known.tolist()]
    return list(dict.fromkeys(labels))


def name_threads(profile: Profile, chosen: Sequence[int]) -> tuple[str, ...]:
    """The keys of these threads, else their names if no other thread has them; none for all or too many threads."""
    threads = threads_of(profile)
    if not chosen or len(chosen) == len(threads.key):
        return ()
    if len(chosen) <= MAX_THREADS:
        return tuple(dict.fromkeys(threads.key[thread] for thread in chosen))
    inside = set(chosen)
    names = {threads.name[thread] for thread in chosen}
    if len(names) > MAX_THREADS or "" in names:
        return ()
    others: set[str] = set().union(*(names for n, names in enumerate(threads.names) if n not in inside))
    return () if names & others else tuple(sorted(names))


def select_participants(profile: Profile, by: str, labels: Sequence[str]) -> dict[str, Changes]:
    """By label the changes that select a participant; those that no selection describes are omitted."""
    found: dict[str, Changes] = {}
    if by == FlameGroup.RANK:
        ranks = {rank_label(rank): rank for rank in ranks_of(profile).tolist()}
        found |= {label: {"ranks": ((ranks[label], ranks[label]),)} for label in labels if label in ranks}
    elif by == FlameGroup.HOST:
        hosts = {host_label(host): host or UNKNOWN_HOST for host in ranks_by_host(profile)}
        found |= {label: {"hosts": (hosts[label],)} for label in labels if label in hosts}
    groups = groups_of(profile, FlameGroup(by))
    wanted = {label for label in labels if label not in found}
    numbers = [n for n, label in enumerate(groups.labels) if label in wanted]
    threads: dict[str, list[int]] = {label: [] for label in wanted}
    for thread in np.flatnonzero(np.isin(groups.thread_groups, numbers)).tolist():
        threads[groups.labels[groups.thread_groups[thread]]].append(thread)
    for label, chosen in threads.items():
        changes = select_process(profile, chosen) if by == FlameGroup.PROCESS and chosen else None
        if changes is None and (keys := name_threads(profile, chosen)):
            changes = {"threads": keys}
        if changes:
            found[label] = changes
    return found


def select_process(profile: Profile, chosen: Sequence[int]) -> Changes | None:
    """The changes that select exactly these threads, which are all of one process; None if nothing does."""
    found = name_process(profile, chosen)
    if found is None:
        return None
    name, host = found
    return {"processes": (name,)} | ({} if host is None else {"hosts": (host,)})


def name_process(profile: Profile, chosen: Sequence[int]) -> tuple[str, str | None] | None:
    """What selects exactly these threads, which are all of one process: its key, else its name; with its host if
    processes of other hosts have the same. None if nothing does."""
    threads, rows = threads_of(profile), process_rows(profile)
    host = threads.host[chosen[0]]
    for name in (threads.process_key[chosen[0]], threads.process[chosen[0]]):
        inside = rows.get(name, [])
        if len(inside) == len(chosen):
            return name, None
        if sum(threads.host[thread] == host for thread in inside) == len(chosen):
            return name, host or UNKNOWN_HOST
    return None
