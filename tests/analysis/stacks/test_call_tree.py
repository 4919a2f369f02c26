"""Call trees with and without kinds."""

from dataclasses import fields
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.stacks import call_tree
from perfloom.analysis.stacks.call_tree import build_call_tree, keep_nodes
from perfloom.domain.profile import Profile
from perfloom.domain.selection import FrameFilter
from perfloom.domain.tables import FrameKind
from tests.support.profiles import profile_of, profiles

PATTERNS = st.none() | st.sampled_from(("main", "a|b", "op", "libc"))
FILTERS = st.builds(FrameFilter, PATTERNS, PATTERNS, PATTERNS)


@given(profiles(), FILTERS, st.booleans())
def test_shared_trees_are_equal(profile: Profile, frames: FrameFilter, recursion: bool) -> None:
    shared = build_call_tree(profile, frames, recursion)
    with patch.object(call_tree, "_has_kind_per_function", return_value=False):
        # Another profile of the same tables, without the values that are kept.
        own = build_call_tree(Profile(**vars(profile)), frames, recursion)
    for field in fields(own):
        one, other = getattr(shared, field.name), getattr(own, field.name)
        nodes = np.arange(len(own) if field.name != "node" else profile.calls.num_rows)
        one, other = (nodes if values is None else values for values in (one, other))
        assert one.tolist() == other.tolist(), field.name


@given(profiles(), FILTERS, st.booleans())
def test_trees_without_frames_are_those_of_all_nodes_merged(profile: Profile, frames: FrameFilter, kinds: bool) -> None:
    """Only callees of hidden frames are merged, but the tree is that of a merge of all frames."""
    found = build_call_tree(profile, frames, kinds=kinds)
    with patch.object(call_tree, "_remove_nodes", keep_nodes):
        expected = build_call_tree(Profile(**vars(profile)), frames, kinds=kinds)
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        assert (one is other is None) or (one.tolist() == other.tolist() and one.dtype == other.dtype), field.name


def test_tree_is_shared_only_if_functions_have_one_kind() -> None:
    user = profile_of([("main;work", 1), ("main", 2)])
    assert build_call_tree(user) is build_call_tree(user, kinds=False)
    inlined = [("main", "app"), ("work", "app", FrameKind.INLINED)]
    mixed = profile_of([(inlined, 1), ("main;work", 2)])
    assert len(build_call_tree(mixed)) == 4 and len(build_call_tree(mixed, kinds=False)) == 3
