"""Threads of two groups of recordings, matched by role: rank, name without numbers, and what they run.

Ids of threads differ between runs, and so do the numbers in their names. Threads of one rank and name have one role,
unless they run different functions. How alike two threads are is Morisita's index of their samples by function
("Measuring of interspecific association and similarity between communities", Memoirs of the Faculty of Science, Kyushu
University E 3, 1959), which is about 1 for equal distributions also of few samples, and 0 without a function in both.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column
from ...domain.text import shorten
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.sample_rollup import roll_up_filtered_samples
from ..core.sample_selection import event_id, sum_by_index, threads_of
from .runs import FunctionKey, FunctionNumbers

MIN_OVERLAP = 0.5
"""Threads that are less alike have different roles."""
MIN_ROLE_SAMPLES = 20
"""A thread with fewer does not begin another role: what it runs is not known well enough."""
MAX_NAME_ROLES = 8
"""Roles of one rank and name on a side; further threads have the role that is most like them."""
RANK, NAME, FUNCTIONS, ALONE = "rank", "name", "functions", "one side"
MATCHES = (RANK, NAME, FUNCTIONS, ALONE)
NO_RANK = -1
UNNAMED = "unnamed"
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")


@dataclass(frozen=True, eq=False)
class RoleSide:
    """Threads of a role on a side. names: how many threads have which name; weight, threads: sum and number in each
    recording, int64; rows: the rows of `threads` of each recording."""

    names: Counter[str]
    weight: Array
    threads: Array
    rows: tuple[list[int], ...]


@dataclass(frozen=True, eq=False)
class ThreadRole:
    """A role. name: distinct. match: why the threads of both sides belong together, one of `MATCHES`. overlap: Morisita
    index of both sides, None for a role of one side and without functions."""

    name: str
    match: str
    overlap: float | None
    base: RoleSide
    other: RoleSide


@dataclass(frozen=True, eq=False)
class _Activity:
    """What a thread of a recording runs. functions: canonical rows of `functions`; parts: their part of its self
    weight. Both are empty if that is not known."""

    thread: int
    weight: int
    samples: int
    functions: Array
    parts: Array


@dataclass(frozen=True, eq=False)
class _RoleThread:
    """A thread with samples. recording: its place on the side; thread: its row there. functions: numbers, each once;
    counts: its samples, divided among them by weight."""

    recording: int
    thread: int
    name: str
    rank: int
    weight: int
    samples: int
    functions: Array
    counts: Array


@dataclass(eq=False)
class _Cluster:
    """Threads of one side that are alike. counts: their samples by place in the functions of the name. samples,
    squares: Σ n, Σ n² of these, kept up to date, because a name may have thousands of threads and functions."""

    members: list[_RoleThread]
    counts: Array
    samples: float = 0.0
    squares: float = 0.0

    def overlap(self, thread: _RoleThread, places: Array) -> float | None:
        """With a thread, whose functions are at these places."""
        product = float(thread.counts @ self.counts[places])
        own = float(thread.counts.sum()), float(thread.counts @ thread.counts)
        return _overlap(*own, self.samples, self.squares, product)

    def join(self, thread: _RoleThread, places: Array) -> None:
        """Add a thread."""
        self.squares += float(thread.counts @ thread.counts + 2 * (thread.counts @ self.counts[places]))
        self.samples += float(thread.counts.sum())
        self.counts[places] += thread.counts
        self.members.append(thread)


@dataclass(frozen=True, eq=False)
class _RolePair:
    """Clusters of both sides with one role."""

    base: _Cluster | None
    other: _Cluster | None
    match: str
    overlap: float | None


def match_threads(
    bases: Sequence[Profile],
    others: Sequence[Profile],
    base_selection: Selection,
    other_selection: Selection,
    event: str,
    by: str = "",
) -> list[ThreadRole]:
    """The roles of threads with selected samples of an event, which all recordings have; the largest first.

    The threads of a name are divided into roles on each side, and those of both sides are paired, the most alike first.
    If both sides have one role of the name, these belong together whatever they run. Ranks are apart if there are
    several. by: "rank" for one role of each rank.
    """
    numbers = FunctionNumbers(others[0])
    sides = [
        [thread for at, profile in enumerate(side) for thread in _read_threads(profile, at, selection, event, numbers)]
        for side, selection in ((bases, base_selection), (others, other_selection))
    ]
    apart = by == RANK or len({thread.rank for side in sides for thread in side} - {NO_RANK}) > 1
    keys: dict[tuple[int, str], tuple[list[_RoleThread], list[_RoleThread]]] = {}
    for at, side in enumerate(sides):
        for thread in side:
            key = (thread.rank if apart else NO_RANK, "" if by == RANK else _NUMBER.sub("#", thread.name))
            keys.setdefault(key, ([], []))[at].append(thread)
    roles = []
    for (rank, name), threads in keys.items():
        of_rank = "no rank" if rank == NO_RANK else f"rank {rank}"
        title = of_rank if by == RANK else name if rank == NO_RANK else f"{of_rank}: {name}"
        functions = np.unique(np.concatenate([thread.functions for side in threads for thread in side]))
        base, other = (_divide(side, functions, 1 if by == RANK else MAX_NAME_ROLES) for side in threads)
        pairs = list(_pair_clusters(base, other, RANK if by == RANK else NAME))
        for pair, name_of_pair in zip(pairs, _name_pairs(title, pairs, functions, numbers.keys), strict=True):
            roles.append(
                ThreadRole(
                    name_of_pair,
                    pair.match,
                    pair.overlap,
                    _build_side(pair.base, len(bases)),
                    _build_side(pair.other, len(others)),
                )
            )
    # The greater mean: independent of which side is which.
    roles.sort(key=lambda role: (-max(role.base.weight.mean(), role.other.weight.mean()), role.name))
    return list(_make_distinct(roles))


def _make_distinct(roles: Sequence[ThreadRole]) -> Iterator[ThreadRole]:
    known: set[str] = set()
    for role in roles:
        name, number = role.name, 2
        while name in known:
            name, number = f"{role.name} ({number})", number + 1
        known.add(name)
        yield replace(role, name=name)


def _read_threads(
    profile: Profile, recording: int, selection: Selection, event: str, numbers: FunctionNumbers
) -> Iterator[_RoleThread]:
    threads = threads_of(profile)
    activities = _read_activities(profile, selection, event_id(profile, event))
    known = np.unique(np.concatenate([np.zeros(0, np.int64), *(one.functions for one in activities)]))
    number = numbers.find(profile, known)
    for one in activities:
        name = threads.name[one.thread] or threads.process[one.thread] or UNNAMED
        functions = number[np.searchsorted(known, one.functions)]
        rank = int(threads.rank[one.thread])
        counts = one.parts * one.samples
        yield _RoleThread(recording, one.thread, name, rank, one.weight, one.samples, functions, counts)


def _read_activities(profile: Profile, selection: Selection, event: int) -> list[_Activity]:
    def build() -> list[_Activity]:
        rollup = roll_up_filtered_samples(profile, selection, event)
        size = profile.functions.num_rows
        weights = sum_by_index(rollup.thread, rollup.weight, profile.threads.num_rows)
        samples = np.bincount(rollup.thread, rollup.count, profile.threads.num_rows)
        function = get_column(profile.calls, "function")[rollup.call]
        # Weights of memory that was freed are negative: they say nothing about what a thread runs.
        inside = np.flatnonzero((function >= 0) & (rollup.weight > 0))
        code = rollup.thread[inside].astype(np.int64) * size + functions_of(profile).canonical[function[inside]]
        codes, place = np.unique(code, return_inverse=True)
        sums = np.bincount(place, rollup.weight[inside], len(codes))
        rows = np.flatnonzero(samples)
        first, last = (np.searchsorted(codes, (rows + more) * size).tolist() for more in (0, 1))
        return [
            _Activity(
                thread,
                int(weights[thread]),
                round(samples[thread]),
                codes[start:end] - thread * size,
                sums[start:end] / max(sums[start:end].sum(), 1.0),
            )
            for thread, start, end in zip(rows.tolist(), first, last, strict=True)
        ]

    return memoize(profile, ("thread activities", selection, event), build)


def _divide(threads: Sequence[_RoleThread], functions: Array, most: int) -> list[_Cluster]:
    """The threads of a name on a side in clusters of those that are alike: each, the one with the most samples first,
    joins the cluster it is most like."""
    clusters: list[_Cluster] = []
    # Numbers of threads do not matter: not for the order either.
    for thread in sorted(threads, key=lambda one: (-one.samples, -float((one.counts**2).sum()))):
        places = np.searchsorted(functions, thread.functions)
        overlaps = [cluster.overlap(thread, places) for cluster in clusters]
        known = [-1.0 if overlap is None else overlap for overlap in overlaps]
        best = int(np.argmax(known)) if known else -1
        is_known = thread.samples >= MIN_ROLE_SAMPLES and bool(len(thread.functions))
        if best < 0 or (is_known and known[best] < MIN_OVERLAP and len(clusters) < most):
            best = len(clusters)
            clusters.append(_Cluster([], np.zeros(len(functions))))
        clusters[best].join(thread, places)
    return clusters


def find_overlap(one: Array, two: Array) -> float | None:
    """The Morisita index of numbers of samples by function, at most 1; None if a side has none, or all samples of both
    are of different functions, so that it is not defined."""
    return _overlap(*(float(sums) for sums in (one.sum(), one @ one, two.sum(), two @ two, one @ two)))


def _overlap(samples: float, squares: float, other: float, other_squares: float, product: float) -> float | None:
    """From Σ n and Σ n² of both sides, and Σ of the products of their n."""
    if min(samples, other) <= 0:
        return None
    # Σp² of few samples is too large by chance.
    sums = sum(
        max(0.0, (of / n - 1) / (n - 1)) if n > 1 else 0.0 for n, of in ((samples, squares), (other, other_squares))
    )
    return min(1.0, 2 * product / (samples * other) / sums) if sums > 0 else None


def _pair_clusters(bases: Sequence[_Cluster], others: Sequence[_Cluster], reason: str) -> Iterator[_RolePair]:
    if len(bases) == len(others) == 1:
        yield _RolePair(bases[0], others[0], reason, find_overlap(bases[0].counts, others[0].counts))
        return
    overlaps = {
        (b, a): find_overlap(base.counts, other.counts) or 0.0
        for b, base in enumerate(bases)
        for a, other in enumerate(others)
    }
    left: tuple[set[int], set[int]] = set(range(len(bases))), set(range(len(others)))
    for (b, a), overlap in sorted(overlaps.items(), key=lambda one: (-one[1], sum(one[0]), one[0])):
        if overlap >= MIN_OVERLAP and b in left[0] and a in left[1]:
            left[0].remove(b)
            left[1].remove(a)
            yield _RolePair(bases[b], others[a], FUNCTIONS, overlap)
    yield from (_RolePair(bases[b], None, ALONE, None) for b in sorted(left[0]))
    yield from (_RolePair(None, others[a], ALONE, None) for a in sorted(left[1]))


def _name_pairs(title: str, pairs: Sequence[_RolePair], functions: Array, keys: Sequence[FunctionKey]) -> list[str]:
    """Several roles of a name are distinguished by the function in which they differ most from the mean of them."""
    if len(pairs) == 1 or not len(functions):
        return [title] * len(pairs)
    parts = np.array([_sum_counts(pair) / max(_sum_counts(pair).sum(), 1e-300) for pair in pairs])
    best = (parts - parts.mean(axis=0)).argmax(axis=1)
    return [f"{title} ({shorten(keys[functions[at]][0])})" for at in best.tolist()]


def _sum_counts(pair: _RolePair) -> Array:
    return np.asarray(sum(one.counts for one in (pair.base, pair.other) if one is not None))


def _build_side(cluster: _Cluster | None, recordings: int) -> RoleSide:
    members = cluster.members if cluster else []
    weight, threads = np.zeros(recordings, np.int64), np.zeros(recordings, np.int64)
    rows: tuple[list[int], ...] = tuple([] for _ in range(recordings))
    for thread in members:
        weight[thread.recording] += thread.weight
        threads[thread.recording] += 1
        rows[thread.recording].append(thread.thread)
    return RoleSide(Counter(sorted(thread.name for thread in members)), weight, threads, rows)
