"""Search on a timeline: by the names of functions, over all slices or samples of a selection, drawn or not."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_column
from ..core.frame_filter import shown_calls
from ..core.functions import NAMES, functions_of, match_functions
from ..core.memo import memoize
from ..core.patterns import search_pattern
from ..core.sample_rollup import sum_call_weights
from ..core.sample_selection import calls_below, event_id, filter_samples, samples_of, select_threads


@dataclass(frozen=True)
class SearchMatches:
    """The result. functions: rows of `functions`. hits: number of matching slices, or, in a profile without slices, of
    samples with a match on their stack. total: the time in these slices, nested ones counted once, in ns, or the weight
    of the samples; percent: of all selected samples, None for slices. is_literal: the pattern is not a regular
    expression, so it was searched for as text."""

    functions: tuple[int, ...]
    hits: int
    total: int
    percent: float | None
    is_literal: bool


@dataclass(frozen=True)
class SearchHit:
    """One of the hits, in order of time. number: which, from 0. row: of `slices`, or of `samples`."""

    number: int
    of: int
    row: int


def search(profile: Profile, selection: Selection, pattern: str) -> SearchMatches:
    """The matches of an RE2 pattern in a selection. An invalid pattern is searched for as text."""
    pattern, is_literal = search_pattern(pattern)
    matching = match_functions(profile, pattern, "search", NAMES)
    functions = tuple(np.unique(functions_of(profile).canonical[matching]).tolist())
    hits = _hits(profile, selection, pattern)
    if profile.slices.num_rows:
        return SearchMatches(functions, len(hits), _time_in(profile, hits, matching), None, is_literal)
    event = event_id(profile, selection.event)
    weights = sum_call_weights(profile, selection, event)
    below = calls_below(profile, matching, shown_calls(profile, selection.frame_filter))
    matched, total = int(weights[below].sum()), int(weights.sum())
    return SearchMatches(functions, len(hits), matched, 100.0 * matched / total if total else 0.0, is_literal)


def find_next_hit(
    profile: Profile, selection: Selection, pattern: str, at_ns: int, row: int | None, backward: bool
) -> SearchHit | None:
    """The hit after the one of row `row`, else the first at or after `at_ns`; with `back` the one before.

    After the last comes the first.
    """
    hits = _hits(profile, selection, search_pattern(pattern)[0])
    if not len(hits):
        return None
    start = get_column(profile.slices, "start_ns") if profile.slices.num_rows else samples_of(profile).time_ns
    times = start[hits]
    at = at_ns
    rows = np.zeros(0, np.int64)
    if row is not None and 0 <= row < len(start):
        at = int(start[row])
        rows = np.flatnonzero(hits == row)
    if len(rows):
        number = int(rows[0]) + (-1 if backward else 1)
    else:
        number = int(np.searchsorted(times, at, "left")) - (1 if backward else 0)
    number %= len(hits)
    return SearchHit(number, len(hits), int(hits[number]))


def _hits(profile: Profile, selection: Selection, pattern: str) -> Array:
    """The rows of slices (of samples, where there are no slices) that match, in order of time."""
    shown = selection.without_stacks() if profile.slices.num_rows else selection.replace(invert=False, recursion=False)

    def build() -> Array:
        matching = match_functions(profile, pattern, "search", NAMES)
        if not profile.slices.num_rows:
            rows = filter_samples(profile, shown, event_id(profile, shown.event))
            samples = samples_of(profile)
            below = calls_below(profile, matching, shown_calls(profile, shown.frame_filter))
            inside = below[samples.call[samples.stack[rows]]]
            return np.flatnonzero(inside) + rows.start if isinstance(rows, slice) else rows[inside]
        table = profile.slices
        hits = np.flatnonzero(matching[get_column(table, "function")])
        start = get_column(table, "start_ns")[hits]
        inside = np.ones(len(hits), bool)
        if shown.end_ns is not None:
            inside &= start < shown.end_ns
        if shown.start_ns is not None:
            inside &= start + get_column(table, "duration_ns")[hits] > shown.start_ns
        threads = select_threads(profile, shown)
        if threads is not None:
            inside &= threads[get_column(table, "thread")[hits]]
        hits, start = hits[inside], start[inside]
        hit: Array = hits[np.argsort(start, kind="stable")]
        return hit

    return memoize(profile, ("timeline hits", pattern, shown), build)


def _time_in(profile: Profile, hits: Array, matching: Array) -> int:
    """The time in matching slices, nested ones counted once."""
    table = profile.slices
    parent, function = get_column(table, "parent"), get_column(table, "function")
    outer = np.ones(len(hits), bool)
    above = parent[hits].astype(np.int64)
    while (open_ := np.flatnonzero(above != NO_ID)).size:
        inner = matching[function[above[open_]]]
        outer[open_[inner]] = False
        above[open_] = np.where(inner, NO_ID, parent[above[open_]])
    return int(get_column(table, "duration_ns")[hits[outer]].sum())
