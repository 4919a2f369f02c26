"""Call stacks of a call graph: who called whom at what cost becomes a tree of who was called by whom by whom.

A call graph does not say which of the calls of a function were made when it was itself called from here or from there.
So every call of a function is taken to be the average one: what it passes on is divided as all of its calls together
are. A function that is on the stack already is not entered again. What each function spent itself is then divided
among its stacks in whole numbers, so that it is exact, whatever the graph says.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DEEPEST = 256
"""Frames: what was called deeper hangs below the last but one."""
WIDEST = 4000
"""Stacks of one depth that are followed further: those with the most."""
MOST_NODES = 300_000
LEAST_SHARE = 1e-7
"""A stack with less of the whole is not followed; its functions' own costs stand in other stacks of theirs."""
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


def tree_of(graph: Graph) -> Tree:
    """The tree of a graph. Its last column of weights, one more than there are events, counts calls of functions."""
    functions = len(graph.own)
    count = np.zeros(functions, np.int64)
    np.add.at(count, graph.called, graph.count)
    wanted = np.column_stack([graph.own, count])
    nodes = _reached(graph, _followed(graph), _any(wanted))
    return _spent(nodes, _divided(nodes, wanted))


def _followed(graph: Graph) -> _Nodes:
    """The stacks from the outermost functions on, level by level."""
    # What calls itself costs nothing more by that.
    other = np.flatnonzero(graph.caller != graph.called)
    order = other[np.argsort(graph.caller[other], kind="stable")]
    caller, called = graph.caller[order], graph.called[order]
    cost, count = graph.cost[order].astype(np.float64), graph.count[order].astype(np.float64)
    functions, events = graph.own.shape
    first = np.searchsorted(caller, np.arange(functions + 1))
    own = graph.own.astype(np.float64)
    passed = _sums(caller, cost, functions)
    group = groups(first, called)
    costly = _any(own + passed)
    total = np.maximum(own.sum(axis=0), 1)
    mass = _outermost(own, caller, called, cost, group)
    function = np.flatnonzero(_any(mass))
    mass = mass[function]
    parts = []
    # A level: the place of each node's parent in the level before, where the level begins, its functions.
    levels: list[tuple[Array, Array]] = []
    parent, calls, begin, before = np.full(len(function), -1, np.int64), np.zeros(len(function)), 0, 0
    while len(function):
        levels.append((parent, function))
        degree = first[function + 1] - first[function]
        node = np.repeat(np.arange(len(function)), degree)
        arc = np.arange(len(node)) - np.repeat(np.cumsum(degree) - degree, degree) + first[function][node]
        fresh = ~_on_stack(levels, node, called[arc], group)
        node, arc = node[fresh], arc[fresh]
        whole = own[function] + _sums(node, cost[arc], len(function))
        ratio = np.divide(mass, whole, out=np.zeros_like(mass), where=whole > 0)
        share = (mass / total).mean(axis=1)
        parts.append(
            _Nodes(
                np.where(parent < 0, -1, parent + before),
                function,
                np.column_stack([ratio * own[function], calls]),
                share,
            )
        )
        before, begin = begin, begin + len(function)
        if len(levels) == DEEPEST or begin > MOST_NODES:
            break
        passed_on = ratio[node] * cost[arc]
        share = (passed_on / total).mean(axis=1)
        kept = np.flatnonzero((share > LEAST_SHARE) & costly[called[arc]])
        if len(kept) > WIDEST:
            kept = np.sort(kept[np.argpartition(-share[kept], WIDEST)[:WIDEST]])
        part = np.divide(passed_on[kept, 0], cost[arc[kept], 0], out=np.zeros(len(kept)), where=cost[arc[kept], 0] > 0)
        parent, function, mass, calls = node[kept], called[arc[kept]], passed_on[kept], count[arc[kept]] * part
    return _Nodes(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("parent", "function", "mass", "share"))
        if parts
        else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, events + 1)), np.zeros(0))
    )


def _any(values: Array) -> Array:
    """Which rows have something in them."""
    found: Array = np.asarray(values.any(axis=1))
    return found


def _sums(place: Array, values: Array, length: int) -> Array:
    """Rows of `values` added up by their place."""
    found = [np.bincount(place, column, length) for column in values.T]
    return np.column_stack(found) if found else np.zeros((length, 0))


def _outermost(own: Array, caller: Array, called: Array, cost: Array, group: Array) -> Array:
    """What of each function's cost nobody called it for, by event.

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


def _on_stack(levels: list[tuple[Array, Array]], node: Array, called: Array, group: Array) -> Array:
    """Whether a function is on the stack already from which it is called, node of the last level: bools."""
    found = np.zeros(len(node), bool)
    # Only inside of a circle can one come back to where one was.
    active = np.flatnonzero(group[levels[-1][1][node]] == group[called])
    at = node[active]
    for parent, function in reversed(levels):
        found[active] |= function[at] == called[active]
        at = parent[at]
        inside = (at >= 0) & ~found[active]
        active, at = active[inside], at[inside]
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


def _divided(nodes: _Nodes, wanted: Array) -> Array:
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
