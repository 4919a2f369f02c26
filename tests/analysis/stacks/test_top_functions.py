"""The functions with the most self weight are the first rows of the complete table."""

from __future__ import annotations

import pytest

from perfloom.analysis.stacks.hotspots import compute_hotspots, list_top_functions
from perfloom.domain.selection import Selection
from tests.support.formats import profile_of

MS = 1_000_000


@pytest.mark.parametrize(
    "selection",
    [Selection(), Selection(start_ns=50 * MS, end_ns=90 * MS), Selection(hide="leaf"), Selection(focus="branch")],
)
def test_top_functions_are_the_first_rows_of_hotspots(selection: Selection) -> None:
    profile = profile_of("perf-script")
    chosen = selection.replace(event="cpu-clock")
    every = compute_hotspots(profile, chosen)
    for most in (1, 3, 100):
        found, count = list_top_functions(profile, chosen, 0, most)
        assert count == len(every) > 0
        assert found.to_frame().equals(every.head(most).reset_index(drop=True))


def test_a_window_without_samples_has_no_functions() -> None:
    found, count = list_top_functions(profile_of("perf-script"), Selection(start_ns=10**12), 0, 5)
    assert (found.records(), count) == ([], 0)
