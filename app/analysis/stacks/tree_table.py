"""The call tree as a table, one row per frame, in preorder: top-down, or inverted (bottom-up)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, Float64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import ROOT, take_values
from ..core.common_columns import EVENT
from ..core.functions import KIND_NAMES, function_id, functions_of
from ..core.measurements import absolute_totals
from ..core.memo import memoize
from ..core.sample_rollup import sum_call_weights
from ..core.sample_selection import event_names, select_events
from ..core.schema import Column, Table, TableRows, build_rows, concatenate_rows, memoize_table, table_function
from ..formulas.measures import evaluate_weights, name_table, select_parts, selected_formula, use_lead_event
from ..formulas.resolution import ResolvedFormula
from .flamegraph import FlameGroup, FlameTree, flame_tree, sandwich
from .layout import subtree_totals
from .shapes import TreeShape, sandwich_shapes, shape_of

COLUMNS = (
    EVENT,
    Column("unit", "", "The unit of self and total: count, ns or bytes."),
    Column("depth", "", "Depth of the frame: 1 for the outermost function; with --invert, for the innermost.", "Int64"),
    Column("name", "", "Name of the function as displayed: the symbol, or its module in brackets if it has none."),
    Column("module", "", "Program or library of the function, as named in the recording."),
    Column(
        "self",
        "event",
        "Weight of the samples whose stack ends here: in the function itself; with --invert, the stacks whose "
        "outermost function this is.",
        "number",
    ),
    Column("total", "event", "Weight of the samples whose stack contains this path.", "number"),
    Column("self_percent", "%", "self in percent of the whole selection of this event.", "float64"),
    Column("total_percent", "%", "total in percent of the same.", "float64"),
    Column("kind", "", "Kind of code: user, kernel, jit, inlined, python, operator, gpu_kernel or unknown."),
    Column("file", "", "Source file of the function, if known."),
    Column("line", "", "Line at which the function starts in the source file, if known.", "Int64"),
)


@dataclass(frozen=True, eq=False)
class EventWeights:
    """Weights of an event at frames. own, total: int64. whole: of the root."""

    event: int
    own: Array
    total: Array
    whole: int


@dataclass(frozen=True, eq=False)
class TreeBranch:
    """A tree of an event and its shape, in which other events have weights, too."""

    tree: FlameTree
    shape: TreeShape


def select_tree(profile: Profile, selection: Selection, event: int, min_share: float = 0.0) -> TreeBranch:
    """The call tree of an event: all threads together, siblings by weight. min_share: frames narrower than this share
    (0 to 1) are left out; their weight remains in the totals above them."""
    chosen = selection.replace(event=event_names(profile)[event])

    def build() -> TreeBranch:
        tree = flame_tree(profile, chosen, group=FlameGroup.NONE, min_share=min_share)
        return TreeBranch(tree, shape_of(profile, chosen))

    return memoize(profile, ("tree table", chosen, min_share), build)


def select_branches(
    profile: Profile, selection: Selection, event: int, function: str, min_share: float = 0.0
) -> tuple[TreeBranch, TreeBranch]:
    """(callers, callees) of the functions of a name, see `flamegraph.sandwich`. Raises NotFound."""
    chosen = selection.replace(event=event_names(profile)[event])

    def build() -> tuple[TreeBranch, TreeBranch]:
        trees = sandwich(profile, chosen, function, min_share=min_share)
        shapes = sandwich_shapes(profile, chosen, function_id(profile, function))
        return TreeBranch(trees[0], shapes[0]), TreeBranch(trees[1], shapes[1])

    return memoize(profile, ("tree branches", chosen, function, min_share), build)


def find_weights(event: int, calls: Array, shape: TreeShape, ids: Array) -> EventWeights:
    """The weights of an event at frames of a shape, by their ids: also of those that are left out of a tree. calls: the
    event's weights at nodes of `calls`, see `sum_call_weights`."""
    weights = shape.weights(calls)
    totals = subtree_totals(weights, shape.end)
    row = np.searchsorted(shape.place, ids, "right") - 1
    # Only the last frame of an unbranched run has its own weight.
    is_last = ids - shape.place[row] == shape.last[row] - shape.first[row]
    return EventWeights(event, np.where(is_last, weights[row], 0), totals[row], int(totals[ROOT]))


def evaluate_frames(
    profile: Profile, formula: ResolvedFormula, calls: Mapping[int, Array], shape: TreeShape, ids: Array
) -> tuple[Float64Array, Float64Array]:
    """(self, total) of a formula at frames of a shape, by their ids, see `find_weights`. calls: by event."""
    weights = {event: find_weights(event, calls[event], shape, ids) for event in formula.parts}
    own = evaluate_weights(profile, formula, {event: found.own for event, found in weights.items()})
    total = evaluate_weights(profile, formula, {event: found.total for event, found in weights.items()})
    return own, total


@table_function
def compute_tree(profile: Profile, selection: Selection) -> TableRows:
    """One row for each event and frame with any weight, in preorder, the heaviest sibling first. Of a formula, its
    values in the tree of its first event, without percentages."""

    def build() -> TableRows:
        formula = selected_formula(profile, selection)
        if formula is not None:
            return _formula_rows(profile, selection, formula)
        events = select_events(profile, selection)
        events = events if profile.samples.num_rows else []
        parts = [_rows(profile, select_tree(profile, selection, event).tree, event) for event in events]
        return concatenate_rows(COLUMNS, parts) if parts else build_rows(COLUMNS, {c.name: [] for c in COLUMNS})

    return memoize_table(name_table("tree", profile, selection), profile, selection, build)


def _formula_rows(profile: Profile, selection: Selection, formula: ResolvedFormula) -> TableRows:
    if not profile.samples.num_rows:
        return build_rows(COLUMNS, {c.name: [] for c in COLUMNS})
    branch = select_tree(profile, use_lead_event(profile, selection), formula.lead)
    calls = {
        event: sum_call_weights(profile, chosen, event)
        for event, chosen in select_parts(profile, selection, formula).items()
    }
    own, total = evaluate_frames(profile, formula, calls, branch.shape, branch.tree.id[1:])
    count = len(own)
    values: dict[str, Any] = {
        "event": [formula.name] * count,
        "unit": [formula.formula.unit] * count,
        "self": own,
        "total": total,
        **dict.fromkeys(("self_percent", "total_percent"), np.full(count, np.nan)),
    }
    return build_rows(COLUMNS, {**_rows(profile, branch.tree, formula.lead).values, **values})


def _rows(profile: Profile, tree: FlameTree, event: int) -> TableRows:
    functions = functions_of(profile)
    # Without the root.
    function, own, total = tree.function[1:], tree.self_weight[1:], tree.total_weight[1:]
    count = len(function)
    percent: dict[str, Any] = {
        name: 100.0 * weight / tree.total if tree.total else np.zeros(count)
        for name, weight in (("self_percent", own), ("total_percent", total))
    }
    return build_rows(
        COLUMNS,
        percent
        | {
            "event": [tree.event] * count,
            "unit": [profile.events.column("unit")[event].as_py()] * count,
            "depth": tree.depth[1:],
            "name": functions.names_of(function),
            "module": functions.modules_of(function),
            "self": absolute_totals(profile, event, own),
            "total": absolute_totals(profile, event, total),
            "kind": [KIND_NAMES[kind] for kind in tree.kind[1:].tolist()],
            "file": take_values(profile.functions, "file", function),
            "line": take_values(profile.functions, "start_line", function),
        },
    )


TABLES = (Table("tree", "Call tree", COLUMNS, compute_tree, takes_formulas=True),)
