"""The flame graph in time order: the samples of each thread in sequence, merged where adjacent samples share frames.

A box is a frame and an uninterrupted run of samples of one thread in it. Two adjacent samples share the frames down to
their lowest common ancestor, whose depth in a preorder tree is one less than the minimum depth of the nodes between
them: a range minimum over the rows that are wide enough.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array, Int32Array, Int64Array
from ...domain.call_tree import sum_subtrees
from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.flame_groups import FlameGroups
from ..core.memo import memoize
from ..core.sample_selection import (
    Rows,
    clip_weights,
    filter_calls,
    samples_of,
    sum_by_index,
)
from ..core.trees import nearest_ancestor
from .shapes import TreeShape

THREAD_BOUNDARY, GROUP_BOUNDARY, NOTHING = 0, -1, -2
"""Shared by adjacent samples of different threads: the root or their group; of different groups: nothing."""
SORT_RATIO = 10
"""Below this fraction of the samples, sorting them is faster than a lookup among all."""


@dataclass(frozen=True, eq=False)
class TimeOrderBoxes:
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
class _Order:
    """Rows of `samples` by group, thread and time. edge: where a thread begins (except the first), ascending; shared:
    what the samples on both sides share, OTHER_THREAD or OTHER_GROUP.
    """

    sample: Array
    edge: Array
    shared: Array

    def only(self, inside: Array) -> "_Order":
        """The rows for which `inside` holds."""
        before = np.cumsum(inside, dtype=np.int32)
        at = before[self.edge - 1]
        real = (at > 0) & (at < (before[-1] if len(before) else 0))
        at, shared = at[real], self.shared[real]
        # Edges of empty threads coincide; the strongest of them applies.
        first = np.flatnonzero(np.diff(at, prepend=0))
        return _Order(self.sample[inside], at[first], np.minimum.reduceat(shared, first) if len(first) else shared)


@dataclass(frozen=True, eq=False)
class _Sequence:
    """Samples in order: the row of the shape where each ends, and its weight."""

    order: _Order
    row: Array
    weight: Array


class _Step(NamedTuple):
    """A box on the path to the zoomed one: samples [low, high) of the sequence, at a depth of the shape."""

    low: int
    high: int
    depth: int


@dataclass(frozen=True, eq=False)
class _BoxColumns:
    """Boxes below the one zoomed to, in preorder. low, high: samples of the sequence; depth: in the shape.

    ending: weight of the samples between low and high that end at the innermost box they are in; ending_at_top: the
    same of the box zoomed to.
    """

    low: Array
    high: Array
    depth: Array
    ending: Array
    ending_at_top: int
    pruned: int


def build_time_order(
    profile: Profile,
    selection: Selection,
    rows: Rows,
    shape: TreeShape,
    groups: FlameGroups | None,
    zoom: int,
    min_share: float,
) -> TimeOrderBoxes:
    """The boxes of the samples `rows`. zoom, least: as in `flamegraph.flame_tree`."""
    sequence = _sequence(profile, selection, rows, shape, groups)
    root = _Step(0, len(sequence.row), GROUP_BOUNDARY if groups is not None else THREAD_BOUNDARY)
    stride = int(shape.last.max()) + 3
    path = [root, *_path(sequence, shape, zoom, stride, root.depth)]
    top, above = path[-1], len(path)
    found = _below(sequence, shape, top, min_share)
    depth = np.r_[[step.depth for step in path], found.depth].astype(np.int64)
    first = np.r_[[step.low for step in path], found.low].astype(np.int64)
    last = np.r_[[step.high for step in path], found.high].astype(np.int64)
    running = _running(sequence.weight)
    # Without any sample there is only the root, which has no parent.
    some = len(sequence.row) > 0
    sample = sequence.order.sample[first].astype(np.int64) if some else np.zeros(1, np.int64)
    parent = _parents(depth - root.depth)
    own = np.r_[[0] * (above - 1), found.ending_at_top, found.ending].astype(np.int64)
    own -= sum_by_index(parent[above:], found.ending, len(own))
    return TimeOrderBoxes(
        id=np.where(depth == root.depth, 0, 1 + sample * stride + depth - root.depth),
        parent=parent,
        end=np.r_[np.full(above, len(depth)), np.searchsorted(found.low, found.high) + above],
        depth=depth,
        row=sequence.row[first] if some else np.zeros(1, np.int64),
        group=groups.for_samples(profile, sample) if groups is not None and some else np.zeros(1, np.int64),
        start=np.maximum(running[first] - running[top.low], 0),
        own=own,
        total=running[last] - running[first],
        zoom=above - 1,
        pruned=found.pruned,
    )


def _running(weight: Array) -> Int64Array:
    running = np.zeros(len(weight) + 1, np.int64)
    np.cumsum(weight, out=running[1:])
    return running


def _sequence(
    profile: Profile, selection: Selection, rows: Rows, shape: TreeShape, groups: FlameGroups | None
) -> _Sequence:
    samples = samples_of(profile)
    order = _by_thread(profile, rows, groups)
    call = samples.call[samples.stack[order.sample]]
    kept = filter_calls(profile, selection)
    if kept is not None:
        inside = kept[call]
        order, call = order.only(inside), call[inside]
    row = call if shape.row_of_call is None else shape.row_of_call[call]
    return _Sequence(order, row, clip_weights(profile, selection, order.sample))


def _by_thread(profile: Profile, rows: Rows, groups: FlameGroups | None) -> _Order:
    samples = samples_of(profile)
    count = len(samples.thread)
    many = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    if many < count // SORT_RATIO:
        return _sort_samples(profile, np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows, groups)
    key = ("by thread", None if groups is None else groups.group)
    every = memoize(profile, key, lambda: _sort_samples(profile, np.arange(count), groups))
    if many == count:
        return every
    if isinstance(rows, slice):
        return every.only((every.sample >= rows.start) & (every.sample < rows.stop))
    chosen = np.zeros(count, bool)
    chosen[rows] = True
    return every.only(chosen[every.sample])


def _sort_samples(profile: Profile, sample: Array, groups: FlameGroups | None) -> _Order:
    threads = max(profile.threads.num_rows, 1)
    key = samples_of(profile).thread[sample].astype(np.int64)
    if groups is not None:
        key += groups.for_samples(profile, sample).astype(np.int64) * threads
    # numpy sorts 16-bit integers by radix.
    narrow = key.astype(np.uint16) if int(key.max(initial=0)) < 1 << 16 else key
    order = np.argsort(narrow, kind="stable")
    key = key[order]
    edge = np.flatnonzero(key[1:] != key[:-1]) + 1
    other = key[edge] // threads != key[edge - 1] // threads
    return _Order(sample[order].astype(np.int32), edge, np.where(other, GROUP_BOUNDARY, THREAD_BOUNDARY))


def _path(sequence: _Sequence, shape: TreeShape, zoom: int, stride: int, root: int) -> list[_Step]:
    """The boxes from below the root to the one with id `zoom`; none where it is not there."""
    sample, level = divmod(zoom - 1, stride)
    rows = np.flatnonzero(sequence.order.sample == sample)
    if zoom <= 0 or not len(rows):
        return []
    at = int(rows[0])
    line = [int(sequence.row[at])]
    while line[-1]:
        line.append(int(shape.parent[line[-1]]))
    line.reverse()
    deepest = min(level + root, int(shape.last[line[-1]]))
    # The rows above a row are nested intervals, so two searches give the number that contain another row.
    low, high = np.array(line), shape.end[line]
    common = _shared_depth(sequence.row, low, high, shape.last[line])
    # Across an edge, samples share at most what the edge allows.
    edge, shared = sequence.order.edge, sequence.order.shared
    after = edge[edge > at]
    common[after] = np.minimum(common[after], shared[edge > at])
    before = edge[edge <= at] - 1
    common[before] = np.minimum(common[before], shared[edge <= at])
    right = -np.minimum.accumulate(common[at:])
    left = -np.minimum.accumulate(common[at::-1])
    return [
        _Step(
            at + 1 - int(np.searchsorted(left, -depth, "right")),
            at + int(np.searchsorted(right, -depth, "right")),
            depth,
        )
        for depth in range(root + 1, deepest + 1)
    ]


def _shared_depth(row: Array, low: Array, high: Array, depth: Array) -> Array:
    """The depth down to which rows share the path of rows with these intervals, outermost first."""
    opened = np.searchsorted(low, row, "right")
    open_still = len(high) - np.searchsorted(high[::-1], row, "right")
    shared_depth: Array = depth[np.minimum(opened, open_still) - 1]
    return shared_depth


def _below(sequence: _Sequence, shape: TreeShape, top: _Step, least: float) -> _BoxColumns:
    row, weight = sequence.row[top.low : top.high], sequence.weight[top.low : top.high]
    whole = int(weight.sum())
    narrowest = max(1, math.ceil(least * whole))
    if whole < narrowest:
        none = np.zeros(0, np.int64)
        return _BoxColumns(none, none, none, none, 0, 0)
    weights = sum_by_index(row, weight, len(shape))
    wide = sum_subtrees(weights, shape.end) >= narrowest
    rows = np.flatnonzero(wide)
    # One lookup per sample: which kept row it is on or below, and whether it ends there.
    code = 2 * (np.cumsum(wide, dtype=np.int32) - 1)[nearest_ancestor(shape.parent, shape.end, wide)]
    code += wide
    code = code[row]
    slot = code >> 1
    ending = weight * (code & 1)
    # Adjacent samples on one slot are one piece, unless a thread begins between them.
    inside = slice(*np.searchsorted(sequence.order.edge, (top.low + 1, top.high)))
    edge = sequence.order.edge[inside] - top.low
    new = np.ones(len(slot), bool)
    np.not_equal(slot[1:], slot[:-1], out=new[1:])
    new[edge] = True
    starts = np.flatnonzero(new)
    if len(starts) < len(slot):
        slot, weight, ending = slot[starts], np.add.reduceat(weight, starts), np.add.reduceat(ending, starts)
    shared = _depths_shared_with_previous(slot, shape.first[rows])
    shared[np.searchsorted(starts, edge)] = sequence.order.shared[inside]
    shared[0] = NOTHING
    deep = shape.last[rows][slot]
    running = _running(weight)
    low, high, depth, pruned = _runs(shared, deep, running, top.depth, narrowest)
    # Frames that are too narrow everywhere get no piece.
    pruned += int(np.count_nonzero(~wide & (weights > 0)))
    by_place = np.argsort(low * (int(depth.max(initial=0)) + 2) + depth)
    low, high, depth = low[by_place], high[by_place], depth[by_place]
    # A box is inside one box of each smaller depth, so the depth of the innermost box is the number of boxes above it.
    over = np.zeros(len(slot) + 1, np.int32)
    np.add.at(over, low, 1)
    np.subtract.at(over, high, 1)
    over[0] += top.depth
    np.cumsum(over, out=over)
    ended = _running(ending * (deep == over[:-1]))
    return _BoxColumns(
        low=starts[low] + top.low,
        high=np.append(starts, top.high - top.low)[high] + top.low,
        depth=depth,
        ending=ended[high] - ended[low],
        ending_at_top=int(ended[-1]),
        pruned=pruned,
    )


def _depths_shared_with_previous(slot: Array, first: Array) -> Int32Array:
    """The depth that each piece shares with the one before it. first: by slot, in preorder.

    Undefined for the first piece, and between two pieces of one slot where a thread begins.
    """
    # Minima of 1, 2, 4 … slots from each on, one row of a table for each length, with padding at the end.
    rows = [np.append(first.astype(np.int32), NOTHING)]
    while 1 << len(rows) <= len(first):
        half = 1 << len(rows) - 1
        rows.append(np.append(np.minimum(rows[-1][:-half], rows[-1][half:]), np.full(half, NOTHING, np.int32)))
    table, stride = np.concatenate(rows), len(first) + 1
    power = np.frexp(np.arange(stride))[1].astype(np.int32) - 1
    power[0] = 0
    low, high = np.minimum(slot[1:], slot[:-1]), np.maximum(slot[1:], slot[:-1])
    level = power[high - low]
    shared = np.empty(len(slot), np.int32)
    shared[:1] = NOTHING
    at = level * np.int32(stride) if len(table) < 1 << 31 else level * np.int64(stride)
    np.minimum(table[at + low + 1], table[at + high + 1 - (1 << level)], out=shared[1:])
    shared[1:] -= 1
    return shared


def _runs(shared: Array, deep: Array, running: Array, depth: int, narrowest: int) -> tuple[Array, Array, Array, int]:
    """(low, high, depth, pruned) of the runs of pieces that share a depth below `depth` and are wide enough.

    running: the weight up to a piece. Other pieces are not processed deeper.
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
        wide = running[index[last] + 1] - running[index[first]] >= narrowest
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
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(depths), pruned


def _parents(depth: Array) -> Array:
    """The parents of nodes in preorder, from their depths (root 0); -1 for the root."""
    count = len(depth)
    key = depth * count + np.arange(count)
    by_depth = np.argsort(key)
    above = np.searchsorted(key[by_depth], key - count) - 1
    return np.where(depth == 0, -1, by_depth[np.maximum(above, 0)])
