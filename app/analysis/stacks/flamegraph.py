"""The flame graph of a selection: upright, inverted, by time, as a sandwich, as a difference; and search in it.

The selection determines what is shown of stacks (its patterns, recursion, invert), the graph their layout
(groups, order of siblings). Nothing is drawn here: `charts.flamegraph` encodes it for the browser.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column
from ..core.flame_groups import FlameGroup
from ..core.frame_filter import shown_calls
from ..core.functions import NAMES, function_id, functions_of, match_functions
from ..core.patterns import search_pattern
from ..core.sample_rollup import sum_call_weights
from ..core.sample_selection import calls_below, event_id
from .flame_tree import FlameTree, build_flame_tree
from .layout import SiblingOrder
from .shapes import sandwich_shapes, shape_of

__all__ = ["FlameGroup", "FlameTree", "Matches", "SiblingOrder", "flame_tree", "sandwich", "search"]


@dataclass(frozen=True)
class Matches:
    """The result of a search. functions: rows of `functions`. matched_weight: weight of the samples with a match on
    their stack, each counted once. percent: of the selection. is_literal: the pattern is not a regular expression, so
    it was searched for as text.
    """

    functions: tuple[int, ...]
    matched_weight: int
    percent: float
    is_literal: bool


def flame_tree(
    profile: Profile,
    selection: Selection,
    *,
    group: FlameGroup = FlameGroup.COMM,
    order: SiblingOrder = SiblingOrder.WEIGHT,
    zoom: int | None = None,
    min_share: float = 0.0,
) -> FlameTree:
    """The flame graph of a selection.

    zoom: the id of a frame: only it, the frames below it and the path to it are in the tree. An unknown id means the
    root; one without weight in this selection, the nearest ancestor with weight. least: frames narrower than this share
    (0 to 1) of the zoomed one are omitted; their weight remains in the totals above them.

    Raises InvalidRequest for a selection that this profile cannot answer.
    """
    event = event_id(profile, selection.event)
    shape = shape_of(profile, selection)
    return build_flame_tree(profile, selection, event, shape, group, order, zoom or 0, min_share)


def sandwich(
    profile: Profile,
    selection: Selection,
    function: int | str,
    *,
    order: SiblingOrder = SiblingOrder.WEIGHT,
    zoom: tuple[int | None, int | None] = (None, None),
    min_share: float = 0.0,
) -> tuple[FlameTree, FlameTree]:
    """(callers, callees) of a function, given by its row or its name. `invert` of the selection changes nothing.

    zoom: of the callers, of the callees; as in `flame_tree`.

    Both start at the outermost call of the function in each stack, so the weight of both is the function's total, with
    recursion counted once: its callers, and everything that it called, itself included. Frames are found as in
    `flame_tree`. Raises NotFound, InvalidRequest.
    """
    event = event_id(profile, selection.event)
    callers, callees = sandwich_shapes(profile, selection, function_id(profile, function))
    if order is SiblingOrder.TIME:
        order = SiblingOrder.WEIGHT
    return (
        build_flame_tree(profile, selection, event, callers, FlameGroup.NONE, order, zoom[0] or 0, min_share),
        build_flame_tree(profile, selection, event, callees, FlameGroup.NONE, order, zoom[1] or 0, min_share),
    )


def search(profile: Profile, selection: Selection, pattern: str) -> Matches:
    """The functions whose name matches an RE2 pattern, and the weight of the stacks that contain them.

    Frames that are not shown are not found. An invalid pattern is searched for as text.
    """
    event = event_id(profile, selection.event)
    pattern, is_literal = search_pattern(pattern)
    found = match_functions(profile, pattern, "search", NAMES)
    shown = shown_calls(profile, selection.frame_filter)
    if shown is not None:
        there = np.zeros(len(found), bool)
        there[get_column(profile.calls, "function")[shown]] = True
        found = found & there
    weights = sum_call_weights(profile, selection, event)
    matched = int(weights[calls_below(profile, found, shown)].sum())
    total = int(weights.sum())
    functions = np.unique(functions_of(profile).canonical[found])
    return Matches(tuple(functions.tolist()), matched, 100.0 * matched / total if total else 0.0, is_literal)
