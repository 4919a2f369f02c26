"""Grouping: what a flame graph is split by below its root. Groups are no nodes of the stored tree."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import column, texts
from .picking import Rows, samples_of, threads_of
from .remember import remembered


class Group(StrEnum):
    """What one group is."""

    NONE = "none"
    COMM = "comm"
    """A thread's name at the time of the sample, as perf shows it."""
    THREAD = "thread"
    PROCESS = "process"
    RANK = "rank"
    HOST = "host"


@dataclass(frozen=True, eq=False)
class Groups:
    """group: what one is. labels: of the groups, whose numbers do not depend on any selection; processes (threads) that
    would have the same are told apart by rank and host. of_thread: the group of each thread. of_sample: where threads
    change their group, the group of each row of `samples`.
    """

    group: Group
    labels: tuple[str, ...]
    of_thread: Array
    of_sample: Array | None

    def of(self, profile: Profile, rows: Rows) -> Array:
        """The group of each of these rows of `samples`."""
        if self.of_sample is not None:
            found: Array = self.of_sample[rows]
            return found
        by_thread: Array = self.of_thread[samples_of(profile).thread[rows]]
        return by_thread


def groups_of(profile: Profile, group: Group) -> Groups:
    """The groups of a profile; built once."""
    return remembered(profile, ("groups", group), lambda: _build(profile, group))


def split_by(profile: Profile, group: Group) -> Group:
    """What a graph is really split by: by nothing where it were by the names of threads, and no thread has one."""
    if group is not Group.COMM:
        return group
    threads = threads_of(profile)
    return group if any(threads.process) or any(threads.names) else Group.NONE


def rank_label(rank: int | None) -> str:
    """The label of a group of what is of one rank. None, -1: of none."""
    return "no rank" if rank is None or rank < 0 else f"rank {rank}"


def host_label(host: str | None) -> str:
    """The label of a group of what is of one host."""
    return host or "unknown host"


def _build(profile: Profile, group: Group) -> Groups:
    if group is Group.COMM:
        return _by_comm(profile)
    threads = threads_of(profile)
    every = range(len(threads.key))
    rank, host = [rank_label(r) for r in threads.rank.tolist()], [host_label(h) for h in threads.host]
    identity: list[tuple[Any, ...]]
    if group is Group.RANK:
        identity, label = [(r,) for r in rank], rank
    elif group is Group.HOST:
        identity, label = [(h,) for h in host], host
    elif group is Group.PROCESS:
        # Without a number, a process is told by its name.
        identity = [
            (host[i], rank[i], threads.pid[i], threads.process[i] if threads.pid[i] is None else "") for i in every
        ]
        label = [_numbered(threads.process[i], threads.pid[i], "process") for i in every]
    elif group is Group.THREAD:
        identity = [(i,) for i in every]
        label = [_numbered(threads.name[i], threads.tid[i], "thread") for i in every]
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
    return Groups(group, labels, of_thread, None)


def _numbered(name: str, number: int | None, what: str) -> str:
    return (name or what) if number is None else f"{name or what} {number}"


def _by_comm(profile: Profile) -> Groups:
    threads = threads_of(profile)
    last = [name or process or "unknown" for name, process in zip(threads.name, threads.process, strict=True)]
    given = profile.thread_names
    thread, from_ns, name = column(given, "thread"), column(given, "from_ns"), texts(given, "name")
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
        # Samples are in order of time, so "since from_ns" is "from this row on", and one key orders thread and time.
        since = np.searchsorted(samples.time_ns, from_ns[order], "left")
        stride = len(samples.time_ns) + 1
        latest = np.searchsorted(
            thread * stride + since, samples.thread[rows].astype(np.int64) * stride + rows, "right"
        )
        first = np.searchsorted(thread, samples.thread[rows])
        of_sample[rows] = code[np.maximum(latest - 1, first)]
    return Groups(Group.COMM, tuple(number), of_thread, of_sample)
