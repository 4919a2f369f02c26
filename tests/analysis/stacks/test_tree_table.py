"""The call tree as a table: its sums, and those of other events at the same frames, on random profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_rollup import sum_call_weights
from perfloom.analysis.stacks.tree_table import (
    TreeBranch,
    compute_tree,
    find_weights,
    select_branches,
    select_tree,
)
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, profiles


def weights_by_id(branch: TreeBranch) -> dict[int, tuple[int, int]]:
    tree = branch.tree
    return {
        int(id): (int(own), int(total))
        for id, own, total in zip(tree.id, tree.self_weight, tree.total_weight, strict=True)
    }


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sums(data: st.DataObject) -> None:
    profile = data.draw(profiles(max_weight=1 << 40))
    selection = data.draw(selections(profile))
    event = 0 if selection.event is None else profile.events["name"].to_pylist().index(selection.event)
    rows = compute_tree(profile, selection.replace(event=profile.events["name"][event].as_py()))
    # Self adds up to the selection; children never exceed their parent.
    tree = select_tree(profile, selection, event).tree
    assert sum(rows["self"].tolist()) + int(tree.self_weight[0]) == tree.total
    above: list[Any] = []
    for row in rows.to_dict("records"):
        del above[row["depth"] - 1 :]
        if above:
            above[-1]["left"] -= row["total"]
            assert above[-1]["left"] >= 0
        above.append(row | {"left": row["total"] - row["self"]})
    assert (rows["total"] >= rows["self"]).all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_other_events_have_their_own_weights_at_the_same_frames(data: st.DataObject) -> None:
    profile = data.draw(profiles(max_weight=1 << 40))
    selection = data.draw(selections(profile))
    for event in range(profile.events.num_rows):
        shown = select_tree(profile, selection, event)
        for other in range(profile.events.num_rows):
            expected = weights_by_id(select_tree(profile, selection, other))
            calls = sum_call_weights(profile, selection, other)
            found = find_weights(other, calls, shown.shape, shown.tree.id)
            assert found.whole == expected[0][1]
            for id, own, total in zip(shown.tree.id.tolist(), found.own, found.total, strict=True):
                assert (int(own), int(total)) == expected.get(id, (0, 0))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_windows_that_partition_time_add_up(data: st.DataObject) -> None:
    profile = data.draw(profiles(max_weight=1 << 40))
    at = data.draw(st.integers(1, 60))
    parts = [
        weights_by_id(select_tree(profile, selection, 0))
        for selection in (Selection(end_ns=at), Selection(start_ns=at), Selection())
    ]
    for id, whole in parts[2].items():
        sums = np.sum([part.get(id, (0, 0)) for part in parts[:2]], axis=0)
        assert tuple(sums.tolist()) == whole


def two_events() -> Profile:
    return profile_of(
        [("main;work", 3, 0, 1, 0), ("main;other", 1, 0, 2, 0), ("main;other", 7, 0, 3, 1)],
        events=(("cycles", "count"), ("misses", "count")),
    )


def test_rows_of_the_command() -> None:
    profile = two_events()
    rows = compute_tree(profile, Selection())
    assert rows[["event", "depth", "name", "self", "total"]].to_numpy().tolist() == [
        ["cycles", 1, "main", 0, 4],
        ["cycles", 2, "work", 3, 3],
        ["cycles", 2, "other", 1, 1],
        ["misses", 1, "main", 0, 7],
        ["misses", 2, "other", 7, 7],
    ]
    assert rows["total_percent"].tolist() == [100, 75, 25, 100, 100]
    inverted = compute_tree(profile, Selection(event="cycles", invert=True))
    assert inverted[["depth", "name", "self", "total"]].to_numpy().tolist() == [
        [1, "work", 0, 3],
        [2, "main", 3, 3],
        [1, "other", 0, 1],
        [2, "main", 1, 1],
    ]


def test_callers_and_callees() -> None:
    callers, callees = select_branches(two_events(), Selection(), 0, "other")
    assert weights_by_id(callers) == {0: (0, 1), 1: (0, 1), 2: (1, 1)}
    assert weights_by_id(callees) == {0: (0, 1), 1: (1, 1)}
    misses = find_weights(1, sum_call_weights(two_events(), Selection(), 1), callees.shape, callees.tree.id)
    assert (misses.own.tolist(), misses.total.tolist()) == ([0, 7], [7, 7])
