"""The columns of the matrix: ranks, processes, threads or hosts."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.flame_groups import FlameGroup, groups_of
from ..core.memo import memoize
from ..core.sample_selection import match_places, ranks_of, samples_of, select_threads, threads_of

BY = ("rank", "process", "thread", "host")
NO_GROUP = -1
MIN_ROLE = 3
"""Fewer processes or threads of one role are not compared."""


@dataclass(frozen=True, eq=False)
class MatrixGroups:
    """The groups of selected threads, in the order of pages.

    labels: of each group. key: its rank, the key of its (first) thread, or its host. rank: None without one.
    of_thread: the group of each thread, `NO_GROUP` if it is not selected. sampled: whether the group has samples of any
    event in the whole recording. role: groups with the same number are compared with each other, -1: with none.
    compared: whether any are compared: else they have one role, for their mean. hosts: the host of each, "" unknown.
    """

    by: str
    labels: tuple[str, ...]
    key: tuple[Any, ...]
    rank: tuple[int | None, ...]
    of_thread: Array
    sampled: Array
    role: Array
    compared: bool
    hosts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def least(self) -> int:
        """How many groups of a role are compared, at least."""
        if not self.compared:
            return len(self) + 1
        return MIN_ROLE if self.by in ("process", "thread") else 2


def default_by(profile: Profile) -> str:
    """What the matrix compares without a choice: ranks if there are several, else processes, else threads."""
    if len(ranks_of(profile)) > 1:
        return "rank"
    groups = groups_of(profile, FlameGroup.PROCESS)
    sampled = np.bincount(groups.thread_groups, _thread_samples(profile), len(groups.labels)) > 0
    return "process" if sampled.sum() > 1 else "thread"


def matrix_groups(profile: Profile, selection: Selection, by: str) -> MatrixGroups:
    """The groups `by` of a selection: of ranks all that were to be recorded, of others those with samples in the whole
    recording. Raises InvalidRequest."""
    check_choice("by", by, BY)
    chosen = selection.without_stacks().replace(event=None, start_ns=None, end_ns=None)
    return memoize(profile, ("matrix groups", by, chosen), lambda: _build(profile, chosen, by))


def _build(profile: Profile, selection: Selection, by: str) -> MatrixGroups:
    threads, chosen = threads_of(profile), select_threads(profile, selection)
    count = _thread_samples(profile)
    inside = np.ones(len(count), bool) if chosen is None else chosen
    groups = groups_of(profile, FlameGroup(by))
    labels, number = list(groups.labels), groups.thread_groups
    first = dict(zip(reversed(number.tolist()), reversed(range(len(number))), strict=True))
    sampled = np.bincount(number, count, len(labels)) > 0
    present = np.bincount(number[inside], minlength=len(labels)) > 0
    shown = np.flatnonzero(sampled & present).tolist()
    hosts = [threads.host[first[group]] or "" for group in range(len(labels))]
    keys: list[Any] = [threads.key[first[group]] for group in range(len(labels))]
    if by == "rank":
        keys = [int(threads.rank[first[group]]) for group in range(len(labels))]
        for rank in _silent_ranks(profile, selection, {keys[group] for group in shown}):
            labels.append(f"rank {rank}")
            keys.append(rank)
            hosts.append("")
            shown.append(len(labels) - 1)
        shown.sort(key=lambda group: (keys[group] < 0, keys[group]))
    elif by == "host":
        keys = hosts
    place = np.full(len(labels) + 1, NO_GROUP, np.int64)
    place[shown] = np.arange(len(shown))
    seen = np.append(sampled, np.zeros(len(labels) - len(sampled), bool))[shown].astype(bool)
    roles = [_role(profile, by, first.get(group), keys[group]) for group in shown]
    known: dict[str, int] = {}
    role = np.array([known.setdefault(name, len(known)) if name is not None else NO_GROUP for name in roles], np.int64)
    role = np.where(seen, role, NO_GROUP)
    most = int(np.bincount(role[role >= 0]).max(initial=0))
    compared = most >= (MIN_ROLE if by in ("process", "thread") else 2)
    return MatrixGroups(
        by=by,
        labels=tuple(labels[group] for group in shown),
        key=tuple(keys[group] for group in shown),
        rank=tuple(_rank(profile, by, first.get(group), keys[group]) for group in shown),
        of_thread=np.where(inside, place[number], NO_GROUP),
        sampled=seen,
        role=role if compared else np.minimum(role, 0),
        compared=compared,
        hosts=tuple(hosts[group] for group in shown),
    )


def _role(profile: Profile, by: str, thread: int | None, key: Any) -> str | None:
    """What groups must have in common to be compared: nothing for ranks and hosts; for threads and processes the name
    without digits. None: not compared."""
    if by in ("rank", "host"):
        return None if by == "rank" and key < 0 else ""
    threads = threads_of(profile)
    name = "" if thread is None else (threads.name[thread] or threads.process[thread] or "")
    if by == "process" and thread is not None:
        name = threads.process[thread] or ""
    return re.sub(r"\d+", "", name)


def _rank(profile: Profile, by: str, thread: int | None, key: Any) -> int | None:
    if by == "host" or (thread is None and by != "rank"):
        return None
    rank = int(key) if by == "rank" else int(threads_of(profile).rank[thread or 0])
    return rank if rank >= 0 else None


def _silent_ranks(profile: Profile, selection: Selection, shown: set[int]) -> list[int]:
    """Ranks that were to be recorded, but have no samples."""
    if selection.divides_ranks:
        return []
    ranks = ranks_of(profile)
    wanted = ranks[match_places(profile, selection, ranks)]
    left_out = {
        row["rank"] for row in profile.ranks.select(["rank", "recorded"]).to_pylist() if row["recorded"] is False
    }
    return [rank for rank in wanted.tolist() if rank not in shown and rank not in left_out]


def _thread_samples(profile: Profile) -> Array:
    """The number of samples of each thread, of all events."""

    def build() -> Array:
        return np.bincount(samples_of(profile).thread, minlength=profile.threads.num_rows)

    return memoize(profile, "samples by thread", build, pin=True)
