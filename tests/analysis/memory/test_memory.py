"""Memory: by hand to the byte, of PyTorch's own recordings as PyTorch counts them, of a GPU's as torch-tb-profiler does."""

from __future__ import annotations

import functools
import gzip
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.memory.allocations import group_live_blocks
from perfloom.analysis.memory.blocks import search_blocks, select_blocks, sort_blocks
from perfloom.analysis.memory.curves import Curve, downsample_curve, find_device_memory
from perfloom.analysis.tables import TABLES
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import SCHEMAS
from perfloom.domain.validation import find_error
from perfloom.ingest.merge import merge
from perfloom.readers import memory_snapshot, memory_timeline, pytorch
from tests.support import paths
from tests.support.real_traces import here, trace
from tests.support.traced import Trace

ALL = Selection()
DATA = paths.DATA


def rows(name: str, columns: list[dict[str, Any]]) -> pa.Table:
    """A table of rows in which what is missing is null."""
    return pa.Table.from_pylist(columns, schema=SCHEMAS[name])


@functools.cache
def small() -> Profile:
    """One thread, two devices. On the GPU: 100 from before, freed at 650 in aten::b; aten::a makes 10 (through
    aten::empty, 120–300), aten::b 40 (620, never freed); outside of all operators 5 (950–980)."""
    trace = Trace()
    host = trace.thread(1, "python")
    for number in (1, 2):
        trace.step(f"ProfilerStep#{number}", 500 * number - 500, 500 * number)
        trace.slice(host, 500 * number - 500, 500 * number, f"ProfilerStep#{number}", "annotation")
    trace.slice(host, 100, 400, "aten::a")
    trace.slice(host, 110, 200, "aten::empty")
    trace.slice(host, 600, 700, "aten::b")
    profile = trace.finish()
    names = [profile.functions.column("name")[f].as_py() for f in profile.slices.column("function").to_pylist()]
    of = {name: row for row, name in enumerate(names)}
    stack = profile.slices.column("stack").to_pylist()

    def block(start: int | None, end: int | None, size: int, made: str, freed: str = "", device: int = 0) -> Any:
        return {
            "start_ns": start,
            "end_ns": end,
            "bytes": size,
            "device": device,
            "address": size,
            "thread": host,
            "slice": of.get(made, -1),
            "end_slice": of.get(freed, -1),
            "stack": stack[of[made]] if made else 0,
        }

    second = "ProfilerStep#2"
    blocks = [
        block(None, 650, 100, "", "aten::b"),
        block(120, 300, 10, "aten::empty", "aten::a"),
        block(130, None, 7, "aten::empty", device=1),
        block(620, None, 40, "aten::b"),
        block(950, 980, 5, second, second),
    ]
    points = {
        ("allocated", 0): [(0, 100), (120, 110), (300, 100), (620, 140), (650, 40), (950, 45), (980, 40)],
        ("reserved", 0): [(0, 128), (620, 256)],
        ("allocated", 1): [(130, 7)],
    }
    series = [{"name": name, "unit": "bytes", "device": device} for name, device in points]
    profile = replace(
        profile,
        devices=rows(
            "devices",
            [{"kind": "gpu", "device": 0, "memory_bytes": 1000, "name": "Card"}, {"kind": "cpu", "device": 0}],
        ),
        allocations=rows("allocations", blocks),
        series=rows("series", series),
        counters=rows(
            "counters",
            [
                {"series": n, "time_ns": at, "value": value}
                for n, values in enumerate(points.values())
                for at, value in values
            ],
        ),
    )
    assert find_error(profile) is None
    return profile


@functools.cache
def recorded(name: str) -> Profile:
    """One of the recordings made with PyTorch."""
    with gzip.open(DATA / "pytorch" / f"{name}.pt.trace.json.gz") as file:
        return pytorch.read(file, name)  # type: ignore[arg-type]


def table(name: str, profile: Profile, selection: Selection = ALL, by: str | None = None) -> list[dict[str, Any]]:
    found = records(TABLES[name].rows(profile, selection, by))
    json.dumps(found, allow_nan=False)
    return found


def test_memory_by_device() -> None:
    """The peak of 140 is at 620, when 256 are reserved; what was there before counts as freed and not as allocated."""
    gpu, cpu = table("memory", small())
    assert gpu == {
        "device": "GPU 0",
        "peak_bytes": 140,
        "allocations": 3,
        "frees": 3,
        "unfreed": 1,
        "unfreed_bytes": 40,
        "rank": None,
        "peak_us": 0.62,
        "allocated_bytes": 55,
        "peak_reserved_bytes": 256,
        "unused_bytes": 216,
        "unused_at_peak_bytes": 116,
        "largest_free_bytes": None,
        "inactive_split_bytes": None,
        "inactive_split_blocks": None,
        "rounding_bytes": None,
        "retries": 0,
        "out_of_memory": 0,
        "memory_bytes": 1000,
        "name": "Card",
    }
    assert [cpu[name] for name in ("device", "peak_bytes", "allocations", "frees", "unfreed")] == ["CPU", 7, 1, 0, 1]


def test_a_window_and_a_step_narrow_it() -> None:
    """A peak in a window may be what held at its start; not freed means not by its end."""
    (gpu, _) = table("memory", small(), Selection(start_ns=100, end_ns=200))
    wanted = ("peak_bytes", "peak_us", "allocations", "frees", "unfreed", "unfreed_bytes")
    assert [gpu[name] for name in wanted] == [110, 0.12, 1, 0, 1, 10]
    (gpu, _) = table("memory", small(), Selection(start_ns=700, end_ns=900))
    assert [gpu[name] for name in wanted] == [40, 0.7, 0, 0, 0, 0]
    (gpu, _) = table("memory", small(), Selection(step="1"))
    assert [gpu[name] for name in wanted] == [110, 0.12, 1, 1, 0, 0]
    (gpu, _) = table("memory", small(), Selection(focus="^aten::b$"))
    assert [gpu[name] for name in wanted[2:]] == [1, 0, 1, 40]
    with pytest.raises(InvalidRequest):
        table("memory", small(), Selection(ranks=((3, 3),)))


def test_growth_and_allocation_by_operator() -> None:
    """What is freed counts where it is freed: 100 in aten::b, which made 40 itself. An operator counts what is in it."""
    found = {(row["name"], row["device"]): row for row in table("memory-operators", small())}
    wanted = (
        "calls",
        "self_growth_bytes",
        "growth_bytes",
        "self_allocations",
        "allocations",
        "self_allocated_bytes",
        "allocated_bytes",
    )
    assert {key: [row[name] for name in wanted] for key, row in found.items()} == {
        ("aten::empty", "GPU 0"): [1, 10, 10, 1, 1, 10, 10],
        ("aten::a", "GPU 0"): [1, -10, 0, 0, 1, 0, 10],
        ("aten::b", "GPU 0"): [1, -60, -60, 1, 1, 40, 40],
        ("ProfilerStep", "GPU 0"): [2, 0, -60, 1, 3, 5, 55],
        ("aten::empty", "CPU"): [1, 7, 7, 1, 1, 7, 7],
        ("aten::a", "CPU"): [1, 0, 7, 0, 1, 0, 7],
        ("ProfilerStep", "CPU"): [2, 0, 7, 0, 1, 0, 7],
    }
    assert table("memory-operators", small())[0]["name"] == "aten::empty"
    windowed = {(row["name"], row["device"]): row for row in table("memory-operators", small(), Selection(end_ns=200))}
    assert windowed["aten::a", "GPU 0"]["growth_bytes"] == 10 and ("aten::b", "GPU 0") not in windowed


def test_live_blocks_at_the_peak_and_at_any_time() -> None:
    """At 620: the 100 from before, of which nothing is known, and 40. aten::empty is named with who called it."""
    found = [(row["name"], row["device"], row["bytes"], row["blocks"]) for row in table("memory-live", small())]
    assert found == [
        ("(not known)", "GPU 0", 100, 1),
        ("aten::b", "GPU 0", 40, 1),
        ("aten::a (aten::empty)", "CPU", 7, 1),
    ]
    place = find_device_memory(small(), ALL, "gpu0")
    assert place is not None
    at = records(group_live_blocks(small(), ALL, place, 299, "operator"))
    assert [(row["name"], row["bytes"], round(row["percent"], 2)) for row in at] == [
        ("(not known)", 100, 90.91),
        ("aten::a (aten::empty)", 10, 9.09),
    ]
    assert [row["name"] for row in records(group_live_blocks(small(), ALL, place, 300, "operator"))] == ["(not known)"]
    with pytest.raises(InvalidRequest, match="gpu0, cpu"):
        find_device_memory(small(), ALL, "gpu7")


def test_allocations_row_by_row() -> None:
    """Each block with both its ends; those without an end last whichever way they are sorted."""
    found = table("allocations", small())
    assert [
        (row["operator"], row["start_us"], row["end_us"], row["duration_us"], row["live_at_peak"]) for row in found
    ] == [
        (None, None, 0.65, None, True),
        ("aten::a (aten::empty)", 0.12, 0.3, 0.18, False),
        ("aten::a (aten::empty)", 0.13, None, None, True),
        ("aten::b", 0.62, None, None, True),
        (None, 0.95, 0.98, 0.03, False),
    ]
    assert found[0]["address"] == "0x64" and found[0]["thread"] == "python"
    every = select_blocks(small(), ALL)
    assert sort_blocks(small(), ALL, every, "end_us", True).tolist() == [4, 0, 1, 2, 3]
    assert sort_blocks(small(), ALL, every, "end_us", False).tolist() == [1, 0, 4, 2, 3]
    assert sort_blocks(small(), ALL, every, "operator", False).tolist() == [1, 2, 3, 0, 4]
    assert sort_blocks(small(), ALL, every, "bytes", True, 1).tolist() == [0]
    assert search_blocks(small(), every, "EMPTY aten::a").tolist() == [1, 2]


def test_the_first_of_many_are_the_same_as_of_all() -> None:
    """However many are alike."""
    profile = small()
    blocks = pa.concat_tables([profile.allocations.slice(1, 1)] * 400 + [profile.allocations.slice(3, 1)] * 3)
    many = replace(profile, allocations=blocks)
    every = select_blocks(many, ALL)
    for by in ("bytes", "operator", "end_us"):
        for down in (True, False):
            whole = sort_blocks(many, ALL, every, by, down)
            assert sort_blocks(many, ALL, every, by, down, 50).tolist() == whole[:50].tolist()


def test_curves_lose_no_extreme_in_columns() -> None:
    """A spike between two pixels, and what held before the first change of a window."""
    curve = Curve(np.array([0, 10, 11, 12, 500]), np.array([5.0, 6.0, 900.0, 7.0, 1.0]))
    found = downsample_curve(curve, 0, 1000, 4)
    assert found.column.tolist() == [0, 2]
    assert (found.low.tolist(), found.high.tolist(), found.last.tolist(), found.first) == ([5, 1], [900, 7], [7, 1], 5)
    assert downsample_curve(curve, 100, 400, 4).first == 7
    assert [row["bytes"] for row in table("memory-curves", small(), Selection(start_ns=200, end_ns=640))] == [
        110,
        100,
        140,
        128,
        256,
        7,
    ]


def test_ranks_have_a_memory_each() -> None:
    """Two files, two ranks: each with its own peaks, and a selection of one leaves one."""
    both = merge([small(), small()])
    assert find_error(both) is None
    assert [(row["rank"], row["device"], row["peak_bytes"]) for row in table("memory", both)] == [
        (0, "GPU 0", 140),
        (0, "CPU", 7),
        (1, "GPU 0", 140),
        (1, "CPU", 7),
    ]
    one = Selection(ranks=((1, 1),))
    assert [row["rank"] for row in table("memory", both, one)] == [1, 1]
    assert {row["rank"] for row in table("allocations", both, one)} == {1}
    assert {row["rank"] for row in table("memory-operators", both, one)} == {1}
    assert len(table("allocations", both)) == 2 * len(table("allocations", small()))


@pytest.mark.parametrize("name", ["memory", "training"])
def test_operators_agree_with_pytorch_itself(name: str) -> None:
    """The memory in key_averages() of the same run: of every operator, itself and in all; and the totals of annotations
    (with stacks PyTorch takes Python's functions for operators, whose share annotations then lack)."""
    found = {row["name"]: row for row in table("memory-operators", recorded(name))}
    told = json.loads((DATA / "pytorch" / f"{name}.expected.json").read_text())
    plain = not told["options"].get("with_stack")
    compared = 0
    for one in told["by_name"]:
        mine = found.pop(one["name"].removesuffix("*"), None)
        if mine is None:
            # PyTorch counts Python's functions; and what never allocates has no row here.
            assert "(" in one["name"] or "nn.Module" in one["name"] or not one["cpu_memory_bytes"] or plain is False
            continue
        compared += 1
        assert mine["growth_bytes"] == one["cpu_memory_bytes"], one["name"]
        assert mine["calls"] == one["calls"], one["name"]
        if plain or mine["kind"] == "operator":
            assert mine["self_growth_bytes"] == one["self_cpu_memory_bytes"], one["name"]
    assert not found and compared > 30


@here
def test_operators_agree_with_torch_tb_profiler() -> None:
    """All seven figures of all 56 operators of a real trace of a V100, on both devices."""
    told = json.loads((DATA / "pytorch-memory" / "resnet50_v100.tb.json").read_text())
    found = [row for row in table("memory-operators", trace("resnet50_v100")) if row["kind"] == "operator"]
    mine = {
        device: {r["name"]: [r[c] for c in told["columns"]] for r in found if r["device"] == device}
        for device in told["devices"]
    }
    assert mine == told["devices"]
    # A trace of that age has no addresses: what was freed when is not known.
    gpu = table("memory", trace("resnet50_v100"))[0]
    assert (gpu["allocations"], gpu["frees"], gpu["unfreed"]) == (4110, 4110, None)


def test_a_snapshot_reports_failures_and_fragmentation() -> None:
    """As the allocator counted it; by function of Python, and by what the program said of its blocks."""
    with open(DATA / "pytorch-memory" / "training.pickle", "rb") as file:
        profile = memory_snapshot.read(file, "snapshot")
    told = json.loads((DATA / "pytorch-memory" / "training.expected.json").read_text())
    (gpu,) = table("memory", profile)
    assert (gpu["retries"], gpu["out_of_memory"]) == (told["num_alloc_retries"], told["num_ooms"])
    assert gpu["peak_bytes"] == told["requested_bytes.all.peak"]
    assert gpu["inactive_split_blocks"] == told["inactive_split.all.current"]
    assert [(row["event"], row["bytes"]) for row in table("memory-events", profile)] == [
        ("allocator retry", 100 << 20),
        ("out of memory", 100 << 20),
    ]
    assert table("memory-live", profile, by="source")[0]["name"] == "evaluate (/home/user/train.py:60)"
    assert {row["name"]: row["blocks"] for row in table("memory-live", profile, by="category")} == {
        "(not known)": 3,
        "parameters": 4,
    }
    assert not table("memory-operators", profile)


def test_a_timeline_tells_categories_at_the_peak() -> None:
    """Sizes alone were recorded: no blocks, and no word of what was not freed."""
    with open(DATA / "pytorch" / "timeline.memory.json", "rb") as file:
        profile = memory_timeline.read(file, "timeline")
    (one,) = table("memory", profile)
    assert (one["device"], one["peak_bytes"], one["allocations"]) == ("memory", 11488, None)
    live = table("memory-live", profile, by="category")
    assert sum(row["bytes"] for row in live) == 11488 and live[0]["blocks"] is None
