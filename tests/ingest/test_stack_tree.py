"""The tree of call stacks, against one node after another in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.perf_text.stack_tree import build_stack_tree


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=6), st.booleans()), max_size=30))
def test_all_stacks_are_paths_of_the_tree(stacks: list[tuple[list[int], bool]]) -> None:
    ends = np.cumsum([len(stack) for stack, _ in stacks]).astype(np.int64)
    frames = np.array([frame for stack, _ in stacks for frame in stack], np.int32)
    parent, frame, node = build_stack_tree(ends, frames, np.array([kept for _, kept in stacks], bool))
    assert (parent < np.arange(len(parent))).all()
    paths: list[tuple[int, ...]] = []
    for above, own in zip(parent.tolist(), frame.tolist(), strict=True):
        paths.append((*(paths[above] if above >= 0 else ()), own))
    expected = [tuple(reversed(stack)) if kept else () for stack, kept in stacks]
    assert [paths[one] if one >= 0 else () for one in node.tolist()] == expected
    assert len(set(paths)) == len(paths) and set(paths) == {
        path[: depth + 1] for path in expected for depth in range(len(path))
    }


@pytest.mark.parametrize("count", [256, 512, 1024, 2048, 4096])
def test_no_two_stacks_are_alike_for_all_weights(count: int) -> None:
    """Sequences of Thue and Morse have the same value for every polynomial modulo 2**64."""
    first = np.array([number.bit_count() & 1 for number in range(count)], np.int32)
    frames = np.concatenate((first, 1 - first))
    parent, _, node = build_stack_tree(np.array([count, 2 * count]), frames, np.ones(2, bool))
    assert len(parent) == 2 * count and node[0] != node[1]
