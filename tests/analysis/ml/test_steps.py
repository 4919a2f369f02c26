"""Steps, devices, idle time: numbers worked out by hand, on a trace small enough to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.schema import records
from perfloom.analysis.tables import TABLES
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import DeviceWorkKind
from tests.analysis.stepped import Trace
from tests.support.traced import traces

PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other", "total")
HIGH, LOW = ({"blocks_per_sm": blocks, "occupancy_percent": share} for blocks, share in ((0.5, 40.0), (0.25, 10.0)))
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def small() -> Profile:
    """Two steps of 100 µs. In each: a batch (from 0, for 10), an operator (20–60) that launches a copy (call 25–30, ran
    28–38) and a kernel on another stream (call 30–35, ran 36–56), and an annotation (60–90) with a collective (70–80).
    A kernel outlasts the first step by 5; in the second memory is set (60–62)."""
    made = Trace()
    host, one, two = made.thread(), made.stream(7), made.stream(8)
    for number, at in enumerate((0, 100)):
        made.step(host, number + 3, at, 100)
        made.slice(host, LOADER, at, 10)
        made.slice(host, "aten::mm", at + 20, 40)
        call = made.slice(host, "cudaMemcpyAsync", at + 25, 5, "runtime")
        made.work(one, "Memcpy HtoD", at + 28, 10, call, DeviceWorkKind.MEMCPY)
        call = made.slice(host, "cudaLaunchKernel", at + 30, 5, "runtime")
        made.work(two, "gemm", at + 36, 20, call, configuration=HIGH)
        if number == 0:
            made.work(one, "ampere_sgemm_s1688", at + 50, 55, call, configuration=LOW)
        else:
            made.work(one, "Memset", at + 60, 2, call, DeviceWorkKind.MEMSET)
        made.slice(host, "around", at + 60, 30, "annotation")
        made.slice(host, "nccl:all_reduce", at + 70, 10, "annotation")
    return made.finish()


def rows(profile: Profile, table: str, **selection: Any) -> list[dict[str, Any]]:
    return records(TABLES[table].rows(profile, Selection(**selection)))


def us(row: dict[str, Any]) -> list[float]:
    return [row[f"{part}_us"] for part in PARTS]


def test_a_step_ends_with_its_last_kernel_and_counts_roles_by_priority() -> None:
    first, second = rows(small(), "steps")
    # 36–105 kernels, 28–36 copy, calls 25–28, loader 0–10, operators 20–25, the rest is other. Ends at 105.
    assert us(first) == [69, 8, 0, 0, 3, 10, 5, 10, 105]
    # Begins at 105: 136–156 kernel, 128–136 copy, 160–162 set, 170–180 collective, 125–128 call, 105–110 loader;
    # 120–125, 156–160, 162–170 and 180–190 operators and annotations; the rest is other.
    assert us(second) == [20, 8, 2, 10, 3, 5, 27, 20, 95]
    assert [row["step"] for row in (first, second)] == ["3", "4"]
    assert [row["device_work"] for row in (first, second)] == [3, 3]
    assert [row["idle_us"] for row in (first, second)] == [28, 65]
    assert [row["start_ms"] for row in (first, second)] == [0, 0.105]
    assert first["rank"] is None and first["communication_kernel_us"] == 0


def test_a_window_clips_steps_and_a_name_chooses_one() -> None:
    profile = small()
    (only,) = rows(profile, "steps", step="ProfilerStep#4")
    assert us(only) == us(rows(profile, "steps", step="4")[0]) == us(rows(profile, "steps")[1])
    first, second = rows(profile, "steps", start_ns=50_000, end_ns=140_000)
    assert us(first) == [55, 0, 0, 0, 0, 0, 0, 0, 55]
    assert us(second) == [4, 8, 0, 0, 3, 5, 5, 10, 35]
    assert rows(profile, "steps", start_ns=900_000) == []
    with pytest.raises(InvalidRequest, match="no step '9'"):
        rows(profile, "steps", step="9")


def test_last_steps_without_their_device_work_are_left_out_unless_asked_for() -> None:
    made = Trace()
    host, stream = made.thread(), made.stream()
    for number, kernels in enumerate((5, 5, 3, 0)):
        made.step(host, number, 100 * number, 100)
        for kernel in range(kernels):
            call = made.slice(host, "cudaLaunchKernel", 100 * number + 10 * kernel, 5, "runtime")
            made.work(stream, "kernel", 100 * number + 10 * kernel + 6, 3, call)
    profile = made.finish()
    assert [row["step"] for row in rows(profile, "steps")] == ["0", "1"]
    assert [row["step"] for row in rows(profile, "steps", step="3")] == ["3"]
    assert rows(profile, "summary")[0]["steps"] == 2


def test_without_steps_all_operators_are_one() -> None:
    made = Trace()
    host = made.thread()
    made.slice(host, "main", 0, 100, "other")
    made.slice(host, "aten::mm", 10, 30)
    made.slice(host, "aten::relu", 60, 20)
    (row,) = rows(made.finish(), "steps")
    assert row["step"] == "(all)" and us(row) == [0, 0, 0, 0, 0, 0, 50, 20, 70]
    assert row["idle_us"] is None
    assert rows(made.finish(), "devices") == rows(made.finish(), "idle") == []


def test_each_rank_has_its_own_steps() -> None:
    made = Trace()
    for rank, busy in ((0, 10), (1, 40)):
        host, stream = made.thread(rank), made.stream(rank=rank)
        made.step(host, 1, 0, 100, rank)
        call = made.slice(host, "cudaLaunchKernel", 0, 5, "runtime")
        made.work(stream, "kernel", 10, busy, call)
    profile = made.finish()
    assert [(row["rank"], row["kernel_us"]) for row in rows(profile, "steps")] == [(0, 10), (1, 40)]
    assert [row["rank"] for row in rows(profile, "steps", ranks=((1, 1),))] == [1]
    assert [(row["rank"], row["utilization_percent"]) for row in rows(profile, "devices")] == [(0, 10), (1, 40)]
    summary = rows(profile, "summary")[0]
    assert summary["devices"] == 2 and summary["gpu_utilization_percent"] is None
    assert rows(profile, "summary", ranks=((1, 1),))[0]["gpu_utilization_percent"] == 40


def test_shares_of_a_device() -> None:
    profile = small()
    (row,) = rows(profile, "devices")
    # Observed from 0 to 200. Kernels 36–105 and 136–156; multiprocessors: ½ from 36 to 50, ¾ to 56, ¼ to 105, ½ again.
    assert row["observed_us"] == 200 and row["kernel_us"] == 89 and row["busy_us"] == 107
    assert row["utilization_percent"] == pytest.approx(44.5)
    assert row["sm_efficiency_percent"] == pytest.approx(100 * (14 * 0.5 + 6 * 0.75 + 49 * 0.25 + 20 * 0.5) / 200)
    assert row["occupancy_percent"] == pytest.approx((20 * 40 + 55 * 10 + 20 * 40) / 95)
    assert row["tensor_core_time_percent"] == pytest.approx(100 * 55 / 95)
    assert row["work"] == 6 and row["name"] == "A100" and row["sms"] == 108
    (part,) = rows(profile, "devices", start_ns=100_000, end_ns=150_000)
    assert (part["observed_us"], part["kernel_us"], part["work"]) == (50, 19, 3)


def test_utilisation_over_time_is_that_of_the_whole() -> None:
    profile = small()
    parts = rows(profile, "utilization")
    assert len(parts) == 100 and parts[0]["start_ms"] == 0 and parts[-1]["end_ms"] == 0.2
    (whole,) = rows(profile, "devices")
    for share in ("utilization_percent", "sm_efficiency_percent"):
        assert sum(part[share] for part in parts) / len(parts) == pytest.approx(whole[share])
    assert [part["utilization_percent"] for part in parts[17:20]] == [0, 100, 100]


def test_gaps_are_named_after_the_work_that_ends_them() -> None:
    made = Trace()
    host, stream = made.thread(), made.stream()
    made.step(host, 1, 0, 1000)
    early = made.slice(host, "cudaGraphLaunch", 5, 5, "runtime")
    made.work(stream, "a", 10, 20, early)
    made.work(stream, "b", 35, 10, early)
    made.work(stream, "c", 145, 10, early)
    late = made.slice(host, "cudaLaunchKernel", 160, 5, "runtime")
    made.work(stream, "d", 170, 10, late)
    made.work(stream, "e", 500, 10)
    profile = made.finish()
    found = {row["cause"]: (row["gaps"], row["idle_us"], row["longest_us"]) for row in rows(profile, "idle")}
    # The gap before d: launched in it. Before b: in time, and short. Before c: in time. Before e: unknown.
    assert found == {
        "host wait": (1, 15, 15),
        "kernel wait": (1, 5, 5),
        "other": (2, 420, 320),
        "edge": (2, 500, 490),
    }
    assert {row["stream"] for row in rows(profile, "idle")} == {None}
    (first, *_) = rows(profile, "idle", start_ns=158_000, end_ns=200_000)
    assert (first["cause"], first["idle_us"]) == ("host wait", 12)


def test_each_stream_has_its_own_gaps() -> None:
    found = [row for row in rows(small(), "idle") if row["cause"] == "host wait" and row["gaps"]]
    assert [(row["stream"], row["gaps"], row["idle_us"]) for row in found] == [(None, 1, 23), (7, 1, 23), (8, 1, 80)]


@pytest.mark.heavy
@settings(max_examples=60)
@given(traces(), st.none() | st.integers(0, 60), st.none() | st.integers(1, 60), st.booleans())
def test_parts_add_up_whatever_the_trace(
    profile: Profile, start: int | None, length: int | None, by_rank: bool
) -> None:
    chosen: dict[str, Any] = {"start_ns": start, "end_ns": None if length is None else (start or 0) + length}
    if by_rank and profile.threads.column("rank").drop_null().to_pylist():
        chosen["ranks"] = ((0, 0),)
    if profile.steps.num_rows and (length or 0) % 2:
        chosen["step"] = profile.steps.column("name")[0].as_py()
    for row in rows(profile, "steps", **chosen):
        assert sum(us(row)[:-1]) == pytest.approx(row["total_us"], abs=1e-9) and min(us(row)) >= 0
        assert row["idle_us"] is None or -1e-9 <= row["idle_us"] <= row["total_us"]
    for row in rows(profile, "communication", **chosen):
        parts = [row[f"{part}_us"] for part in ("computing", "both", "communicating", "neither")]
        assert sum(parts) == pytest.approx(row["total_us"], abs=1e-9) and min(parts) >= 0
    gaps = rows(profile, "idle", **chosen)
    for device in rows(profile, "devices", **chosen):
        mine = [g for g in gaps if g["stream"] is None and g["rank"] == device["rank"]]
        assert device["busy_us"] + sum(g["idle_us"] for g in mine) == pytest.approx(device["observed_us"], abs=1e-9)
        assert device["utilization_percent"] is None or 0 <= device["utilization_percent"] <= 100.000001
    for name in ("utilization", "collectives", "stragglers", "summary"):
        rows(profile, name, **chosen)


def test_idle_time_before_work_of_unknown_launch_has_no_known_cause() -> None:
    made = Trace()
    host, stream = made.thread(), made.stream()
    made.step(host, 0, 0, 100)
    for launch_at, start in ((1, 10), (12, 25), (None, 40), (None, 90)):
        call = None if launch_at is None else made.slice(host, "cudaLaunchKernel", launch_at, 1, "runtime")
        made.work(stream, "gemm", start, 10, call)
    found = {row["cause"]: (row["gaps"], row["idle_us"]) for row in rows(made.finish(), "idle")}
    # 20–25: launched in time. 35–40, 50–90: short or not, nothing tells.
    assert (found["kernel wait"], found["other"], found["host wait"]) == ((1, 5), (2, 45), (0, 0))
