"""Call stacks of a call graph: who called whom at what cost becomes a tree of who was called by whom by whom.

A call graph does not say which of the calls of a function were made when it was itself called from here or from there.
So every call of a function is taken to be the average one: what it passes on is divided as all of its calls together
are. A function that is on the stack already is not entered again: what it costs then is added to what it costs there,
and goes on from there. What each function spent itself is then divided among its stacks in whole numbers, so that it is
exact, whatever the graph says.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array, Int64Array

DEEPEST = 256
"""Frames: what was called deeper hangs below the last but one."""
WIDEST = 4000
"""Stacks of one depth that are followed further: those with the most."""
MOST_CALLS = 100_000
"""Calls from all stacks of one depth together that are checked."""
MOST_NODES = 300_000
LEAST_SHARE = 1e-7
"""A stack with less of the whole is not followed; its functions' own costs are in other stacks of theirs."""
SETTLED, MOST_TURNS = 1e-3, 100
"""What is passed around in circles is followed until another turn adds less than this part of it, and no further."""
NO_REST = 0.01
"""Up to this part of a function's cost that no caller accounts for is taken to be rounding."""


@dataclass(frozen=True)
class Tree:
    """Stacks by node: the node before (-1: none), the function, and what is spent in it itself, a column an event."""

    parent: Array
    function: Array
    weight: Array


@dataclass(frozen=True)
class Graph:
    """own: costs by function and event. calls: an arc each, caller and called (functions), its cost by event, and how
    many times. All whole numbers; no two arcs have the same ends."""

    own: Array
    caller: Array
    called: Array
    cost: Array
    count: Array


@dataclass(frozen=True)
class _Nodes:
    parent: Array
    function: Array
    mass: Array
    """What a node spends itself, before it is made to fit; the last column counts calls."""
    share: Array


@dataclass(frozen=True)
class _Followed:
    """Stacks as far as they are followed, level by level: parents before their children.

    part: by event, which part of what comes to its parent is passed on to a node. given: what comes to those without a
    parent. rate: how many calls of it the parent makes for each unit of the first event that comes there. starts: where
    the levels begin, and the end. back: what is called although it is on the stack already: from a node to the node
    that is it, and which part of what comes there.
    """

    parent: Array
    function: Array
    part: Array
    given: Array
    rate: Array
    starts: tuple[int, ...]
    back: tuple[Array, Array, Array]


def tree_of(graph: Graph) -> Tree:
    """The tree of a graph. Its last column of weights, one more than there are events, counts calls of functions."""
    functions = len(graph.own)
    count = np.zeros(functions, np.int64)
    np.add.at(count, graph.called, graph.count)
    wanted = np.column_stack([graph.own, count])
    nodes = _reached(graph, _followed(graph), _any(wanted))
    return _spent(nodes, _divided(nodes, wanted))


def _followed(graph: Graph) -> _Nodes:
    """The stacks from the outermost functions on, and what is spent in them."""
    # What calls itself costs nothing more by that.
    other = np.flatnonzero(graph.caller != graph.called)
    order = other[np.argsort(graph.caller[other], kind="stable")]
    caller, called = graph.caller[order], graph.called[order]
    cost, own = graph.cost[order].astype(np.float64), graph.own.astype(np.float64)
    first = np.searchsorted(caller, np.arange(len(own) + 1))
    whole = own + _sums(caller, cost, len(own))
    group = groups(first, called)
    given = _outermost(own, caller, called, cost, group)
    arcs = _Arcs(first, called, group, np.divide(cost, whole[caller], out=np.zeros_like(cost), where=whole[caller] > 0))
    calls = graph.count[order].astype(np.float64)
    rate = np.divide(calls, whole[caller, 0], out=np.zeros(len(calls)), where=whole[caller, 0] > 0)
    found = _grown(arcs, given, rate, np.maximum(own.sum(axis=0), 1), _any(whole))
    comes = _flow(found)
    spent = np.divide(own, whole, out=np.zeros_like(own), where=whole > 0)
    above = np.where(found.parent < 0, 0, comes[found.parent, 0]) if len(comes) else np.zeros(0)
    mass = np.column_stack([comes * spent[found.function], above * found.rate])
    return _Nodes(found.parent, found.function, mass, (comes / np.maximum(own.sum(axis=0), 1)).mean(axis=1))


@dataclass(frozen=True)
class _Arcs:
    """Calls, in the order of the callers. first: where those of a function begin. group: the circle of each function.
    part: of what comes to the caller, by event."""

    first: Array
    called: Array
    group: Array
    part: Array


def _grown(arcs: _Arcs, given: Array, rate: Array, total: Array, costly: Array) -> _Followed:
    """Follow the calls from where something is given. total: of each event. costly: functions that cost anything."""
    function = np.flatnonzero(_any(given))
    comes = given[function]
    parent, part = np.full(len(function), -1, np.int64), np.zeros_like(comes)
    parents, functions, parts, rates, backs = [parent], [function], [part], [np.zeros(len(function))], []
    starts = [0, len(function)]
    # A level: the place of each node's parent in the level before, and its function.
    levels = [(parent, function)]
    while len(function) and len(levels) < DEEPEST and starts[-1] <= MOST_NODES:
        degree = arcs.first[function + 1] - arcs.first[function]
        node = np.repeat(np.arange(len(function)), degree)
        arc = np.arange(len(node)) - np.repeat(np.cumsum(degree) - degree, degree) + arcs.first[function][node]
        target = _on_stack(levels, starts, node, arcs.called[arc], arcs.group)
        again = target >= 0
        backs.append((starts[-2] + node[again], target[again], arcs.part[arc[again]]))
        node, arc = node[~again], arc[~again]
        passed_on = comes[node] * arcs.part[arc]
        share = (passed_on / total).mean(axis=1)
        kept = np.flatnonzero((share > LEAST_SHARE) & costly[arcs.called[arc]])
        kept = kept[np.argsort(-share[kept], kind="stable")][:WIDEST]
        there = arcs.called[arc[kept]]
        kept = np.sort(kept[: 1 + np.searchsorted(np.cumsum(arcs.first[there + 1] - arcs.first[there]), MOST_CALLS)])
        parents.append(starts[-2] + node[kept])
        levels.append((node[kept], arcs.called[arc[kept]]))
        function, comes = levels[-1][1], passed_on[kept]
        functions.append(function)
        parts.append(arcs.part[arc[kept]])
        rates.append(rate[arc[kept]])
        starts.append(starts[-1] + len(function))
    back = [np.concatenate(values) for values in zip(*backs, strict=True)]
    return _Followed(
        np.concatenate(parents),
        np.concatenate(functions),
        np.concatenate(parts),
        given[functions[0]],
        np.concatenate(rates),
        tuple(starts),
        (back[0], back[1], back[2]) if back else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0))),
    )


def _flow(found: _Followed) -> Array:
    """What comes to each node, by event: from its parent, and from those below that call it again."""
    nodes, first = len(found.parent), found.starts[1]
    again = np.zeros_like(found.part)
    source, target, part = found.back
    before = np.zeros(found.part.shape[1])
    comes = again
    for _ in range(MOST_TURNS):
        comes = again.copy()
        comes[:first] += found.given
        for begin, end in pairwise(found.starts[1:]):
            comes[begin:end] += comes[found.parent[begin:end]] * found.part[begin:end]
        again = _sums(target, comes[source] * part, nodes) if len(source) else again
        back = again.sum(axis=0)
        if (back - before <= SETTLED * back).all():
            break
        before = back
    return comes


def _any(values: Array) -> Array:
    """Which rows have something in them."""
    found: Array = np.asarray(values.any(axis=1))
    return found


def _sums(place: Array, values: Array, length: int) -> Array:
    """Rows of `values` added up by their place."""
    found = [np.bincount(place, column, length) for column in values.T]
    return np.column_stack(found) if found else np.zeros((length, 0))


def _outermost(own: Array, caller: Array, called: Array, cost: Array, group: Array) -> Array:
    """What of each function's cost has no caller, by event.

    Functions that call each other in a circle are taken together, for what they pass around is counted again and again;
    the circle is entered where most of its calls from outside go to, else at the function with the most.
    """
    functions, groups_ = len(own), int(group.max()) + 1 if len(group) else 0
    across = group[caller] != group[called]
    whole = _sums(group, own, groups_) + _sums(group[caller[across]], cost[across], groups_)
    given = _sums(group[called[across]], cost[across], groups_)
    rest = whole - given
    rest[(rest <= NO_REST * whole) & (given > 0)] = 0
    entered = _sums(called[across], cost[across], functions).sum(axis=1)
    most = (own + _sums(caller, cost, functions)).sum(axis=1)
    order = np.lexsort((most, entered, group))
    head = order[np.searchsorted(group[order], np.arange(groups_), "right") - 1]
    found = np.zeros_like(own)
    found[head] = np.maximum(rest, 0)
    return found


def _on_stack(
    levels: list[tuple[Array, Array]], starts: list[int], node: Array, called: Array, group: Array
) -> Int64Array:
    """The nodes that are a function already in the stacks from which it is called; -1 where there is none.

    node: places in the last level. starts: where the levels begin.
    """
    found = np.full(len(node), -1, np.int64)
    # Only inside of a circle can one come back to where one was.
    active = np.flatnonzero(group[levels[-1][1][node]] == group[called])
    at = node[active]
    for (parent, function), start in zip(reversed(levels), reversed(starts[:-1]), strict=True):
        same = function[at] == called[active]
        found[active[same]] = start + at[same]
        active, at = active[~same], parent[at[~same]]
        active, at = active[at >= 0], at[at >= 0]
        if not len(active):
            break
    return found


def groups(first: Array, called: Array) -> Array:
    """The number of the circle that each function is part of (a strongly connected component: Tarjan, 1972).

    first: where a function's calls begin in `called`, and one entry more.
    """
    count = len(first) - 1
    start, target = first.tolist(), called.tolist()
    found, low, group = [-1] * count, [0] * count, [-1] * count
    stack: list[int] = []
    seen = groups_ = 0
    for root in range(count):
        if found[root] >= 0:
            continue
        path = [(root, start[root])]
        found[root] = low[root] = seen
        seen += 1
        stack.append(root)
        while path:
            node, arc = path.pop()
            while arc < start[node + 1]:
                to = target[arc]
                arc += 1
                if found[to] < 0:
                    path.append((node, arc))
                    found[to] = low[to] = seen
                    seen += 1
                    stack.append(to)
                    path.append((to, start[to]))
                    break
                if group[to] < 0:
                    low[node] = min(low[node], found[to])
            else:
                if low[node] == found[node]:
                    while True:
                        member = stack.pop()
                        group[member] = groups_
                        if member == node:
                            break
                    groups_ += 1
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[node])
    return np.array(group, np.int64)


def _reached(graph: Graph, nodes: _Nodes, wanted: Array) -> _Nodes:
    """The same with a stack for every function that is wanted and has none yet: below one of a caller of it."""
    functions = len(graph.own)
    best = np.full(functions, -1, np.int64)
    order = np.argsort(nodes.share, kind="stable")
    best[nodes.function[order]] = order
    if not (wanted & (best < 0)).any():
        return nodes
    arcs = np.lexsort((-graph.cost.astype(np.float64).sum(axis=1), graph.caller))
    first = np.searchsorted(graph.caller[arcs], np.arange(functions + 1)).tolist()
    called, place = graph.called[arcs].tolist(), best.tolist()
    parent, depth = nodes.parent.tolist(), _depths(nodes.parent)
    function: list[int] = nodes.function.tolist()
    left = deque(np.flatnonzero(best >= 0)[np.argsort(-nodes.share[best[best >= 0]], kind="stable")].tolist())
    roots = iter(np.flatnonzero(wanted).tolist())
    while True:
        while left:
            one = left.popleft()
            above = place[one]
            for to in called[first[one] : first[one + 1]]:
                if place[to] < 0:
                    place[to] = len(function)
                    deep = depth[above] >= DEEPEST
                    parent.append(parent[above] if deep else above)
                    depth.append(DEEPEST if deep else depth[above] + 1)
                    function.append(to)
                    left.append(to)
        lone = next((one for one in roots if place[one] < 0), None)
        if lone is None:
            break
        place[lone] = len(function)
        parent.append(-1)
        depth.append(1)
        function.append(lone)
        left.append(lone)
    more = len(function) - len(nodes.function)
    return _Nodes(
        np.array(parent, np.int64),
        np.array(function, np.int64),
        np.concatenate([nodes.mass, np.zeros((more, nodes.mass.shape[1]))]),
        np.concatenate([nodes.share, np.zeros(more)]),
    )


def _depths(parent: Array) -> list[int]:
    found: list[int] = []
    for above in parent.tolist():
        found.append(found[above] + 1 if above >= 0 else 1)
    return found


def _divided(nodes: _Nodes, wanted: Array) -> Int64Array:
    """What every function spent, divided among its nodes as their masses are: whole numbers, whose sum it is.

    What is left over by rounding goes where most was cut off, a unit each.
    """
    functions = len(wanted)
    found = np.zeros((len(nodes.function), wanted.shape[1]), np.int64)
    for event, column in enumerate(wanted.T):
        mass = nodes.mass[:, event]
        whole = np.bincount(nodes.function, mass, functions)
        part = np.divide(mass, whole[nodes.function], out=np.zeros(len(mass)), where=whole[nodes.function] > 0)
        wish = part * column[nodes.function]
        # A half of something even is to be a half, whatever a float makes of it.
        value = np.floor(wish + 1e-6).astype(np.int64)
        left = _left(nodes.function, value, column)
        order = np.lexsort((value - wish, nodes.function))
        rank = np.arange(len(order)) - np.searchsorted(nodes.function[order], nodes.function[order])
        value[order] += (rank < left[nodes.function[order]]) & (wish[order] > 0)
        # What floats could not tell goes to the node with the most.
        order = np.lexsort((nodes.share, mass, nodes.function))
        last = order[np.r_[nodes.function[order][1:] != nodes.function[order][:-1], True]] if len(order) else order
        value[last] += _left(nodes.function, value, column)[nodes.function[last]]
        found[:, event] = value
    return found


def _left(function: Array, value: Array, whole: Array) -> Array:
    """What is not given to any node yet, by function."""
    given = np.zeros(len(whole), np.int64)
    np.add.at(given, function, value)
    found: Array = whole - given
    return found


def _spent(nodes: _Nodes, weight: Array) -> Tree:
    """The tree without what leads to nothing."""
    used = _any(weight)
    parent = nodes.parent
    for node in np.flatnonzero(used)[::-1].tolist():
        above = int(parent[node])
        while above >= 0 and not used[above]:
            used[above] = True
            above = int(parent[above])
    kept = np.flatnonzero(used)
    place = np.cumsum(used) - 1
    outer = parent[kept]
    return Tree(np.where(outer < 0, -1, place[outer]), nodes.function[kept], weight[kept])
