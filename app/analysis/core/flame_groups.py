"""Groups: what a flame graph is split by below its root. They are not nodes of the stored tree."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import get_column, get_strings
from .memo import memoize
from .sample_selection import Rows, samples_of, threads_of


class FlameGroup(StrEnum):
    """What the groups of a flame graph are."""

    NONE = "none"
    COMM = "comm"
    """A thread's name at the time of the sample, as perf shows it."""
    THREAD = "thread"
    PROCESS = "process"
    RANK = "rank"
    HOST = "host"


@dataclass(frozen=True, eq=False)
class FlameGroups:
    """group: of each frame. labels: of groups, with the same numbers for every selection; labels of processes and
    threads that would be equal include rank and host. thread_groups: the group of each thread. sample_groups: where
    threads change their group, the group of each row of `samples`.
    """

    group: FlameGroup
    labels: tuple[str, ...]
    thread_groups: Array
    sample_groups: Array | None

    def for_samples(self, profile: Profile, rows: Rows) -> Array:
        """The group of each of these rows of `samples`."""
        if self.sample_groups is not None:
            found: Array = self.sample_groups[rows]
            return found
        by_thread: Array = self.thread_groups[samples_of(profile).thread[rows]]
        return by_thread


def groups_of(profile: Profile, group: FlameGroup) -> FlameGroups:
    """The groups of a profile; built once."""
    return memoize(profile, ("groups", group), lambda: _build(profile, group))


def effective_group(profile: Profile, group: FlameGroup) -> FlameGroup:
    """The effective grouping: none if the requested one is by thread name and no thread has a name."""
    if group is not FlameGroup.COMM:
        return group
    threads = threads_of(profile)
    return group if any(threads.process) or any(threads.names) else FlameGroup.NONE


def rank_label(rank: int | None) -> str:
    """The label of the group of a rank. None, -1: no rank."""
    return "no rank" if rank is None or rank < 0 else f"rank {rank}"


def host_label(host: str | None) -> str:
    """The label of the group of a host."""
    return host or "unknown host"


def _build(profile: Profile, group: FlameGroup) -> FlameGroups:
    if group is FlameGroup.COMM:
        return _by_comm(profile)
    threads = threads_of(profile)
    every = range(len(threads.key))
    rank, host = [rank_label(r) for r in threads.rank.tolist()], [host_label(h) for h in threads.host]
    identity: list[tuple[Any, ...]]
    if group is FlameGroup.RANK:
        identity, label = [(r,) for r in rank], rank
    elif group is FlameGroup.HOST:
        identity, label = [(h,) for h in host], host
    elif group is FlameGroup.PROCESS:
        # Without a number, a process is determined by its name.
        identity = [
            (host[i], rank[i], threads.pid[i], threads.process[i] if threads.pid[i] is None else "") for i in every
        ]
        label = [_label_with_number(threads.process[i], threads.pid[i], "process") for i in every]
    elif group is FlameGroup.THREAD:
        identity = [(i,) for i in every]
        label = [_label_with_number(threads.name[i], threads.tid[i], "thread") for i in every]
    else:
        identity, label = [()] * len(every), [""] * len(every)
    number: dict[tuple[Any, ...], int] = {}
    of_thread = np.array([number.setdefault(key, len(number)) for key in identity], np.int32)
    first = dict(zip(reversed(of_thread.tolist()), reversed(every), strict=True))
    often = Counter(label[i] for i in first.values())
    labels = tuple(
        f"{label[i]} · {rank[i]} · {host[i]}" if often[label[i]] > 1 else label[i]
        for i in (first[g] for g in range(len(first)))
    )
    return FlameGroups(group, labels, of_thread, None)


def _label_with_number(name: str, number: int | None, what: str) -> str:
    return (name or what) if number is None else f"{name or what} {number}"


def _by_comm(profile: Profile) -> FlameGroups:
    threads = threads_of(profile)
    last = [name or process or "unknown" for name, process in zip(threads.name, threads.process, strict=True)]
    thread_names = profile.thread_names
    thread, from_ns, name = (
        get_column(thread_names, "thread"),
        get_column(thread_names, "from_ns"),
        get_strings(thread_names, "name"),
    )
    number: dict[str, int] = {}
    code = np.array([number.setdefault(text, len(number)) for text in name], np.int32)
    of_thread = np.array([number.setdefault(text, len(number)) for text in last], np.int32)
    of_sample = None
    changing = np.bincount(thread, minlength=len(last)) > 1
    if changing.any():
        samples = samples_of(profile)
        of_sample = of_thread[samples.thread]
        rows = np.flatnonzero(changing[samples.thread])
        order = np.lexsort((from_ns, thread))
        thread, code = thread[order].astype(np.int64), code[order]
        # Samples are sorted by time, so from_ns corresponds to a row, and one key sorts by thread and time.
        since = np.searchsorted(samples.time_ns, from_ns[order], "left")
        stride = len(samples.time_ns) + 1
        latest = np.searchsorted(
            thread * stride + since, samples.thread[rows].astype(np.int64) * stride + rows, "right"
        )
        first = np.searchsorted(thread, samples.thread[rows])
        of_sample[rows] = code[np.maximum(latest - 1, first)]
    return FlameGroups(FlameGroup.COMM, tuple(number), of_thread, of_sample)
