"""The critical path: small cases calculated by hand, and invariants of every path."""

import numpy as np
import pytest
from hypothesis import given, settings

from perfloom.analysis.core.schema import records
from perfloom.analysis.distributed.critical_path import KINDS, compute_critical_path, path_of, select_path
from perfloom.analysis.distributed.replay import replay_length_ns, replay_saving_ns
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import NO_ID, get_strings
from tests.support.traced import Trace, traces


def a_step() -> Profile:
    """Two kernels in a queue, waited for; the first one could be 10 ns shorter before the host would be the slower."""
    trace = Trace()
    host, stream, other = trace.thread(1, "python"), trace.thread(7, stream=True), trace.thread(8, stream=True)
    trace.slice(host, 0, 20, "aten::mm")
    first = trace.slice(host, 10, 15, "cudaLaunchKernel", "runtime")
    trace.slice(host, 20, 40, "aten::add")
    second = trace.slice(host, 25, 30, "cudaLaunchKernel", "runtime")
    trace.slice(host, 40, 85, "cudaDeviceSynchronize", "runtime")
    trace.slice(host, 85, 100, "aten::sub")
    trace.slice(stream, 20, 60, "gemm", "kernel", first)
    trace.slice(stream, 60, 80, "add", "kernel", second)
    trace.slice(other, 30, 50, "aside", "kernel", second)
    trace.step("ProfilerStep#0", 0, 50)
    trace.step("ProfilerStep#1", 50, 100)
    return trace.finish()


def test_from_the_end_back_to_the_launch() -> None:
    profile = a_step()
    path = path_of(profile)
    names = get_strings(profile.functions, "name")
    parts = [
        (start, end, KINDS[kind], names[function] if function >= 0 else "")
        for start, end, kind, function in zip(path.start, path.end, path.kind, path.function, strict=True)
    ]
    assert parts == [
        (0, 10, "host", "aten::mm"),
        (10, 15, "host", "cudaLaunchKernel"),
        (15, 20, "launch", ""),
        (20, 60, "computation", "gemm"),
        (60, 80, "computation", "add"),
        (80, 85, "host", "cudaDeviceSynchronize"),
        (85, 100, "host", "aten::sub"),
    ]


def test_savings() -> None:
    profile = a_step()
    names = get_strings(profile.functions, "name")
    won = {name: replay_saving_ns(profile, names.index(name)) for name in names}
    # Without gemm add begins at once when it is launched, at 30, and not at 60.
    assert won["gemm"] == 30 and won["add"] == 20 and won["aside"] == 0
    # All that the host does before the first launch moves the whole; what it does after that is hidden.
    assert won["aten::sub"] == 15 and won["aten::mm"] == 10
    rows = {row["name"]: row for row in records(compute_critical_path(profile, Selection()))}
    assert rows["gemm"] | {"mean_us": 0} == {
        "name": "gemm",
        "kind": "computation",
        "parts": 1,
        "total_us": 0.04,
        "percent": 40.0,
        "mean_us": 0,
        "saves_us": 0.03,
        "rank": None,
        "uncertain": None,
    }


def test_by_step_and_in_a_window() -> None:
    profile = a_step()
    rows = [
        (row["name"], row["kind"], row["total_us"])
        for row in records(compute_critical_path(profile, Selection(), "step"))
    ]
    assert sorted(rows) == [
        ("0", "computation", 0.03),
        ("0", "host", 0.015),
        ("0", "launch", 0.005),
        ("1", "computation", 0.03),
        ("1", "host", 0.02),
    ]
    only = records(compute_critical_path(profile, Selection(step="1"), "kind"))
    assert [(row["kind"], row["total_us"]) for row in only] == [("computation", 0.03), ("host", 0.02)]
    window = compute_critical_path(profile, Selection(start_ns=12, end_ns=25), "kind")
    assert round(window.total_us.sum(), 9) == 0.013 and set(window.saves_us.isna()) == {True}


@pytest.mark.heavy
@settings(max_examples=100)
@given(traces())
def test_a_path_is_one_line_of_time(profile: Profile) -> None:
    path = path_of(profile)
    assert (path.end > path.start).all() and (path.start[1:] == path.end[:-1]).all()
    whole, _, _ = select_path(profile, Selection())
    assert int((whole.end - whole.start).sum()) == int((path.end - path.start).sum())
    if len(path):
        lasts = profile.slices.column("duration_ns").to_numpy()
        # Of the host what takes no time is nothing to wait for; work of a device is, however short.
        counted = lasts > 0
        counted[profile.device_work.column("slice").to_numpy()] = True
        ends = (profile.slices.column("start_ns").to_numpy() + lasts)[counted]
        assert path.end[-1] == ends.max()
        assert replay_length_ns(profile, NO_ID) == ends.max()
    for function in np.unique(path.function[path.function >= 0]).tolist():
        saved = replay_saving_ns(profile, function)
        assert saved is not None and saved >= 0
