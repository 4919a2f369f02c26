"""Sums of events by function, and by function and rank, process, thread or host."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...domain.arrays import Array, Float64Array
from ...domain.call_tree import sum_subtrees
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.flame_groups import FlameGroup, groups_of
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.sample_rollup import SampleRollup
from ..core.sample_selection import sum_by_index
from ..stacks.call_tree import CallTree, build_shown_tree, keep_nodes
from ..stacks.hotspots import FunctionLabels, function_weights, label_functions
from ..stacks.layout import subtree_totals
from ..stacks.visible_runs import MAX_CELLS, roll_up_groups

BY = ("function", "rank", "process", "thread", "host")
NO_PLACE = -1


@dataclass(frozen=True, eq=False)
class FunctionSums:
    """Sums by function, or by function and place. function: row of `functions`. place: index of `places`, NO_PLACE
    without. own, total: by event, float64 in its unit. whole: of the selection, by event. left_out: how many functions
    with weight are not here."""

    function: Array
    place: Array
    places: tuple[str, ...]
    own: Mapping[int, Float64Array]
    total: Mapping[int, Float64Array]
    whole: Mapping[int, int]
    left_out: int

    def part(self, part: str) -> Mapping[int, Float64Array]:
        """The sums that are asked for: "self" or "total"."""
        return self.own if part == "self" else self.total

    def take(self, rows: Array) -> "FunctionSums":
        """The sums at these rows."""
        own, total = ({event: sums[rows] for event, sums in of.items()} for of in (self.own, self.total))
        return replace(self, function=self.function[rows], place=self.place[rows], own=own, total=total)

    def names(self, profile: Profile) -> tuple[list[str], list[str], list[str | None]]:
        """(names, modules, places) of the rows."""
        functions = functions_of(profile)
        places = [None if place == NO_PLACE else self.places[place] for place in self.place.tolist()]
        return functions.names_of(self.function), functions.modules_of(self.function), places


@dataclass(frozen=True, eq=False)
class FunctionWeights:
    """The weights of one event. function: row of `functions`, of each label. own, total: int64. whole: of the
    selection."""

    function: Array = field(metadata={"shared": True})
    own: Array
    total: Array
    whole: int


def weigh_functions(profile: Profile, selection: Selection, event: int) -> FunctionWeights:
    """`function_weights` of a selection, whatever its event. Kept, because a page and its graph need the same."""
    chosen = selection.replace(event=None, invert=False, recursion=False)

    def build() -> FunctionWeights:
        return FunctionWeights(*function_weights(profile, chosen, event))

    return memoize(profile, ("function weights", chosen, event), build)


def sum_functions(profile: Profile, selection: Selection, events: Sequence[int]) -> FunctionSums:
    """The sums of all functions with weight of any of the events."""
    own, total, whole = {}, {}, {}
    function: Array = np.zeros(0, np.int64)
    for event in events:
        found = weigh_functions(profile, selection, event)
        function = found.function
        own[event], total[event] = found.own.astype(np.float64), found.total.astype(np.float64)
        whole[event] = found.whole
    everything = FunctionSums(function, np.full(len(function), NO_PLACE), (), own, total, whole, 0)
    return everything.take(_weighty(everything))


def sum_places(
    profile: Profile,
    selection: Selection,
    events: Sequence[int],
    by: str,
    part: str = "total",
    max_rows: int | None = None,
) -> FunctionSums:
    """The sums by function and rank, process, thread or host: see BY.

    max_rows: about how many; then only the functions with the largest `part` of the first event. Raises InvalidRequest.
    """
    check_choice("by", by, BY[1:])
    groups = groups_of(profile, FlameGroup(by))
    tree = build_shown_tree(profile, selection.frame_filter)
    labels = label_functions(profile, selection.frame_filter, "function")
    rollups = {event: roll_up_groups(profile, selection, event, groups) for event in events}
    weights = {
        event: sum_by_index(found.call, found.weight, profile.calls.num_rows) for event, (found, _) in rollups.items()
    }
    shown = _find_functions(tree, labels, weights.values())
    left_out = 0
    if max_rows is not None and len(shown):
        used = np.zeros(len(groups.labels), bool)
        for _, group in rollups.values():
            used[group] = True
        most = max(1, max_rows // max(1, int(used.sum())))
        _, own, total, _ = function_weights(profile, selection, events[0], calls=weights[events[0]])
        first = np.abs((own if part == "self" else total)[shown])
        left_out = max(0, len(shown) - most)
        shown = np.sort(shown[np.lexsort((shown, -first))[:most]])
    size = len(groups.labels)
    columns = _list_columns(tree, labels, shown)
    sums = {event: _sum_event(columns, *rollups[event], len(shown), size) for event in events}
    key = np.arange(len(shown) * size)
    everything = FunctionSums(
        function=labels.function[shown][key // size],
        place=key % size,
        places=groups.labels,
        own={event: found for event, (found, _) in sums.items()},
        total={event: found for event, (_, found) in sums.items()},
        whole={event: int(found.sum()) for event, found in weights.items()},
        left_out=left_out,
    )
    return everything.take(_weighty(everything))


def _find_functions(tree: CallTree, labels: FunctionLabels, weights: Iterable[Array]) -> Array:
    """The labels of the functions with samples that have weight. weights: of each event, by node of `calls`."""
    calls = np.flatnonzero(np.any([weight != 0 for weight in weights], axis=0))
    sampled = np.zeros(len(tree), np.int64)
    sampled[calls if tree.node is None else tree.node[calls]] = 1
    has_samples = np.zeros(len(labels.function), bool)
    has_samples[labels.label[labels.outer[sum_subtrees(sampled, tree.end)[labels.outer] > 0]]] = True
    return np.flatnonzero(has_samples)


def _weighty(sums: FunctionSums) -> Array:
    """The rows with weight of any event, the heaviest of the first event first."""
    events = list(sums.total)
    if not events:
        return np.zeros(0, np.int64)
    rows = np.flatnonzero(np.any([(sums.total[event] != 0) | (sums.own[event] != 0) for event in events], axis=0))
    found: Array = rows[np.argsort(-sums.total[events[0]][rows], kind="stable")]
    return found


@dataclass(frozen=True, eq=False)
class _Columns:
    """Where samples count. own: for each node of `calls` the function that has them as self, or the number of functions
    for none. outer: the tree of only the outermost calls of the functions. order: its nodes except the root, by
    function; function, first: each function among them, and where its nodes begin."""

    own: Array
    outer: CallTree
    order: Array
    function: Array
    first: Array


def _list_columns(tree: CallTree, labels: FunctionLabels, shown: Array) -> _Columns:
    """Of the functions with these labels."""
    slot = np.full(len(labels.function) + 1, len(shown), np.int32)
    slot[shown] = np.arange(len(shown))
    # The root has no function: its label -1 is the last slot.
    of_node = slot[labels.label]
    # A function has the weight below its outermost calls: a tree of only these is small.
    is_outer = np.zeros(len(tree), bool)
    is_outer[labels.outer[of_node[labels.outer] < len(shown)]] = True
    outer = keep_nodes(tree, is_outer)
    of_function = np.zeros(int(tree.function.max(initial=0)) + 1, np.int32)
    of_function[labels.function[shown]] = np.arange(len(shown))
    function = of_function[outer.function[1:]]
    order = np.argsort(function, kind="stable")
    first = np.flatnonzero(np.diff(function[order], prepend=-1))
    own = of_node if tree.node is None else of_node.take(tree.node)
    return _Columns(own, outer, order + 1, function[order][first], first)


def _sum_event(
    columns: _Columns, found: SampleRollup, group: Array, functions: int, groups: int
) -> tuple[Float64Array, Float64Array]:
    """(self, total) of samples by function and group. group: of each entry."""
    function = columns.own.take(found.call)
    inside = np.flatnonzero(function < functions)
    key = function[inside].astype(np.int64) * groups + group[inside]
    own = sum_by_index(key, found.weight[inside], functions * groups)
    total = np.zeros((functions, groups), np.int64)
    used = np.flatnonzero(np.bincount(group, minlength=groups))
    nodes = len(columns.outer)
    per_turn = max(1, MAX_CELLS // nodes)
    for turn in range(0, len(used) if len(columns.order) else 0, per_turn):
        these = used[turn : turn + per_turn]
        number = np.full(groups, NO_PLACE, np.int64)
        number[these] = np.arange(len(these))
        key, call, weight = number.take(group), found.call, found.weight
        if len(these) < len(used):
            rows = np.flatnonzero(key >= 0)
            key, call, weight = key[rows], call[rows], weight[rows]
        key *= nodes
        key += call if columns.outer.node is None else columns.outer.node.take(call)
        table = sum_by_index(key, weight, len(these) * nodes).reshape(len(these), nodes)
        below = subtree_totals(table, columns.outer.end)[:, columns.order]
        total[np.ix_(columns.function, these)] = np.add.reduceat(below, columns.first, axis=1).T
    return own.astype(np.float64), total.ravel().astype(np.float64)
