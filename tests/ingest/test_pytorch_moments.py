"""Memory, counters, flows and instants of traces."""

from __future__ import annotations

import json
from typing import Any

from perfloom.domain.tables import FlowKind
from perfloom.ingest.trace import memory as pytorch_memory
from perfloom.ingest.trace import point_events as trace_moments
from tests.support.trace_json import event, kernel, read, slice_


def memory(at: float, size: int | None, address: int | None = None, device: int = -1, **more: Any) -> dict[str, Any]:
    """An event of an allocator."""
    told = {"Device Type": int(device >= 0), "Device Id": device, "Bytes": size, "Addr": address, **more}
    return event(
        "i", "[memory]", at, cat="cpu_instant_event", s="t", args={k: v for k, v in told.items() if v is not None}
    )


def test_blocks_are_paired_by_address() -> None:
    total = "Total Allocated"
    got = read(
        slice_("aten::empty", 0, 10),
        slice_("inner", 2, 6, cat="user_annotation"),
        memory(3, 64, 1000, **{total: 164}),
        memory(4, 32, 1000, 0, **{total: 32, "Total Reserved": 100}),
        slice_("aten::free", 20, 10),
        memory(25, -64, 1000, **{total: 100}),
        memory(26, -8, 7, **{total: 92}),
        memory(40, 16, 1000, **{total: 108}),
        memory(41, None),
    )
    rows = got.profile.allocations.to_pylist()
    name = [None if row["slice"] < 0 else got.slices[row["slice"]].name for row in rows]
    ended = [None if row["end_slice"] < 0 else got.slices[row["end_slice"]].name for row in rows]
    devices = got.profile.devices.to_pylist()
    assert [
        (devices[row["device"]]["kind"], row["start_ns"], row["end_ns"], row["bytes"], row["address"]) for row in rows
    ] == [
        ("cpu", None, 26_000, 8, 7),
        ("cpu", 3_000, 25_000, 64, 1000),
        ("gpu", 4_000, None, 32, 1000),
        ("cpu", 40_000, None, 16, 1000),
    ]
    assert name == [None, "inner", "inner", None]
    assert ended == ["aten::free", "aten::free", None, None]
    assert [";".join(got.stacks[row["stack"]]) for row in rows] == ["", *["aten::empty;inner"] * 2, ""]
    series = [(row["name"], devices[row["device"]]["kind"], row["unit"]) for row in got.profile.series.to_pylist()]
    assert series == [("allocated", "cpu", "bytes"), ("allocated", "gpu", "bytes"), ("reserved", "gpu", "bytes")]
    values = [(row["series"], row["time_ns"], row["value"]) for row in got.profile.counters.to_pylist()]
    assert values[:4] == [(0, 3_000, 164.0), (0, 25_000, 100.0), (0, 26_000, 92.0), (0, 40_000, 108.0)]
    assert got.samples("CPU bytes allocated") == [(3_000, 64, "aten::empty;inner"), (40_000, 16, "")]
    assert got.samples("CPU bytes live at peak") == [(0, 8, ""), (3_000, 64, "aten::empty;inner")]
    assert got.losses == {pytorch_memory.NO_BYTES: 1}
    assert got.profile.instants.num_rows == 0


def test_memory_without_addresses() -> None:
    got = read(memory(1, 10), memory(2, -30), memory(3, 5))
    rows = got.profile.allocations.to_pylist()
    assert [(row["start_ns"], row["end_ns"], row["bytes"], row["address"]) for row in rows] == [
        *[(None, 1_000, 30, None), (0, None, 10, None), (2_000, None, 5, None)]
    ]
    assert [row["value"] for row in got.profile.counters.to_pylist()] == [30.0, 0.0, 5.0]


def test_flows_from_forward_to_backward() -> None:
    got = read(
        slice_("around", 0, 50),
        slice_("forward", 10, 10, args={"Sequence number": 4}),
        slice_("first in it", 10, 3),
        event("s", "fwdbwd", 10, cat="fwdbwd", id=1),
        slice_("backward", 30, 5, tid=2, args={"Sequence number": 4}),
        event("f", "fwdbwd", 30, cat="fwdbwd", id=1, tid=2, bp="e"),
        event("s", "go", 12, cat="mine", id=1),
        event("t", "go", 31, cat="mine", id=1, tid=2),
        event("f", "go", 45, cat="mine", id=1),
        event("s", "lone", 12, cat="mine", id=2),
        event("s", "void", 12, cat="mine", id=3),
        event("f", "void", 99, cat="mine", id=3, tid=9),
    )
    flows = [
        (got.slices[row["source"]].name, got.slices[row["target"]].name, row["kind"])
        for row in got.profile.flows.to_pylist()
    ]
    assert sorted(flows) == sorted(
        [
            ("forward", "backward", FlowKind.FORWARD_BACKWARD),
            ("first in it", "backward", FlowKind.OTHER),
            ("backward", "around", FlowKind.OTHER),
        ]
    )
    assert got.losses == {trace_moments.UNMATCHED_FLOW: 1, trace_moments.NO_SLICE: 1}


def test_counters_become_series() -> None:
    got = read(
        event("C", "GPU use", 2, args={"GPU use": 0.5}),
        event("C", "GPU use", 1, args={"GPU use": 1}),
        event("C", "queue", 1, args={"ready": 3, "Bytes": 7, "note": "x"}, pid="GPU 0 Counters"),
        event("C", "sm", 1, args={"": 12}),
        event("C", "empty", 1),
        event("C", "empty", 2, args={"note": "x", "flag": True}),
        event("C", "queue", 3, args={"ready": 4}, pid="GPU 0 Counters", id=5),
        event("C", "GPU use", 3, args={"GPU use": 0.5}),
        slice_("op", 0, 5),
    )
    series = got.profile.series.to_pylist()
    counters = got.profile.counters.to_pylist()
    values = [
        (
            series[row["series"]]["name"],
            series[row["series"]]["pid"] or series[row["series"]]["process"],
            row["time_ns"],
            row["value"],
        )
        for row in counters
    ]
    assert values == [
        ("GPU use", 1, 1_000, 1.0),
        ("GPU use", 1, 2_000, 0.5),
        ("GPU use", 1, 3_000, 0.5),
        ("queue: Bytes", "GPU 0 Counters", 1_000, 7.0),
        ("queue: ready", "GPU 0 Counters", 1_000, 3.0),
        ("sm", 1, 1_000, 12.0),
        ("queue 5", "GPU 0 Counters", 3_000, 4.0),
    ]
    assert got.losses == {trace_moments.NO_NUMBER: 2}


def test_instants_have_threads_and_arguments() -> None:
    got = read(
        event("i", "Record Window End", 9, pid="", tid="", s="g"),
        event("i", "mark", 3, cat="cpu_instant_event", args={"why": "so"}),
        slice_("op", 0, 5),
        kernel(0, 5, 1),
        event("R", "on stream", 4, pid=0, tid=7),
    )
    rows = got.profile.instants.to_pylist()
    assert [(got.names[row["function"]], row["time_ns"], row["thread"]) for row in rows] == [
        *[("mark", 3_000, 0), ("on stream", 4_000, 1), ("Record Window End", 9_000, -1)]
    ]
    assert rows[0]["arguments"] >= 0 and rows[1]["arguments"] == -1
    assert got.profile.meta.duration_ns == 9_000


def test_operator_arguments_have_columns() -> None:
    given = {
        "Ev Idx": 3,
        "Input Dims": [[2, 3], []],
        "Input type": ["float", 'a "quoted" ]{'],
        "Concrete Inputs": ["", "\\"],
        "Call stack": 'main.py(1): <module>;"x"\n;y',
        "other": {"Input Strides": [1]},
    }
    got = read(slice_("a", 0, 1, args=given), slice_("b", 1, 1, args={"Input Dims": None, "Input dims": "text"}))
    (first, second) = got.profile.argument_sets.to_pylist()
    assert json.loads(first["text"]) == {key: value for key, value in given.items() if key != "Ev Idx"}
    assert (first["shapes"], json.loads(first["types"])) == ("[[2, 3], []]", given["Input type"])
    assert (json.loads(first["values"]), first["strides"]) == (given["Concrete Inputs"], None)
    assert first["call_stack"] == given["Call stack"]
    assert (second["shapes"], second["types"]) == ("text", None)
