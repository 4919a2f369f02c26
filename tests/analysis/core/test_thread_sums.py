"""Sums by thread, with and without checkpoints, against sums over single samples."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core import sample_rollup, thread_sums
from perfloom.analysis.core.thread_sums import sum_threads
from perfloom.domain.profile import Profile
from perfloom.domain.tables import NO_ID
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, profiles


@pytest.mark.heavy
@settings(max_examples=60)
@given(profiles(max_weight=1 << 50), st.data(), st.integers(1, 9), st.integers(1, 40))
def test_checkpoints_change_no_sum(profile: Profile, data: st.DataObject, checkpoints: int, sums: int) -> None:
    selection = data.draw(selections(profile))
    event = data.draw(st.integers(0, profile.events.num_rows - 1))
    samples = brute.selected(profile, selection, event=profile.events["name"][event].as_py())
    weight, count = [0] * profile.threads.num_rows, [0] * profile.threads.num_rows
    for sample in samples:
        weight[sample.thread] += sample.weight
        count[sample.thread] += 1
    one_by_one = sum_threads(profile, selection, event)
    assert (one_by_one.weight.tolist(), one_by_one.count.tolist()) == (weight, count)
    with (
        patch.multiple(thread_sums, MIN_ROLLUP_SAMPLES=1, MAX_CHECKPOINTS=checkpoints, MAX_CHECKPOINT_SUMS=sums),
        patch.multiple(sample_rollup, MIN_ROLLUP_SAMPLES=1, BLOCK_COUNT=3),
    ):
        # Another profile of the same tables, without the values that are kept.
        found = sum_threads(Profile(**vars(profile)), selection, event)
    assert (found.weight.tolist(), found.count.tolist()) == (weight, count)


def test_no_event_has_no_samples() -> None:
    assert sum_threads(profile_of([("a", 1)]), brute.Selection(), NO_ID).weight.tolist() == [0]
