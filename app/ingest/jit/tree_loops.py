"""Trees are put in preorder by a compiled loop, with the same result as by `domain.call_tree`."""

import numpy as np

from ...domain import call_tree
from ...domain.arrays import Array
from ...domain.call_tree import Preorder
from .decorators import jit

_MOST = 1 << 31
"""Above all numbers of nodes."""


@jit
def _order(parent: Array) -> tuple[Array, Array, Array, Array, Array]:
    count = len(parent)
    size = np.ones(count, np.int32)
    for node in range(count - 1, 0, -1):
        size[parent[node]] += size[node]
    position, following = np.zeros(count, np.int32), np.zeros(count, np.int32)
    order, new_parent = np.zeros(count, np.int32), np.full(count, -1, np.int32)
    end, depth = np.empty(count, np.int32), np.zeros(count, np.int32)
    end[0] = count
    following[0] = 1
    for node in range(1, count):
        above = parent[node]
        place = following[above]
        following[above] = place + size[node]
        following[node] = place + 1
        position[node] = place
        order[place] = node
        new_parent[place] = position[above]
        end[place] = place + size[node]
        depth[place] = depth[position[above]] + 1
    return order, position, new_parent, end, depth


def to_preorder(parent: Array, key: Array | None = None) -> Preorder:
    """See `call_tree.to_preorder`. Other trees than large ones with parents before children are left to it."""
    count = len(parent)
    above = parent[1:]
    if key is not None or not 0 < count < _MOST or (above < 0).any() or (above >= np.arange(1, count)).any():
        return call_tree.to_preorder(parent, key)
    return Preorder(*_order(np.require(parent, np.int64, ("C", "W"))))
