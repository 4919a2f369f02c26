"""Nsight Compute CSV: all its pages, other versions and languages, and invalid, truncated or malicious files."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.tables import DEVICE_TIME, get_column, get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.nsight.kernel_names import get_function_name, normalize_kernel_name
from perfloom.readers import detect_format, nsight_compute
from perfloom.readers.nsight_compute import csv_tables as nsight_pages
from perfloom.readers.nsight_compute.numbers import DecimalMark, to_bytes, to_nanoseconds
from tests.support import paths

DATA = paths.DATA / "nsight"
RAW, DETAILS, SOURCE, ALONE = ((DATA / f"{name}.csv").read_bytes() for name in ("raw", "details", "source", "alone"))
ALL = RAW + DETAILS + SOURCE
IDENTITY = '"ID","Process ID","Kernel Name","Stream","Block Size","Grid Size"'
DURATION = "gpu__time_duration.sum"
HEAD = f'{IDENTITY},"{DURATION}"\n'


def profile_of(data: bytes | str) -> Profile:
    """The profile of a file, recognized by its content."""
    data = data.encode() if isinstance(data, str) else data
    reader = detect_format(data[: 256 << 10], "x.csv")
    assert reader.name == nsight_compute.CSV_FORMAT
    profile = reader.read(io.BytesIO(data), "x.csv")
    assert find_error(profile) is None
    return profile


def row(number: int = 0, name: str = "f(int)", *cells: str) -> str:
    """A row of the page raw."""
    return ",".join(f'"{cell}"' for cell in (number, 9, name, 7, "(32, 1, 1)", "(4, 1, 1)", *cells)) + "\n"


def test_pages_describe_the_same_launches() -> None:
    profile = profile_of(ALL)
    assert get_strings(profile.functions, "name")[:1] == [get_strings(profile_of(RAW).functions, "name")[0]]
    assert get_column(profile.profiled_kernels, "number").tolist() == [0, 1, 2]
    assert get_strings(profile.profiled_kernels, "ranges") == ["forward", "forward / linear: 1", ""]
    assert get_column(profile.slices, "duration_ns").tolist() == [72_928, 53_664, 22_336]
    # Consecutive, on any stream; the total time is unknown.
    assert get_column(profile.slices, "start_ns").tolist() == [0, 72_928, 126_592]
    assert profile.meta.duration_ns is None and "one after another" in profile.meta.facts["times"]
    assert get_strings(profile.events, "name") == [DEVICE_TIME]
    assert get_column(profile.samples, "weight").sum() == 148_928
    assert [get_strings(profile.threads, "name"), get_strings(profile.threads, "host")] == [
        ["stream 7", "stream 20"],
        ["node17"] * 2,
    ]
    second = profile.configurations.to_pylist()[1]
    assert (second["grid_x"], second["grid_y"], second["block_x"], second["registers"]) == (16, 8, 256, 122)
    # Memory that the system reserves is not the kernel's.
    assert (second["shared_bytes"], second["occupancy_percent"]) == (12_288, 25.0)
    assert second["blocks_per_sm"] == pytest.approx(128 / 108)
    device = profile.devices.to_pylist()[0]
    assert (device["name"], device["compute"], device["sms"]) == ("NVIDIA A100-SXM4-40GB", "8.0", 108)
    assert profile.losses.num_rows == 0 and profile.meta.complete


def test_metrics_hints_and_lines() -> None:
    profile = profile_of(ALL)
    metrics, values = profile.metrics.to_pylist(), profile.metric_values.to_pylist()
    told = {
        (metric["section"], metric["label"], metric["name"], metric["unit"]): (of["value"], of["text"])
        for of in values
        if of["kernel"] == 1
        for metric in [metrics[of["metric"]]]
    }
    section = "GPU Speed Of Light Throughput"
    throughput = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    assert told[section, "Compute (SM) Throughput", throughput, "%"] == (62.38, None)
    assert told[None, None, throughput, "%"] == (62.38, None)
    assert told[None, None, "dram__bytes_read.sum", "byte"] == (8_460_288.0, None)
    assert told[None, None, "device__attribute_display_name", ""] == (None, "NVIDIA A100-SXM4-40GB")
    assert told[None, None, "smsp__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active", "%"] == (None, "n/a")
    stall = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    assert any(metric["part"] == "Warp State (All Cycles)" and metric["name"] == stall for metric in metrics)
    hints = [hint for hint in profile.hints.to_pylist() if hint["kernel"] == 1]
    assert [(hint["rule"], hint["kind"], hint["speedup_percent"]) for hint in hints[:2]] == [
        ("SOLBottleneck", "WRN", None),
        ("LaunchConfiguration", "OPT", 37.62),
    ]
    lines = profile.source_lines.to_pylist()
    assert [line["kernel"] for line in lines] == [0] * 6 + [1] * 4 + [2] * 6
    assert (lines[3]["address"], lines[3]["text"].strip()) == (0x7F1C40200030, "FADD R8, R4, R12")
    mine = {metrics[of["metric"]]["label"]: of["value"] for of in profile.source_values.to_pylist() if of["line"] == 3}
    assert mine["# Samples"] == 1204 and mine["stall_long_sb"] == 1180 and "stall_barrier" not in mine


def test_german_locale_and_older_version() -> None:
    profile = profile_of(ALONE)
    assert get_column(profile.slices, "duration_ns").tolist() == [41_280, 40_900]
    assert get_column(profile.metric_values, "value").tolist() == [41.28, 1024.5, 62.5, 40.9, 1023.0, 62.5]
    assert profile.losses.num_rows == 0


def test_single_pages() -> None:
    assert get_column(profile_of(DETAILS).slices, "duration_ns").tolist() == [72_928, 53_664, 22_336]
    only = profile_of(SOURCE)
    assert only.profiled_kernels.num_rows == 3 and not only.slices.num_rows and not only.events.num_rows
    assert "launches without a duration" in only.meta.facts


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + RAW,
        RAW.replace(b"\n", b"\r\n"),
        b"\xff\xfe" + RAW.decode().encode("utf-16-le"),
        b'It is "fine\n==WARNING== x\n' + RAW + b"max error: 0.5\n",
    ],
)
def test_encodings(data: bytes) -> None:
    profile = profile_of(data)
    assert get_column(profile.metric_values, "value").tolist()[5] == 33_120_256 and profile.meta.complete
    assert get_column(profile.slices, "duration_ns").tolist() == [72_928, 53_664, 22_336]
    assert profile.losses.num_rows == 0


def test_source_lines() -> None:
    text = (
        '"Kernel Name","f(int)",\n"File Path","/src/a,b.cu"\n"#","Source","# Samples"\n'
        '"11","  x[i] = ""1"";","40"\n"12","}","0"\n"File Path","/src/b.h"\n"#","Source","# Samples"\n"3","y();","2"\n'
    )
    profile = profile_of(HEAD + row(0, "f(int)", "5") + row(1, "g(int)", "7") + text)
    lines = profile.source_lines.to_pylist()
    assert [(of["kernel"], of["file"], of["line"], of["text"]) for of in lines] == [
        (0, "/src/a,b.cu", 11, '  x[i] = "1";'),
        (0, "/src/a,b.cu", 12, "}"),
        (0, "/src/b.h", 3, "y();"),
    ]
    assert get_column(profile.source_values, "value").tolist() == [40.0, 2.0]


def test_launches_with_instances_and_repeated_ids() -> None:
    text = HEAD.replace('"\n', '","l1__x.sum"\n') + row(3, "f", "5", "6 (1; 2; 3)") + row(3, "f", "8", "nan")
    profile = profile_of(text)
    assert get_column(profile.profiled_kernels, "number").tolist() == [3, 3]
    assert get_column(profile.slices, "duration_ns").tolist() == [5, 8]
    told = profile.metric_values.to_pylist()
    assert (told[1]["value"], told[1]["text"]) == (6.0, "6 (1; 2; 3)") and told[3]["value"] is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD + row(0, "f", "5") + row(1, "f"), nsight_pages.OTHER_COLUMNS),
        (HEAD + row(0, "f", "5") + '"","","","","","",""\n', ""),
        (HEAD + row(0, "f", "5") + '"1","9","never ends,7\n' + row(2, "f", "6"), nsight_pages.UNTERMINATED_QUOTE),
        (HEAD + row(0, "f", "5") + row(1, "x" * (5 << 20), "6"), nsight_pages.TOO_LONG),
        (HEAD + row(0, "f", "5") + '"0x1","9","f","7","(1, 1, 1)","(1, 1, 1)","5"\n', nsight_pages.OTHER_COLUMNS),
        (HEAD + row(0, "f", "5") + row(1, "y" * 200_000, "6"), ""),
        (HEAD + row(0, "f", "5") + "1,9,f\rx,7,8,9,5\n", nsight_pages.OTHER_COLUMNS),
    ],
)
def test_damaged_rows_are_losses(text: str, reason: str) -> None:
    profile = profile_of(text)
    assert get_column(profile.slices, "duration_ns").tolist()[0] == 5
    if reason:
        assert [loss["reason"] for loss in profile.losses.to_pylist()] == [reason]
        assert profile.losses.to_pylist()[0]["example"].startswith("line 3: ")


@pytest.mark.heavy
def test_truncated_anywhere() -> None:
    kept = 0
    for length in range(900, len(ALL), len(ALL) // 60):
        try:
            profile = profile_of(ALL[:length])
        except UnreadableInput as error:
            assert "no kernel launch" in error.message or "is unknown" in error.message
            continue
        kept += 1
        assert profile.meta.complete == (ALL[length - 1 : length] == b"\n" or not profile.losses.num_rows)
    assert kept > 40


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD, "no kernel launch"),
        (HEAD + "==ERROR== No kernels were profiled.\n", "ncu reported: No kernels were profiled"),
        (
            '"Process ID","Kernel Name","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum"\n',
            "without",
        ),
    ],
)
def test_file_without_launches_has_advice(text: str, told: str) -> None:
    with pytest.raises(UnreadableInput, match=told) as caught:
        profile_of(text)
    assert "ncu --import" in caught.value.message


def test_huge_names_and_numbers() -> None:
    hostile = ["<script>x</script>", "=1+1", "\u202eevil", "a" * 9_000, "nul\x01", "f(" * 400, "<" * 400, "::", "(", ""]
    text = HEAD + "".join(row(n, name, "9" * 50) for n, name in enumerate(hostile))
    text += '"1e999","9","f","7","(99999999999999999999, 1, 1)","","1e308"\n'.replace("1e999", "9" * 30)
    profile = profile_of(text)
    assert profile.profiled_kernels.num_rows == len(hostile) + 1 and not profile.slices.num_rows
    for name in hostile:
        assert isinstance(normalize_kernel_name(name) + get_function_name(name), str)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            "void at::native::f<(int)4, at::native::Add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
            "void at::native::f<4, at::native::Add<float>, std::array<char*, 3ul> >(int, at::native::Add<float>, "
            "std::array<char*, 3ul>)",
        ),
        ("void k<(bool)1, (bool)0>(T1)", "void k<true, false>(float)"),
        ("gemm_128x64_nn", "gemm_128x64_nn"),
        ("void <unnamed>::f<(int)-1>(T1 *)", "void (anonymous namespace)::f<-1>(float*)"),
    ],
)
def test_kernel_names_are_normalized(a: str, b: str) -> None:
    assert normalize_kernel_name(a) == normalize_kernel_name(b)
    assert normalize_kernel_name(a) != normalize_kernel_name(
        a.replace("f", "g").replace("k", "h").replace("gemm", "copy")
    )


def test_function_names() -> None:
    assert get_function_name("void at::native::f<(int)4, a::B<c::D>>(int)") == "f"
    assert get_function_name("(anonymous namespace)::g(int)") == "g"


@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=8), st.booleans())
def test_numbers_in_both_locales(values: list[object], comma: bool) -> None:
    """With two decimals, as ncu prints them, every number shows the locale."""
    shown = [f"{value:,}" for value in values]
    shown = [text.translate(str.maketrans(",.", ".,")) if comma else text for text in shown]
    style = DecimalMark()
    for text in shown:
        style.feed(text)
    assert style.is_comma == comma
    assert [style.make_parser()(text) for text in shown] == [float(str(value)) for value in values]


def test_ambiguous_numbers_are_english() -> None:
    style = DecimalMark()
    style.feed("1,234")
    assert [
        style.make_parser()(text) for text in ("1,234", "1.234", "1 234.5", "1'234", "1e3", "-0", "12x", "nan", "inf")
    ] == [
        *(1234.0, 1.234, 1234.5, 1234.0, 1000.0, 0.0),
        *(None, None, None),
    ]


def test_units() -> None:
    assert [to_nanoseconds(2.0, unit) for unit in ("ns", "nsecond", "usecond", "us", "ms", "second", "byte")] == [
        *(2, 2, 2e3, 2e3, 2e6, 2e9),
        None,
    ]
    assert [to_bytes(2.0, unit) for unit in ("byte", "byte/block", "Kbyte/block", "MB", "KiB", "Gibyte", "ns")] == [
        *(2, 2, 2e3, 2e6, 2048, 2 * 1024**3),
        None,
    ]
