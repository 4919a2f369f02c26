"""Sums over trees in preorder, against a walk up every path; and the parts trees are reshaped with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_selection import sum_by_index
from perfloom.analysis.core.trees import find_outermost, mark_subtrees, nearest_ancestor, reduced_parents, sum_paths
from perfloom.analysis.stacks import visible_runs
from perfloom.analysis.stacks.flamegraph import FlameGroup, SiblingOrder, flame_tree
from perfloom.analysis.stacks.shapes import DepthIndex
from perfloom.domain.arrays import Array
from perfloom.domain.call_tree import to_preorder
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.profiles import profiles


@st.composite
def trees(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """(parent, end, depth) of a tree in preorder."""
    count = draw(st.integers(1, 40))
    parent = [-1] + [draw(st.integers(0, node - 1)) for node in range(1, count)]
    order = to_preorder(np.array(parent))
    return order.parent, order.end, order.depth


def path(parent: Array, node: int) -> list[int]:
    """From the root to the node."""
    found = [node]
    while parent[found[-1]] >= 0:
        found.append(int(parent[found[-1]]))
    return found[::-1]


@given(trees(), st.data())
def test_path_sums(tree: tuple[Array, Array, Array], data: st.DataObject) -> None:
    parent, end, _ = tree
    value = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(end), max_size=len(end))), np.int64)
    expected = [sum(value[n] for n in path(parent, node)) for node in range(len(end))]
    assert sum_paths(value, end).tolist() == expected


@given(trees(), st.data())
def test_covered_and_nearest_above(tree: tuple[Array, Array, Array], data: st.DataObject) -> None:
    parent, end, _ = tree
    hit = np.array(data.draw(st.lists(st.booleans(), min_size=len(end), max_size=len(end))))
    assert mark_subtrees(end, hit).tolist() == [any(hit[n] for n in path(parent, node)) for node in range(len(end))]
    hit[0] = True
    nearest = [next(n for n in reversed(path(parent, node)) if hit[n]) for node in range(len(end))]
    assert nearest_ancestor(parent, end, hit).tolist() == nearest
    # Few of many are found another way.
    longer = np.r_[parent, np.zeros(16 * len(end), np.int32)]
    ends = np.r_[np.array([len(longer)], np.int32), end[1:], np.arange(len(end) + 1, len(longer) + 1, dtype=np.int32)]
    few = np.r_[hit, np.zeros(16 * len(end), bool)]
    assert nearest_ancestor(longer, ends, few).tolist() == nearest + [0] * (16 * len(end))
    kept = np.flatnonzero(hit)
    expected = [0] + [next(n for n in reversed(path(parent, k)[:-1]) if hit[n]) for k in kept[1:].tolist()]
    assert reduced_parents(kept, end[kept]).tolist() == expected


@given(trees(), st.data())
def test_outermost(tree: tuple[Array, Array, Array], data: st.DataObject) -> None:
    parent, end, _ = tree
    label = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(end), max_size=len(end))))
    expected = [next(n for n in path(parent, node) if label[n] == label[node]) for node in range(len(end))]
    assert find_outermost(end, label).tolist() == expected


@given(trees())
def test_ancestors_at_a_depth(tree: tuple[Array, Array, Array]) -> None:
    parent, end, depth = tree
    levels = DepthIndex.of(depth)
    pairs = [(node, d) for node in range(len(end)) for d in range(int(depth[node]) + 1)]
    nodes, depths = np.array(pairs).T
    assert levels.ancestors(nodes, depths).tolist() == [path(parent, n)[d] for n, d in pairs]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 60)), max_size=8))
def test_sums_are_exact(cells: list[tuple[int, int]]) -> None:
    index = np.array([i for i, _ in cells], np.int64)
    weight = np.array([w for _, w in cells], np.int64)
    expected = [sum(w for i, w in cells if i == n) for n in range(4)]
    if sum(expected) < 1 << 63:
        assert sum_by_index(index, weight, 4).tolist() == expected


@pytest.mark.heavy
@settings(max_examples=80)
@given(
    profiles(max_weight=50),
    st.sampled_from((FlameGroup.COMM, FlameGroup.THREAD, FlameGroup.PROCESS)),
    st.integers(1, 9),
)
def test_many_groups_are_added_up_in_turns(profile: Profile, group: FlameGroup, cells: int) -> None:
    one = flame_tree(profile, Selection(), group=group, order=SiblingOrder.NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visible_runs, "MAX_CELLS", cells)
        many = flame_tree(profile, Selection(), group=group, order=SiblingOrder.NAME)
    for column in ("id", "parent", "end", "depth", "function", "self_weight", "total_weight", "start"):
        assert getattr(one, column).tolist() == getattr(many, column).tolist()
    assert one.pruned == many.pruned == 0
