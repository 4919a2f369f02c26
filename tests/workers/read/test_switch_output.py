"""The files of one `perf record --switch-output`, read as one recording."""

from __future__ import annotations

import resource
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.ingest.facts import SWITCH_OUTPUT_FACT
from perfloom.store import Store
from perfloom.workers.read import reading
from tests.support.parts import require
from tests.support.perf.recordings import USER_MARK, MadeRecording
from tests.support.samples import samples_of

TIMES = ("2026112722582587", "2026112722582714", "2026112722582837")
# The child has another name and address space than what perf finds out again for later files. perf switches on SIGUSR2.
PROGRAM = r"""
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile long sum;
__attribute__((noinline)) void leaf(void) { for (long i = 0; i < 100000; i++) sum += i; }
__attribute__((noinline)) void burn(double seconds) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do { leaf(); clock_gettime(CLOCK_MONOTONIC, &now); }
    while (now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) / 1e9 < seconds);
}
int main(void) {
    if (!fork()) { prctl(PR_SET_NAME, "child"); burn(0.4); return 0; }
    for (int i = 0; i < 2; i++) { burn(0.15); kill(getppid(), SIGUSR2); }
    burn(0.1);
    wait(0);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("switch") / "program"
    argv = [require("gcc"), "-x", "c", "-O1", "-fno-omit-frame-pointer", "-o", path, "-"]
    subprocess.run(argv, input=PROGRAM, text=True, check=True)
    return path


def list_ranks(profile: Profile) -> set[int | None]:
    return set(profile.threads.column("rank").to_pylist())


def record(program: Path, folder: Path, *options: str) -> list[Path]:
    argv = [require("perf"), "record", "-q", "-N", "-g", "-e", "cpu-clock", "-F", "999", "--switch-output=signal"]
    subprocess.run([*argv, *options, "-o", folder / "perf.data", program], check=True, capture_output=True)
    files = sorted(folder.glob("perf.data.*"))
    assert len(files) == 3
    return files


def count_samples(profile: Profile) -> Counter[tuple[object, ...]]:
    """Samples by thread, name and functions."""
    return Counter((one.pid, one.tid, one.comm, *(frame.name for frame in one.stack)) for one in samples_of(profile))


@pytest.mark.heavy
def test_one_timeline_as_of_one_file(settings: Settings, program: Path, tmp_path: Path) -> None:
    # The compressed records of the first file continue in the others, which perf alone cannot read.
    files = record(program, tmp_path, "-z")
    profile = reading.read_profile(settings, [files[1], files[2], files[0]])
    assert profile.meta.complete and not profile.losses.num_rows
    assert profile.meta.facts[SWITCH_OUTPUT_FACT] == "3"
    assert list_ranks(profile) == {None} and profile.threads.num_rows == 2
    samples = samples_of(profile)
    assert {one.comm for one in samples} <= {"program", "child", "perf-exec"}
    assert samples == sorted(samples, key=lambda one: one.time_ns)
    child = [one for one in samples if one.comm == "child"]
    late = [one for one in child if one.time_ns > (child[0].time_ns + child[-1].time_ns) / 2]
    assert any("leaf" in [frame.name for frame in one.stack] for one in late), "the maps of the first file are known"
    by_perf = reading.read_profile(replace(settings, perf_script=True), files)
    assert count_samples(by_perf) == count_samples(profile)


def make_files(folder: Path, *starts: int) -> list[Path]:
    """Files of 100 samples each, 10 ns apart, which begin at these times."""
    folder.mkdir(exist_ok=True)
    files = []
    for start, name in zip(starts, TIMES, strict=False):
        made = MadeRecording()
        if start == starts[0]:
            made.name(7, b"program")
            made.name(8, b"other")
        for at in range(100):
            made.sample(7 + at % 2, start + 10 * at, USER_MARK, 0x1010)
        files.append(folder / f"perf.data.{name}")
        files[-1].write_bytes(made.build())
    return files


def test_names_of_the_first_file_hold_in_the_next(settings: Settings, tmp_path: Path) -> None:
    # Buffers of CPUs are read one after another: the second file has a few samples before the end of the first.
    profile = reading.read_profile(settings, make_files(tmp_path, 1000, 1950))
    assert list_ranks(profile) == {None}
    samples = samples_of(profile)
    assert Counter(one.comm for one in samples) == {"program": 100, "other": 100}
    assert samples == sorted(samples, key=lambda one: one.time_ns)


def test_more_files_than_a_process_may_open(settings: Settings, tmp_path: Path) -> None:
    content = make_files(tmp_path / "x", 1000)[0].read_bytes()
    start = int.from_bytes(content[40:48], "little")
    files = [tmp_path / f"perf.data.20261127{number:08d}" for number in range(100)]
    for file in files:
        # Without records.
        file.write_bytes(content[:48] + bytes(8) + content[56:72] + bytes(32) + content[104:start])
    files[0].write_bytes(content)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        profile = reading.read_profile(settings, files)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert profile.samples.num_rows == 100 and profile.meta.facts[SWITCH_OUTPUT_FACT] == "100"


def test_a_result_is_read_again_with_the_symbols_of_all_files(settings: Settings, store: Store, tmp_path: Path) -> None:
    files = make_files(tmp_path, 1000, 9000)
    result = reading.read_to_result(
        settings, store, "abcdefabcdef", files, name="", meta_changes={}, progress=lambda part, text: None
    )
    originals = store.results.original(result.id)
    assert [one.name for one in originals] == [*(file.name for file in files), f"{files[0].name}.symbols.zst"]
    again = reading.read_profile(settings, [one.path for one in originals])
    assert samples_of(again) == samples_of(store.results.open(result.id))
    assert again.meta.facts["captured on"] == store.results.open(result.id).meta.facts["captured on"]


def test_files_that_each_have_a_text_are_ranks(settings: Settings, tmp_path: Path) -> None:
    files = make_files(tmp_path, 1000, 9000)
    texts = [file.with_name(f"{file.name}.script.zst") for file in files]
    for text in texts:
        line = "program 7/7 [000] 0.000001000: 1 cycles: \n\t1010 leaf+0x1 (/bin/program)\n\n"
        text.write_bytes(zstandard.compress(line.encode()))
    assert list_ranks(reading.read_profile(settings, [*files, *texts])) == {0, 1}
    assert list_ranks(reading.read_profile(settings, [*files, texts[0]])) == {None}


def test_files_of_the_same_time_or_of_other_events_are_ranks(settings: Settings, tmp_path: Path) -> None:
    assert list_ranks(reading.read_profile(settings, make_files(tmp_path, 1000, 1001))) == {0, 1}
    files = make_files(tmp_path, 1000, 9000)
    # The identifier of the event's counter.
    content = bytearray(files[1].read_bytes())
    content[104 + 144] = 2
    files[1].write_bytes(content)
    # Those of two recordings that were moved into one directory.
    more = Path(make_files(tmp_path / "x", 20_000)[0]).rename(tmp_path / f"perf.data.{TIMES[2]}")
    both = reading.read_profile(settings, [*files, more])
    assert Counter(both.threads.column("rank").to_pylist()) == {0: 2, 1: 2} and both.samples.num_rows == 300
    assert list_ranks(reading.read_profile(settings, files)) == {0, 1}


def test_the_end_of_a_killed_recording(settings: Settings, tmp_path: Path) -> None:
    files = make_files(tmp_path, 1000, 9000, 20_000)
    content = files[2].read_bytes()
    records = int.from_bytes(content[40:48], "little")
    # perf writes the size of the records, and its features, when it ends the file.
    for kept, samples in ((records, 200), (records + 720, 210)):
        files[2].write_bytes(content[:48] + bytes(8) + content[56:72] + b"\xff" * 32 + content[104:kept])
        profile = reading.read_profile(settings, files)
        assert profile.samples.num_rows == samples and list_ranks(profile) == {None}
        assert not profile.meta.complete and "perf was ended before it finished" in profile.meta.reasons[0]
        assert profile.losses.column("reason").to_pylist() == ["missing end of a recording"]


def test_the_file_without_a_header_of_a_killed_perf(settings: Settings, tmp_path: Path) -> None:
    *files, last = make_files(tmp_path, 1000, 9000, 20_000)
    content, last = last.read_bytes(), last.rename(tmp_path / "perf.data")
    start, records = int.from_bytes(content[40:48], "little"), int.from_bytes(content[48:56], "little")
    # perf renames a later file, and writes its header, when it ends it. It may be killed before it wrote any record.
    for kept, samples in ((records, 300), (720, 210), (0, 200), (-start, 200)):
        last.write_bytes((bytes(start) + content[start : start + max(0, kept)])[: start + kept])
        profile = reading.read_profile(settings, [last, *files])
        assert profile.samples.num_rows == samples and list_ranks(profile) == {None}
        assert not profile.meta.complete and "perf was ended before it finished" in profile.meta.reasons[0]
