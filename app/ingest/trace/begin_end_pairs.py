"""Slices from pairs of trace events: begin and end on a thread (B, E), and asynchronous ones (b, e; S, F)."""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ..jit.decorators import jit
from ..jit.hashing import factorize_pairs
from .events import TraceEvents
from .nesting import OPEN_END_NS, sort_slices
from .phases import ASYNC_BEGIN, BEGIN

NAMES_COMPARED = 16
"""How many open asynchronous slices of one id are checked for the one that an end names."""
NESTED_COMPARED = 1 << 10
"""The same of slices of a thread, which are nested."""


@dataclass(frozen=True, eq=False)
class SlicePairs:
    """Slices of two events. begin, end: those events (int32), end is -1 if there is none. stop_ns: OPEN for those.
    unmatched: the end events without a begin."""

    begin: Array
    end: Array
    start_ns: Array
    stop_ns: Array
    unmatched: Array


def pair_thread_events(events: TraceEvents, rows: Array) -> SlicePairs:
    """The slices of B and E events, `rows`, of one thread.

    As in Perfetto (trace_processor, SliceTracker::End): an end with a name belongs to the last open begin with that
    name, one without a name to the last open begin; if both have a category, it must be equal. Slices within it end
    with it; an end whose name is not open is ignored.
    """
    return _pair(events, rows, events.process, events.thread, BEGIN, nested=True)


def pair_async_events(events: TraceEvents, rows: Array) -> SlicePairs:
    """The slices of asynchronous events, `rows`, of one category and id; an end belongs to the last open begin,
    preferably with the same name."""
    return _pair(events, rows, events.category, events.id, ASYNC_BEGIN, nested=False)


def _pair(events: TraceEvents, rows: Array, first: Array, second: Array, letters: bytes, nested: bool) -> SlicePairs:
    if not len(rows):
        nothing, nowhen = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return SlicePairs(nothing, nothing, nowhen, nowhen, nothing)
    key, shown = factorize_pairs(rows, first, second)
    time_ns = events.time_ns[rows]
    same = np.zeros(len(rows), np.int8)
    order, _ = sort_slices(key, len(shown), time_ns, time_ns - time_ns, same)
    begins = np.isin(events.phase[rows], list(letters))
    name, category = events.name, events.category
    if "" in events.texts:
        # They have no name or category.
        name, category = (
            np.where(codes == events.texts.index(""), -1, codes).astype(np.int32) for codes in (name, category)
        )
    begin, end, lone = match_begin_end(rows[order], key[order], begins[order], name, category, nested)
    stop = np.where(end < 0, OPEN_END_NS, events.time_ns[end])
    return SlicePairs(begin, end, events.time_ns[begin], stop, lone)


@jit
def match_begin_end(
    rows: Array, key: Array, begins: Array, name: Array, category: Array, nested: bool
) -> tuple[Array, Array, Array]:
    """(begins, the end of each or -1, ends without a begin), all rows (int32). An end belongs to the last open begin
    with its key, name and category; an end without a name or category (-1) matches any, and a begin without a category
    matches any category. If there is none it belongs to the last open begin, or with `nested` to none; and with
    `nested` nothing within the ended slice remains open. rows: by key, those of one key in order."""
    n = len(rows)
    begin, end = np.empty(n, np.int32), np.full(n, -1, np.int32)
    lone = np.empty(n, np.int32)
    opened = np.empty(n, np.int32)
    pairs = alone = level = 0
    for i in range(n):
        if i and key[i] != key[i - 1]:
            level = 0
        row = rows[i]
        if begins[i]:
            begin[pairs] = row
            opened[level] = pairs
            pairs += 1
            level += 1
        elif not level:
            lone[alone] = row
            alone += 1
        else:
            at = level - 1
            found = name[row] < 0 and category[row] < 0
            if not found:
                for back in range(1, min(level, NESTED_COMPARED if nested else NAMES_COMPARED) + 1):
                    one = begin[opened[level - back]]
                    same_category = category[row] < 0 or category[one] < 0 or category[one] == category[row]
                    if same_category and (name[row] < 0 or name[one] == name[row]):
                        at = level - back
                        found = True
                        break
            if nested and not found:
                lone[alone] = row
                alone += 1
                continue
            end[opened[at]] = row
            if nested:
                level = at
                continue
            for i_open in range(at, level - 1):
                opened[i_open] = opened[i_open + 1]
            level -= 1
    return begin[:pairs].copy(), end[:pairs].copy(), lone[:alone].copy()
