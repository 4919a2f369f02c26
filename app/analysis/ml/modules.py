"""Modules of a network: the tree of their calls, with time on the host and on devices.

There are three sources of modules, and the first found is used: annotations of Lightning, which name layers as the
program does; calls of nn.Module among Python functions (with_stack); the module hierarchy of the operators of a
scripted module (with_modules), which gives the module of an operator, but not the number of calls.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.arrow import functions as pc
from ...domain.call_tree import to_preorder
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ...domain.tables import NO_ID, NUMERIC_ARGUMENTS, FlowKind, get_column, get_strings
from ..core.common_columns import RANK_IF_SEVERAL
from ..core.functions import functions_of
from ..core.group_by import SelectedGroups, group_by, select_groups
from ..core.memo import memoize
from ..core.sample_selection import sum_by_index, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, records, table_function
from ..core.slice_selection import device_time_prefix_sums, prefix_sums, select_slices, slices_of
from .operators import innermost_slices, operator_calls_of, rank_column, to_percent, to_us

MODULE_PREFIX = "nn.Module: "
LIGHTNING_PREFIX = "[pl][module]"
AUTOGRAD_PREFIX = "autograd::engine::evaluate_function: "
_NUMBER = re.compile(r"_\d+$")
HIERARCHY_FIELD = '"Module Hierarchy"'
_LEVEL = re.compile(r"(?P<name>[^.()]*)\((?P<type>[^()]*)\)::[^.]*\.|(?P<other>[^.]*)\.")

COLUMNS = (
    Column("module", "", "Name of the module in the trace, with its number among modules of its type."),
    Column("type", "", "Class of the module."),
    Column(
        "calls",
        "",
        "Number of calls; missing if only operators record their module, which gives no calls.",
        "Int64",
    ),
    Column("host_total_us", "µs", "Time of the host in the module.", "float64"),
    Column(
        "device_total_us", "µs", "Time of all device work launched while it ran; missing without a device.", "Float64"
    ),
    Column("parent", "", "The module that called it; missing for the outermost modules."),
    Column("path", "", "Names of all modules around it and its own, separated by slashes."),
    Column("depth", "", "Number of modules around it.", "int64"),
    Column("host_self_us", "µs", "Time of the host in the module, without modules inside it.", "float64"),
    Column("device_self_us", "µs", "Time of the device work launched in it, without modules inside it.", "Float64"),
    Column("host_mean_us", "µs", "host_total_us ÷ calls.", "Float64"),
    Column("host_min_us", "µs", "The shortest call.", "Float64"),
    Column("host_max_us", "µs", "The longest call.", "Float64"),
    Column("operators", "", "Number of operators called in it, including operators inside operators.", "int64"),
    Column(
        "backward_host_us",
        "µs",
        "Time of the host in the backward pass of its operators, if the trace links them; missing if it links none.",
        "Float64",
    ),
    Column("backward_device_us", "µs", "Time of the device work launched by that backward pass.", "Float64"),
    Column("host_percent", "%", "host_total_us in percent of the sum of all outermost modules.", "float64"),
    Column("device_percent", "%", "device_total_us in percent of the sum of all outermost modules.", "Float64"),
    RANK_IF_SEVERAL,
    Column("modules", "", "Number of modules in the row.", "int64"),
)


BY = ("place", "type")
SELF_COLUMNS = ("modules", "calls", "host_self_us", "device_self_us")
TOTAL_COLUMNS = (
    *("host_total_us", "device_total_us", "operators", "backward_host_us", "backward_device_us"),
    *("host_percent", "device_percent"),
)
"""The values summed over the modules of a class: over all, and over those not nested in another of the class."""


@dataclass(frozen=True, eq=False)
class ModuleTree:
    """The modules of a profile as a tree in preorder, those of a rank together: parent, end, depth by module.

    name, type: of each. rank: -1 none. row: slices that belong to modules; module: their modules. has_calls: whether
    these slices are calls of modules. If not, they are operators, and outer is the module of the enclosing operator, or
    the innermost common ancestor: their times count from `module` up to below `outer`. above: for each of the slices
    the enclosing one, -1 for none.
    """

    name: list[str]
    type: list[str]
    parent: Array
    end: Array
    depth: Array
    rank: Array
    row: Array
    module: Array
    outer: Array
    above: Array
    has_calls: bool

    def __len__(self) -> int:
        return len(self.name)


def has_modules(profile: Profile) -> bool:
    """Whether a profile contains modules, judged by its names."""

    def build() -> bool:
        if not profile.slices.num_rows:
            return False
        names = functions_of(profile).names
        has_hierarchy = pc.any_(pc.match_substring(profile.argument_sets.column("text"), HIERARCHY_FIELD))
        return bool(has_hierarchy.as_py()) or any(name.startswith((MODULE_PREFIX, LIGHTNING_PREFIX)) for name in names)

    return memoize(profile, "has modules", build, pin=True)


@table_function
def compute_modules(profile: Profile, selection: Selection, by: str = "place") -> TableRows:
    """One row for each module in the tree, below the module that called it; sorted by first call.

    by "type": one row for each class, sorted by time, descending; totals exclude modules nested in one of the same
    class. Raises InvalidRequest.
    """
    check_choice("by", by, BY)
    rows = _by_place(profile, selection)
    return _by_type(rows) if by == "type" else rows


def _by_place(profile: Profile, selection: Selection) -> TableRows:
    module_tree = module_tree_of(profile)
    mask = select_slices(profile, selection)
    chosen = np.arange(len(module_tree.row)) if mask is None else np.flatnonzero(mask[module_tree.row])
    slices, before = slices_of(profile), device_time_prefix_sums(profile)
    rows = module_tree.row[chosen]
    host = slices.duration[rows].astype(np.int64)
    device = before[slices.end[rows]] - before[rows]
    inside = operator_prefix_counts(profile)
    holds = inside[slices.end[rows]] - inside[rows]
    own, outer = module_tree.module[chosen], module_tree.outer[chosen]
    host_total, device_total, operators = (
        _upwards(module_tree, own, outer, values) for values in (host, device, holds)
    )
    if module_tree.has_calls:
        # For each call: if the enclosing call is not selected, nothing is subtracted from it.
        alone = [
            np.bincount(own, _without_inner(module_tree, values)[chosen], len(module_tree))
            for values in _total_times(profile, module_tree)
        ]
    else:
        alone = [np.maximum(0, values - _sum_children(module_tree, values)) for values in (host_total, device_total)]
    host_self, device_self = alone
    backward = _backward(profile, module_tree, mask)
    calls, mean, least, most = _by_call(module_tree, select_groups(group_by(own), None), own, host)
    shown = np.flatnonzero((host_total > 0) | (calls > 0) | (operators > 0))
    around = module_tree.above[chosen]
    picked_too = np.zeros(len(module_tree.row) + 1, bool)
    picked_too[chosen] = True
    top = ~picked_too[around]
    devices = operator_calls_of(profile).has_device_work

    def if_devices(values: Array) -> Array:
        return to_us(values[shown]) if devices else np.full(len(shown), np.nan)

    paths = _paths(module_tree)
    return build_rows(
        COLUMNS,
        {
            "module": [module_tree.name[n] for n in shown],
            "type": [module_tree.type[n] or None for n in shown],
            "calls": calls[shown] if module_tree.has_calls else np.full(len(shown), np.nan),
            "host_total_us": to_us(host_total[shown]),
            "device_total_us": if_devices(device_total),
            "parent": [module_tree.name[module_tree.parent[n]] if module_tree.depth[n] else None for n in shown],
            "path": [paths[n] for n in shown],
            "depth": module_tree.depth[shown],
            "host_self_us": to_us(host_self[shown]),
            "device_self_us": if_devices(device_self),
            "host_mean_us": mean[shown],
            "host_min_us": least[shown],
            "host_max_us": most[shown],
            "operators": operators[shown],
            "backward_host_us": np.full(len(shown), np.nan) if backward is None else to_us(backward[0][shown]),
            "backward_device_us": np.full(len(shown), np.nan) if backward is None else if_devices(backward[1]),
            "host_percent": to_percent(host_total[shown], int(host[top].sum())),
            "device_percent": to_percent(device_total[shown], int(device[top].sum()))
            if devices
            else np.full(len(shown), np.nan),
            "rank": rank_column(profile, module_tree.rank[shown]),
            "modules": np.ones(len(shown), np.int64),
        },
    )


def _by_type(rows: TableRows) -> TableRows:
    """The rows of a tree, in preorder, summed by class and rank."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    path: list[tuple[Any, ...]] = []
    for row in records(rows):
        key = (row["type"] or row["module"], row["rank"])
        del path[row["depth"] :]
        outer = key not in path
        path.append(key)
        of = found.setdefault(key, dict.fromkeys(row) | {"module": key[0], "type": key[0], "rank": key[1], "depth": 0})
        for name in (*SELF_COLUMNS, *(TOTAL_COLUMNS if outer else ())):
            if row[name] is not None:
                of[name] = (of[name] or 0) + row[name]
        for name, better in (("host_min_us", min), ("host_max_us", max)):
            if row[name] is not None:
                of[name] = row[name] if of[name] is None else better(of[name], row[name])
    for of in found.values():
        of["host_mean_us"] = of["host_total_us"] / of["calls"] if of["calls"] else None
    frame = build_rows(COLUMNS, {c.name: [of[c.name] for of in found.values()] for c in COLUMNS})
    return frame.sort("-host_total_us", "module")


def module_tree_of(profile: Profile) -> ModuleTree:
    """The tree of modules; built once."""

    def build() -> ModuleTree:
        functions = functions_of(profile)
        for prefix in (LIGHTNING_PREFIX, MODULE_PREFIX):
            here = np.array([name.startswith(prefix) for name in functions.names] + [False], bool)[functions.name]
            if here.any():
                mine = here[slices_of(profile).function]
                mine &= slices_of(profile).is_kind("module", "python", "annotation", "operator")
                if mine.any():
                    return _build_from_calls(profile, mine, prefix)
        return _build_from_hierarchy(profile)

    return memoize(profile, "modules", build, pin=True)


def operator_prefix_counts(profile: Profile) -> Array:
    """Prefix sums of the number of operator calls in `slices`."""

    def build() -> Array:
        calls = operator_calls_of(profile)
        return prefix_sums(calls.row[~calls.annotation], None, len(slices_of(profile)))

    return memoize(profile, "operators before", build)


def _build_from_calls(profile: Profile, mine: Array, prefix: str) -> ModuleTree:
    """From slices that are calls of modules."""
    slices, functions = slices_of(profile), functions_of(profile)
    rows = np.flatnonzero(mine)
    number = _module_numbers(profile, rows)
    above = innermost_slices(slices.parent, mine, slices.parent[rows])
    place = np.full(len(slices) + 1, NO_ID, np.int64)
    place[rows] = np.arange(len(rows))
    above = place[above]
    rank = threads_of(profile).rank[slices.thread[rows]]
    code = group_by(functions.canonical[slices.function[rows]], number, rank).code
    # Level by level: a module is identified by its label and the enclosing module.
    node, parents, firsts = np.full(len(rows), NO_ID, np.int64), [], []
    left, count = above < 0, 0
    while left.any():
        here = np.flatnonzero(left)
        around = np.where(above[here] < 0, NO_ID, node[above[here]])
        found = group_by(around, code[here])
        node[here] = found.code + count
        parents += around[found.first].tolist()
        firsts += here[found.first].tolist()
        count += len(found)
        left = (node < 0) & (above >= 0) & (node[above] >= 0)
    first = np.array(firsts, np.int64)
    names = functions.names_of(slices.function[rows[first]])
    names = [name.removeprefix(prefix) for name in names]
    if prefix == LIGHTNING_PREFIX:
        types = tuple(name.partition(": ")[0].rpartition(".")[2] for name in names)
        names = [name.partition(": ")[2] or name for name in names]
    else:
        types = tuple(_NUMBER.sub("", name) for name in names)
    outer = np.where(above < 0, NO_ID, node[above])
    tree = _Tree(names, list(types), np.array(parents, np.int64), rows[first], rank[first])
    return _sort_preorder(tree, rows, node, outer, above, True)


def _build_from_hierarchy(profile: Profile) -> ModuleTree:
    """From the module hierarchy of operators."""
    slices = slices_of(profile)
    table = get_strings(profile.argument_sets, "text") if profile.argument_sets.num_rows else []
    nodes: dict[tuple[int, tuple[str, ...]], int] = {}
    types: dict[int, str] = {}
    parents: list[int] = []
    names: list[str] = []
    levels = [_levels(text) if HIERARCHY_FIELD in text else () for text in table]
    with_modules = np.array([bool(level) for level in levels] + [False], bool)
    rows = (
        np.flatnonzero(with_modules[slices.arguments] & slices.is_kind("operator"))
        if len(slices)
        else np.zeros(0, np.int64)
    )
    ranks = threads_of(profile).rank[slices.thread[rows]]
    found: dict[tuple[int, int], int] = {}
    node, first = np.empty(len(rows), np.int64), []
    for at, key in enumerate(zip(slices.arguments[rows].tolist(), ranks.tolist(), strict=True)):
        if key not in found:
            above: int = NO_ID
            path: tuple[str, ...] = ()
            for name, kind in levels[key[0]]:
                path += (name,)
                if (key[1], path) not in nodes:
                    nodes[key[1], path] = len(names)
                    names.append(name)
                    parents.append(above)
                    first.append(at)
                above = nodes[key[1], path]
                if kind:
                    types.setdefault(above, kind)
            found[key] = above
        node[at] = found[key]
    place = np.full(len(slices) + 1, NO_ID, np.int64)
    place[rows] = np.arange(len(rows))
    operator = with_modules[slices.arguments] & slices.is_kind("operator") if len(slices) else np.zeros(0, bool)
    outer_row = place[innermost_slices(slices.parent, operator, slices.parent[rows])]
    around = np.where(outer_row < 0, NO_ID, node[outer_row]) if len(rows) else node
    firsts = np.array(first, np.int64)
    kinds = [types.get(n, "") for n in range(len(names))]
    # The outermost module has no name, only "TOP".
    shown = [kinds[n] or name if name == "TOP" and parents[n] < 0 else name for n, name in enumerate(names)]
    tree = _Tree(shown, kinds, np.array(parents, np.int64), rows[firsts], ranks[firsts])
    return _sort_preorder(tree, rows, node, around, outer_row, False)


def _levels(text: str) -> tuple[tuple[str, str], ...]:
    """The modules, as (name, type), from the outermost, in the arguments of an operator."""
    try:
        hierarchy = json.loads(text).get("Module Hierarchy")
    except (ValueError, AttributeError):
        return ()
    found: list[tuple[str, str]] = []
    for level in _LEVEL.finditer(hierarchy if isinstance(hierarchy, str) else ""):
        # SELF: a method of the same module. Without brackets: no module, a function.
        if level["name"] and level["name"] != "SELF":
            found.append((level["name"], level["type"].rpartition(".")[2]))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Tree:
    """Modules, parents before children. first: the first slice of each."""

    name: list[str]
    type: list[str]
    parent: Array
    first: Array
    rank: Array


def _sort_preorder(tree: _Tree, rows: Array, node: Array, outer: Array, above: Array, called: bool) -> ModuleTree:
    """The modules put in preorder: by rank, then siblings by their first slice."""
    # Below a root that is taken off again.
    ranking = np.concatenate(([0], _ranking(tree.rank, tree.first)))
    order = to_preorder(np.concatenate(([NO_ID], tree.parent + 1)), ranking)
    inverse = order.order[1:] - 1
    moved = np.append(order.position[1:] - 1, NO_ID)
    parent, end, depth = order.parent[1:] - 1, order.end[1:] - 1, order.depth[1:] - 1
    module, around = moved[node], moved[outer]
    return ModuleTree(
        name=[tree.name[n] for n in inverse],
        type=[tree.type[n] for n in inverse],
        parent=parent,
        end=end,
        depth=depth,
        rank=tree.rank[inverse],
        row=rows,
        module=module,
        outer=around if called else _common(parent, end, module, around),
        above=above,
        has_calls=called,
    )


def _ranking(rank: Array, first: Array) -> Int64Array:
    place = np.empty(len(first), np.int64)
    place[np.lexsort((first, rank))] = np.arange(len(first))
    return place


def _common(parent: Array, end: Array, one: Array, other: Array) -> Array:
    """The innermost common ancestor of two modules, inclusive; -1 for none."""
    found = other.copy()
    while len(rows := np.flatnonzero((found >= 0) & ~((found <= one) & (one < end[found])))):
        found[rows] = parent[found[rows]]
    return found


def _upwards(module_tree: ModuleTree, own: Array, outer: Array, values: Array) -> Array:
    """Sum of values over the slices of each module and its descendants, without counting overlaps twice.

    A nested call is part of the enclosing call. So the value that a slice adds to its module is subtracted again from
    the first ancestor that has it as part of a longer slice.
    """
    count = len(module_tree)
    added = sum_by_index(own, values, count)
    if module_tree.has_calls:
        return added
    some = outer >= 0
    added -= sum_by_index(outer[some], values[some], count)
    running = np.concatenate(([0], np.cumsum(added)))
    total: Array = running[module_tree.end] - running[:-1]
    return total


def _total_times(profile: Profile, module_tree: ModuleTree) -> tuple[Array, Array]:
    """(host, device) ns of each slice that belongs to modules."""
    slices, before = slices_of(profile), device_time_prefix_sums(profile)
    return slices.duration[module_tree.row].astype(np.int64), before[slices.end[module_tree.row]] - before[
        module_tree.row
    ]


def _without_inner(module_tree: ModuleTree, values: Array) -> Array:
    """Self values of slices: without those of their children; at least 0."""
    inner = np.flatnonzero(module_tree.above >= 0)
    left: Array = np.maximum(0, values - sum_by_index(module_tree.above[inner], values[inner], len(values)))
    return left


def _sum_children(module_tree: ModuleTree, total: Array) -> Array:
    below = np.flatnonzero(module_tree.parent >= 0)
    return sum_by_index(module_tree.parent[below], total[below], len(module_tree))


def _by_call(
    module_tree: ModuleTree, selected_groups: SelectedGroups, own: Array, host: Array
) -> tuple[Array, Array, Array, Array]:
    """(calls, mean, shortest and longest call in µs) by module."""
    calls = np.zeros(len(module_tree), np.int64)
    found = [np.full(len(module_tree), np.nan) for _ in range(3)]
    if module_tree.has_calls and len(selected_groups):
        module = np.unique(own)
        calls[module] = selected_groups.count()
        for values, of in zip(
            found, (selected_groups.mean(host), selected_groups.min(host), selected_groups.max(host)), strict=True
        ):
            values[module] = to_us(of)
    return calls, found[0], found[1], found[2]


def _backward(profile: Profile, module_tree: ModuleTree, mask: Array | None) -> tuple[Array, Array] | None:
    """(host, device) ns by module of the backward pass of operators called in it and inside; None where nothing joins
    them. Each backward operator counts once."""
    flows, slices = profile.flows, slices_of(profile)
    of_kind = np.flatnonzero(get_column(flows, "kind") == FlowKind.FORWARD_BACKWARD)
    if not len(of_kind) or not len(module_tree):
        return None
    source, target = get_column(flows, "source")[of_kind], get_column(flows, "target")[of_kind]
    target, first = np.unique(target, return_index=True)
    source = source[first]
    if mask is not None:
        source, target = source[mask[source]], target[mask[source]]
    mine = np.zeros(len(slices), bool)
    mine[module_tree.row] = True
    place = np.full(len(slices) + 1, NO_ID, np.int64)
    place[module_tree.row] = module_tree.module
    module = place[innermost_slices(slices.parent, mine, source)]
    target, module = target[module >= 0], module[module >= 0]
    # Work of the autograd engine for an operator encloses it.
    functions = functions_of(profile)
    engine = np.array([name.startswith(AUTOGRAD_PREFIX) for name in functions.names] + [False], bool)[functions.name]
    above = slices.parent[target]
    target = np.where((above >= 0) & engine[slices.function[above]], above, target)
    before = device_time_prefix_sums(profile)
    found = []
    for values in (slices.duration[target], before[slices.end[target]] - before[target]):
        running = np.concatenate(([0], np.cumsum(sum_by_index(module, values, len(module_tree)))))
        found.append(running[module_tree.end] - running[:-1])
    return found[0], found[1]


def _module_numbers(profile: Profile, rows: Array) -> Array:
    """The numbers that PyTorch gives to modules of a type, for calls of modules; -1 without one."""
    numbers = profile.slice_numbers
    given = np.flatnonzero(get_column(numbers, "key") == NUMERIC_ARGUMENTS.index("Python module id"))
    found = np.full(len(slices_of(profile)), NO_ID, np.int64)
    found[get_column(numbers, "slice")[given]] = get_column(numbers, "value")[given]
    module_numbers: Int64Array = found[rows]
    return module_numbers


def _paths(module_tree: ModuleTree) -> list[str]:
    paths: list[str] = []
    for name, parent in zip(module_tree.name, module_tree.parent.tolist(), strict=True):
        paths.append(f"{paths[parent]}/{name}" if parent >= 0 else name)
    return paths


TABLES = (Table("modules", "Modules", COLUMNS, compute_modules, by=BY),)
"""The tables of this module."""
