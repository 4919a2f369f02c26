"""Merged and filtered reports of Nsight Compute: the data of a launch stays with it."""

from __future__ import annotations

import io

from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column, get_strings
from perfloom.domain.validation import find_error
from perfloom.exporters.filter import filter_profile
from perfloom.ingest.merge import merge
from perfloom.readers import nsight_compute
from tests.support import paths

DATA = paths.DATA / "nsight"


def read(*names: str) -> Profile:
    """The profile of these files, one after the other."""
    data = b"".join((DATA / f"{name}.csv").read_bytes() for name in names)
    return nsight_compute.read(io.BytesIO(data), "x.csv")


def test_two_reports_become_one_result() -> None:
    one, two = read("raw", "details", "source"), read("alone")
    whole = merge([one, two])
    assert find_error(whole) is None
    assert get_column(whole.profiled_kernels, "number").tolist() == [0, 1, 2, 0, 1]
    names = get_strings(whole.functions, "name")
    own = [names[row] for row in get_column(whole.profiled_kernels, "function").tolist()]
    assert own[3] == own[4] == "saxpy(int, float, float *, float *)"
    work = get_column(whole.device_work, "slice")[get_column(whole.profiled_kernels, "work")]
    assert get_column(whole.slices, "duration_ns")[work].tolist() == [72_928, 53_664, 22_336, 41_280, 40_900]
    assert whole.metric_values.num_rows == one.metric_values.num_rows + two.metric_values.num_rows
    last = whole.metric_values.to_pylist()[-1]
    assert last["kernel"] == 4
    assert whole.metrics.to_pylist()[last["metric"]]["name"] == "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    assert get_column(whole.source_lines, "kernel").tolist() == get_column(one.source_lines, "kernel").tolist()


def test_time_window_removes_launches_and_their_work() -> None:
    profile = read("raw", "details")
    left = filter_profile(profile, Selection(start_ns=72_000, end_ns=100_000))
    assert find_error(left) is None
    assert get_column(left.profiled_kernels, "work").tolist() == [-1, 0, -1]
    assert get_column(left.slices, "duration_ns").tolist() == [53_664]
    assert left.hints.num_rows == profile.hints.num_rows
