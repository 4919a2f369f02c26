"""The flame graph by time: each thread's samples one after another, merged where neighbours share frames.

A box is a frame and an unbroken run of one thread's samples that are all in it. Two neighbours share their frames
down to their lowest common ancestor, whose depth in a preorder tree is one less than the least depth of a node
between them; that is a range minimum over the rows that are wide enough to matter.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..domain.calltree import totals
from ..domain.profile import Profile
from ..domain.selection import Selection
from .grouping import Groups
from .picking import Rows, calls_kept, samples_of, weights_on
from .remember import remembered
from .shapes import Shape
from .trees import nearest_above

Array = np.ndarray[Any, Any]
OTHER_THREAD, OTHER_GROUP, NOTHING = 0, -1, -2
"""What neighbours share: of two threads the root or their group, of two groups not even that."""
FEW = 10
"""Below one in so many samples, sorting them is faster than looking them up among all."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes in preorder; the first `zoom` are the path to the one zoomed to. row: of the shape. depth: in the shape,
    where with groups the root is at -1 and the groups at 0. group: of the first sample.

    id, start, own, total: as in `flamegraph.FlameTree`.
    """

    id: Array
    parent: Array
    end: Array
    depth: Array
    row: Array
    group: Array
    start: Array
    own: Array
    total: Array
    zoom: int
    pruned: int


@dataclass(frozen=True, eq=False)
class _Sequence:
    """Samples by group, thread and time: the row of the shape each ends on, its weight, its row in `samples`,
    and what it shares with the one before it for reasons of thread or group (-1, 0; else more than any depth).
    """

    row: Array
    weight: Array
    sample: Array
    bound: Array


class _Step(NamedTuple):
    """A box on the way to the one zoomed to: samples [low, high) of the sequence, at a depth of the shape."""

    low: int
    high: int
    depth: int


@dataclass(frozen=True, eq=False)
class _Found:
    """Boxes below the one zoomed to, as `Boxes` has them but in no order. low, high: in the sequence. own_at_top: of
    the one zoomed to.
    """

    low: Array
    high: Array
    depth: Array
    own: Array
    own_at_top: int
    pruned: int


def in_time(
    profile: Profile, selection: Selection, rows: Rows, shape: Shape, groups: Groups | None, zoom: int, least: float
) -> Boxes:
    """The boxes of the samples `rows`. zoom, least: as in `flamegraph.flame_tree`."""
    sequence = _sequence(profile, selection, rows, shape, groups)
    root = _Step(0, len(sequence.row), NOTHING + 1 if groups is not None else 0)
    stride = int(shape.last.max()) + 3
    path = [root, *_path(sequence, shape, zoom, stride, root.depth)]
    top = path[-1]
    found = _below(sequence, shape, top, least)
    order = np.argsort(found.low * stride + found.depth)
    low, high = found.low[order], found.high[order]
    depth = np.r_[[step.depth for step in path], found.depth[order]].astype(np.int64)
    first = np.r_[[step.low for step in path], low].astype(np.int64)
    last = np.r_[[step.high for step in path], high].astype(np.int64)
    above = len(path)
    running = np.concatenate(([0], np.cumsum(sequence.weight)))
    # Without any sample there is but the root, which stands on none.
    sample = sequence.sample[first].astype(np.int64) if len(sequence.row) else np.zeros(1, np.int64)
    return Boxes(
        id=np.where(depth == root.depth, 0, 1 + sample * stride + depth - root.depth),
        parent=_parents(depth - root.depth),
        end=np.r_[np.full(above, len(depth)), np.searchsorted(low, high) + above],
        depth=depth,
        row=sequence.row[first] if len(sequence.row) else np.zeros(1, np.int64),
        group=groups.of(profile, sample) if groups is not None and len(sequence.row) else np.zeros(1, np.int64),
        start=np.maximum(running[first] - running[top.low], 0),
        own=np.r_[[0] * (above - 1), found.own_at_top, found.own[order]].astype(np.int64),
        total=running[last] - running[first],
        zoom=above - 1,
        pruned=found.pruned,
    )


def _sequence(profile: Profile, selection: Selection, rows: Rows, shape: Shape, groups: Groups | None) -> _Sequence:
    samples = samples_of(profile)
    sample = _by_thread(profile, rows, groups)
    call = samples.call[samples.stack[sample]]
    kept = calls_kept(profile, selection)
    if kept is not None:
        left = np.flatnonzero(kept[call])
        sample, call = sample[left], call[left]
    row = call if shape.row_of_call is None else shape.row_of_call[call]
    thread = samples.thread[sample]
    bound = np.full(len(row), np.iinfo(np.int32).max, np.int32)
    edges = np.flatnonzero(thread[1:] != thread[:-1]) + 1
    if groups is not None and groups.of_sample is not None:
        group = groups.of_sample[sample]
        edges = np.union1d(edges, np.flatnonzero(group[1:] != group[:-1]) + 1)
    bound[edges] = OTHER_THREAD
    if groups is not None:
        before, after = (groups.of(profile, sample[at]) for at in (edges - 1, edges))
        bound[edges[before != after]] = OTHER_GROUP
    bound[:1] = NOTHING
    return _Sequence(row, samples.weight[sample], sample, bound)


def _by_thread(profile: Profile, rows: Rows, groups: Groups | None) -> Array:
    """The rows of `samples` in the order of group, thread and time."""
    samples = samples_of(profile)
    count = len(samples.thread)
    many = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    if many < count // FEW:
        return _sorted(profile, np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows, groups)
    which = None if groups is None else groups.labels
    every = remembered(profile, ("by thread", which), lambda: _sorted(profile, np.arange(count), groups))
    if many == count:
        return every
    if isinstance(rows, slice):
        inside = (every >= rows.start) & (every < rows.stop)
    else:
        chosen = np.zeros(count, bool)
        chosen[rows] = True
        inside = chosen[every]
    found: Array = every[inside]
    return found


def _sorted(profile: Profile, sample: Array, groups: Groups | None) -> Array:
    key = samples_of(profile).thread[sample].astype(np.int64)
    if groups is not None:
        key += groups.of(profile, sample).astype(np.int64) * profile.threads.num_rows
    # numpy sorts 16-bit integers by radix.
    narrow = key.astype(np.uint16) if int(key.max(initial=0)) < 1 << 16 else key
    found: Array = sample[np.argsort(narrow, kind="stable")].astype(np.int32 if len(sample) < 1 << 31 else np.int64)
    return found


def _path(sequence: _Sequence, shape: Shape, zoom: int, stride: int, root: int) -> list[_Step]:
    """The boxes from below the root to the one with id `zoom`; none where it is not there."""
    sample, level = divmod(zoom - 1, stride)
    here = np.flatnonzero(sequence.sample == sample)
    if zoom <= 0 or not len(here):
        return []
    at = int(here[0])
    line = [int(sequence.row[at])]
    while line[-1]:
        line.append(int(shape.parent[line[-1]]))
    line.reverse()
    deepest = min(level + root, int(shape.last[line[-1]]))
    # The rows above a row are intervals one in the other, so how many of them hold another row is two searches.
    low, high = np.array(line), shape.end[line]
    depth_of = shape.last[line]
    common = [
        np.minimum(_shared(part, low, high, depth_of), limit)
        for part, limit in (
            (sequence.row[at:], np.minimum.accumulate(np.r_[np.iinfo(np.int32).max, sequence.bound[at + 1 :]])),
            (
                sequence.row[at::-1],
                np.minimum.accumulate(np.r_[np.iinfo(np.int32).max, sequence.bound[at:0:-1]]),
            ),
        )
    ]
    right, left = (-np.minimum.accumulate(part) for part in common)
    return [
        _Step(
            at + 1 - int(np.searchsorted(left, -depth, "right")),
            at + int(np.searchsorted(right, -depth, "right")),
            depth,
        )
        for depth in range(root + 1, deepest + 1)
    ]


def _shared(row: Array, low: Array, high: Array, depth: Array) -> Array:
    """The depth down to which rows share the line of rows with these intervals, the outermost first."""
    opened = np.searchsorted(low, row, "right")
    open_still = len(high) - np.searchsorted(high[::-1], row, "right")
    found: Array = depth[np.minimum(opened, open_still) - 1]
    return found


def _below(sequence: _Sequence, shape: Shape, top: _Step, least: float) -> _Found:
    row, weight = sequence.row[top.low : top.high], sequence.weight[top.low : top.high]
    whole = int(weight.sum())
    narrowest = max(1, math.ceil(least * whole))
    nothing = np.zeros(0, np.int64)
    if whole < narrowest:
        return _Found(nothing, nothing, nothing, nothing, 0, 0)
    by_row = totals(weights_on(row, weight, len(shape), int(weight.max())), shape.end)
    wide = by_row >= narrowest
    kept = np.flatnonzero(wide)
    nearest = nearest_above(shape.parent, shape.end, wide)
    # One look-up a sample: which kept row it is on or below, and whether it ends there.
    code = (2 * (np.cumsum(wide, dtype=np.int32) - 1)[nearest] + wide).astype(np.int32)[row]
    slot = code >> 1
    bound = sequence.bound[top.low : top.high]
    edge = np.ones(len(slot), bool)
    np.not_equal(slot[1:], slot[:-1], out=edge[1:])
    edge[bound <= OTHER_THREAD] = True
    starts = np.flatnonzero(edge)
    ends = np.r_[starts[1:], len(slot)]
    slot, bound = slot[starts], bound[starts]
    running = np.concatenate(([0], np.cumsum(weight)))
    running_exact = np.concatenate(([0], np.cumsum(weight * (code & 1))))
    deep = shape.last[kept][slot]
    shared = np.minimum(_neighbours(slot, shape.first[kept]), bound)
    shared[0] = NOTHING
    low, high, depth, pruned = _runs(shared, deep, running[starts], running[ends], top.depth, narrowest)
    # A box's own weight: of the pieces in it that end at its depth.
    by_deep = np.argsort(deep.astype(np.uint16) if int(deep.max()) < 1 << 16 else deep, kind="stable")
    pieces = len(deep)
    key = deep[by_deep].astype(np.int64) * pieces + by_deep
    own = (running_exact[ends] - running_exact[starts])[by_deep]
    running_own = np.concatenate(([0], np.cumsum(own)))

    def own_between(level: Array, first: Array, last: Array) -> Array:
        upto = [np.searchsorted(key, level * pieces + edge) for edge in (first, last)]
        found: Array = running_own[upto[1]] - running_own[upto[0]]
        return found

    return _Found(
        low=starts[low] + top.low,
        high=ends[high - 1] + top.low,
        depth=depth,
        own=own_between(depth, low, high),
        own_at_top=int(own_between(np.array([top.depth]), np.array([0]), np.array([pieces]))[0]),
        pruned=pruned,
    )


def _neighbours(slot: Array, first: Array) -> Array:
    """The depth that each piece shares with the one before it (the first: its own). first: by slot, in preorder."""
    low, high = np.minimum(slot[1:], slot[:-1]), np.maximum(slot[1:], slot[:-1])
    tables = [first.astype(np.int32)]
    while 2 << len(tables) - 1 <= len(first):
        half = 1 << len(tables) - 1
        tables.append(np.minimum(tables[-1][:-half], tables[-1][half:]))
    stride = len(first)
    table = np.zeros((len(tables), stride), np.int32)
    for level, values in enumerate(tables):
        table[level, : len(values)] = values
    flat = table.ravel()
    length = high - low
    shared = np.empty(len(slot), np.int32)
    shared[:1] = np.iinfo(np.int32).max
    level = np.maximum(np.frexp(length)[1] - 1, 0).astype(np.int64)
    left = flat[level * stride + np.minimum(low + 1, stride - 1)]
    right = flat[level * stride + np.maximum(high - (1 << level) + 1, 0)]
    shared[1:] = np.where(length == 0, np.iinfo(np.int32).max, np.minimum(left, right) - 1)
    return shared


def _runs(
    shared: Array, deep: Array, before: Array, after: Array, depth: int, narrowest: int
) -> tuple[Array, Array, Array, int]:
    """(low, high, depth, pruned) of the runs of pieces that share a depth below `depth` and are wide enough.

    before, after: the weight up to a piece's edges. Pieces in no such run are looked at no deeper.
    """
    lows, highs, depths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    index = np.arange(len(shared))
    pruned = 0
    while len(index):
        depth += 1
        first = np.flatnonzero(shared < depth)
        last = np.r_[first[1:], len(index)] - 1
        reaches = deep[first] >= depth
        first, last = first[reaches], last[reaches]
        wide = after[last] - before[first] >= narrowest
        pruned += len(wide) - int(wide.sum())
        first, last = first[wide], last[wide]
        if not len(first):
            break
        lows.append(index[first])
        highs.append(index[last] + 1)
        depths.append(np.full(len(first), depth, np.int64))
        if int((last - first).sum()) + len(first) < len(index) // 2:
            length = last - first + 1
            stays = np.repeat(first - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
            index, shared, deep = index[stays], shared[stays], deep[stays]
            before, after = before[stays], after[stays]
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(depths), pruned


def _parents(depth: Array) -> Array:
    """The parents of nodes in preorder, from their depths (root 0); -1 for the root."""
    count = len(depth)
    key = depth * count + np.arange(count)
    by_depth = np.argsort(key)
    above = np.searchsorted(key[by_depth], key - count) - 1
    return np.where(depth == 0, -1, by_depth[np.maximum(above, 0)])
