"""Matching of two profiles: events, functions, groups and frames.

Frames match by their path of (display name, module) from the root, independent of the kind of code. They are matched
from the root down, each among the callees of the match of its caller.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np

from ...domain.arrays import Array, sort_rows
from ...domain.errors import InvalidRequest
from ...domain.list_text import abbreviate_names
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_column
from ...domain.text import shorten
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.sample_selection import event_id, event_names
from ..formulas.measures import find_formula, list_sampled_formulas
from ..formulas.resolution import ResolvedFormula, resolve_formulas
from ..stacks.shapes import TreeShape

NOT_FOUND = -1


def pair_events(
    base: Profile, other: Profile, base_selection: Selection, other_selection: Selection
) -> list[tuple[int, int]]:
    """The events to compare, as pairs of ids: the selected ones, else all that both have, in the order of `other`.

    An event that only one selection names is searched for by name in the other profile. Events that are counted in one
    and sampled in the other are not compared. Raises InvalidRequest if nothing remains.
    """
    base_name, other_name = base_selection.event, other_selection.event
    before, after = event_names(base), event_names(other)
    if base_name is not None or other_name is not None:
        both = [(event_id(base, base_name or other_name), event_id(other, other_name or base_name))]
    else:
        both = [(before.index(name), n) for n, name in enumerate(after) if name in before]
    alike = [(b, a) for b, a in both if _mode(base, b) == _mode(other, a) or None in (_mode(base, b), _mode(other, a))]
    if alike or not (before and after):
        return alike
    if both:
        b, a = both[0]
        raise InvalidRequest(
            f"{shorten(after[a])} was {_mode(base, b)} in the base and {_mode(other, a)} in the other. These are not "
            "comparable: a sampled total is an estimate, and a count has no functions. Compare counts with counts "
            "(perf stat) and recordings with recordings (perf record).",
            "event",
        )
    raise InvalidRequest(
        f"The two results have no event in common: the base has {_some(before)}, the other has "
        f"{_some(event_names(other))}. Record both with the same event.",
        "event",
    )


def pair_formulas(
    base: Profile, other: Profile, base_selection: Selection, other_selection: Selection
) -> tuple[ResolvedFormula, ResolvedFormula] | None:
    """The formula that a selection names instead of an event, in both profiles; None for events. Raises InvalidRequest
    if only one of them has it."""
    name = other_selection.event or base_selection.event
    found = find_formula(base, name), find_formula(other, name)
    if found[0] is not None and found[1] is not None and found[0].formula == found[1].formula:
        return found[0], found[1]
    if found == (None, None):
        return None
    if found[0] is not None and found[1] is not None:
        raise InvalidRequest(
            f"{found[1].name} is {found[0].formula.expression} in the base and {found[1].formula.expression} in the "
            "other. Compare a formula whose events both have.",
            "event",
        )
    side = "base" if found[0] is None else "other"
    raise InvalidRequest(f"The {side} does not have the events of the formula {shorten(name or '')}.", "event")


def list_common_formulas(
    base: Profile, other: Profile, sampled: bool = False
) -> list[tuple[ResolvedFormula, ResolvedFormula]]:
    """The formulas that mean the same in both. sampled: only those with values of samples."""
    found = list_sampled_formulas if sampled else resolve_formulas
    before = {one.name: one for one in found(base)}
    pairs = [(before.get(one.name), one) for one in found(other)]
    return [(b, a) for b, a in pairs if b is not None and b.formula == a.formula]


def _mode(profile: Profile, event: int) -> str | None:
    """Whether an event was counted or sampled: sampled if both, None if neither."""

    def build() -> tuple[set[int], set[int]]:
        size = profile.events.num_rows
        rows = np.flatnonzero(np.bincount(get_column(profile.samples, "event"), minlength=size))
        return set(rows.tolist()), set(get_column(profile.counts, "event").tolist())

    sampled, counted = memoize(profile, "how events were measured", build)
    return "sampled" if event in sampled else "counted" if event in counted else None


def main_event_pair(
    base: Profile, other: Profile, base_selection: Selection, other_selection: Selection
) -> tuple[int, int]:
    """The one pair of events a graph shows: the one selected, else the main event of `other`, else one both have.

    (NO_ID, NO_ID) if one of them has no events. Raises InvalidRequest.
    """
    pairs = pair_events(base, other, base_selection, other_selection)
    if not pairs:
        return NO_ID, NO_ID
    main = event_id(other, other_selection.event)
    return next((pair for pair in pairs if pair[1] == main), pairs[0])


def map_functions(profile: Profile, target: Profile, wanted: Array) -> Array:
    """For rows of `functions` of one profile, the same function's canonical id in another; NOWHERE for none."""

    def build() -> Array:
        known, functions = functions_of(target), functions_of(profile)
        ids = np.unique(known.canonical)
        index = dict(zip(known.keys_of(ids), ids.tolist(), strict=True))
        found = np.full(len(functions.canonical), NOT_FOUND, np.int64)
        own = np.unique(functions.canonical)
        found[own] = [index.get(key, NOT_FOUND) for key in functions.keys_of(own)]
        return found[functions.canonical]

    # A value kept for a profile must not keep another one.
    mapped: Array = memoize(profile, ("functions in", ref(target)), build)[wanted]
    return mapped


def map_labels(labels: Sequence[str], target: Sequence[str]) -> Array:
    """For each label, the index of the first equal one in `onto`; NOWHERE for none."""
    index = {text: n for n, text in reversed(list(enumerate(target)))}
    return np.array([index.get(text, NOT_FOUND) for text in labels], np.int64)


@dataclass(frozen=True, eq=False)
class FramePositions:
    """Positions of frames in a shape: row (NOWHERE: none) and depth."""

    row: Array
    depth: Array


def locate_frames(
    shape: TreeShape, parent: Array, depth: Array, function: Array, positions: Array, known: Array | None = None
) -> FramePositions:
    """The positions of frames of another profile in `shape`.

    parent, depth: of the frames, in preorder; depth as in the shape, so that those at 0 or above are at its root.
    function: canonical ids of the shape's profile, NOWHERE for one it does not have. there: false for frames that
    are known to be missing, with their subtrees. known: rows of some of the frames, NOT_FOUND for the others.
    """
    row = np.where((depth <= 0) & positions, 0, NOT_FOUND)
    if known is not None:
        row = np.where(known >= 0, known, row)
    left = np.flatnonzero(row < 0)
    if not len(left):
        return FramePositions(row, depth)
    keys, rows = shape.children
    stride = shape.stride
    by_depth = left[sort_rows(np.maximum(depth[left], 0))]
    sorted_depth = depth[by_depth]
    bounds = np.searchsorted(sorted_depth, np.arange(1, int(depth.max(initial=0)) + 2))
    for level, (start, stop) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True), 1):
        frames = by_depth[start:stop]
        above = row[parent[frames]]
        frames = frames[(above >= 0) & (function[frames] >= 0) & (function[frames] < stride)]
        if not len(frames):
            break
        above, wanted = row[parent[frames]], function[frames]
        goes_on = shape.last[above] >= level
        key = above * stride + wanted
        at = np.minimum(np.searchsorted(keys, key), max(len(keys) - 1, 0))
        found = np.where(keys[at] == key, rows[at], NOT_FOUND) if len(keys) else np.full(len(frames), NOT_FOUND)
        if goes_on.any():
            inner = np.flatnonzero(goes_on)
            node = shape.nodes(above[inner], np.full(len(inner), level))
            same = shape.tree.function[node] == wanted[inner]
            found[inner] = np.where(same, above[inner], NOT_FOUND)
        row[frames] = found
    return FramePositions(row, depth)


def _some(names: list[str]) -> str:
    return abbreviate_names([shorten(name) for name in names], 10)
