"""mllm's perf.json: figures computed by hand, and damaged files."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.ml.operators import compute_operators
from perfloom.analysis.tables import TABLES, records
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.readers import detect_format, mllm
from perfloom.readers.mllm import profile as mllm_assembly
from tests.support import paths

FILE = paths.DATA / "mllm/perf.json"
ORACLE = paths.ORACLES / "mllm/perf.json"
INIT = 1753865973438000


def read(data: bytes | dict[str, Any]) -> Profile:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    assert detect_format(text).name == mllm.FORMAT
    found = mllm.read(io.BytesIO(text))
    assert find_error(found) is None
    return found


def table(profile: Profile, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = records(TABLES[name].compute(profile, Selection()))
    return found


def losses(profile: Profile) -> dict[str, int]:
    return {row["reason"]: row["count"] for row in profile.losses.to_pylist()}


def test_handwritten_file() -> None:
    """The peak of the CPU: 4096 + 1024 + 2048 from 40 to 80 µs."""
    found = read(FILE.read_bytes())
    memory = {row["device"]: row for row in table(found, "memory")}
    assert memory["CPU"]["peak_bytes"] == 4096 + 1024 + 2048 and memory["CPU"]["unfreed"] == 1
    names, threads = get_strings(found.functions, "name"), get_strings(found.threads, "name")
    rows = [
        (names[r["function"]], r["start_ns"], r["duration_ns"], threads[r["thread"]]) for r in found.slices.to_pylist()
    ]
    assert sorted(row for row in rows if not row[3].startswith("memory")) == [
        ("attention", 0, 50_000, "CPU"),
        ("linear", 10_000, 20_000, "CPU"),
        ("linear", 20_000, 40_000, "CPU (2)"),
        ("softmax", 40_000, 15_000, "OpenCL"),
    ]
    assert sorted(row for row in rows if row[3].startswith("memory")) == [
        ("1.00 KiB, never freed", 10_000, 80_000, "memory of CPU"),
        ("2.00 KiB", 30_000, 40_000, "memory of CPU"),
        ("4.00 KiB", 0, 90_000, "memory of CPU"),
        ("8.00 KiB", 20_000, 60_000, "memory of OpenCL"),
    ]
    by_device = records(compute_operators(found, Selection(), "device"))
    assert [(row["name"], row["calls"], row["host_total_us"]) for row in by_device] == [
        ("CPU", 3, 110.0),
        ("OpenCL", 1, 15.0),
    ]
    assert set(get_strings(found.events, "name")) == {
        "host time",
        *(f"{device} bytes {what}" for device in ("CPU", "OpenCL") for what in ("live at peak", "allocated")),
    }
    curve = [(row["time_us"], row["bytes"]) for row in table(found, "memory-curves") if row["device"] == "OpenCL"]
    assert curve == [(0, 0), (20, 8192), (80, 0)]
    by_name = {row["name"]: (row["calls"], row["host_total_us"]) for row in table(found, "operators")}
    assert by_name == {"attention": (1, 50.0), "linear": (2, 60.0), "softmax": (1, 15.0)}
    assert (
        found.meta.facts["clock"] == "microseconds, from init_time, which is relative to the Unix epoch"
        and found.meta.complete
    )
    assert found.meta.start_epoch_ns == (INIT + 10) * 1000 and found.meta.duration_ns == 90_000
    assert not found.losses.num_rows


@pytest.mark.skipif(not ORACLE.exists(), reason="the file lies outside of the checkout")
def test_real_file() -> None:
    """13 blocks, all of which live when the last is allocated."""
    blobs = json.loads(ORACLE.read_text())["memory_blobs"]
    found = read(ORACLE.read_bytes())
    (memory,) = table(found, "memory")
    assert memory["peak_bytes"] == sum(blob["memory_usage"] for blob in blobs) == 486_572_032
    assert (memory["allocations"], memory["frees"], memory["unfreed"]) == (13, 13, 0)
    assert found.meta.duration_ns == 1000 * (1753865973439167 - 1753865973438862)


@pytest.mark.parametrize(
    ("scale", "unit"), [(1000, "nanoseconds"), (1, "microseconds"), (1e-3, "milliseconds"), (1e-6, "seconds")]
)
def test_unit_is_derived_from_the_year(scale: float, unit: str) -> None:
    start = int(INIT * scale)
    blob = {"device_type": "CPU", "start_time": start + 1, "end_time": start + 3, "memory_usage": 1, "uuid": 0}
    found = read({"init_time": start, "memory_blobs": [blob]})
    assert found.meta.facts["clock"] == f"{unit}, from init_time, which is relative to the Unix epoch"
    assert (
        found.meta.duration_ns
        == {"nanoseconds": 2, "microseconds": 2_000, "milliseconds": 2_000_000, "seconds": 2 * 10**9}[unit]
    )


def test_requested_time_unit() -> None:
    """Even if the times are not since an epoch."""
    for clock, factor in (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)):
        found = mllm.read(io.BytesIO(FILE.read_bytes()), "perf.json", clock)
        assert find_error(found) is None and found.meta.duration_ns == 90 * factor and not found.losses.num_rows
        assert found.meta.facts["clock"].endswith("seconds, as requested")
        assert (found.meta.start_epoch_ns is not None) == (clock == "us"), "the others are no time that can be"
        assert {row["device"]: row["peak_bytes"] for row in table(found, "memory")} == {"CPU": 7168, "OpenCL": 8192}


def test_unknown_clock_is_microseconds() -> None:
    blob = {"device_type": "CPU", "start_time": 1, "end_time": 3, "memory_usage": 1, "uuid": 0}
    found = read({"init_time": 0, "memory_blobs": [blob]})
    assert found.meta.duration_ns == 2_000 and "assumed" in found.meta.facts["clock"]


def test_losses() -> None:
    good = {"device_type": "CPU", "start_time": INIT + 5, "end_time": INIT + 9, "memory_usage": 64, "uuid": 7}
    blobs = [
        good,
        good | {"uuid": 7, "memory_usage": 32},
        good | {"uuid": 8, "memory_usage": -1},
        good | {"uuid": 9, "start_time": INIT + 20, "end_time": INIT + 1},
        {"start_time": INIT},
        "block",
        None,
    ]
    operators = [
        {"op_name": "f", "device_type": "CPU", "start_time": INIT, "end_time": INIT + 4},
        {"device_type": "CPU", "start_time": INIT, "end_time": INIT + 4},
    ]
    found = read({"init_time": INIT, "memory_blobs": blobs, "op_blobs": operators, "notes": 1})
    assert losses(found) == {
        mllm_assembly.INCOMPLETE_ENTRY: 5,
        mllm_assembly.DUPLICATE_BLOCK: 1,
        mllm_assembly.BACKWARDS: 1,
        mllm_assembly.UNKNOWN_PART: 1,
    }
    assert table(found, "memory")[0]["peak_bytes"] == 96


def test_comments_are_skipped() -> None:
    text = FILE.read_bytes().replace(b"{\n", b'{ // a "comment"\n/* "memory_blobs": [ */\n', 1)
    assert table(read(text), "memory") == table(read(FILE.read_bytes()), "memory")


@settings(max_examples=40)
@given(st.data())
def test_truncated_anywhere(data: st.DataObject) -> None:
    text = FILE.read_bytes()
    at = data.draw(st.integers(1, len(text.rstrip()) - 1))
    try:
        found = mllm.read(io.BytesIO(text[:at]))
    except UnreadableInput:
        assert text[:at].count(b"}") == 0
        return
    assert not found.meta.complete and found.meta.reasons == (mllm_assembly.CUT_OFF,)
    assert found.slices.num_rows == text[:at].count(b"}")


@pytest.mark.parametrize("text", [b'{"init_time": 5, "memory_blobs": []}', b'{"memory_blobs": [], "op_blobs": [1]}'])
def test_empty_files_are_refused(text: bytes) -> None:
    with pytest.raises(UnreadableInput):
        mllm.read(io.BytesIO(text))
