"""Steps, devices and communication of real traces, compared with the output of torch-tb-profiler."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.distributed.communication import compute_communication
from perfloom.analysis.ml.devices import compute_devices
from perfloom.analysis.ml.idle import compute_idle
from perfloom.analysis.ml.steps import compute_steps
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column
from tests.support.real_traces import NAMES, expected, here, trace, two_ranks

pytestmark = here
ALL = Selection()
PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other", "total")
WINDOWS = (ALL, Selection(start_ns=40_000_000, end_ns=1_300_000_000), Selection(start_ns=100_000_000))
SHARES = {
    "GPU Utilization": "utilization_percent",
    "Est. SM Efficiency": "sm_efficiency_percent",
    "Est. Achieved Occupancy": "occupancy_percent",
}
TENSOR_CORES = {"nccl_a100": 23.756, "amd_mi250": 27.272}
"""Where kernels use tensor cores whose names it does not know: see docs/metrics.md."""


def as_floats(profile: Profile) -> Profile:
    """The same with times as that tool has them: µs since 1970 as floats, of which every fourth is one."""
    zero, table = profile.meta.start_epoch_ns or 0, profile.slices
    start = get_column(table, "start_ns") + zero
    # ts and ts + dur, each rounded on its own.
    first = np.array([round(time / 1000 * 4) for time in start.tolist()]) * 250
    length = get_column(table, "duration_ns").tolist()
    last = np.array(
        [round((at / 1000 + duration / 1000) * 4) for at, duration in zip(first.tolist(), length, strict=True)]
    )
    columns = {name: table.column(name) for name in table.column_names}
    columns["start_ns"] = pa.array(first - zero)
    columns["duration_ns"] = pa.array(np.maximum(last * 250 - first, 0))
    rows = {name: [row[name] for row in profile.steps.to_pylist()] for name in profile.steps.column_names}
    for name in ("start_ns", "end_ns"):
        rows[name] = [round((at + zero) / 250) * 250 - zero for at in rows[name]]
    return replace(
        profile,
        slices=pa.table(columns, schema=table.schema),
        steps=pa.table(rows, schema=profile.steps.schema),
    )


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_those_of_torch_tb_profiler(name: str) -> None:
    told = expected(name)["steps"]
    profile = trace(name)
    rows = records(compute_steps(profile, ALL))
    assert [row["step"] for row in rows] == told["names"]
    got = np.array([[row[f"{part}_us"] for part in PARTS] for row in rows])
    if name != "ns_resolution_v100":
        assert got == pytest.approx(np.array(told["costs_us"]), abs=0.05)
        return
    # Its times are rounded to a quarter of a microsecond, as floats are that far from 1970. Ours are not.
    assert got == pytest.approx(np.array(told["costs_us"]), abs=7)
    got = np.array([[row[f"{part}_us"] for part in PARTS] for row in records(compute_steps(as_floats(profile), ALL))])
    wrong = got - np.array(told["costs_us"])
    # It takes an annotation on a device for work of the CPU.
    assert wrong[0, 6:8].tolist() == wrong[4, 6:8].tolist() == [-1.0, 1.0]
    wrong[[0, 4], 6:8] = 0
    assert not wrong.any()


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_devices_are_those_of_torch_tb_profiler(name: str) -> None:
    told = {one["title"]: one["value"] for one in expected(name)["gpu_summary"]}
    row = next(row for row in records(compute_devices(trace(name), ALL)) if row["work"])
    for title, share in SHARES.items():
        if title not in told:
            assert row[share] is None
        else:
            assert row[share] == pytest.approx(float(told[title].removesuffix(" %")), abs=0.011), title
    assert row["name"] == told.get("Name") and row["compute"] == told.get("Compute Capability")
    assert f"GPU {row['device']}:" in told
    of_kernels = 100 * expected(name)["tc_used_ratio"]
    assert row["tensor_core_time_percent"] == pytest.approx(TENSOR_CORES.get(name, of_kernels), abs=0.005)
    assert row["tensor_core_time_percent"] >= of_kernels - 0.005


@pytest.mark.parametrize("name", NAMES)
def test_overlap_is_that_of_torch_tb_profiler(name: str) -> None:
    rows = records(compute_communication(trace(name), ALL))
    for row, told in zip(rows, expected(name)["comm_overlap"], strict=True):
        both = row["overlap_us"]
        got = (row["computation_us"] + both, row["communication_us"] + both, both, row["other_us"])
        abs_ = 7 if name == "ns_resolution_v100" else 0.05
        assert got == pytest.approx(
            [told[key] for key in ("computation", "communication", "overlap", "other")], abs=abs_
        )
        assert row["transfer_us"] is None and row["waiting_us"] is None


def test_two_ranks_are_split_as_torch_tb_profiler_does() -> None:
    told = expected("ddp.distributed")
    rows = records(compute_communication(two_ranks(), ALL))
    assert [(row["rank"], row["step"]) for row in rows] == [(0, "551"), (0, "552"), (1, "551"), (1, "552")]
    split, waits = (
        ("computation_us", "overlap_us", "communication_us", "other_us"),
        ("transfer_us", "wait_us"),
    )
    for row in rows:
        host = f"host_{row['rank']}"
        assert [row[part] for part in split] == told["overlap"]["data"][row["step"]][host]
        assert [row[part] for part in waits] == told["wait"]["data"][row["step"]][host]
    for rank in (0, 1):
        mine = [row for row in rows if row["rank"] == rank]
        mean = [int(sum(row[part] for row in mine) / len(mine)) for part in split]
        assert mean == told["overlap"]["data"]["all"][f"host_{rank}"]


def test_kernels_of_communication_libraries_also_count_as_communication() -> None:
    """There they are computation: their External id is not that of a call."""
    for row in records(compute_communication(two_ranks(), ALL)):
        assert row["communication_us"] < 250 and row["communicating_us"] > 130_000
    for row in records(compute_communication(trace("nccl_a100"), ALL)):
        # The annotations of these kernels are communication there, and overlap with the kernels themselves.
        assert row["overlap_us"] > 12_000 and row["both_us"] < 4_000


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up(name: str) -> None:
    profile = trace(name)
    for selection in WINDOWS:
        for row in records(compute_steps(profile, selection)):
            assert sum(row[f"{part}_us"] for part in PARTS[:-1]) == pytest.approx(row["total_us"], abs=1e-6)
            assert min(row[f"{part}_us"] for part in PARTS) >= 0
            assert 0 <= row["communication_kernel_us"] <= row["kernel_us"]
            busy = row["kernel_us"] + row["memcpy_us"] + row["memset_us"]
            assert row["idle_us"] == pytest.approx(row["total_us"] - busy, abs=1e-6)
        for row in records(compute_communication(profile, selection)):
            theirs = ("computation_us", "overlap_us", "communication_us", "other_us")
            ours = ("computing_us", "both_us", "communicating_us", "neither_us")
            for parts in (theirs, ours):
                assert sum(row[part] for part in parts) == pytest.approx(row["total_us"], abs=1e-6)
                assert min(row[part] for part in parts) >= 0
        for device in records(compute_devices(profile, selection)):
            gaps = [row for row in records(compute_idle(profile, selection)) if row["stream"] is None]
            waited = sum(row["idle_us"] for row in gaps if row["device"] == device["device"])
            assert device["busy_us"] + waited == pytest.approx(device["observed_us"], abs=1e-6)
