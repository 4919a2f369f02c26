"""Self and total weight of instructions and lines of a function.

Self is the weight of the samples at the instruction itself. Total adds the samples that were taken in what it called: a
sample counts once for an instruction or line, however often that is on its stack.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.call_tree import sum_subtrees
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column
from ..core.memo import memoize
from ..core.sample_selection import clip_weights, filter_samples, samples_of, sum_by_index
from ..core.trees import find_outermost
from .code_index import CodeIndex


@dataclass(frozen=True, eq=False)
class FunctionNodes:
    """The nodes of `stacks` in the code of some symbols. node: ascending. end: where the subtree of each ends, as an
    index into these nodes. executing, calling: their instructions; -1 for one in other code."""

    node: Array
    end: Array
    executing: Array
    calling: Array


def find_nodes(profile: Profile, index: CodeIndex, symbols: Array) -> FunctionNodes:
    """The nodes in the code of these rows of `symbols`."""
    own = np.zeros(int(index.symbol.max(initial=-1)) + 2, bool)
    own[symbols] = True

    def only_own(rows: Array) -> Array:
        found: Array = np.where((rows >= 0) & own[index.symbol[np.maximum(rows, 0)]], rows, -1)
        return found

    frame = get_column(profile.stacks, "frame")
    executing, calling = only_own(index.executing), only_own(index.calling)
    node = np.flatnonzero((executing[frame] >= 0) | (calling[frame] >= 0))
    end = np.searchsorted(node, get_column(profile.stacks, "end")[node])
    return FunctionNodes(node, end, executing[frame[node]], calling[frame[node]])


def sum_stack_weights(profile: Profile, selection: Selection, event: int) -> tuple[Array, Array]:
    """(weight of the selected samples of an event at each node of `stacks` itself, and with all below it): int64."""

    def build() -> tuple[Array, Array]:
        samples, rows = samples_of(profile), filter_samples(profile, selection, event)
        weight = clip_weights(profile, selection, rows)
        own = sum_by_index(samples.stack[rows], weight, len(samples.call))
        return own, sum_subtrees(own, get_column(profile.stacks, "end"))

    return memoize(profile, ("stack weights", selection.replace(event=None), event), build)


def sum_labels(nodes: FunctionNodes, label: Array, size: int, weights: tuple[Array, Array]) -> tuple[Array, Array]:
    """Self and total weight of each label: int64[size]. label: of each instruction, from 0; -1 for none.

    weights: of `sum_stack_weights`.
    """
    if not len(nodes.node):
        return np.zeros(size, np.int64), np.zeros(size, np.int64)
    own, subtree = weights[0][nodes.node], weights[1][nodes.node]
    executing = np.where(nodes.executing >= 0, label[np.maximum(nodes.executing, 0)], -1)
    calling = np.where(nodes.calling >= 0, label[np.maximum(nodes.calling, 0)], -1)
    known = executing >= 0
    self_sum = sum_by_index(executing[known], own[known], size)
    # Each node becomes two: the samples in itself, then, as its next sibling, the call in progress with all below it.
    count = len(nodes.node)
    labels, values = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
    ends = np.empty(2 * count, np.int64)
    labels[::2], labels[1::2] = executing, calling
    values[::2], values[1::2] = own, subtree - own
    ends[::2], ends[1::2] = np.arange(1, 2 * count, 2), 2 * nodes.end
    outer = find_outermost(ends, labels + 1) == np.arange(2 * count)
    outer &= labels >= 0
    return self_sum, sum_by_index(labels[outer], values[outer], size)
