"""Layout of a flame graph: from rows of a shape with weights to frames in drawing order."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.call_tree import sum_subtrees
from ...domain.profile import Profile
from ..core.functions import functions_of
from ..core.trees import sum_paths

LABEL_KIND = -1
"""The `kind` of the root and of groups, which are not code."""


class SiblingOrder(StrEnum):
    """The order of siblings."""

    WEIGHT = "weight"
    """The heaviest first."""
    TIME = "time"
    """In time order: only uninterrupted runs are merged."""
    NAME = "name"


@dataclass(frozen=True, eq=False)
class FrameRuns:
    """Unbranched runs of frames in preorder.

    parent, end: runs (int64). first, last: depths. place: the id of the first frame; the others follow. own, total:
    weights (int64), own at the last frame.
    """

    parent: Array
    end: Array
    first: Array
    last: Array
    place: Array
    own: Array
    total: Array


@dataclass(frozen=True, eq=False)
class FrameColumns:
    """Frames in preorder. run: the run of each. The rest as in `FlameTree`."""

    run: Array
    id: Array
    parent: Array
    end: Array
    depth: Array
    own: Array
    total: Array


def lay_out(runs: FrameRuns) -> FrameColumns:
    """Every frame of the runs."""
    length = (runs.last - runs.first + 1).astype(np.int64)
    start = np.cumsum(length) - length
    count = int(length.sum())
    run = np.repeat(np.arange(len(length)), length)
    step = np.arange(count) - start[run]
    above = np.where(runs.parent < 0, -1, (start + length - 1)[runs.parent])
    closing = np.append(start, count)[runs.end]
    return FrameColumns(
        run=run,
        id=runs.place[run] + step,
        parent=np.where(step == 0, above[run], np.arange(count) - 1),
        end=closing[run],
        depth=runs.first[run] + step,
        own=np.where(step == length[run] - 1, runs.own[run], 0),
        total=runs.total[run],
    )


def sibling_keys(
    profile: Profile, order: SiblingOrder, function: Array, total: Array, labels: tuple[str, ...]
) -> Array:
    """Sort keys of siblings for the selected order: ints, by frame."""
    if order is not SiblingOrder.NAME:
        return -total
    distinct, inverse = np.unique(function, return_inverse=True)
    functions = functions_of(profile)
    named = distinct >= 0
    texts = [labels[-1 - f] for f in distinct[~named].tolist()] + functions.names_of(distinct[named])
    rank = {text: place for place, text in enumerate(sorted(set(texts)))}
    found: Int64Array = np.array([rank[text] for text in texts], np.int64)[inverse]
    return found


def reorder_siblings(parent: Array, end: Array, key: Array) -> Int64Array:
    """The preorder (old rows by new index) with siblings in ascending order of `key`; stable."""
    n = len(parent)
    family = np.lexsort((key, parent))
    size = (end - np.arange(n)).astype(np.int64)
    before = np.cumsum(size[family]) - size[family]
    of = parent[family]
    first = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
    offset = np.empty(n, np.int64)
    offset[family] = before - np.repeat(before[first], np.diff(np.r_[first, n])) + 1
    offset[0] = 0
    order = np.empty(n, np.int64)
    order[sum_paths(offset, end)] = np.arange(n)
    return order


def frame_starts(parent: Array, end: Array, total: Array) -> Array:
    """Where each frame starts, in weight from the left, siblings packed to the left in their order."""
    n = len(parent)
    family = np.argsort(parent, kind="stable")
    before = np.cumsum(total[family]) - total[family]
    of = parent[family]
    first = np.flatnonzero(np.r_[True, of[1:] != of[:-1]])
    offset = np.empty(n, np.int64)
    offset[family] = before - np.repeat(before[first], np.diff(np.r_[first, n]))
    return sum_paths(offset, end)


def subtree_totals(own: Array, end: Array) -> Array:
    """The sum of own over each subtree, along the last axis."""
    if own.ndim == 1:
        return sum_subtrees(own, end)
    running = np.zeros((own.shape[0], own.shape[1] + 1), own.dtype)
    np.cumsum(own, axis=1, out=running[:, 1:])
    result: Array = running[:, end] - running[:, :-1]
    return result
