"""A profile narrowed to a selection is a profile, and shows what the whole shows under the selection."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_rollup import sum_call_weights
from perfloom.analysis.core.slice_selection import device_work_of, select_device_work, select_slices, slices_of
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column
from perfloom.domain.validation import find_error
from perfloom.exporters.filter import filter_profile
from perfloom.ingest.merge import merge
from tests.support.traced import traces


@settings(max_examples=60)
@given(traces(), st.integers(0, 40), st.integers(1, 40))
def test_a_window(profile: Profile, start: int, length: int) -> None:
    selection = Selection(start_ns=start, end_ns=start + length)
    left = filter_profile(profile, selection)
    assert find_error(left) is None
    for event in range(profile.events.num_rows):
        whole = sum_call_weights(profile, selection, event)
        assert sum_call_weights(left, Selection(), event).tolist() == whole.tolist()
    slices, work = slices_of(profile), device_work_of(profile)
    kept, works = select_slices(profile, selection), select_device_work(profile, selection)
    assert kept is not None and works is not None
    assert sorted(get_column(left.device_work, "kind").tolist()) == sorted(work.kind[works].tolist())
    host = kept.copy()
    host[work.slice] = works
    assert get_column(left.slices, "start_ns").tolist() == slices.start[host].tolist()
    assert get_column(left.slices, "function").tolist() == slices.function[host].tolist()


@pytest.mark.heavy
@settings(max_examples=40)
@given(st.lists(traces(20), min_size=2, max_size=3))
def test_ranks_brought_together(profiles: list[Profile]) -> None:
    whole = merge(profiles)
    assert find_error(whole) is None
    assert whole.slices.num_rows == sum(profile.slices.num_rows for profile in profiles)
    threads = whole.threads.column("rank").to_pylist()
    first = work = 0
    for rank, profile in enumerate(profiles):
        table = whole.slices.slice(first, profile.slices.num_rows)
        names = [whole.functions.column("name")[row].as_py() for row in table.column("function").to_pylist()]
        own = [profile.functions.column("name")[row].as_py() for row in profile.slices.column("function").to_pylist()]
        assert names == own
        assert {threads[row] for row in table.column("thread").to_pylist()} <= {
            rank if row is None else row for row in profile.threads.column("rank").to_pylist()
        }
        launches = whole.device_work.slice(work, profile.device_work.num_rows).column("launch").to_pylist()
        of = profile.device_work.column("launch").to_pylist()
        assert launches == [row + first if row >= 0 else row for row in of]
        first, work = first + profile.slices.num_rows, work + profile.device_work.num_rows
