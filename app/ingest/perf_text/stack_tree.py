"""The tree of call stacks.

Stacks begin alike if the numbers of their beginnings are equal: sums of their frames, scattered, times a random weight
for each depth. No file can be made whose stacks collide for all weights (multilinear hashing).
"""

import secrets

import numpy as np

from ...domain.arrays import Array, Int64Array, number_keys, sort_rows

_SECRETS = np.array([secrets.randbits(64) for _ in range(2)], np.uint64)
_FACTORS = np.array([secrets.randbits(64) | 1 for _ in range(2)], np.uint64)
_HALF = np.uint64(32)


def build_stack_tree(ends: Array, frames: Array, kept: Array) -> tuple[Array, Array, Array]:
    """The tree of call stacks given as sequences of frames, innermost first: stack i is frames[ends[i-1]:ends[i]].

    kept: mask of the stacks. Returns (parent, frame, node), int32: of the tree's nodes without its root, which is
    NO_ID, each after its parent, and each stack's innermost node.
    """
    begins = np.concatenate((ends[:1] * 0, ends[:-1]))
    length = ends - begins
    wanted = kept & (length > 0)
    node = np.full(len(ends), -1, np.int32)
    if not wanted.any():
        return frames[:0].astype(np.int32), frames[:0].astype(np.int32), node
    if not wanted.all():
        frames, length = frames[np.repeat(wanted, length)], length[wanted]
        ends = np.cumsum(length)
        begins = ends - length
    # Outermost first.
    frames = frames[np.repeat(begins + ends - 1, length) - np.arange(len(frames))]
    codes, first = number_keys(_number_beginnings(frames, begins, length))
    # A tree in order of depth is put in preorder faster.
    depth = first - np.repeat(begins, length)[first]
    order = sort_rows(depth)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    codes, first = rank[codes], first[order]
    parent = codes[first - 1]
    is_outermost = np.zeros(len(frames), bool)
    is_outermost[begins] = True
    parent[is_outermost[first]] = -1
    node[wanted] = codes[ends - 1]
    return parent, frames[first].astype(np.int32), node


def _number_beginnings(frames: Array, begins: Int64Array, length: Int64Array) -> Array:
    """The number (uint64) of each stack up to each of its frames, outermost first."""
    depth = np.arange(len(frames)) - np.repeat(begins, length)
    words = _scatter(frames)
    words *= _scatter(np.arange(int(length.max())))[depth]
    np.add.accumulate(words, out=words)
    before = words[begins - 1]
    before[0] = 0
    words -= np.repeat(before, length)
    # The upper bits, which depend on all others, are compared first.
    words ^= words >> _HALF
    words *= _FACTORS[0]
    return words


def _scatter(values: Array) -> Array:
    """Random numbers (uint64) for numbers, always the same in this process."""
    words = values.astype(np.uint64)
    for secret, factor in zip(_SECRETS, _FACTORS, strict=True):
        words ^= secret
        words *= factor
        words ^= words >> _HALF
    words *= _FACTORS[0]
    return words
