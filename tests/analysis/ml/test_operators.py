"""Operators, kernels and modules of a small trace; every expected number is counted by hand."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

from perfloom.analysis.compare.tables import diff_table, list_groupings
from perfloom.analysis.core.group_by import group_by, select_groups
from perfloom.analysis.core.schema import records
from perfloom.analysis.ml.details import kernel_detail, operator_detail
from perfloom.analysis.ml.operator_parts import operator_parts_of
from perfloom.analysis.ml.sequences import compute_sequences
from perfloom.analysis.tables import TABLES
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import DeviceWorkKind
from perfloom.domain.validation import find_error
from tests.support.traced import Trace

ALL = Selection()
GEMM = "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_nn"
COPY = "Memcpy HtoD (Pageable -> Device)"
WIDE = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "registers": 40}


@functools.cache
def small() -> Profile:
    """Two steps. aten::to calls nothing but itself; an annotation launches by itself; a kernel outlives its step."""
    trace = Trace()
    host, stream = trace.thread(1, "python"), trace.thread(7, stream=True)
    launch = "cudaLaunchKernel"
    for number in (1, 2):
        trace.step(f"ProfilerStep#{number}", 1000 * number - 1000, 1000 * number)
        trace.slice(host, 1000 * number - 1000, 1000 * number, f"ProfilerStep#{number}", "annotation")
    first = {"shapes": "[[8,16],[16,4]]"}
    trace.slice(host, 100, 400, "aten::linear", arguments=first)
    trace.slice(host, 150, 350, "aten::addmm")
    one = trace.slice(host, 200, 220, launch, "runtime")
    two = trace.slice(host, 230, 240, "cudaMemcpyAsync", "runtime")
    trace.slice(host, 500, 600, "aten::to")
    trace.slice(host, 510, 590, "aten::to")
    trace.slice(host, 520, 580, "aten::copy_")
    three = trace.slice(host, 530, 540, launch, "runtime")
    trace.slice(host, 700, 900, "my region", "annotation")
    four = trace.slice(host, 710, 720, launch, "runtime")
    trace.slice(host, 750, 800, "aten::add")
    trace.slice(host, 1100, 1300, "aten::linear", arguments={"shapes": "[[8,32],[32,4]]"})
    trace.slice(host, 1120, 1280, "aten::addmm")
    five = trace.slice(host, 1150, 1160, launch, "runtime")
    quick = {"configuration": WIDE | {"occupancy_percent": 50.0, "blocks_per_sm": 2.0}}
    slow = {"configuration": WIDE | {"occupancy_percent": 20.0, "blocks_per_sm": 1.0}}
    trace.slice(stream, 300, 500, GEMM, "kernel", one, work=quick)
    trace.slice(stream, 500, 600, COPY, "memcpy", two, work={"bytes": 1000})
    trace.slice(stream, 640, 700, "void at::native::copy_kernel<float>(int)", "kernel", three)
    trace.slice(stream, 720, 730, "triton_add", "kernel", four)
    trace.slice(stream, 1900, 2500, GEMM, "kernel", five, work=slow)
    profile = trace.finish()
    assert find_error(profile) is None
    return profile


def table(name: str, profile: Profile, selection: Selection = ALL, by: str | None = None) -> list[dict[str, Any]]:
    rows = records(TABLES[name].rows(profile, selection, by))
    json.dumps(rows, allow_nan=False)
    return rows


def by_name(rows: list[dict[str, Any]], *names: str) -> dict[str, tuple[Any, ...]]:
    return {row["name"]: tuple(ns(row[name]) for name in names) for row in rows}


def ns(value: Any) -> Any:
    """Times as they were given."""
    return round(value * 1000) if isinstance(value, float) else value


def test_operators() -> None:
    rows = table("operators", small())
    times = ("calls", "host_self_us", "host_total_us", "device_self_us", "device_total_us", "kernels")
    assert by_name(rows, *times) == {
        "aten::linear": (2, 140, 500, 0, 900, 3),
        "aten::addmm": (2, 320, 360, 900, 900, 3),
        "aten::to": (1, 40, 100, 0, 60, 1),
        "aten::copy_": (1, 50, 60, 60, 60, 1),
        "aten::add": (1, 50, 50, 0, 0, 0),
        "my region": (1, 140, 200, 10, 10, 1),
        "ProfilerStep": (2, 1200, 2000, 0, 970, 5),
    }
    assert [row["name"] for row in rows[:3]] == ["aten::addmm", "aten::copy_", "my region"]
    told = {row["name"]: row for row in rows}
    assert told["aten::linear"]["tensor_core_eligible"] is True and told["aten::add"]["tensor_core_eligible"] is False
    assert told["my region"]["tensor_core_eligible"] is None and told["my region"]["kind"] == "annotation"
    assert told["aten::addmm"]["tensor_core_self_percent"] == pytest.approx(100 * 800 / 900)
    assert told["aten::linear"]["tensor_core_self_percent"] == 0
    assert told["aten::linear"]["host_self_percent"] == pytest.approx(7)
    assert told["aten::linear"]["device_total_percent"] == pytest.approx(100 * 900 / 970)
    least_most = ("host_min_us", "host_max_us", "host_mean_us", "device_mean_us")
    assert by_name(rows, *least_most)["aten::linear"] == (200, 300, 250, 450)
    assert {row["rank"] for row in rows} == {None}


def test_operators_by_part() -> None:
    """As their arguments tell; what is no part of anything is a row, and what is no operator has one for its name."""
    trace = Trace()
    host = trace.thread(1)
    told = (
        {"kind": "matmul", "layer": 1},
        {"kind": "matmul", "layer": 10},
        {"kind": "add", "kinds": [1]},
        {"n": "kind"},
    )
    for at, arguments in enumerate(told):
        trace.slice(host, 10 * at, 10 * at + 2 + at, "x", arguments=arguments)
    trace.slice(host, 50, 60, "matmul", "annotation", arguments={"kind": "matmul"})
    found = trace.finish()

    def of(by: str) -> list[tuple[str, int, float]]:
        return [(row["name"], row["calls"], 1000 * row["host_self_us"]) for row in table("operators", found, by=by)]

    assert of("kind") == [("matmul", 1, 10), ("(none)", 1, 5), ("matmul", 2, 5), ("add", 1, 4)]
    assert of("layer") == [("matmul", 1, 10), ("(none)", 2, 9), ("10", 1, 3), ("1", 1, 2)]
    assert of("tensor") == [("(none)", 4, 14), ("matmul", 1, 10)] and list(operator_parts_of(found)) == [
        "kind",
        "layer",
    ]
    changes = diff_table(found, found, ALL, "operators", "host_self_us", by="layer")
    assert (
        dict(zip(changes["name"], changes["base"], strict=True))["10"] == 0.003
        and list_groupings(found, found, "kernels") == ()
    )


def test_operators_by_shapes_and_by_stack() -> None:
    shapes = [
        (r["input_shapes"], r["calls"]) for r in table("operators", small(), by="shapes") if "linear" in r["name"]
    ]
    assert sorted(shapes) == [("[[8,16],[16,4]]", 1), ("[[8,32],[32,4]]", 1)]
    stacks = {r["name"]: r["call_stack"] for r in table("operators", small(), by="stack") if r["calls"] == 1}
    assert stacks["aten::copy_"] == "ProfilerStep#1;aten::to;aten::to" and stacks["my region"] == "ProfilerStep#1"
    trace = Trace()
    host = trace.thread(1)
    for start in (0, 10):
        trace.slice(
            host, start, start + 5, "aten::mm", arguments={"call_stack": f"inner.py({start}): f;outer.py(1): g"}
        )
    trace.slice(host, 20, 25, "aten::mm")
    told = [r["call_stack"] for r in table("operators", trace.finish(), by="stack")]
    assert told == [None, "outer.py(1): g;inner.py(0): f", "outer.py(1): g;inner.py(10): f"]
    with pytest.raises(InvalidRequest, match="accepts by=name, shapes, stack, kind, tensor, layer, device, not 'x'"):
        TABLES["operators"].rows(small(), ALL, "x")
    with pytest.raises(InvalidRequest, match="does not accept by"):
        TABLES["copies"].rows(small(), ALL, "x")


@pytest.mark.parametrize(
    ("selection", "calls", "ran"),
    [
        (Selection(step="2"), {"aten::linear": 1, "aten::addmm": 1, "ProfilerStep": 1}, {GEMM: 1}),
        (
            Selection(start_ns=500, end_ns=720),
            {"aten::to": 1, "aten::copy_": 1, "my region": 1},
            {"void at::native::copy_kernel<float>(int)": 1},
        ),
        (
            Selection(focus="^aten::to$"),
            {"aten::to": 1, "aten::copy_": 1},
            {"void at::native::copy_kernel<float>(int)": 1},
        ),
        (Selection(ignore="linear|ProfilerStep#1"), {"ProfilerStep": 1}, {}),
        (Selection(hide="^aten|gemm|triton"), {"my region": 1, "ProfilerStep": 2}, None),
        (
            Selection(threads=("stream 7",)),
            {},
            {GEMM: 2, "triton_add": 1, "void at::native::copy_kernel<float>(int)": 1},
        ),
        (Selection(threads=("python",), step="2"), {"aten::linear": 1, "aten::addmm": 1, "ProfilerStep": 1}, {GEMM: 1}),
    ],
)
def test_a_selection_is_obeyed(selection: Selection, calls: dict[str, int], ran: dict[str, int] | None) -> None:
    assert {row["name"]: row["calls"] for row in table("operators", small(), selection)} == calls
    if ran is not None:
        assert {row["name"]: row["calls"] for row in table("kernels", small(), selection)} == ran


def test_windows_side_by_side_add_up() -> None:
    whole = by_name(table("operators", small()), "calls", "host_self_us", "device_total_us")
    parts = [
        by_name(
            table("operators", small(), Selection(start_ns=low, end_ns=high)),
            "calls",
            "host_self_us",
            "device_total_us",
        )
        for low, high in ((0, 250), (250, 755), (755, 9999))
    ]
    for name, values in whole.items():
        found = [part.get(name, (0, 0, 0)) for part in parts]
        assert tuple(sum(column) for column in zip(*found, strict=True)) == values


def test_kernels() -> None:
    rows = table("kernels", small())
    assert [(r["name"], r["calls"], ns(r["total_us"]), ns(r["min_us"]), ns(r["max_us"])) for r in rows] == [
        (GEMM, 2, 800, 200, 600),
        ("void at::native::copy_kernel<float>(int)", 1, 60, 60, 60),
        ("triton_add", 1, 10, 10, 10),
    ]
    gemm, copy, _ = rows
    # Weighted by time, of those that it was recorded of.
    assert gemm["occupancy_percent"] == pytest.approx((50 * 200 + 20 * 600) / 800) and copy["occupancy_percent"] is None
    assert gemm["blocks_per_sm"] == pytest.approx(1.25) and gemm["tensor_core"] is True and copy["tensor_core"] is False
    assert (ns(gemm["delay_mean_us"]), ns(gemm["delay_max_us"]), gemm["kind"]) == (425, 750, "computation")
    assert gemm["percent"] == pytest.approx(100 * 800 / 870)
    configured = table("kernels", small(), by="configuration")
    assert [(r["operator"], r["grid"], r["block"], r["registers"], r["calls"]) for r in configured] == [
        ("aten::addmm", "8×1×1", "128×1×1", 40, 2),
        ("aten::copy_", None, None, None, 1),
        (None, None, None, None, 1),
    ]
    assert [r["operator_tensor_core_eligible"] for r in configured] == [True, False, None]


def test_copies() -> None:
    trace = Trace()
    stream = trace.thread(7, stream=True)
    for at, size in ((0, 1000), (10, 3000), (20, None)):
        trace.slice(stream, at, at + 10, COPY, "memcpy", work={"bytes": size})
    trace.slice(stream, 40, 45, "Memset (Device)", "memset", work={"kind": int(DeviceWorkKind.MEMSET), "bytes": None})
    copy, put = table("copies", trace.finish())
    assert (copy["direction"], copy["count"], copy["bytes"], ns(copy["total_us"])) == ("HtoD", 3, 4000, 30)
    # 4000 bytes in 20 ns; the third has no size.
    assert copy["bandwidth_gb_per_s"] == pytest.approx(200) and copy["bandwidth_max_gb_per_s"] == pytest.approx(300)
    assert (put["direction"], put["bytes"], put["bandwidth_gb_per_s"]) == ("set", None, None)
    assert put["percent"] == pytest.approx(100 * 5 / 35)


def test_launches() -> None:
    trace = Trace()
    host, stream = trace.thread(1), trace.thread(7, stream=True)
    # Three are launched while the first one runs: 0, 0, 1 and 2 wait before them. The last is shorter than its call.
    calls = [trace.slice(host, at, at + 5, "cudaLaunchKernel", "runtime") for at in (0, 20, 30, 40)]
    trace.slice(host, 60, 61, "cudaDeviceSynchronize", "runtime")
    for call, (start, end) in zip(calls, ((10, 100), (100, 200), (200, 300), (300, 303)), strict=True):
        trace.slice(stream, start, end, "k", "kernel", call)
    trace.slice(stream, 400, 500, "alone", "kernel")
    profile = trace.finish()
    launch, wait = table("launches", profile)
    assert (launch["name"], launch["calls"], ns(launch["total_us"]), launch["launched"]) == (
        "cudaLaunchKernel",
        4,
        20,
        4,
    )
    delays = ("delay_min_us", "delay_median_us", "delay_p90_us", "delay_max_us")
    assert [ns(launch[name]) for name in delays] == [10, 80, 260, 260]
    assert (launch["queue_mean"], launch["queue_max"], launch["shorter"]) == (0.75, 2, 1)
    assert (wait["launched"], wait["delay_mean_us"], wait["queue_max"]) == (0, None, None)
    assert [r["delay_mean_us"] for r in table("kernels", profile) if r["name"] == "alone"] == [None]


def test_sequences() -> None:
    trace = Trace()
    host, stream, other = trace.thread(1), trace.thread(7, stream=True), trace.thread(8, stream=True)
    for at in (0, 100, 200):
        trace.slice(host, at, at + 50, "aten::mm")
        for place, name in enumerate(("a", "b", "c")):
            call = trace.slice(host, at + 10 * place, at + 10 * place + 5, "cudaLaunchKernel", "runtime")
            trace.slice(stream, at + 20 * place, at + 20 * place + 15, name, "kernel", call)
    trace.slice(other, 0, 1, "a", "kernel")
    profile = trace.finish()
    rows = table("sequences", profile)
    assert [(r["sequence"], r["count"], ns(r["device_us"]), ns(r["gap_us"])) for r in rows] == [
        ("a | b | c", 3, 135, 10),
        ("b | c | a", 2, 90, 50),
        ("c | a | b", 2, 90, 50),
    ]
    (operator,) = table("sequences", profile, by="operator")
    assert (operator["operator"], operator["sequence"], ns(operator["host_us"])) == ("aten::mm", "a | b | c", 150)
    with pytest.raises(InvalidRequest, match="from 2 to 8"):
        compute_sequences(profile, ALL, length=9)


def test_details() -> None:
    told = operator_detail(small(), ALL, "aten::addmm")
    assert sorted(told.host.tolist()) == [160, 200]
    assert [(k["name"], k["place"], k["calls"]) for k in records(told.kernels)] == [
        (GEMM, "itself", 2),
        (COPY, "itself", 1),
    ]
    assert records(told.callers)[0]["name"] == "aten::linear" and not len(told.callees)
    assert [(s["name"], s["calls"]) for s in records(told.steps)] == [("ProfilerStep#1", 1), ("ProfilerStep#2", 1)]
    region = operator_detail(small(), ALL, "my region")
    assert [(k["name"], k["place"]) for k in records(region.kernels)] == [("triton_add", "itself")]
    assert [c["name"] for c in records(region.callees)] == ["aten::add"]
    kernel = kernel_detail(small(), Selection(step="2"), GEMM)
    assert kernel.duration.tolist() == [600] and kernel.delay.tolist() == [750]
    assert [o["name"] for o in records(kernel.operators)] == ["aten::addmm"]
    assert [s["name"] for s in records(kernel.steps)] == ["ProfilerStep#2"]


def test_groups() -> None:
    chance = np.random.default_rng(1)
    one, two, values = chance.integers(-1, 4, 200), chance.integers(-1, 1 << 40, 200), chance.integers(0, 99, 200)
    two[::2] = 7
    mask = chance.random(200) < 0.5
    for given in (mask, None):
        groups = group_by(one, two)
        some = select_groups(groups, given)
        places = np.flatnonzero(mask) if given is not None else np.arange(200)
        keys = sorted({(one[n], two[n]) for n in places})
        assert [(one[n], two[n]) for n in groups.first[some.groups]] == keys
        of = {key: [values[n] for n in places if (one[n], two[n]) == key] for key in keys}
        assert some.sum(values).tolist() == [sum(of[key]) for key in keys]
        assert some.min(values).tolist() == [min(of[key]) for key in keys]
        assert some.max(values).tolist() == [max(of[key]) for key in keys]
        assert some.count().tolist() == [len(of[key]) for key in keys]
        (median,) = some.quantiles(values, (0.5,))
        assert median.tolist() == [sorted(of[key])[(len(of[key]) + 1) // 2 - 1] for key in keys]
