"""Recordings without their end: perf was killed, the file was cut, or another version wrote it."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.rank_state import END_MISSING
from perfloom.readers.perf_header import get_perf_version
from perfloom.workers.read import reading
from tests.support.parts import require
from tests.workers.test_reading import unpacked


@pytest.mark.slow
def test_a_recording_cut_at_every_place(settings: Settings, tmp_path: Path) -> None:
    """Cut at places all over it, and within the header: what is whole is read, and said to be incomplete."""
    require("perf")
    raw = unpacked(tmp_path).read_bytes()
    whole = reading.read_profile(settings, [tmp_path / "perf.data"]).samples.num_rows
    counts = []
    for end in [*range(1024, len(raw), 2500), 50, 104, len(raw) - 1]:
        path = tmp_path / "cut"
        path.write_bytes(raw[:end])
        try:
            profile = reading.read_profile(settings, [path])
        except UnreadableInput as error:
            assert end < 1024 and "it is cut short" in error.message, error.message
            continue
        assert not profile.meta.complete or profile.samples.num_rows == whole
        counts.append(profile.samples.num_rows)
    assert counts[:-1] == sorted(counts[:-1])
    assert max(counts) <= whole


@pytest.mark.parametrize("packed", [(), ("-z",)])
def test_a_recording_whose_perf_was_killed_is_read_as_far_as_it_was_written(
    settings: Settings, tmp_path: Path, packed: tuple[str, ...]
) -> None:
    perf, path = require("perf"), tmp_path / "killed.data"
    spin = [sys.executable, "-c", "while True: pass"]
    argv = [
        perf,
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "4999",
        "-m",
        "4",
        "-g",
        *packed,
        "-o",
        str(path),
        "--",
        *spin,
    ]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 60
            while not (path.exists() and path.stat().st_size > (30_000 if packed else 100_000)):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.05)
        finally:
            # The program outlives its perf.
            os.killpg(process.pid, signal.SIGKILL)
    assert path.read_bytes()[48:56] == bytes(8), "perf did not finish the header"
    profile = reading.read_profile(settings, [path])
    assert profile.samples.num_rows > 100
    assert not profile.meta.complete and "perf was ended before it finished" in profile.meta.reasons[0]
    (lost,) = (row for row in profile.losses.to_pylist() if row["reason"] == END_MISSING)
    assert "perf was ended before it finished" in lost["example"]


def test_a_compressed_recording_that_was_cut_short(settings: Settings, tmp_path: Path) -> None:
    perf, path = require("perf"), tmp_path / "packed.data"
    work = [sys.executable, "-S", "-c", "sum(range(20_000_000))"]
    argv = [perf, "record", "-q", "-z", "-m", "4", "-e", "cpu-clock", "-F", "4999", "-g", "-o", str(path), "--", *work]
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
    whole, raw = reading.read_profile(settings, [path]).samples.num_rows, path.read_bytes()
    records = sum(struct.unpack_from("<2Q", raw, 40))
    for end, least, most in ((len(raw) - 1, whole, whole), (records * 3 // 4, 1, whole - 1)):
        (tmp_path / "cut.data").write_bytes(raw[:end])
        cut = reading.read_profile(settings, [tmp_path / "cut.data"])
        assert not cut.meta.complete and least <= cut.samples.num_rows <= most


def test_a_recording_of_a_newer_perf_names_both_versions(settings: Settings, tmp_path: Path) -> None:
    require("perf")
    path = unpacked(tmp_path)
    raw = bytearray(path.read_bytes())
    ours = get_perf_version(bytes(raw)) or ""
    raw[:] = raw.replace(ours.encode(), b"99.1".ljust(len(ours), b"\0"))
    # What this perf does not know: a header of another size.
    raw[8:16] = (4096).to_bytes(8, "little")
    path.write_bytes(raw)
    with pytest.raises(UnreadableInput, match=r"written by perf 99\.1, and perf here is \d+\.\d+.*install perf 99\.1"):
        reading.read_profile(settings, [path])
