"""The header of perf.data: the version of perf, and the repair of unfinished files."""

from __future__ import annotations

import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from perfloom.readers.perf_header import (
    INCOMPLETE_RECORDING,
    count_throttle_events,
    explain_truncation,
    explain_version_mismatch,
    get_perf_version,
    parse_version,
    plan_repair,
)
from tests.support import paths

SPIN = paths.DATA / "perf" / "spin.perf.data.zst"
DATA_AT, VERSION_BIT = 40, 5


@pytest.fixture(scope="module")
def spin() -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(SPIN.read_bytes()).read()


def data_section(raw: bytes) -> tuple[int, int]:
    start, size = struct.unpack_from("<2Q", raw, DATA_AT)
    return start, size


def unfinished(raw: bytes) -> bytes:
    """As a killed perf leaves it: no size of the records, no features, nothing after the records."""
    start, size = data_section(raw)
    head = bytearray(raw[: start + size])
    struct.pack_into("<Q", head, DATA_AT + 8, 0)
    head[72:104] = bytes(32)
    return bytes(head)


def made(records: bytes, size: int, order: str = "<") -> bytes:
    magic = b"PERFILE2" if order == "<" else b"2ELIFREP"
    return magic + struct.pack(f"{order}12Q", 104, 144, 104, 0, 104, size, 0, 0, 0xFF, 0, 0, 0) + records


def record(length: int, kind: int = 9, order: str = "<") -> bytes:
    return struct.pack(f"{order}IHH", kind, 0, length) + bytes(length - 8)


def test_complete_file_needs_no_repair(spin: bytes) -> None:
    assert plan_repair(spin) is None
    assert get_perf_version(spin) is not None


def test_unfinished_header_is_repaired(spin: bytes) -> None:
    start, size = data_section(spin)
    plan = plan_repair(unfinished(spin))
    assert plan is not None and plan.defect == INCOMPLETE_RECORDING and plan.end == start + size
    assert struct.unpack_from("<2Q", plan.header, DATA_AT) == (start, size)
    assert plan.header[:72] == spin[:72] and plan.header[72:] == bytes(32)


@pytest.mark.parametrize("order", ["<", ">"])
def test_incomplete_records_are_dropped(order: str) -> None:
    whole = record(16, order=order) + record(40, order=order)
    for rest in (b"", record(24, order=order)[:20], b"\0\0", bytes(64)):
        plan = plan_repair(made(whole + rest, 0, order))
        assert plan is not None and plan.end == 104 + len(whole)
        assert struct.unpack_from(f"{order}Q", plan.header, DATA_AT + 8) == (len(whole),)
    assert plan_repair(made(b"", 0, order)) is None
    assert plan_repair(made(bytes(64), 0, order)) is None


def test_raw_data_after_a_record_is_kept() -> None:
    aux = struct.pack("<IHH", 71, 0, 48) + struct.pack("<Q", 100) + bytes(32) + b"\xff" * 100
    plan = plan_repair(made(aux + record(16), 0))
    assert plan is not None and plan.end == 104 + len(aux) + 16


def test_missing_bytes_are_reported() -> None:
    plan = plan_repair(made(record(16) + record(16)[:9], 64))
    assert plan is not None and (plan.end, plan.defect) == (
        120,
        "The recording is truncated: at least 39 bytes at its end are missing.",
    )


def test_truncation_is_explained(spin: bytes) -> None:
    assert explain_truncation(spin) == "" and explain_truncation(unfinished(spin)) == ""
    assert explain_truncation(spin[:50]) == "it is cut short after 50 bytes, within its header."
    for size in (104, 200, 300, len(spin) - 1):
        explanation = explain_truncation(spin[:size])
        assert explanation.startswith(f"it is cut short, {size:,} of at least ") and explanation.endswith(
            " bytes are there."
        )
    # Other files, and recordings that were written to a pipe, have no such header.
    assert explain_truncation(b"") == explain_truncation(b"PERFILE2" + struct.pack("<Q", 16)) == ""


def test_truncated_features_are_dropped(spin: bytes) -> None:
    start, size = data_section(spin)
    for missing in (1, 100, len(spin) - start - size):
        plan = plan_repair(spin[: len(spin) - missing])
        assert plan is not None and plan.end == start + size
        assert missing > 100 or f"at least {missing} bytes at its end are missing" in plan.defect


def test_perf_version(spin: bytes) -> None:
    assert get_perf_version(unfinished(spin)) is None
    assert get_perf_version(b"") is None and get_perf_version(b"PERFILE2" + bytes(8)) is None
    text = struct.pack("<I", 64) + b"6.12.1".ljust(64, b"\0")
    # Two features precede that of the version, which is the third of this file.
    sections = struct.pack("<6Q", 0, 0, 0, 0, 104 + 16 + 48, len(text))
    head = bytearray(made(record(16) + sections + text, 16))
    struct.pack_into("<Q", head, 72, 1 << 2 | 1 << 3 | 1 << VERSION_BIT)
    assert get_perf_version(bytes(head)) == "6.12.1"


@given(st.binary(max_size=300), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_header_is_accepted(records: bytes, size: int, features: int) -> None:
    head = bytearray(made(records, size))
    struct.pack_into("<Q", head, 72, features)
    get_perf_version(bytes(head))
    plan = plan_repair(bytes(head))
    assert plan is None or 104 < plan.end <= len(head)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("perf version 6.1.187", (6, 1)),
        ("6.12.1", (6, 12)),
        ("perf version 5.15.g8bb7eca", (5, 15)),
        ("٦.١", None),
        ("6.9-rc3", (6, 9)),
        ("", None),
        ("perf", None),
    ],
)
def test_versions(text: str, numbers: tuple[int, int] | None) -> None:
    assert parse_version(text) == numbers


def test_version_mismatch_names_both_versions() -> None:
    told = explain_version_mismatch("6.12.1", "perf version 6.1.187")
    assert "written by perf 6.12.1" in told and "perf here is 6.1.187" in told and "install perf 6.12 or newer" in told
    for written, here in ((None, "perf version 6.1"), ("6.1.5", "perf version 6.1.187"), ("5.10", "perf version 6.1")):
        assert explain_version_mismatch(written, here) == ""


@pytest.mark.parametrize("order", ["<", ">"])
def test_throttling_is_counted(spin: bytes, order: str) -> None:
    records = record(16, order=order) + 3 * record(32, 5, order) + record(24, 6, order)
    assert count_throttle_events(made(records, len(records), order)) == 3
    assert count_throttle_events(made(records, 16 + 32 + 8, order)) == 1
    assert count_throttle_events(made(records, 1 << 60, order)[:-20]) == 3
    assert count_throttle_events(b"") == count_throttle_events(b"cut") == count_throttle_events(spin) == 0


def test_compressed_records_keep_the_compression_feature() -> None:
    unpacked = bytes(300_000)
    packer = zstandard.ZstdCompressor().compressobj()
    first = packer.compress(unpacked) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    second = packer.compress(b"x" * 50) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    records = [struct.pack("<IHH", 81, 0, 8 + len(data)) + data for data in (first, second)]
    sized = struct.pack("<IHHQ", 83, 0, 24 + len(first), len(first)) + first + bytes(8)
    for whole in (b"".join(records), sized):
        plan = plan_repair(made(whole + record(16)[:9], 0))
        assert plan is not None and plan.end == 104 + len(whole)
        assert struct.unpack_from("<Q", plan.header, 72) == (1 << 27,)
        place, length, version, algorithm, _, _, room = struct.unpack("<2Q5I", plan.features)
        assert (place, length, version, algorithm) == (plan.end + 16, 20, 1, 1)
        assert 300_000 + 65_536 <= room < 600_000
    damaged = struct.pack("<IHH", 81, 0, 40) + b"\xff" * 32
    plan = plan_repair(made(record(16) + damaged, 0))
    assert plan is not None and (plan.end, plan.features) == (104 + 16, b"")
