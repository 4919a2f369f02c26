"""The tree of call stacks.

Stacks begin alike if the numbers of their beginnings are equal: those of a polynomial of the frames, modulo 2**64,
whose factor is random, so that no file can be made whose stacks collide.
"""

import secrets

import numpy as np

from ...domain.arrays import Array, Int64Array, number_keys, sort_rows

_FACTOR = secrets.randbits(64) | 5
_INVERSE = pow(_FACTOR, -1, 1 << 64)
_SECRET, _SPREAD = np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64) | 1)
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
    words = frames.astype(np.uint64)
    words ^= _SECRET
    words *= _SPREAD
    words ^= words >> _HALF
    words *= _SPREAD
    words *= _make_powers(_FACTOR, len(words))
    np.add.accumulate(words, out=words)
    before = words[begins - 1]
    before[0] = 0
    words -= np.repeat(before, length)
    words *= np.repeat(_make_powers(_INVERSE, len(words))[begins], length)
    # The upper bits depend on all others.
    words ^= words >> _HALF
    words *= _SPREAD
    return words


def _make_powers(base: int, count: int) -> Array:
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.multiply.accumulate(powers)
