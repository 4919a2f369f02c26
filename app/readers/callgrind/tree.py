"""Call stacks estimated from a call graph: edges with costs become a tree of stacks.

A call graph does not record which calls of a function were made under which of its callers. So all calls of a function
are assumed to be alike: cost is divided among its callees in the proportions of all of its calls. A function that is
already on the stack is not entered again: its cost is added to the node on the stack and divided from there. The self
cost of each function is then divided among its stacks in integers, so its sum is exact for every graph.
"""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array, Int64Array

MAX_DEPTH = 256
"""Maximum number of frames: deeper calls are attached to the last but one frame."""
MAX_WIDTH = 4000
"""Maximum number of stacks of one depth that are expanded: those with the highest cost."""
MAX_LEVEL_CALLS = 100_000
"""Maximum number of calls from all stacks of one depth together that are checked."""
MAX_NODES = 300_000
MIN_SHARE = 1e-7
"""A stack with a smaller share is not expanded; the self costs of its functions are in their other stacks."""
TOLERANCE, MAX_ITERATIONS = 1e-3, 100
"""Cost passed around in recursion is followed until an iteration adds less than this share, or up to the limit."""
ROUNDING_SHARE = 0.01
"""A share of a function's cost up to this, without a caller, is assumed to be a rounding error."""


@dataclass(frozen=True)
class Tree:
    """Stacks by node: the parent node (-1: none), the function, and the self cost, one column per event."""

    parent: Array
    function: Array
    weight: Array


@dataclass(frozen=True)
class Graph:
    """own: self cost by function and event. One row per call edge: caller and called (functions), cost by event, and
    count of calls. All are integers; edges are distinct."""

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
    """Estimated self cost of a node, before rounding; the last column counts calls."""
    share: Array


@dataclass(frozen=True)
class _ExpandedStacks:
    """Stacks as far as they are expanded, level by level: parents before their children.

    part: the share of its parent's cost that a node gets, by event. given: cost of the nodes without a parent. rate:
    calls that the parent makes per unit of the first event. starts: where the levels begin, and the end. back:
    recursive calls: from a node, to the node of the same function on its stack, and the share of the cost.
    """

    parent: Array
    function: Array
    part: Array
    given: Array
    rate: Array
    starts: tuple[int, ...]
    back: tuple[Array, Array, Array]


def build_tree(graph: Graph) -> Tree:
    """The tree of a graph. Its last column of weights, one more than there are events, counts calls of functions."""
    functions = len(graph.own)
    count = np.zeros(functions, np.int64)
    np.add.at(count, graph.called, graph.count)
    wanted = np.column_stack([graph.own, count])
    nodes = _add_missing_functions(graph, _expand_stacks(graph), _select_nonzero_rows(wanted))
    return _drop_unused(nodes, _divide_costs(nodes, wanted))


def _expand_stacks(graph: Graph) -> _Nodes:
    """The stacks from the outermost functions, and their cost."""
    # Direct recursion adds no cost.
    rows = np.flatnonzero(graph.caller != graph.called)
    order = rows[np.argsort(graph.caller[rows], kind="stable")]
    caller, called = graph.caller[order], graph.called[order]
    cost, own = graph.cost[order].astype(np.float64), graph.own.astype(np.float64)
    first = np.searchsorted(caller, np.arange(len(own) + 1))
    total = own + _sum_rows(caller, cost, len(own))
    group = find_components(first, called)
    costs_without_caller = _compute_entry_costs(own, caller, called, cost, group)
    arcs = _CallEdges(
        first, called, group, np.divide(cost, total[caller], out=np.zeros_like(cost), where=total[caller] > 0)
    )
    calls = graph.count[order].astype(np.float64)
    rate = np.divide(calls, total[caller, 0], out=np.zeros(len(calls)), where=total[caller, 0] > 0)
    stacks = _expand_levels(
        arcs, costs_without_caller, rate, np.maximum(own.sum(axis=0), 1), _select_nonzero_rows(total)
    )
    cost_at = _propagate_costs(stacks)
    spent = np.divide(own, total, out=np.zeros_like(own), where=total > 0)
    above = np.where(stacks.parent < 0, 0, cost_at[stacks.parent, 0]) if len(cost_at) else np.zeros(0)
    mass = np.column_stack([cost_at * spent[stacks.function], above * stacks.rate])
    return _Nodes(stacks.parent, stacks.function, mass, (cost_at / np.maximum(own.sum(axis=0), 1)).mean(axis=1))


@dataclass(frozen=True)
class _CallEdges:
    """Call edges, in the order of the callers. first: where those of a function begin. group: the component of each
    function (see find_components). part: share of the caller's cost, by event."""

    first: Array
    called: Array
    group: Array
    part: Array


def _expand_levels(arcs: _CallEdges, given: Array, rate: Array, total: Array, costly: Array) -> _ExpandedStacks:
    """Follow the calls from the functions with given cost. total: of each event. costly: functions with any cost."""
    function = np.flatnonzero(_select_nonzero_rows(given))
    cost_at = given[function]
    parent, part = np.full(len(function), -1, np.int64), np.zeros_like(cost_at)
    parents, functions, parts, rates, backs = [parent], [function], [part], [np.zeros(len(function))], []
    starts = [0, len(function)]
    # A level: the index of each node's parent in the previous level, and its function.
    levels = [(parent, function)]
    while len(function) and len(levels) < MAX_DEPTH and starts[-1] <= MAX_NODES:
        degree = arcs.first[function + 1] - arcs.first[function]
        node = np.repeat(np.arange(len(function)), degree)
        arc = np.arange(len(node)) - np.repeat(np.cumsum(degree) - degree, degree) + arcs.first[function][node]
        target = _find_on_stack(levels, starts, node, arcs.called[arc], arcs.group)
        again = target >= 0
        backs.append((starts[-2] + node[again], target[again], arcs.part[arc[again]]))
        node, arc = node[~again], arc[~again]
        passed_on = cost_at[node] * arcs.part[arc]
        share = (passed_on / total).mean(axis=1)
        followed = np.flatnonzero((share > MIN_SHARE) & costly[arcs.called[arc]])
        followed = followed[np.argsort(-share[followed], kind="stable")][:MAX_WIDTH]
        there = arcs.called[arc[followed]]
        followed = np.sort(
            followed[: 1 + np.searchsorted(np.cumsum(arcs.first[there + 1] - arcs.first[there]), MAX_LEVEL_CALLS)]
        )
        parents.append(starts[-2] + node[followed])
        levels.append((node[followed], arcs.called[arc[followed]]))
        function, cost_at = levels[-1][1], passed_on[followed]
        functions.append(function)
        parts.append(arcs.part[arc[followed]])
        rates.append(rate[arc[followed]])
        starts.append(starts[-1] + len(function))
    back = [np.concatenate(values) for values in zip(*backs, strict=True)]
    return _ExpandedStacks(
        np.concatenate(parents),
        np.concatenate(functions),
        np.concatenate(parts),
        given[functions[0]],
        np.concatenate(rates),
        tuple(starts),
        (back[0], back[1], back[2]) if back else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0))),
    )


def _propagate_costs(stacks: _ExpandedStacks) -> Array:
    """The cost that reaches each node, by event: from its parent, and from nodes below that call it recursively."""
    nodes, first = len(stacks.parent), stacks.starts[1]
    again = np.zeros_like(stacks.part)
    source, target, part = stacks.back
    before = np.zeros(stacks.part.shape[1])
    comes = again
    for _ in range(MAX_ITERATIONS):
        comes = again.copy()
        comes[:first] += stacks.given
        for begin, end in pairwise(stacks.starts[1:]):
            comes[begin:end] += comes[stacks.parent[begin:end]] * stacks.part[begin:end]
        again = _sum_rows(target, comes[source] * part, nodes) if len(source) else again
        back = again.sum(axis=0)
        if (back - before <= TOLERANCE * back).all():
            break
        before = back
    return comes


def _select_nonzero_rows(values: Array) -> Array:
    """Which rows have a value other than 0."""
    nonzero: Array = np.asarray(values.any(axis=1))
    return nonzero


def _sum_rows(place: Array, values: Array, length: int) -> Array:
    """Rows of `values` summed by index."""
    columns = [np.bincount(place, column, length) for column in values.T]
    return np.column_stack(columns) if columns else np.zeros((length, 0))


def _compute_entry_costs(own: Array, caller: Array, called: Array, cost: Array, group: Array) -> Array:
    """The part of each function's cost that has no caller, by event.

    Functions of one component are taken together, because cost that they pass around is counted repeatedly. The
    component is entered at the function with the most calls from outside, else at the one with the highest cost.
    """
    functions, components = len(own), int(group.max()) + 1 if len(group) else 0
    across = group[caller] != group[called]
    total = _sum_rows(group, own, components) + _sum_rows(group[caller[across]], cost[across], components)
    rows = _sum_rows(group[called[across]], cost[across], components)
    rest = total - rows
    rest[(rest <= ROUNDING_SHARE * total) & (rows > 0)] = 0
    entered = _sum_rows(called[across], cost[across], functions).sum(axis=1)
    most = (own + _sum_rows(caller, cost, functions)).sum(axis=1)
    order = np.lexsort((most, entered, group))
    head = order[np.searchsorted(group[order], np.arange(components), "right") - 1]
    outermost = np.zeros_like(own)
    outermost[head] = np.maximum(rest, 0)
    return outermost


def _find_on_stack(
    levels: list[tuple[Array, Array]], starts: list[int], node: Array, called: Array, group: Array
) -> Int64Array:
    """The nodes of a function that is already on the stack from which it is called; -1 if there is none.

    node: indices into the last level. starts: where the levels begin.
    """
    node_of = np.full(len(node), -1, np.int64)
    # Only calls inside a component can be recursive.
    active = np.flatnonzero(group[levels[-1][1][node]] == group[called])
    at = node[active]
    for (parent, function), start in zip(reversed(levels), reversed(starts[:-1]), strict=True):
        same = function[at] == called[active]
        node_of[active[same]] = start + at[same]
        active, at = active[~same], parent[at[~same]]
        active, at = active[at >= 0], at[at >= 0]
        if not len(active):
            break
    return node_of


def find_components(first: Array, called: Array) -> Array:
    """The number of each function's strongly connected component (Tarjan, 1972): functions that call each other.

    first: where a function's calls begin in `called`, and one more entry.
    """
    count = len(first) - 1
    callees = [called[begin:end].tolist() for begin, end in pairwise(first.tolist())]
    unexplored = [iter(functions) for functions in callees]
    index, low, component = [-1] * count, [0] * count, [-1] * count
    stack: list[int] = []
    visited = components = 0
    for root in range(count):
        path = [root] if index[root] < 0 else []
        while path:
            node = path[-1]
            if index[node] < 0:
                index[node] = visited
                low[node] = visited
                visited += 1
                stack.append(node)
            callee = next((function for function in unexplored[node] if index[function] < 0), None)
            if callee is not None:
                path.append(callee)
                continue
            path.pop()
            low[node] = min([index[node], *(low[function] for function in callees[node] if component[function] < 0)])
            if low[node] == index[node]:
                while component[node] < 0:
                    component[stack.pop()] = components
                components += 1
    return np.array(component, np.int64)


def _add_missing_functions(graph: Graph, nodes: _Nodes, wanted: Array) -> _Nodes:
    """The same with a stack for every wanted function that has none yet: below the function of one of its callers."""
    functions = len(graph.own)
    best = np.full(functions, -1, np.int64)
    order = np.argsort(nodes.share, kind="stable")
    best[nodes.function[order]] = order
    if not (wanted & (best < 0)).any():
        return nodes
    arcs = np.lexsort((-graph.cost.astype(np.float64).sum(axis=1), graph.caller))
    first = np.searchsorted(graph.caller[arcs], np.arange(functions + 1)).tolist()
    called, place = graph.called[arcs].tolist(), best.tolist()
    parent, depth = nodes.parent.tolist(), _compute_depths(nodes.parent)
    function: list[int] = nodes.function.tolist()
    callees = deque(np.flatnonzero(best >= 0)[np.argsort(-nodes.share[best[best >= 0]], kind="stable")].tolist())
    roots = iter(np.flatnonzero(wanted).tolist())
    while True:
        while callees:
            function_id = callees.popleft()
            above = place[function_id]
            for callee in called[first[function_id] : first[function_id + 1]]:
                if place[callee] < 0:
                    place[callee] = len(function)
                    deep = depth[above] >= MAX_DEPTH
                    parent.append(parent[above] if deep else above)
                    depth.append(MAX_DEPTH if deep else depth[above] + 1)
                    function.append(callee)
                    callees.append(callee)
        root = next((function_id for function_id in roots if place[function_id] < 0), None)
        if root is None:
            break
        place[root] = len(function)
        parent.append(-1)
        depth.append(1)
        function.append(root)
        callees.append(root)
    more = len(function) - len(nodes.function)
    return _Nodes(
        np.array(parent, np.int64),
        np.array(function, np.int64),
        np.concatenate([nodes.mass, np.zeros((more, nodes.mass.shape[1]))]),
        np.concatenate([nodes.share, np.zeros(more)]),
    )


def _compute_depths(parent: Array) -> list[int]:
    depths: list[int] = []
    for above in parent.tolist():
        depths.append(depths[above] + 1 if above >= 0 else 1)
    return depths


def _divide_costs(nodes: _Nodes, wanted: Array) -> Int64Array:
    """The self cost of every function, divided among its nodes by their mass: integers with exactly that sum.

    Remainders of rounding go to the nodes with the largest fractions, one unit each.
    """
    functions = len(wanted)
    weights = np.zeros((len(nodes.function), wanted.shape[1]), np.int64)
    for event, column in enumerate(wanted.T):
        mass = nodes.mass[:, event]
        whole = np.bincount(nodes.function, mass, functions)
        part = np.divide(mass, whole[nodes.function], out=np.zeros(len(mass)), where=whole[nodes.function] > 0)
        wish = part * column[nodes.function]
        # Half of an even number must stay exact despite floating-point errors.
        value = np.floor(wish + 1e-6).astype(np.int64)
        remainders = _compute_remainders(nodes.function, value, column)
        order = np.lexsort((value - wish, nodes.function))
        rank = np.arange(len(order)) - np.searchsorted(nodes.function[order], nodes.function[order])
        value[order] += (rank < remainders[nodes.function[order]]) & (wish[order] > 0)
        # Floating-point errors go to the node with the highest cost.
        order = np.lexsort((nodes.share, mass, nodes.function))
        last = order[np.r_[nodes.function[order][1:] != nodes.function[order][:-1], True]] if len(order) else order
        value[last] += _compute_remainders(nodes.function, value, column)[nodes.function[last]]
        weights[:, event] = value
    return weights


def _compute_remainders(function: Array, value: Array, whole: Array) -> Array:
    """The cost that no node has yet, by function."""
    given = np.zeros(len(whole), np.int64)
    np.add.at(given, function, value)
    remainder: Array = whole - given
    return remainder


def _drop_unused(nodes: _Nodes, weight: Array) -> Tree:
    """The tree without nodes that have no cost in or below them."""
    used = _select_nonzero_rows(weight)
    parent = nodes.parent
    for node in np.flatnonzero(used)[::-1].tolist():
        above = int(parent[node])
        while above >= 0 and not used[above]:
            used[above] = True
            above = int(parent[above])
    used_nodes = np.flatnonzero(used)
    place = np.cumsum(used) - 1
    outer = parent[used_nodes]
    return Tree(np.where(outer < 0, -1, place[outer]), nodes.function[used_nodes], weight[used_nodes])
