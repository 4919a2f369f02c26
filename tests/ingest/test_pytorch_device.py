"""Device work in traces: its launch, device and configuration; and traces without any."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfloom.domain.tables import DeviceWorkKind
from perfloom.ingest.trace import point_events as trace_moments
from perfloom.ingest.trace import profile as pytorch_assembly
from perfloom.ingest.trace import slices as trace_slices
from tests.support.trace_json import Read, call, event, kernel, read, slice_


def launches(got: Read) -> list[tuple[Any, ...]]:
    return [(row["slice"], row["launch"], row["operator"]) for row in got.work()]


def test_work_is_below_its_launch() -> None:
    got = read(
        slice_("ProfilerStep#1", 0, 100, cat="user_annotation"),
        slice_("aten::mm", 10, 20),
        call(12, 5, 7),
        kernel(40, 30, 7),
        call(31, 3, 8, name="cudaMemcpyAsync"),
        kernel(80, 10, 8, "Memcpy HtoD (Pageable -> Device)", cat="gpu_memcpy", args={"bytes": 4096}),
        kernel(95, 1, 9, "Memset (Device)", cat="gpu_memset", args={"bytes": 8}),
    )
    assert launches(got) == [
        ("gemm", "cudaLaunchKernel", "aten::mm"),
        ("Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync", None),
        ("Memset (Device)", None, None),
    ]
    assert got.samples("device time") == [
        (40_000, 30_000, "ProfilerStep;aten::mm;cudaLaunchKernel;gemm"),
        (80_000, 10_000, "ProfilerStep;cudaMemcpyAsync;Memcpy HtoD (Pageable -> Device)"),
        (95_000, 1_000, "Memset (Device)"),
    ]
    work = got.profile.device_work.to_pylist()
    assert [row["kind"] for row in work] == [DeviceWorkKind.COMPUTATION, DeviceWorkKind.MEMCPY, DeviceWorkKind.MEMSET]
    assert [(row["bytes"], row["stream"], row["device"]) for row in work] == [(None, 7, 0), (4096, 7, 0), (8, 7, 0)]
    assert got.losses == {pytorch_assembly.NO_LAUNCH: 1}
    (stream,) = (row for row in got.threads if row["kind"] == "gpu_stream")
    assert (stream["pid"], stream["tid"], stream["name"]) == (1, 7, "stream 7")


def test_graph_and_driver_launches() -> None:
    got = read(
        call(0, 5, 1, name="cudaGraphLaunch"),
        kernel(10, 1, 1, "a"),
        kernel(11, 1, 1, "b"),
        call(20, 5, 2, name="cuLaunchKernel", cat="cuda_driver"),
        kernel(30, 1, 2, "c"),
    )
    assert launches(got) == [
        (name, got.one(by).name, None)
        for name, by in zip("abc", ("cudaGraphLaunch",) * 2 + ("cuLaunchKernel",), strict=True)
    ]


def test_reused_correlation_numbers_are_distinguished() -> None:
    got = read(
        slice_("first", 0, 9),
        call(1, 1, 5),
        call(2, 1, 4),
        kernel(3, 1, 5, "one"),
        kernel(4, 1, 4, "known"),
        slice_("second", 20, 9),
        call(21, 1, 5),
        kernel(23, 1, 5, "two"),
        # Another process, on another device, with equal correlation numbers.
        slice_("other", 0, 50, pid=2),
        call(1, 2, 5, pid=2),
        call(4, 2, 6, pid=2),
        kernel(30, 1, 6, "sure", pid=1, args={"device": 1}),
        kernel(40, 1, 5, "three", pid=1, args={"device": 1}),
    )
    assert {(row["slice"], row["operator"]) for row in got.work()} == {
        *[("one", "first"), ("known", "first"), ("two", "second"), ("sure", "other"), ("three", "other")]
    }
    assert [(row["pid"], row["name"]) for row in got.threads if row["kind"] == "gpu_stream"] == [
        *[(1, "GPU 0 stream 7"), (2, "GPU 1 stream 7")]
    ]


def test_operator_number_identifies_the_operator() -> None:
    rounded = read(
        slice_("mine", 0, 10, args={"External id": 3}),
        # Rounded to µs it begins when the operator ends.
        call(10, 0, 7, args={"correlation": 7, "External id": 3}),
        slice_("next", 10, 10, args={"External id": 4}),
        kernel(12, 1, 7, args={"External id": 3}),
        # Only the number identifies the launch.
        kernel(14, 1, 8, "lone", args={"External id": 4}),
    )
    assert launches(rounded) == [("gemm", "cudaLaunchKernel", "mine"), ("lone", None, "next")]
    # Its stack is that of the operator too, and not of the one around the call.
    assert [stack for _, _, stack in rounded.samples("device time")] == ["mine;cudaLaunchKernel;gemm", "next;lone"]
    old = read(
        slice_("mine", 0, 10, cat="Operator", args={"External id": 3}),
        call(10, 0, 7, cat="Runtime", args={"correlation": 7, "external id": 3}),
        kernel(12, 1, 7, cat="Kernel", tid="stream 7", args={"external id": 3}),
    )
    assert launches(old) == [("gemm", "cudaLaunchKernel", "mine")]
    same = read(
        slice_("mine", 0, 10, args={"External id": 8}),
        slice_("right", 20, 10, args={"External id": 9}),
        *(call(21 + i, 1, 8 + i, args={"correlation": 8 + i, "External id": 8 + i}) for i in range(2)),
        *(kernel(41 + i, 1, 8 + i, "gemm", args={"External id": 8 + i}) for i in range(2)),
    )
    assert {row["operator"] for row in same.work()} == {"right"}


def test_flow_identifies_the_launch() -> None:
    got = read(
        slice_("op", 0, 10),
        call(2, 3, None),
        event("s", "ac2g", 2, cat="ac2g", id=44),
        kernel(20, 5),
        event("f", "ac2g", 20, cat="ac2g", id=44, pid=0, tid=7, bp="e"),
        event("f", "ac2g", 2, cat="ac2g", id=45),
    )
    assert launches(got) == [("gemm", "cudaLaunchKernel", "op")]
    assert got.profile.flows.num_rows == 0
    assert got.losses == {}


def test_flow_without_id_or_time_is_lost() -> None:
    got = read(
        slice_("op", 0, 10),
        call(2, 3, None),
        event("s", "ac2g", 2, cat="ac2g"),
        kernel(20, 5),
        event("f", "ac2g", 20, cat="ac2g", pid=0, tid=7),
        event("s", "ac2g", None, cat="ac2g", id=44),
        event("s", "mine", 2, cat="mine"),
        event("f", "mine", 9, cat="mine"),
    )
    assert launches(got) == [("gemm", None, None)]
    assert got.profile.flows.num_rows == 0
    assert got.losses == {
        pytorch_assembly.NO_LAUNCH: 1,
        trace_moments.NO_FLOW_ID: 4,
        trace_slices.NO_TIME: 1,
    }


def test_launch_configurations() -> None:
    how = {
        "grid": [4, 2, 1],
        "block": [128, 1, 1],
        "registers per thread": 40,
        "shared memory": 0,
        "blocks per SM": 0.5,
        "warps per SM": 4,
        "est. achieved occupancy %": 6,
    }
    got = read(
        call(0, 1, 1),
        call(1, 1, 2, name="hipLaunchKernel", args={"correlation": 2, "grid": [1, 1, 1], "block": [64, 1, 1]}),
        kernel(2, 1, 1, args=how),
        kernel(3, 1, 1, args=how),
        kernel(4, 1, 2, "amd", stream=3),
        kernel(5, 1, 1, "Memcpy DtoD (Device -> Device)", cat="gpu_memcpy"),
        deviceProperties=[
            {"id": 1, "name": "Spare"},
            {
                "id": 0,
                "name": "A100",
                "totalGlobalMem": 42297524224,
                "computeMajor": 8,
                "computeMinor": 0,
                "numSms": 108,
            },
            "nonsense",
        ],
    )
    configurations = got.profile.configurations.to_pylist()
    assert configurations[0] == dict(zip(configurations[0], (4, 2, 1, 128, 1, 1, 40, 0, 0.5, 4.0, 6.0), strict=True))
    assert [(row["grid_x"], row["block_x"], row["registers"]) for row in configurations[1:]] == [(1, 64, None)]
    assert sorted((row["slice"], row["configuration"]) for row in got.work()) == [
        *[("Memcpy DtoD (Device -> Device)", -1), ("amd", 1), ("gemm", 0), ("gemm", 0)]
    ]
    devices = [
        (row["device"], row["name"], row["memory_bytes"], row["compute"], row["sms"])
        for row in got.profile.devices.to_pylist()
    ]
    assert devices == [(0, "A100", 42297524224, "8.0", 108), (1, "Spare", None, None, None)]
    assert json.loads(got.profile.devices.column("properties")[1].as_py()) == {"id": 1, "name": "Spare"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", DeviceWorkKind.COMMUNICATION),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", DeviceWorkKind.COMMUNICATION),
        ("void rcclGenericKernel<1>()", DeviceWorkKind.COMMUNICATION),
        ("volta_sgemm_128x64_nn", DeviceWorkKind.COMPUTATION),
        ("Memcpy HtoD (Host -> Device)", DeviceWorkKind.MEMCPY),
        ("Memset (Unknown)", DeviceWorkKind.MEMSET),
    ],
)
def test_kinds_of_work(name: str, kind: DeviceWorkKind) -> None:
    assert read(kernel(0, 1, 1, name)).profile.device_work.column("kind").to_pylist() == [kind]


def test_device_time_is_main_event_without_host_time() -> None:
    got = read(kernel(5, 10), kernel(5, 10, None, "no number", stream=4294967295))
    assert got.profile.meta.main_event == "device time"
    assert [row["tid"] for row in got.threads] == [7, 4294967295]
    without = read(slice_("aten::add", 0, 1))
    assert without.profile.device_work.num_rows == without.profile.devices.num_rows == 0
    assert without.profile.steps.num_rows == 0


def test_stream_annotations_enclose_work() -> None:
    got = read(
        kernel(9.999, 20.002, name="ProfilerStep#3", cat="gpu_user_annotation", args={"External id": 4}),
        kernel(10, 5, 1),
        kernel(12, 18, 2, "beside"),
        kernel(11, 1, 3, "Stream Sync", cat="cuda_sync"),
    )
    assert [(one.name, one.depth, one.parent, one.kind) for one in got.slices] == [
        ("ProfilerStep#3", 0, None, "device_annotation"),
        ("gemm", 1, "ProfilerStep#3", "kernel"),
        ("Stream Sync", 3, "ProfilerStep#3", "other"),
        ("beside", 2, "ProfilerStep#3", "kernel"),
    ]
    assert got.one("ProfilerStep#3").self == 2
    assert got.profile.slices.column("end").to_pylist()[0] == 4
    assert (got.profile.device_work.num_rows, got.profile.steps.num_rows) == (2, 0)
