"""Search on a timeline: by the names of functions, over all slices or samples of a selection, drawn or not."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, column
from ..core.functions import NAMES, functions_matching, functions_of
from ..core.picking import below, event_id, picked, samples_of, threads_selected
from ..core.piles import call_weights
from ..core.remember import remembered


@dataclass(frozen=True)
class Found:
    """What matches. functions: rows of `functions`. hits: slices named so, or of a profile without slices, samples with
    such a function on their stack. total: the time in these slices, one inside of another not counted again, in ns, or
    the weight of the samples; percent: of all the samples selected, None for slices."""

    functions: tuple[int, ...]
    hits: int
    total: int
    percent: float | None


@dataclass(frozen=True)
class Hit:
    """One of the hits, in order of time. number: which, from 0. row: of `slices`, or of `samples`."""

    number: int
    of: int
    row: int


def search(profile: Profile, selection: Selection, pattern: str) -> Found:
    """What matches an RE2 pattern in a selection. Raises InvalidRequest for a pattern that is none."""
    matching = functions_matching(profile, pattern, "search", NAMES)
    functions = tuple(np.unique(functions_of(profile).canonical[matching]).tolist())
    hits = _hits(profile, selection, pattern)
    if profile.slices.num_rows:
        return Found(functions, len(hits), _time_in(profile, hits, matching), None)
    event = event_id(profile, selection.event)
    weights = call_weights(profile, selection, event)
    matched, total = int(weights[below(profile, matching)].sum()), int(weights.sum())
    return Found(functions, len(hits), matched, 100.0 * matched / total if total else 0.0)


def step(profile: Profile, selection: Selection, pattern: str, at_ns: int, row: int | None, back: bool) -> Hit | None:
    """The hit after the one of row `row`, else the first at or after `at_ns`; with `back` the one before.

    After the last comes the first.
    """
    hits = _hits(profile, selection, pattern)
    if not len(hits):
        return None
    start = column(profile.slices, "start_ns") if profile.slices.num_rows else samples_of(profile).time_ns
    times = start[hits]
    at = at_ns
    known = np.zeros(0, np.int64)
    if row is not None and 0 <= row < len(start):
        at = int(start[row])
        known = np.flatnonzero(hits == row)
    if len(known):
        number = int(known[0]) + (-1 if back else 1)
    else:
        number = int(np.searchsorted(times, at, "left")) - (1 if back else 0)
    number %= len(hits)
    return Hit(number, len(hits), int(hits[number]))


def _hits(profile: Profile, selection: Selection, pattern: str) -> Array:
    """The rows of slices (of samples, where there are no slices) that match, in order of time."""
    shown = selection.only(focus=None, ignore=None, hide=None, invert=False, recursion=False)

    def build() -> Array:
        matching = functions_matching(profile, pattern, "search", NAMES)
        if not profile.slices.num_rows:
            rows = picked(profile, shown, event_id(profile, shown.event))
            samples = samples_of(profile)
            inside = below(profile, matching)[samples.call[samples.stack[rows]]]
            return np.flatnonzero(inside) + rows.start if isinstance(rows, slice) else rows[inside]
        table = profile.slices
        hits = np.flatnonzero(matching[column(table, "function")])
        start = column(table, "start_ns")[hits]
        inside = np.ones(len(hits), bool)
        if shown.end_ns is not None:
            inside &= start < shown.end_ns
        if shown.start_ns is not None:
            inside &= start + column(table, "duration_ns")[hits] > shown.start_ns
        threads = threads_selected(profile, shown)
        if threads is not None:
            inside &= threads[column(table, "thread")[hits]]
        hits, start = hits[inside], start[inside]
        found: Array = hits[np.argsort(start, kind="stable")]
        return found

    return remembered(profile, ("timeline hits", pattern, shown), build)


def _time_in(profile: Profile, hits: Array, matching: Array) -> int:
    """The time in slices that match, those aside that are inside of another."""
    table = profile.slices
    parent, function = column(table, "parent"), column(table, "function")
    outer = np.ones(len(hits), bool)
    above = parent[hits].astype(np.int64)
    while (open_ := np.flatnonzero(above != NO_ID)).size:
        inner = matching[function[above[open_]]]
        outer[open_[inner]] = False
        above[open_] = np.where(inner, NO_ID, parent[above[open_]])
    return int(column(table, "duration_ns")[hits[outer]].sum())
