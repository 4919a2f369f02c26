"""Hotspots: self and total weight of each function, module or thread."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, BoolArray, Float64Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.profile import Profile
from ...domain.selection import ALL_FRAMES, FrameFilter, Selection, check_choice
from ...domain.tables import ROOT, get_column, get_strings, take_values
from ..core.common_columns import EVENT
from ..core.frame_filter import shown_calls, shown_nodes, simplify_filter, visible_functions, with_root
from ..core.functions import KIND_NAMES, functions_of
from ..core.measurements import absolute_totals
from ..core.memo import memoize
from ..core.sample_rollup import roll_up_filtered_samples, sum_call_weights
from ..core.sample_selection import event_names, select_events, sum_by_index, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, memoize_table, table_function
from ..core.thread_sums import sum_threads
from ..core.trees import find_outermost, mark_subtrees
from ..formulas.measures import evaluate_weights, name_table, select_parts, selected_formula
from ..formulas.resolution import ResolvedFormula
from .call_tree import CallTree, build_shown_tree
from .shapes import list_sampled_nodes

BY = ("function", "module", "thread")
_UNKNOWN = f"missing for an event that was {SAMPLED_ONLY}"
COLUMNS = (
    Column("name", "", "Name of the function as displayed: the symbol, or its module in brackets if it has none."),
    Column("module", "", "Program or library of the function, as named in the recording."),
    EVENT,
    Column("unit", "", "The unit of self and total: count, ns or bytes."),
    Column("self", "event", f"Weight of the samples in the function itself; {_UNKNOWN}.", "number"),
    Column(
        "total",
        "event",
        "Weight of the samples taken in the function or in anything it called. A sample counts once however often "
        f"the function is on its stack; {_UNKNOWN}.",
        "number",
    ),
    Column(
        "self_percent",
        "%",
        "self in percent of the whole selection of this event, including samples without a stack.",
        "float64",
    ),
    Column("total_percent", "%", "total in percent of the same.", "float64"),
    Column("kind", "", "Kind of code: user, kernel, jit, inlined, python, operator, gpu_kernel or unknown."),
    Column("file", "", "Source file of the function, if known."),
    Column("line", "", "Line at which the function starts in the source file, if known.", "Int64"),
)


@dataclass(frozen=True, eq=False)
class FunctionLabels:
    """A grouping of the nodes of a tree. label: of each node, -1 at the root. outer: the nodes without an ancestor of
    the same label. function: for each label, a row of `functions` with it.
    """

    label: Array
    outer: Array
    function: Array


@dataclass(frozen=True, eq=False)
class _LabelSums:
    """How to add up values of the nodes of `calls` by label, faster than with arrays of all nodes: most nodes are not
    the end of a stack.

    sampled: the nodes of `calls` at which samples end. place: of each, its place among the ends, which are the nodes of
    the tree that get their values (None: its own). end_label: the label of each end. known: the labels with outermost
    calls, first: where the calls of each begin; low, high: the ends of the subtree of each call.
    """

    sampled: Array
    place: Array | None
    end_label: Array
    known: Array
    first: Array
    low: Array
    high: Array

    @classmethod
    def of(
        cls, profile: Profile, tree: CallTree, label: Array, outer: Array, by_label: Array | None = None
    ) -> "_LabelSums":
        """by_label: all nodes of the tree in the order of their labels, if it is known."""
        sampled = list_sampled_nodes(profile)
        ends, place = (sampled, None) if tree.node is None else np.unique(tree.node[sampled], return_inverse=True)
        before = np.zeros(len(tree) + 1, np.int32)
        before[ends + 1] = 1
        np.cumsum(before, out=before)
        used = outer[before[outer] < before[tree.end[outer]]]
        if by_label is None:
            used = used[_sort_labels(label[used])]
        else:
            is_used = np.zeros(len(tree), bool)
            is_used[used] = True
            used = by_label[is_used[by_label]]
        of_used = label[used]
        first = np.flatnonzero(np.diff(of_used, prepend=-1))
        return cls(
            sampled=sampled,
            place=place,
            end_label=label[ends],
            known=of_used[first],
            first=first,
            low=before[used],
            high=before[tree.end[used]],
        )

    def add(self, calls: Array, labels: int, end_label: Array | None = None) -> tuple[Array, Array, int]:
        """(own sum by label, total by label, sum of all values). calls: int64 by node of `calls`. end_label: other
        labels of the ends."""
        own = calls[self.sampled]
        own = own if self.place is None else sum_by_index(self.place, own, len(self.end_label))
        running = np.zeros(len(own) + 1, np.int64)
        np.cumsum(own, out=running[1:])
        total = np.zeros(labels, np.int64)
        if len(self.first):
            total[self.known] = np.add.reduceat(running[self.high] - running[self.low], self.first)
        # The root's label is the last one.
        of_ends = self.end_label if end_label is None else end_label
        return sum_by_index(of_ends, own, labels + 1)[:-1], total, int(running[-1])


@dataclass(frozen=True, eq=False)
class _ShownSums:
    """How to add up values by function without some frames, in the tree of all frames. Own values go to the innermost
    frame that is left. function: as in `FunctionLabels`; end_label: the label of that frame for each end. is_shown: by
    label, whether all calls of the function are shown, or none; outer: else the sums of the outermost calls shown."""

    function: Array
    end_label: Array
    is_shown: BoolArray
    outer: _LabelSums | None

    @classmethod
    def of(cls, profile: Profile, frames: FrameFilter) -> "_ShownSums":
        tree, labels = build_shown_tree(profile), label_functions(profile, ALL_FRAMES, BY[0])
        sampled = list_sampled_nodes(profile)
        ends = sampled if tree.node is None else np.unique(tree.node[sampled])
        # A tree of the same nodes has the same frames.
        same = tree.node is None
        shown = shown_calls(profile, frames) if same else shown_nodes(profile, frames, tree.function, tree.end)
        visible = visible_functions(profile, frames)
        assert shown is not None
        innermost, left = ends.copy(), with_root(shown)
        # Above most ends that show-from drops are no frames that are left.
        innermost[~mark_subtrees(tree.end, shown)[innermost]] = ROOT
        hidden = np.flatnonzero(~left[innermost])
        while len(hidden):
            innermost[hidden] = tree.parent[innermost[hidden]]
            hidden = hidden[~left[innermost[hidden]]]
        count = len(labels.function)
        is_shown = np.ones(count, bool) if visible is None else visible[labels.function]
        outer = None
        if frames.show_from is not None:
            by_label = memoize(profile, "nodes by label", lambda: _sort_labels(labels.label).astype(np.int32))
            nodes = _find_shown_outer(profile, tree, labels, shown)
            outer = _LabelSums.of(profile, tree, labels.label, nodes, by_label)
        return cls(labels.function, labels.label[innermost], is_shown, outer)

    def add(self, whole: _LabelSums, calls: Array) -> tuple[Array, Array, int]:
        """As `_LabelSums.add`. whole: that of all frames."""
        own, total, everything = (self.outer or whole).add(calls, len(self.function), self.end_label)
        return own, np.where(self.is_shown, total, 0), everything


def _sort_labels(label: Array) -> Array:
    """The rows in the order of their labels (ints from 0), equal ones in their own order."""
    # numpy sorts 16-bit integers in linear time.
    narrow = label.astype(np.uint16) if len(label) and int(label.max()) < 1 << 16 else label
    return np.argsort(narrow, kind="stable")


def _find_shown_outer(profile: Profile, tree: CallTree, labels: FunctionLabels, shown: BoolArray) -> Array:
    """The nodes that are shown and have no caller of their function that is shown, ascending."""

    def build() -> tuple[BoolArray, BoolArray]:
        is_outer = np.zeros(len(tree), bool)
        is_outer[labels.outer] = True
        recursive = np.zeros(len(labels.function) + 1, bool)
        recursive[labels.label[~is_outer]] = True
        recursive[-1] = False
        is_open = recursive[labels.label]
        return is_outer & ~is_open, is_open

    # Nearly all functions are on no path twice, and the same ones for all patterns.
    is_single, is_open = memoize(profile, "calls of recursive functions", build)
    found = shown & is_single
    rows = np.flatnonzero(shown & is_open)
    before = np.zeros(len(tree) + 1, np.int32)
    np.cumsum(shown & is_open, out=before[1:])
    first = find_outermost(before[tree.end[rows]], labels.label[rows]) == np.arange(len(rows))
    found[rows[first]] = True
    return np.flatnonzero(found)


@table_function
def compute_hotspots(profile: Profile, selection: Selection, by: str = "function") -> TableRows:
    """One row for each event and function (module, thread) with any weight; sorted by self weight, descending. Of a
    formula, its values on the sums of its events, sorted by the self weight of the first one, without percentages.

    A function is a display name in a module. Hidden frames are omitted, and their callers get their self weight.
    `invert` and `recursion` have no effect. by "module": name and module are both the module. by "thread":
    name is the thread's, module its process, and self equals total.
    """
    check_choice("by", by, BY)
    name = name_table(f"hotspots by {by}", profile, selection)
    return memoize_table(name, profile, selection, lambda: _hotspots(profile, selection, by))


def list_top_functions(profile: Profile, selection: Selection, event: int, most: int) -> tuple[TableRows, int]:
    """The `most` rows of `compute_hotspots` of one event with the largest self weight, and the number of all its rows.
    Faster than the complete table, because only these rows are built."""
    part = _places(profile, selection, event, BY[0], most)
    return build_rows(COLUMNS, _join_parts(profile, [part])), part["count"]


def _hotspots(profile: Profile, selection: Selection, by: str) -> TableRows:
    formula = selected_formula(profile, selection)
    if formula is not None:
        return build_rows(COLUMNS, _of_formula(profile, selection, by, formula))
    if by == "thread":
        parts = [_threads(profile, selection, event) for event in select_events(profile, selection)]
    else:
        parts = [_places(profile, selection, event, by) for event in select_events(profile, selection)]
    return build_rows(COLUMNS, _join_parts(profile, parts))


def _of_formula(profile: Profile, selection: Selection, by: str, formula: ResolvedFormula) -> dict[str, Any]:
    """The columns of a formula: the rows with weight of any of its events."""
    parts = select_parts(profile, selection, formula)
    if by == "thread":
        own = {event: sum_threads(profile, chosen, event).weight for event, chosen in parts.items()}
        function, total = np.arange(profile.threads.num_rows), own
    else:
        weights = {event: function_weights(profile, chosen, event, by) for event, chosen in parts.items()}
        function = weights[formula.lead][0]
        own = {event: found[1] for event, found in weights.items()}
        total = {event: found[2] for event, found in weights.items()}
    shown = np.flatnonzero(
        np.any([own[event] != 0 for event in parts] + [total[event] != 0 for event in parts], axis=0)
    )
    order = shown[np.lexsort((shown, -total[formula.lead][shown], -own[formula.lead][shown]))]
    count = len(order)
    return {
        **_describe_rows(profile, function[order], by),
        "event": [formula.name] * count,
        "unit": [formula.formula.unit] * count,
        "self": evaluate_weights(profile, formula, own)[order],
        "total": evaluate_weights(profile, formula, total)[order],
        **dict.fromkeys(("self_percent", "total_percent"), np.full(count, np.nan)),
    }


def function_weights(
    profile: Profile, selection: Selection, event: int, by: str = "function", calls: Array | None = None
) -> tuple[Array, Array, Array, int]:
    """(rows of `functions` that represent each function or module, self, total, weight of the selection): int64.

    calls: the values by node of `calls` to sum, 0 where no sample ends; by default the weights of the event."""
    frames = simplify_filter(profile, selection.frame_filter)
    calls = sum_call_weights(profile, selection, event) if calls is None else calls
    if by == BY[0] and frames != ALL_FRAMES:
        shown = memoize(profile, ("sums of functions", frames), lambda: _ShownSums.of(profile, frames))
        return shown.function, *shown.add(_sums_of(profile, ALL_FRAMES, by), calls)
    labels = label_functions(profile, frames, by)
    return labels.function, *_sums_of(profile, frames, by).add(calls, len(labels.function))


def _sums_of(profile: Profile, frames: FrameFilter, by: str) -> _LabelSums:
    def build() -> _LabelSums:
        labels = label_functions(profile, frames, by)
        return _LabelSums.of(profile, build_shown_tree(profile, frames), labels.label, labels.outer)

    return memoize(profile, ("label sums", frames, by), build)


def function_kinds(profile: Profile) -> Array:
    """The kind of each function (int8 by row of `functions`): that of its first call in the tree."""

    def build() -> Array:
        function, kind = get_column(profile.calls, "function"), get_column(profile.calls, "kind")
        kinds = np.full(profile.functions.num_rows, len(KIND_NAMES) - 1, np.int8)
        kinds[function[:0:-1]] = kind[:0:-1]
        # The first row of a function represents it; if it is in no stack, another of its rows.
        canonical = functions_of(profile).canonical
        kinds[canonical[function[:0:-1]]] = kind[:0:-1]
        return kinds

    return memoize(profile, "kinds", build)


def label_functions(profile: Profile, frames: FrameFilter, by: str) -> FunctionLabels:
    """The functions or modules of the nodes of `build_shown_tree`; built once."""
    frames = simplify_filter(profile, frames)

    def build() -> FunctionLabels:
        tree, functions = build_shown_tree(profile, frames), functions_of(profile)
        code = functions.canonical if by == "function" else functions.module + 1
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        label = np.full(len(tree), -1, np.int32)
        label[1:] = inverse[tree.function[1:]]
        outer = _find_outer(profile, frames, by, tree, label).astype(np.int32)
        return FunctionLabels(label, outer, first)

    return memoize(profile, ("labels", frames, by), build)


def _find_outer(profile: Profile, frames: FrameFilter, by: str, tree: CallTree, label: Array) -> Array:
    """The nodes without a caller of their label, ascending, without the root."""
    if by == "function" and frames != ALL_FRAMES and frames.show_from is None:
        # All calls of a function are shown, or none, so that the outermost remain outermost.
        whole = build_shown_tree(profile)
        is_outer = np.zeros(len(whole), bool)
        is_outer[label_functions(profile, ALL_FRAMES, by).outer] = True
        shown = shown_nodes(profile, frames, whole.function, whole.end)
        return np.flatnonzero(is_outer if shown is None else is_outer[with_root(shown)])
    return np.flatnonzero(find_outermost(tree.end, label + 1) == np.arange(len(tree)))[1:]


def _places(profile: Profile, selection: Selection, event: int, by: str, most: int | None = None) -> dict[str, Any]:
    function, own, total, everything = function_weights(profile, selection, event, by)
    shown = np.flatnonzero((own != 0) | (total != 0))
    order = shown[np.lexsort((shown, -total[shown], -own[shown]))][:most]
    return {
        **_describe_rows(profile, function[order], by),
        "event": event,
        "self": own[order],
        "total": total[order],
        "everything": everything,
        "count": len(shown),
    }


def _describe_rows(profile: Profile, rows: Array, by: str) -> dict[str, list[Any]]:
    """Names, modules and places of these rows of `functions`, by thread of these threads."""
    if by == "thread":
        threads = threads_of(profile)
        return {
            "name": [threads.name[i] or threads.key[i] for i in rows.tolist()],
            "module": [threads.process[i] for i in rows.tolist()],
            **{name: [None] * len(rows) for name in ("kind", "file", "line")},
        }
    functions, per_function = functions_of(profile), by == "function"
    module = functions.modules_of(rows)
    lines = take_values(profile.functions, "start_line", rows) if per_function else [None] * len(rows)
    files = take_values(profile.functions, "file", rows) if per_function else [None] * len(rows)
    return {
        "name": functions.names_of(rows) if per_function else [m or "[unknown]" for m in module],
        "module": module,
        "kind": [KIND_NAMES[k] for k in function_kinds(profile)[rows].tolist()] if per_function else [None] * len(rows),
        "file": [f or None for f in files],
        "line": lines,
    }


def _threads(profile: Profile, selection: Selection, event: int) -> dict[str, Any]:
    threads, found = threads_of(profile), roll_up_filtered_samples(profile, selection, event)
    weight = sum_by_index(found.thread, found.weight, len(threads.key))
    rows = np.flatnonzero(weight)
    order = rows[np.lexsort((rows, -weight[rows]))]
    return {
        **_describe_rows(profile, order, "thread"),
        "event": event,
        "self": weight[order],
        "total": weight[order],
        "everything": int(weight.sum()),
    }


def _join_parts(profile: Profile, parts: list[dict[str, Any]]) -> dict[str, Any]:
    names, units = event_names(profile), get_strings(profile.events, "unit")
    values: dict[str, list[Any]] = {c.name: [] for c in COLUMNS}
    for part in parts:
        count = len(part["name"])
        for name in ("name", "module", "kind", "file", "line"):
            values[name] += part[name]
        values["event"] += [names[part["event"]]] * count
        values["unit"] += [units[part["event"]]] * count
        for name in ("self", "total"):
            values[name] += absolute_totals(profile, part["event"], part[name])
            values[f"{name}_percent"] += to_percent(part[name], part["everything"]).tolist()
    return values


def to_percent(value: Array, total: int) -> Float64Array:
    """`part` as percentages of `whole`; 0 if `whole` is 0."""
    return value * (100.0 / total) if total else np.zeros(len(value))


TABLES = (Table("hotspots", "Hotspots", COLUMNS, compute_hotspots, by=BY, takes_formulas=True),)
"""The tables of this module."""
