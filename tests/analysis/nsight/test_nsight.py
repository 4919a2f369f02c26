"""Figures of reports of Nsight Compute, and which kernels of a trace are the same as in a report."""

from __future__ import annotations

import io
from typing import Any

import pytest

from perfloom.analysis.advice import findings
from perfloom.analysis.core.schema import records
from perfloom.analysis.core.slice_selection import has_clock
from perfloom.analysis.ml import devices, idle
from perfloom.analysis.nsight.matching import BY_FUNCTION, BY_LAUNCH, BY_NAME, match_kernels, pair_trace_with_report
from perfloom.analysis.nsight.reports import compute_nsight, compute_nsight_hints, metrics_of
from perfloom.analysis.nsight.source import compute_nsight_source, source_of
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.ingest.merge import merge
from perfloom.readers import nsight_compute
from tests.support import paths
from tests.support.traced import Trace

DATA = paths.DATA / "nsight"
ALL = Selection()
SM, MEMORY = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
)
LIMITS = ("registers", "shared_mem", "warps", "blocks")


def read(*names: str) -> Profile:
    data = b"".join((DATA / f"{name}.csv").read_bytes() for name in names)
    return nsight_compute.read(io.BytesIO(data), "x.csv")


def report(*launches: dict[str, Any]) -> Profile:
    """Launches by hand: name, grid and metrics by their names."""
    metrics = list(dict.fromkeys(name for launch in launches for name in launch if "__" in name))
    lines: list[list[Any]] = [["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *metrics]]
    lines += [
        [
            *(number, 1, launch["name"], "(32, 1, 1)", f"({launch.get('grid', 1)}, 1, 1)"),
            *(launch.get(name, "") for name in metrics),
        ]
        for number, launch in enumerate(launches)
    ]
    text = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    return nsight_compute.read(io.BytesIO(text.encode()), "x.csv")


def traced(*ran: tuple[str, int, int]) -> Profile:
    """A trace of kernels: name, grid and duration in ns."""
    trace = Trace()
    stream = trace.thread(7, stream=True)
    start = 0
    for name, grid, duration in ran:
        sizes = dict(
            zip(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), (grid, 1, 1, 32, 1, 1), strict=True)
        )
        trace.slice(stream, start, start + duration, name, "kernel", work={"configuration": sizes})
        start += 2 * duration
    return trace.finish()


def test_launches_are_summed_up_from_either_page() -> None:
    whole, raw, details = (
        records(compute_nsight(read(*names), ALL)) for names in (("raw", "details"), ("raw",), ("details",))
    )
    for name in (
        "duration_us",
        "sm_percent",
        "memory_percent",
        "l2_percent",
        "bound",
        "occupancy_percent",
        "waves_per_sm",
    ):
        assert [row[name] for row in whole] == [row[name] for row in raw] == [row[name] for row in details], name
    first, second, _ = whole
    assert (first["ranges"], first["grid"], first["stream"], first["device"]) == ("forward", "2048×1×1", 7, 0)
    assert (first["limit"], second["limit"], second["registers"], second["shared_bytes"]) == (
        *(None, "registers"),
        *(122, 12_288),
    )
    # The greatest of the global ones: a local one is of a part.
    assert [(row["estimated_speedup_percent"], row["hints"]) for row in whole] == [(11.59, 2), (58.73, 4), (70.0, 1)]


@pytest.mark.parametrize(
    ("sm", "memory", "bound"),
    [
        (59.9, 10, "latency"),
        (60, 10, "compute"),
        (10, 60, "memory"),
        (70, 75, "both"),
        (70, 80, "memory"),
        (70, "", None),
    ],
)
def test_bound_of_a_launch(sm: float, memory: float | str, bound: str | None) -> None:
    assert records(compute_nsight(report({"name": "f", SM: sm, MEMORY: memory}), ALL))[0]["bound"] == bound


def test_limit_of_the_occupancy() -> None:
    def limit(theoretical: float, *blocks: int) -> Any:
        known = {f"launch__occupancy_limit_{name}": of for name, of in zip(LIMITS, blocks, strict=True)}
        launch = {"name": "f", "sm__maximum_warps_per_active_cycle_pct": theoretical, **known}
        return records(compute_nsight(report(launch), ALL))[0]["limit"]

    assert limit(50, 2, 4, 8, 16) == "registers"
    assert limit(50, 4, 2, 2, 16) == "shared memory, size of blocks"
    assert limit(100, 2, 4, 8, 16) is None


def test_metrics_are_listed_once_in_their_section() -> None:
    profile = read("raw", "details")
    rows = records(metrics_of(profile, range(1, 2)))
    assert len([row for row in rows if row["metric"] == SM]) == 1
    assert rows[0]["section"] == "GPU Speed Of Light Throughput" and {row["launch"] for row in rows} == {1}
    assert {row["metric"]: row["section"] for row in rows}["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == (
        "L1/TEX cache"
    )
    # Of the page raw alone the sections follow from the names.
    alone = {row["metric"]: (row["section"], row["label"]) for row in records(metrics_of(read("raw"), range(1)))}
    assert alone[SM] == ("GPU Speed Of Light Throughput", "Compute (SM) throughput")
    assert alone["launch__registers_per_thread"][0] == "Launch Statistics"
    assert alone["dram__bytes_read.sum"][0] == "DRAM"
    assert [row["value"] for row in records(metrics_of(profile, range(3), "dram READ"))] == [
        67_125_248,
        8_460_288,
        16_789_504,
    ]


def test_hints_and_instructions() -> None:
    profile = read("raw", "details", "source")
    hints = records(compute_nsight_hints(profile, ALL))
    assert [row["rule"] for row in hints][:2] == ["SmallGrid", "TheoreticalOccupancy"]
    assert [row["estimated_speedup_percent"] for row in hints][-2:] == [None, None]
    lines = records(source_of(profile, 1))
    assert [(row["number"], row["samples"], row["stall"], row["stall_samples"]) for row in lines] == [
        (1, 88, "long_sb", 70),
        (2, 140, "barrier", 139),
        (3, 620, "math", 402),
        (4, 9, "wait", 5),
    ]
    assert lines[0]["excessive_global"] == 2048 and lines[1]["excessive_global"] == 0
    assert lines[3]["divergent"] == 16 and sum(row["percent"] for row in lines) == pytest.approx(100)
    assert len(compute_nsight_source(profile, ALL)) == 16


def test_counters_of_any_size() -> None:
    text = '"Kernel Name","f"\n"#","Address","Source","# Samples"\n"1","0x10","EXIT","{}"\n'
    for told, samples in (("1e30", 1e30), ("-7", -7), ("0.5", 0.5), ("9" * 18, 1e18)):
        profile = nsight_compute.read(io.BytesIO(text.format(told).encode()), "x.csv")
        assert records(compute_nsight_source(profile, ALL))[0]["samples"] == samples


def test_values_that_need_times_are_missing() -> None:
    profile = read("raw", "details")
    assert not has_clock(profile)
    assert findings.find_advice(profile, ALL) == [] and not len(idle.compute_idle(profile, ALL))
    device = records(devices.compute_devices(profile, ALL))[0]
    assert (device["name"], device["utilization_percent"]) == ("NVIDIA A100-SXM4-40GB", None)
    # A trace read together with it has one.
    assert has_clock(merge([profile, traced(("f", 1, 10))]))


def test_the_same_kernels_of_a_trace_and_a_report() -> None:
    launches = (
        {"name": "void a::f<(int)4>(T1 *)", "grid": 8, "gpu__time_duration.sum": 100, SM: 10},
        {"name": "void a::f<(int)4>(T1 *)", "grid": 8, "gpu__time_duration.sum": 300, SM: 50},
        {"name": "void a::f<(int)4>(T1 *)", "grid": 9, "gpu__time_duration.sum": 500, SM: 90},
        {"name": "g", "grid": 1, "gpu__time_duration.sum": 7},
        {"name": "b::h<(int)1>(T1)", "grid": 5, "gpu__time_duration.sum": 8},
        {"name": "left", "gpu__time_duration.sum": 1},
    )
    trace = traced(
        *(
            ("void a::f<4>(float*)", 8, 1000),
            ("void a::f<4>(float*)", 8, 3000),
            ("g", 77, 50),
            ("h", 5, 20),
            ("h", 6, 20),
        ),
        ("other", 1, 10),
    )
    rows = records(match_kernels(trace, report(*launches), ALL))
    told = [
        (row["name"], row["matched"], row["calls"], row["launches"], row["row"], row["duration_us"]) for row in rows
    ]
    assert told == [
        ("void a::f<4>(float*)", BY_LAUNCH, 2, 2, 0, 0.2),
        ("g", BY_NAME, 1, 1, 3, 0.007),
        ("h", BY_FUNCTION, 1, 1, 4, 0.008),
        ("void a::f<(int)4>(T1 *)", None, None, 1, 2, 0.5),
        ("left", None, None, 1, 5, 0.001),
    ]
    assert rows[0]["sm_percent"] == pytest.approx((10 * 100 + 50 * 300) / 400) and rows[0]["mean_us"] == 2.0


def test_which_is_the_trace() -> None:
    one, two = traced(("f", 1, 10)), report({"name": "f", "gpu__time_duration.sum": 1})
    sides, swapped = pair_trace_with_report(one, two), pair_trace_with_report(two, one)
    assert sides is not None and sides.trace is one and not sides.swapped
    assert swapped is not None and swapped.report is two and swapped.swapped
    assert pair_trace_with_report(one, one) is None and pair_trace_with_report(two, two) is None
