"""A new recording, compared with the output of perf itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from perfloom.config import Settings
from perfloom.domain.event_names import NOT_OBSERVABLE
from perfloom.domain.losses import EVENT_WITHOUT_VALUE
from perfloom.domain.profile import Profile
from perfloom.readers import perf_script
from perfloom.workers.read import reading
from tests.support import paths
from tests.support.parts import require, require_reference_perf
from tests.support.samples import has_additional_name, samples_of, without_additional_names

pytestmark = pytest.mark.heavy

PROGRAM = """
import threading

def leaf(n): return sum(i * i for i in range(n))
def middle(n): return [leaf(n) for _ in range(20)]
def outer(n):
    for _ in range(40): middle(n); bytearray(1 << 20)

threads = [threading.Thread(target=outer, args=(400 * (i + 1),)) for i in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
# Of one frame: address, symbol with offset, module.
FrameText = tuple[int, str, str]


class Printed(NamedTuple):
    """A sample as perf script prints it."""

    time_ns: int
    comm: str
    pid: int
    tid: int
    event: str
    period: int
    stack: tuple[FrameText, ...]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    perf = require("perf")
    path = tmp_path_factory.mktemp("recording") / "perf.data"
    argv = [perf, "record", "-q", "-N", "-g", "-e", "cpu-clock,page-faults,context-switches", "-F", "1999"]
    done = subprocess.run(
        [*argv, "-o", path, "--", sys.executable, "-c", PROGRAM], capture_output=True, text=True, errors="replace"
    )
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def profile(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    settings = Settings.load(tmp_path_factory.mktemp("data"), environ={}, reserve_bytes=0)
    return reading.read_profile(settings, [recording])


def perf(*argv: str | Path) -> str:
    # Other recordings in ~/.debug could name more functions.
    alone = os.environ | {"HOME": "/nonexistent"}
    done = subprocess.run([require("perf"), *argv], capture_output=True, check=True, env=alone)
    return done.stdout.decode(errors="backslashreplace")


def printed(text: str) -> Iterator[Printed]:
    """Samples in the text of perf script, by splitting at spaces, without regular expressions of the reader."""
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith("#")]
        if not lines or "PERF_RECORD_" in lines[0]:
            continue
        *comm, ids, seconds, period, event = lines[0].split()
        pid, tid = ids.split("/")
        stack = []
        for line in lines[1:]:
            address, symbol = line.strip().split(" ", 1)
            name, _, module = symbol.rpartition(" (")
            stack.append((int(address, 16), name, module.removesuffix(")")))
        whole, fraction = seconds.removesuffix(":").split(".")
        time_ns = int(whole) * 10**9 + int(fraction)
        yield Printed(time_ns, " ".join(comm), int(pid), int(tid), event.removesuffix(":"), int(period), tuple(stack))


def test_stacks_equal_perf_script_sample_by_sample(recording: Path, profile: Profile) -> None:
    require_reference_perf()
    fields = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"
    wanted = list(printed(perf("script", "-i", recording, "--ns", "--no-inline", "-F", fields)))
    found = [
        Printed(
            sample.time_ns,
            sample.comm or "",
            sample.pid or 0,
            sample.tid or 0,
            sample.event,
            sample.weight,
            tuple(
                (
                    frame.address or 0,
                    frame.name + (f"+{frame.offset:#x}" if frame.offset is not None else ""),
                    frame.module,
                )
                for frame in reversed(sample.stack)
            ),
        )
        for sample in samples_of(profile)
    ]
    assert len(found) > 100
    more = {
        (sample.time_ns, sample.tid, frame[0], frame[2])
        for sample in found
        for frame in sample.stack
        if has_additional_name(frame[1], frame[2])
    }

    def shorten(sample: Printed) -> Printed:
        stack = ((0, "", "") if (sample.time_ns, sample.tid, f[0], f[2]) in more else f for f in sample.stack)
        return sample._replace(stack=tuple(stack))

    assert Counter(map(shorten, found)) == Counter(map(shorten, wanted))
    assert [sample.time_ns for sample in found] == sorted(sample.time_ns for sample in found)
    assert profile.meta.format == "perf-data"
    # An unprivileged user records no switches of the kernel.
    known = ("samples lost while recording", f"{EVENT_WITHOUT_VALUE}{NOT_OBSERVABLE}")
    assert not [row for row in profile.losses.to_pylist() if row["reason"] not in known]


def test_totals_by_event_equal_perf_report(recording: Path, profile: Profile) -> None:
    text = perf("report", "-i", recording, "--stdio", "-g", "none")
    wanted = {
        name: int(total) for name, total in re.findall(r"of event '([^']+)'\n# Event count \(approx\.\): (\d+)", text)
    }
    assert {name.partition(":")[0] for name in wanted} >= {"cpu-clock", "page-faults"}
    found: Counter[str] = Counter()
    for sample in samples_of(profile):
        found[sample.event] += sample.weight
    assert {name: total for name, total in wanted.items() if total} == dict(found)


def test_units_and_sampling(profile: Profile) -> None:
    events = {row["name"].partition(":")[0]: row for row in profile.events.to_pylist()}
    assert (events["cpu-clock"]["unit"], events["page-faults"]["unit"]) == ("ns", "count")
    assert (events["cpu-clock"]["sampling"], events["cpu-clock"]["rate"]) == ("frequency", 1999.0)
    assert "perf record" in (profile.meta.command or "")


def test_text_import_equals_perf_data_import(recording: Path, profile: Profile, tmp_path: Path) -> None:
    """Other fields in the text, and the same samples."""
    require_reference_perf()
    text = tmp_path / "x.txt"
    text.write_text(perf("script", "-i", recording, "--ns", "--no-inline", "--header"), errors="backslashreplace")
    with open(text, "rb") as file:
        alone = perf_script.read(file)
    wanted = [sample._replace(pid=None) for sample in samples_of(alone)]
    assert without_additional_names([sample._replace(pid=None) for sample in samples_of(profile)], wanted) == wanted


def test_perf_data_from_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "piped"
    with open(path, "wb") as file:
        subprocess.run(
            [require("perf"), "record", "-q", "-N", "-g", "-F", "1999", "-o", "-", "--", sys.executable, "-c", PROGRAM],
            stdout=file,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    settings = Settings.load(tmp_path / "data", environ={}, reserve_bytes=0)
    wanted = list(printed(perf("script", "-i", path, "--ns", "-F", "comm,pid,tid,time,period,event,ip,sym,symoff,dso")))
    assert reading.read_profile(settings, [path]).samples.num_rows == len(wanted) > 20


def test_binary_is_found_by_build_id(tmp_path: Path) -> None:
    """As `perf archive` packs it: the recorded binary is not on this machine."""
    require("perf")
    gcc, build = require("gcc"), "6a0c665e93e73a3bb9aa86b48ee62d8de73d3023"
    folder = tmp_path / ".build-id" / build[:2] / build[2:]
    folder.mkdir(parents=True)
    data = paths.DATA / "perf"
    words = [
        "-O1",
        "-fno-omit-frame-pointer",
        "-pthread",
        f"-Wl,--build-id=0x{build}",
        "-o",
        folder / "elf",
        data / "spin.c",
    ]
    subprocess.run([gcc, *words], check=True)

    def names(cache: Path) -> set[str]:
        settings = Settings.load(tmp_path / "data", environ={}, reserve_bytes=0, buildid_dir=cache)
        found = reading.read_profile(settings, [data / "spin.perf.data.zst"])
        return set(found.functions.column("name").to_pylist())

    assert "leaf" in names(tmp_path) and "leaf" not in names(tmp_path / "none")
    assert Settings.load(tmp_path, environ={"HOME": "/home/me"}).buildid_dir == Path("/home/me/.debug")
