"""Reports of Nsight Compute read without ncu: their content, and truncated, invalid or malicious files."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.nsight.reports import compute_nsight, compute_nsight_metrics
from perfloom.analysis.nsight.source import compute_nsight_source
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column, get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.protobuf_wire import encode_bytes, encode_message, encode_varint
from perfloom.readers import detect_format, nsight_compute
from perfloom.readers.nsight_compute import report as nsight_report
from perfloom.readers.nsight_compute.units import get_unit
from tests.support import nsight_made as made

REPORT = made.report()
HUGE = b"\xff\xff\xff\xff"


def profile_of(data: bytes) -> Profile:
    """The profile of a report, recognized by its content."""
    reader = detect_format(data, "a.ncu-rep")
    assert (reader.name, reader.accepts_ncu_output) == (nsight_compute.FORMAT, True)
    profile = reader.read(io.BytesIO(data), "a.ncu-rep")
    assert find_error(profile) is None
    return profile


def losses(profile: Profile) -> dict[str, tuple[int, str]]:
    return {row["reason"]: (row["count"], row["example"]) for row in profile.losses.to_pylist()}


def make_report(*parts: bytes, names: tuple[str, ...] = (made.DURATION,)) -> bytes:
    """A report of one launch of f with these fields."""
    return made.result(made.block(made.launch("f", *parts), names=made.listed(names)))


def get_first_metric(profile: Profile, name: str) -> tuple[float | None, str | None]:
    """The number and the text of a metric of the first launch."""
    of = get_strings(profile.metrics, "name").index(name)
    rows = [row for row in profile.metric_values.to_pylist() if (row["kernel"], row["metric"]) == (0, of)]
    return rows[0]["value"], rows[0]["text"]


def test_launches() -> None:
    profile = profile_of(REPORT)
    table = compute_nsight(profile, Selection())
    assert table["name"].tolist() == ["add(int)", "copy(int)"] and table["launch"].tolist() == [0, 1]
    assert table["duration_us"].tolist() == [84.48, 20.0]
    assert table["grid"].tolist() == ["4×1×1"] * 2 and table["block"].tolist() == ["32×1×1"] * 2
    assert table["sm_percent"].tolist() == [36.5, 36.5] and table["memory_percent"][0] == 88.25
    assert get_strings(profile.profiled_kernels, "ranges") == ["forward / linear", ""]
    assert [get_strings(profile.threads, "name"), get_strings(profile.threads, "host")] == [
        ["stream 7", "stream 20"],
        ["node17"] * 2,
    ]
    assert (profile.meta.command, profile.meta.complete, profile.losses.num_rows) == ("train", True, 0)
    assert profile.meta.facts["CUDA version"] == "11.7"
    device = profile.devices.to_pylist()
    assert [(row["name"], row["compute"], row["device"]) for row in device] == [("NVIDIA GeForce RTX 3070", "8.6", 0)]
    assert get_column(profile.slices, "start_ns").tolist() == [0, 84_480]


def test_sections_and_units() -> None:
    metrics = compute_nsight_metrics(profile_of(REPORT), Selection()).query("row == 0")
    shown = [tuple(row) for row in metrics[["section", "label", "metric", "unit"]].to_numpy().tolist()]
    title = "GPU Speed Of Light Throughput"
    assert shown[:3] == [
        (title, "Compute (SM) Throughput", made.SM, "%"),
        (title, "Duration", made.DURATION, "ns"),
        (title, "Memory Throughput", made.MEMORY, "%"),
    ]
    # The content of a section is only there.
    assert metrics["metric"].tolist().count(made.SM) == 1


def test_hints() -> None:
    hints = profile_of(REPORT).hints.to_pylist()
    assert [(row["section"], row["rule"], row["kind"], row["text"]) for row in hints] == [
        ("GPU Speed Of Light Throughput", "SOLBottleneck", "INF", "Look at Occupancy."),
        ("GPU Speed Of Light Throughput", "SmallGrid", "OPT", "See the guide (https://example.org/a)."),
        ("Other", "Local", "WRN", "A part."),
    ]
    assert [(row["speedup_kind"], row["speedup_percent"]) for row in hints] == [
        (None, None),
        ("global", 12.5),
        ("local", 50.0),
    ]


def test_kinds_of_estimates() -> None:
    rules = [made.rule(f"R{kind}", "", "x", 4, (kind, 5.0)) for kind in (1, 2)]
    assert get_strings(profile_of(make_report(*rules)).hints, "speedup_kind") == ["local", "global"]
    assert profile_of(make_report(rules[0])).hints.to_pylist()[0]["speedup_kind"] is None


def test_instructions_by_offset() -> None:
    profile = profile_of(REPORT)
    lines = compute_nsight_source(profile, Selection())
    assert lines["address"].tolist() == [f"{made.BASE + at:#x}" for at in (0, 16, 32)]
    assert lines["source"].tolist() == ["add+0x0", "add+0x10", "add+0x20"]
    assert lines["instructions"].tolist() == [100] * 3 and lines["samples"].tolist() == [10, 20, 30]
    assert lines["stall"].tolist()[1:] == ["long_scoreboard"] * 2
    assert lines["not_issued"].tolist() == [0, 15, 4]
    assert profile.meta.facts[nsight_report.INSTRUCTIONS_FACT] == nsight_report.INSTRUCTIONS_TEXT
    # An invalid address is no instruction.
    assert get_first_metric(profile, "launch__occupancy_per_block_size") == (2338.0, None)
    assert get_first_metric(profile, "sass__inst_executed_per_opcode") == (300.0, "300 (MOV: 200; EXIT: 100)")


def test_instructions_with_text() -> None:
    place = encode_message(5, made.whole(2, 17), made.whole(3, 1))
    lines = [
        encode_message(
            12, made.whole(1, 16), made.text(2, "EXIT"), encode_message(5, made.whole(2, 18), made.text(4, "b.cu"))
        ),
        encode_message(12, made.whole(1, 0), made.text(2, "MOV R1, R2"), place),
        encode_message(12, made.whole(1, 32), made.text(3, "ret;")),
    ]
    counts = made.metric(0, None, [(0, 7), (16, 9)])
    rows = profile_of(make_report(*lines, counts, names=("inst_executed", "a.cu"))).source_lines.to_pylist()
    assert [(row["address"], row["text"], row["file"], row["line"]) for row in rows] == [
        (0, "MOV R1, R2", "a.cu", 17),
        (16, "EXIT", "b.cu", 18),
        (32, "ret;", None, None),
    ]


@pytest.mark.parametrize(
    ("of", "seen"),
    [
        (made.value("cudaFuncCachePreferNone"), (None, "cudaFuncCachePreferNone")),
        (made.value(0.5, "float"), (0.5, None)),
        (made.value(0.1), (0.1, None)),
        (made.value(7, "uint32"), (7.0, None)),
        (made.value(2**64 - 1), (2.0**64, None)),
        (made.value(float("nan")), (None, "nan")),
        (made.value(float("-inf")), (None, "-inf")),
    ],
)
def test_kinds_of_values(of: bytes, seen: tuple[float | None, str | None]) -> None:
    assert get_first_metric(profile_of(make_report(made.metric(0, of), names=("a__b",))), "a__b") == seen


def test_list_without_value_is_text() -> None:
    profile = profile_of(
        make_report(
            made.metric(0, None, [(0, "GPU 0"), (1, "GPU 1")]),
            made.metric(1),
            made.metric(2, None, [(n, n) for n in range(200)]),
            names=("names", "none", "many"),
        )
    )
    assert get_first_metric(profile, "names") == (None, "GPU 0; GPU 1")
    assert str(get_first_metric(profile, "many")[1]).endswith("98; 99; …")
    assert "none" not in get_strings(profile.metrics, "name")


def test_name_tables_of_later_blocks() -> None:
    """A block without names uses those before it; one with new ones adds them; one with all of them replaces them."""
    values = [made.metric(at, made.value(at + 1)) for at in range(3)]
    first = made.block(made.launch("f", values[0]), names=made.listed(["a", "b"]))
    added = made.block(made.launch("g", values[1], values[2]), names=made.listed(["c"]))
    again = made.block(made.launch("h", values[0]), names=made.listed(["c", "a"]))
    rows = compute_nsight_metrics(profile_of(made.result(first, added, again)), Selection())
    assert rows[["row", "metric", "value"]].to_numpy().tolist() == [[0, "a", 1], [1, "b", 2], [1, "c", 3], [2, "c", 1]]


def test_damaged_blocks_are_losses() -> None:
    bad = encode_bytes(13, b"\x0f") + made.metric(9, made.value(1)) + made.metric(0, made.value(5.0))
    counts = made.metric(2, None, [(made.BASE, 1), (5, 1)])
    pcs = made.metric(1, made.value(made.BASE))
    block = made.block(
        made.launch("f", bad, pcs, counts), b"\x08\x01", names=made.listed(["a", made.PCS, "x"]), ranges=[b"\x08\x01"]
    )
    profile = profile_of(made.result(block))
    assert get_first_metric(profile, "a") == (5.0, None) and profile.meta.complete
    assert losses(profile) == {
        nsight_report.DAMAGED: (1, "launch 0: metric"),
        nsight_report.UNNAMED_METRIC: (1, "launch 0: 9 of 3"),
        nsight_report.COUNTS_OUTSIDE: (1, "launch 0: x"),
        nsight_report.UNKNOWN_LAUNCH: (1, "after launch 1"),
        nsight_report.RANGE_RESULT: (1, "after launch 1"),
    }


def test_report_without_launches_has_advice() -> None:
    for data, said in (
        (made.result(), "no kernel launch. Open it"),
        (made.result(made.block(ranges=[b"\x08\x01"])), "--replay-mode kernel"),
        (made.MAGIC, "truncated"),
        (made.MAGIC + HUGE, "truncated"),
        (made.MAGIC + bytes(5000), "damaged"),
    ):
        with pytest.raises(UnreadableInput, match=said):
            profile_of(data)


def test_huge_sizes_end_with_the_file() -> None:
    results = made.framed(made.launch("f"))
    for counts in (
        made.whole(2, 2**32 - 1) + made.whole(5, 2**63),
        made.whole(1, 0) + made.whole(2, 2**64 - 1),
    ):
        profile = profile_of(made.result(made.framed(counts) + results))
        assert profile.profiled_kernels.num_rows == 1
    cut = made.result(made.framed(made.whole(2, 1)) + HUGE + made.launch("f") + encode_bytes(200, b"x")[:-1])
    profile = profile_of(cut)
    assert not profile.meta.complete and losses(profile)[nsight_report.DAMAGED][0] == 1
    deep = b"".join(encode_varint(21 << 3 | 2) + struct.pack("B", 100) for _ in range(1000))
    assert profile_of(made.result(made.block(made.launch("f", deep)))).profiled_kernels.num_rows == 1


@settings(max_examples=60)
@given(st.integers(0, len(REPORT) - 1))
def test_truncated_anywhere(at: int) -> None:
    try:
        profile = profile_of(REPORT[:at])
    except UnreadableInput:
        assert at < REPORT.index(b"add(int)") + 8
        return
    whole = made.ends_of(REPORT)
    assert profile.meta.complete == (at in whole)
    assert profile.profiled_kernels.num_rows in (1, 2)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(8, len(REPORT) - 1), st.integers(0, 255)), min_size=1, max_size=8))
@pytest.mark.heavy
def test_changed_bytes_do_not_fail(changes: list[tuple[int, int]]) -> None:
    data = bytearray(REPORT)
    for at, byte in changes:
        data[at] = byte
    try:
        profile = profile_of(bytes(data))
    except UnreadableInput:
        return
    compute_nsight(profile, Selection())
    compute_nsight_metrics(profile, Selection())
    compute_nsight_source(profile, Selection())


def test_units_from_names() -> None:
    assert {
        name: get_unit(name)
        for name in (
            *("gpu__time_duration.sum", "dram__bytes.sum.per_second", "lts__t_sectors.sum", "sm__cycles_active.avg"),
            *("sm__inst_executed.avg.per_cycle_active", "launch__shared_mem_per_block", "l1tex__t_requests.sum"),
            *("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "launch__grid_size", "a", "x__"),
            *("breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed", "lts__t_sector_hit_rate.pct"),
        )
    } == {
        "gpu__time_duration.sum": "ns",
        "dram__bytes.sum.per_second": "byte/second",
        "lts__t_sectors.sum": "sector",
        "sm__cycles_active.avg": "cycle",
        "sm__inst_executed.avg.per_cycle_active": "inst/cycle",
        "launch__shared_mem_per_block": "byte/block",
        "l1tex__t_requests.sum": "request",
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": "",
        "launch__grid_size": "",
        "a": "",
        "x__": "",
        "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed": "",
        "lts__t_sector_hit_rate.pct": "%",
    }
