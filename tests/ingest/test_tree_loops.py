"""A compiled loop puts trees in preorder as numpy does."""

from __future__ import annotations

from dataclasses import fields
from unittest.mock import patch

import numpy as np
import pytest

from perfloom.domain import call_tree
from perfloom.domain.arrays import Array
from perfloom.ingest.jit import tree_loops
from perfloom.ingest.jit.decorators import HAS_NUMBA

pytestmark = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")


def make_tree(count: int, nearest: int) -> Array:
    """The parents of a random tree. nearest: how far before a node its parent is at most."""
    node = np.arange(1, count)
    distance = np.random.default_rng(count + nearest).integers(1, nearest + 1, count - 1)
    return np.append(-1, np.maximum(node - distance, 0))


@pytest.mark.parametrize(("count", "nearest"), [(1, 1), (2, 1), (3000, 1), (5000, 5000), (20_000, 9)])
@pytest.mark.parametrize("most", [tree_loops._MOST, 2])
def test_the_same_preorder(count: int, nearest: int, most: int) -> None:
    parent = make_tree(count, nearest)
    with patch.object(tree_loops, "_MOST", most):
        compiled = tree_loops.to_preorder(parent)
    plain = call_tree.to_preorder(parent)
    for field in fields(plain):
        left, right = getattr(plain, field.name), getattr(compiled, field.name)
        assert left.dtype == right.dtype and np.array_equal(left, right), field.name


@pytest.mark.parametrize("parent", [[], [-1, 2, 0], [-1, 0, 0]])
def test_other_trees_are_left_to_numpy(parent: list[int]) -> None:
    given = np.array(parent, np.int64)
    given.flags.writeable = False
    assert tree_loops.to_preorder(given).parent.tolist() == call_tree.to_preorder(given).parent.tolist()


def test_a_damaged_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="single tree"):
        tree_loops.to_preorder(np.array([-1, 0, -1]))
