"""Threads as a tree: host, rank, process, thread, with their totals of one event; small ones are folded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.errors import InvalidRequest
from ...domain.list_text import to_ranges
from ...domain.profile import Profile
from ...domain.selection import UNKNOWN_HOST, Selection
from ..core.flame_groups import FlameGroup, FlameGroups, groups_of
from ..core.measurements import find_counted_events, find_share_only_events, measure_counts
from ..core.sample_selection import event_id, hosts_of, ranks_of, select_threads, threads_of
from ..core.thread_sums import sum_threads
from ..formulas.measures import evaluate_totals, select_parts, selected_formula, use_lead_event
from ..formulas.resolution import ResolvedFormula
from .participants import MAX_THREADS, Changes, name_process, name_threads

LEVELS = (FlameGroup.HOST, FlameGroup.RANK, FlameGroup.PROCESS, FlameGroup.THREAD)
MAX_NODES = 200
"""How many nodes are listed; the smallest others of each parent are folded."""


@dataclass(frozen=True)
class ThreadNode:
    """A host, rank, process or thread, in preorder, the largest first.

    key: of the node, for `select_nodes`; empty for folded ones. depth: from 0. value: of its threads; None if a formula
    has none. percent: of all threads; of a formula, that of its first event. threads: their number. checked: whether
    all of them are selected, by thread or rank. covered: whether a node above is checked, which includes this one.
    folded: number of nodes in a row of those that are too small; 0 for a node.
    """

    level: str
    label: str
    key: str
    depth: int
    value: int | float | None
    percent: float
    threads: int
    checked: bool
    covered: bool
    folded: int = 0


def list_levels(profile: Profile) -> tuple[FlameGroup, ...]:
    """The levels of the tree: hosts and ranks only if there are several."""
    several = {FlameGroup.HOST: len(hosts_of(profile)) > 1, FlameGroup.RANK: len(ranks_of(profile)) > 1}
    return tuple(level for level in LEVELS if several.get(level, True))


def build_thread_tree(profile: Profile, selection: Selection, noise_percent: float) -> tuple[ThreadNode, ...]:
    """The tree of all threads in the selected time and functions; selected threads are checked.

    noise_percent: nodes with less of the total are folded, unless any of their threads is checked by itself.
    """
    everywhere, formula = selection.without_places(), selected_formula(profile, selection)
    value = sum_thread_values(profile, use_lead_event(profile, everywhere))
    chosen = select_threads(profile, selection)
    checked = np.zeros(len(value), bool) if chosen is None else chosen
    tree = _NodeList(profile, value, checked, noise_percent)
    kind = threads_of(profile).kind
    if formula is not None:
        parts = {
            event: sum_thread_values(profile, part)
            for event, part in select_parts(profile, everywhere, formula).items()
        }
        tree.evaluate = lambda inside: evaluate_threads(profile, formula, parts, inside)
    tree.add(np.array([n for n in range(len(value)) if kind[n] != "track"], np.int64), list_levels(profile), 0)
    return tuple(tree.nodes)


def evaluate_threads(
    profile: Profile, formula: ResolvedFormula, parts: Mapping[int, Array], inside: Array
) -> float | None:
    """The formula on the sums of these threads. parts: of each event the values of `sum_thread_values`."""
    if (find_share_only_events(profile) & parts.keys()) - find_counted_events(profile):
        return None
    sums = {event: np.array([float(sum(values[inside].tolist()))]) for event, values in parts.items()}
    [value] = evaluate_totals(profile, formula, sums).tolist()
    return None if np.isnan(value) else value


def sum_thread_values(profile: Profile, selection: Selection) -> Array:
    """The total of an event (None: the main one) by thread, of samples and of counts: Python numbers."""
    event = event_id(profile, selection.event)
    value: Array = sum_threads(profile, selection, event).weight.astype(object)
    for row in measure_counts(profile, selection, each_cpu=False):
        if row.thread >= 0 and row.event == event and row.value is not None:
            value[row.thread] += row.value
    return value


class _NodeList:
    """Collects the nodes in preorder."""

    def __init__(self, profile: Profile, value: Array, checked: BoolArray, noise_percent: float) -> None:
        self.groups = {level: groups_of(profile, level) for level in LEVELS}
        self.keys = threads_of(profile).key
        self.value, self.checked = value, checked
        self.total = sum(value.tolist())
        self.evaluate: Callable[[Array], float | None] | None = None
        self.noise = noise_percent
        self.nodes: list[ThreadNode] = []

    def add(self, threads: Array, levels: Sequence[FlameGroup], depth: int, covered: bool = False) -> None:
        """Add the nodes of these threads at the first level, and below."""
        if not levels:
            return
        level, groups = levels[0], self.groups[levels[0]]
        parts = sorted(_split(groups, threads).items(), key=lambda part: -sum(self.value[part[1]].tolist()))
        small: list[Array] = []
        for group, inside in parts:
            node = self._node(level, groups.labels[group], inside, depth, covered)
            is_checked = not covered and self.checked[inside].any()
            if (node.percent < self.noise or len(self.nodes) >= MAX_NODES) and not is_checked:
                small.append(inside)
                continue
            self.nodes.append(node)
            self.add(inside, levels[1:], depth + 1, covered or node.checked)
        if small:
            self.nodes.append(self._node(level, "", np.concatenate(small), depth, covered, len(small)))

    def _node(
        self, level: FlameGroup, label: str, inside: Array, depth: int, covered: bool, folded: int = 0
    ) -> ThreadNode:
        value = sum(self.value[inside].tolist())
        return ThreadNode(
            level=level,
            label=label,
            key="" if folded else f"{level}:{self.keys[inside[0]]}",
            depth=depth,
            value=value if self.evaluate is None else self.evaluate(inside),
            percent=100 * value / self.total if self.total else 0.0,
            threads=len(inside),
            checked=bool(self.checked[inside].all()),
            covered=covered,
            folded=folded,
        )


def _split(groups: FlameGroups, threads: Array) -> dict[int, Array]:
    """These threads by their group."""
    group = groups.thread_groups[threads]
    order = np.argsort(group, kind="stable")
    edges = np.flatnonzero(np.diff(group[order])) + 1
    return {int(groups.thread_groups[part[0]]): part for part in np.split(threads[order], edges) if len(part)}


def select_nodes(profile: Profile, keys: Iterable[str]) -> Changes:
    """What selects exactly the threads of these nodes. No key selects everything.

    They are whole ranks, hosts or processes where possible, else threads. Raises InvalidRequest for an unknown key, and
    if there are too many threads for the address of a page.
    """
    keys = tuple(keys)
    threads = threads_of(profile)
    place = {key: number for number, key in reversed(list(enumerate(threads.key)))}
    chosen = np.zeros(len(threads.key), bool)
    for key in keys:
        level, _, thread = key.partition(":")
        if level not in LEVELS or thread not in place:
            raise InvalidRequest(f"This result has no {key[:60]!r}; choose from the tree of the threads page.", "node")
        groups = groups_of(profile, FlameGroup(level)).thread_groups
        chosen |= groups == groups[place[thread]]
    return describe_threads(profile, chosen, by_process=not any(key.startswith(FlameGroup.THREAD) for key in keys))


def describe_threads(profile: Profile, chosen: BoolArray, by_process: bool = True) -> Changes:
    """What selects exactly these threads, bools by row of `threads`; none and all of them select everything.

    by_process: whether whole processes are selected as such. Raises InvalidRequest if they are too many.
    """
    threads, every = threads_of(profile), {"threads": (), "processes": (), "ranks": (), "hosts": ()}
    if not chosen.any() or chosen.all():
        return every
    ranks = np.unique(threads.rank[chosen])
    if (ranks >= 0).all() and (np.isin(threads.rank, ranks) == chosen).all():
        return every | {"ranks": tuple(to_ranges(ranks.tolist()))}
    host = np.array([name or UNKNOWN_HOST for name in threads.host])
    hosts = np.unique(host[chosen])
    if len(hosts) <= MAX_THREADS and (np.isin(host, hosts) == chosen).all():
        return every | {"hosts": tuple(hosts.tolist())}
    processes = _name_processes(profile, chosen) if by_process else ()
    if processes:
        return every | {"processes": processes}
    names = name_threads(profile, np.flatnonzero(chosen).tolist())
    if not names:
        raise InvalidRequest(
            f"{int(chosen.sum()):,} threads are too many for an address. Choose whole ranks, processes or hosts, or "
            "fewer threads.",
            "node",
        )
    return every | {"threads": names}


def _name_processes(profile: Profile, chosen: BoolArray) -> tuple[str, ...]:
    """What names these threads as whole processes; none if nothing does, or if they are too many."""
    parts = _split(groups_of(profile, FlameGroup.PROCESS), np.flatnonzero(chosen))
    if len(parts) > MAX_THREADS:
        return ()
    found = [name_process(profile, part.tolist()) for part in parts.values()]
    names = tuple(one[0] for one in found if one is not None and one[1] is None)
    return names if len(names) == len(parts) else ()
