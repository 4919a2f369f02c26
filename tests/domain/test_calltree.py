"""Trees as arrays, compared with dicts and recursion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain import call_tree
from perfloom.domain.call_tree import compute_depths, merge_children, merge_moved_nodes, sum_subtrees, to_preorder


@st.composite
def parents(draw: st.DrawFn) -> np.ndarray:
    size = draw(st.integers(1, 40))
    return np.array([-1] + [draw(st.integers(0, i - 1)) for i in range(1, size)], np.int64)


def children(parent: np.ndarray) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {i: [] for i in range(len(parent))}
    for node, above in enumerate(parent):
        if above >= 0:
            found[int(above)].append(node)
    return found


@given(parents())
def test_preorder_equals_recursive_walk(parent: np.ndarray) -> None:
    below = children(parent)
    walk: list[int] = []

    def visit(node: int) -> None:
        walk.append(node)
        for child in below[node]:
            visit(child)

    visit(0)
    result = to_preorder(parent)
    assert result.order.tolist() == walk
    assert [walk[place] for place in result.position] == list(range(len(parent)))
    for place, node in enumerate(walk):
        above = parent[node]
        assert result.parent[place] == (-1 if above < 0 else result.position[above])


@given(parents(), st.data())
def test_siblings_are_ordered_by_key(parent: np.ndarray, data: st.DataObject) -> None:
    key = np.array(data.draw(st.lists(st.integers(0, 5), min_size=len(parent), max_size=len(parent))))
    result = to_preorder(parent, key)
    for family in children(parent).values():
        expected = sorted(family, key=lambda node: (key[node], node))
        assert sorted(family, key=lambda node: result.position[node]) == expected


@given(parents(), st.data())
def test_totals_are_subtree_sums(parent: np.ndarray, data: st.DataObject) -> None:
    tree = to_preorder(parent)
    own = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(parent), max_size=len(parent))))
    below = children(tree.parent)

    def total(node: int) -> int:
        return int(own[node]) + sum(total(child) for child in below[node])

    assert sum_subtrees(own, tree.end).tolist() == [total(node) for node in range(len(parent))]


@given(parents(), st.data())
def test_merge_keeps_every_path(parent: np.ndarray, data: st.DataObject) -> None:
    label = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(parent), max_size=len(parent))))
    merged, new_parent, new_label = merge_children(parent, label)

    def path(node: int, above: np.ndarray, names: np.ndarray) -> tuple[int, ...]:
        return () if above[node] < 0 else (*path(int(above[node]), above, names), int(names[node]))

    for node in range(len(parent)):
        assert path(node, parent, label) == path(int(merged[node]), new_parent, new_label)
    paths = [path(node, new_parent, new_label) for node in range(len(new_parent))]
    assert len(set(paths)) == len(paths)
    assert all(above < node for node, above in enumerate(new_parent))


@given(parents(), st.data(), st.sampled_from([0, 1, 1000]))
def test_merge_of_moved_nodes_keeps_every_path(parent: np.ndarray, data: st.DataObject, steps: int) -> None:
    label = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(parent), max_size=len(parent))))
    _, parent, label = merge_children(parent, label)
    stays = np.array(data.draw(st.lists(st.booleans(), min_size=len(parent), max_size=len(parent))), bool)
    stays[0] = True
    number, rows = np.cumsum(stays) - 1, np.flatnonzero(stays)
    above = parent.copy()
    for node in range(1, len(parent)):
        if not stays[above[node]]:
            above[node] = above[above[node]]
    kept = to_preorder(np.where(rows > 0, number[above[rows]], -1))
    label, moved = label[rows][kept.order], (above != parent)[rows][kept.order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_tree, "_MOST_STEPS", steps)
        got = merge_moved_nodes(kept.parent, kept.end, kept.depth, label, moved)
    merged, new_parent, new_label = merge_children(kept.parent, label)

    def paths(above: np.ndarray, names: np.ndarray) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for node, up in enumerate(above.tolist()):
            found.append(() if up < 0 else (*found[up], int(names[node])))
        return found

    merged_paths, got_paths = paths(new_parent, new_label), paths(got.parent, label[got.order])
    assert sorted(got_paths) == sorted(merged_paths)
    assert [got_paths[at] for at in got.position.tolist()] == [merged_paths[at] for at in merged.tolist()]
    assert got.end.tolist() == to_preorder(got.parent).end.tolist()
    assert got.depth.tolist() == compute_depths(got.parent).tolist()


def test_deep_stack_has_its_depth() -> None:
    parent = np.arange(-1, 9_999)
    assert compute_depths(parent).tolist() == list(range(10_000))
    assert to_preorder(parent).end.tolist() == [10_000] * 10_000


def test_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="a single tree"):
        compute_depths(np.array([-1, 2, 1]))
