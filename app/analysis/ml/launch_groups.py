"""Device work by the launch that started it: one call can start many kernels, such as a CUDA graph.

A launch is one runtime call with all the work that it started. Work without a known call is a separate launch, unless
it belongs to a graph: then all work with the same correlation id is one launch.
"""

import json
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.arrow import functions as pc
from ...domain.profile import Profile
from ...domain.tables import NO_ID, NUMERIC_ARGUMENTS, get_column
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.slice_selection import device_work_of, slices_of

GRAPH_LAUNCH = r"^(?:cuda|cu|hip)GraphLaunch(?:_|$)"
"""Functions of runtime and driver that launch a graph, with the suffixes of versions and of per-thread streams."""
GRAPH_ID, GRAPH_NODE_ID = "graph id", "graph node id"


@dataclass(frozen=True, eq=False)
class LaunchGroups:
    """Launches in order of their first work (row of `device_work`).

    launch: by row of `device_work`, the launch. call: the slice of the call, -1 not known. first: the row of the work
    that began first. start, end: of its work, ns. busy: time with any work, ns. work_count: number of kernels, memcpy
    and memset. is_graph: whether it launched a graph. graph_id: as recorded, -1 if unknown.
    """

    launch: Array
    call: Array
    first: Array
    start: Array
    end: Array
    busy: Array
    work_count: Array
    is_graph: Array
    graph_id: Array

    def __len__(self) -> int:
        return len(self.call)


def launch_groups_of(profile: Profile) -> LaunchGroups:
    """The launches of a profile; built once."""
    return memoize(profile, "launch groups", lambda: _build(profile), pin=True)


def numeric_arguments(profile: Profile, name: str) -> Int64Array:
    """The argument `name` (one of NUMBERED) of each row of `device_work`, -1 where there is none.

    Results that were stored before it was one of NUMBERED have it in the text of the arguments.
    """
    work = device_work_of(profile)
    found = np.full(len(work), NO_ID, np.int64)
    numbers = profile.slice_numbers
    with_key = np.flatnonzero(get_column(numbers, "key") == NUMERIC_ARGUMENTS.index(name))
    of = get_column(numbers, "slice")[with_key]
    if len(of):
        place = np.minimum(np.searchsorted(of, work.slice), len(of) - 1)
        known = of[place] == work.slice
        found[known] = get_column(numbers, "value")[with_key][place[known]]
        return found
    texts = profile.argument_sets.column("text")
    rows = np.flatnonzero(pc.fill_null(pc.match_substring(texts, f'"{name}"'), False).to_numpy())
    if len(rows):
        by_set = np.full(len(texts) + 1, NO_ID, np.int64)
        by_set[rows] = [_member(texts[row].as_py(), name) for row in rows.tolist()]
        found = by_set[slices_of(profile).arguments[work.slice]]
    return found


def _member(text: str, name: str) -> int:
    try:
        value = json.loads(text).get(name)
    except (ValueError, AttributeError, RecursionError):
        return NO_ID
    return value if type(value) is int and 0 <= value < 1 << 63 else NO_ID


def _build(profile: Profile) -> LaunchGroups:
    work, slices = device_work_of(profile), slices_of(profile)
    graph_id = numeric_arguments(profile, GRAPH_ID)
    # The profiler writes 0 for work outside of graphs.
    graph_id[graph_id == 0] = NO_ID
    of = _number_launches(profile, graph_id)
    count = int(of.max(initial=NO_ID)) + 1
    start, end = work.start.astype(np.int64), (work.start + work.duration).astype(np.int64)
    order = np.lexsort((start, of))
    first = np.zeros(count, np.int64)
    first[of[order[::-1]]] = order[::-1]
    last = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last, of, end)
    call = work.launch[first].astype(np.int64)
    by_call = np.zeros(len(slices) + 1, bool)
    named = pc.match_substring_regex(profile.functions.column("name"), GRAPH_LAUNCH).to_numpy()
    if named.any():
        by_call[:-1] = named[slices.function]
    greatest = np.full(count, NO_ID, np.int64)
    np.maximum.at(greatest, of, graph_id)
    own = graph_id[first]
    return LaunchGroups(
        launch=of,
        call=call,
        first=first,
        start=start[first],
        end=last,
        busy=_busy(of[order], start[order], end[order], count),
        work_count=np.bincount(of, minlength=count),
        is_graph=(by_call[call] & (call >= 0)) | (greatest >= 0),
        # Graphs can be nested; use the id of the first work.
        graph_id=np.where(own >= 0, own, greatest),
    )


def _number_launches(profile: Profile, graph_id: Array) -> Array:
    """The launch of each row of `device_work`, numbered in order of their first rows."""
    work = device_work_of(profile)
    key = work.launch.astype(np.int64)
    alone = np.flatnonzero(key < 0)
    if len(alone):
        # Below all rows of slices, and each by itself.
        key[alone] = -1 - np.arange(len(alone))
        correlation = numeric_arguments(profile, "correlation")[alone]
        together = (graph_id[alone] >= 0) & (correlation > 0)
        if together.any():
            rank = threads_of(profile).rank[work.thread[alone]][together]
            keys = np.stack((rank, graph_id[alone][together], correlation[together]))
            key[alone[together]] = -1 - len(alone) - np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    _, first, code = np.unique(key, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    found: Int64Array = place[code.ravel()]
    return found


def _busy(of: Array, start: Array, end: Array, count: int) -> Array:
    """The time with any work of each launch. of, start, end: of all work, sorted by launch and start."""
    if not len(of):
        return np.zeros(0, np.int64)
    # Times by their places in order, each launch in its own stretch: running maxima of all launches at once.
    ends, place = np.unique(end, return_inverse=True)
    reached = np.maximum.accumulate(of * len(ends) + place.ravel())
    same = np.concatenate(([False], of[1:] == of[:-1]))
    before = np.where(same, ends[np.concatenate(([0], reached[:-1])) % len(ends)], start)
    own = np.maximum(end - np.maximum(start, before), 0)
    busy = np.zeros(count, np.int64)
    np.add.at(busy, of, own)
    return busy
