"""How many samples running recordings have: counted by the records of the growing files."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from perfloom.domain.jobs import CallGraph, JobSpec, JobState, RecorderName
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base import sample_count
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.sample_count import SampleCounter
from perfloom.workers.base.sample_progress import STATE_FILE, SampleProgress, update_progress
from tests.support.jobspecs import spec_of
from tests.support.parts import require
from tests.workers.conftest import submit

HEADER = b"PERFILE2" + struct.pack("<QQQQQQ", 104, 128, 104, 0, 104, 0) + b"\0" * 48
ENDLESS = (sys.executable, "-S", "-c", "while True: pass")
SAMPLE, COMM, AUXTRACE, COMPRESSED, COMPRESSED_SIZED = 9, 3, 71, 81, 83


def record(kind: int, body: bytes = b"\0" * 40) -> bytes:
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "perf.data"
    path.write_bytes(HEADER)
    return path


@pytest.fixture(autouse=True)
def fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_count, "_counters", {})


def update(run: Path, data: Path, now: float) -> SampleProgress:
    return update_progress(run, {"0/all": data}, now)


def count_all(path: Path, size: int | None = None) -> SampleCounter:
    """The counter of a file after all its records."""
    counter = SampleCounter(0)
    descriptor = os.open(path, os.O_RDONLY)
    counter.update(descriptor, path.stat().st_size if size is None else size, 30.0)
    os.close(descriptor)
    return counter


def data_end(path: Path) -> int:
    """Behind the records are the features of the header, which are only there at the end."""
    return sum(struct.unpack_from("<QQ", path.read_bytes(), 40))


def grow(path: Path, content: bytes) -> None:
    with open(path, "ab") as file:
        file.write(content)


def test_only_new_records_are_read(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(data, record(COMM) + record(SAMPLE) * 1000)
    first = update(tmp_path, data, now=100.0)
    assert (first.count, first.behind, first.size) == (1000, False, data.stat().st_size)
    assert first.text.startswith("1,000 samples so far · ") and "per second" not in first.text
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *words: read.append(words[2]) or pread(*words))
    before = data.stat().st_size
    grow(data, record(SAMPLE) * 500)
    second = update(tmp_path, data, now=102.0)
    assert second.count == 1500 and second.text.startswith("1,500 samples so far · 250 per second (last 2\u00a0s) · ")
    assert all(place == 0 or place >= before for place in read) and read


def test_at_most_once_per_second(data: Path, tmp_path: Path) -> None:
    grow(data, record(SAMPLE) * 10)
    assert update(tmp_path, data, now=100.0).count == 10
    grow(data, record(SAMPLE) * 10)
    assert update(tmp_path, data, now=100.9).count == 10
    assert update(tmp_path, data, now=101.1).count == 20


def test_a_record_that_is_not_complete_is_counted_later(data: Path, tmp_path: Path) -> None:
    whole = record(SAMPLE, b"\0" * 65_000)
    grow(data, whole[:5])
    assert update(tmp_path, data, now=100.0).count == 0
    grow(data, whole[5:-1])
    assert update(tmp_path, data, now=102.0).count == 0
    grow(data, whole[-1:] + record(SAMPLE))
    assert update(tmp_path, data, now=104.0).count == 2


def test_trace_data_behind_a_record_is_skipped(data: Path, tmp_path: Path) -> None:
    trace = record(SAMPLE) * 5000
    grow(data, struct.pack("<IHHQ", AUXTRACE, 0, 48, len(trace)) + b"\0" * 32 + trace + record(SAMPLE) * 3)
    assert update(tmp_path, data, now=100.0).count == 3


def test_bytes_are_shown_if_samples_cannot_be_decompressed(data: Path, tmp_path: Path) -> None:
    grow(data, record(COMM))
    assert "no samples written yet" in update(tmp_path, data, now=100.0).text
    grow(data, record(COMPRESSED, b"\0" * 30_000))
    update(tmp_path, data, now=102.0)
    grow(data, record(COMPRESSED, b"\0" * 20_480) * 2)
    text = update(tmp_path, data, now=104.0).text
    assert text == "69.5\u00a0KiB of samples so far · 17.3\u00a0KiB per second (last 4\u00a0s)"


def test_the_rate_of_writes_that_are_far_apart(data: Path, tmp_path: Path) -> None:
    for now, count in ((100.0, 100), (102.0, 0), (113.0, 1300), (115.0, 0)):
        grow(data, record(SAMPLE) * count)
        progress = update(tmp_path, data, now=now)
    assert "1,400 samples so far · 100 per second (last 13\u00a0s)" in progress.text
    assert "per second" not in update(tmp_path, data, now=200.0).text, "it has stopped"


def test_what_takes_too_long_is_counted_later(data: Path) -> None:
    grow(data, record(SAMPLE) * 300_000)
    counter = SampleCounter(0)
    descriptor, size = os.open(data, os.O_RDONLY), data.stat().st_size
    counter.update(descriptor, size, 0.0)
    assert counter.behind and 0 < counter.count < 300_000
    steps = 1
    while counter.behind:
        counter.update(descriptor, size, 0.0)
        steps += 1
    assert counter.count == 300_000 and steps > 100
    os.close(descriptor)


def test_uncounted_samples_are_mentioned(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfloom.workers.base.sample_progress.CPU_SHARE", 0.0)
    grow(data, record(SAMPLE) * 10_000)
    for now in (100.0, 102.0):
        text = update(tmp_path, data, now).text
        assert re.match(r"more than [1-9][\d,]* samples so far · [^·]*B$", text), text


def test_restarted_worker_shows_no_less(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(data, record(SAMPLE) * 10_000)
    assert update(tmp_path, data, 100.0).count == 10_000
    monkeypatch.setattr(sample_count, "_counters", {})
    monkeypatch.setattr("perfloom.workers.base.sample_progress.CPU_SHARE", 0.0)
    again = update(tmp_path, data, 102.0)
    assert again.text.startswith("more than 10,000 samples so far")
    now = 102.0
    while again.behind:
        now += 2.0
        again = update(tmp_path, data, now)
    assert again.text.startswith("10,000 samples so far")


def packed_records(content: bytes, most: int) -> list[bytes]:
    """Compressed records with `content` in one stream, as perf writes them."""
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return [
        record(COMPRESSED, stream.compress(content[at : at + most]) + stream.flush(flush))
        for at in range(0, len(content), most)
    ]


@pytest.mark.parametrize("most", [1, 47, 48, 100, 5000])
def test_compressed_samples_are_counted(data: Path, tmp_path: Path, most: int) -> None:
    """Records of the stream may begin and end anywhere in the records of the file."""
    records = packed_records((record(SAMPLE) + record(COMM)) * 20, most)
    seen = []
    for number, one in enumerate(records):
        grow(data, one)
        seen.append(update(tmp_path, data, 100.0 + 2 * number).count)
    assert seen == [sum(48 * n + 48 <= (1 + number) * most for n in range(0, 40, 2)) for number in range(len(records))]
    assert seen[-1] == 20


def test_plain_and_padded_compressed_records_are_counted(data: Path) -> None:
    [whole] = packed_records(record(SAMPLE) * 3, 1000)
    content = whole[8:]
    padded = record(COMPRESSED_SIZED, struct.pack("<Q", len(content)) + content + b"\0" * 5)
    grow(data, record(SAMPLE) + padded + record(SAMPLE))
    assert count_all(data).count == 5


def test_compressed_record_that_becomes_huge_takes_no_more_time_and_memory(data: Path) -> None:
    """A block of 128 KiB with one value takes 4 bytes."""
    sample = struct.pack("<IHH", SAMPLE, 0, 8)
    [bomb] = packed_records(sample * (8 << 20), 64 << 20)
    assert len(bomb) < 64_000
    grow(data, bomb)
    counter = SampleCounter(0)
    descriptor, size = os.open(data, os.O_RDONLY), data.stat().st_size
    tracemalloc.start()
    began = time.thread_time()
    counter.update(descriptor, size, 0.0)
    took = time.thread_time() - began
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counter.behind and counter.count == 0
    assert most < 80 << 20 and took < 1.0
    os.close(descriptor)


@pytest.mark.parametrize("content", [b"", b"PERFILE2", HEADER + b"\0" * 100, HEADER + b"\xff" * 100, b"x" * 1000])
def test_damaged_files_and_states_do_no_harm(tmp_path: Path, content: bytes) -> None:
    data = tmp_path / "perf.data"
    data.write_bytes(content)
    states = (
        b"",
        b"{}",
        b"[]",
        b'{"updated": "x", "counts": 3}',
        b"\xff",
        b'{"updated": 1, "files": {"no": {}}, "counts": [], "sizes": []}',
        b'{"updated": 1, "files": {"0/1": {"count": "many"}}, "counts": [], "sizes": []}',
        b'{"updated": NaN, "files": {"0/1": {}}, "counts": [[Infinity, 1]], "sizes": [[1]]}',
    )
    for number, state in enumerate(states):
        (tmp_path / STATE_FILE).write_bytes(state)
        progress = update(tmp_path, data, now=100.0 + 10 * number)
        assert progress.count == 0 and progress.text
    (tmp_path / STATE_FILE).unlink()
    (tmp_path / "link").symlink_to(data)
    os.mkfifo(tmp_path / "fifo")
    files = {f"0/{number}": tmp_path / name for number, name in enumerate(("link", "fifo", "no"))}
    assert update_progress(tmp_path, files, now=900.0).size == 0


@pytest.mark.parametrize("cut", [1, 9, 100, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_damaged_compressed_data_does_no_harm(data: Path, cut: int, seed: int) -> None:
    """It may be damaged anywhere."""
    [whole] = packed_records(bytes(record(SAMPLE)) * 500, 100_000)
    damaged = bytearray(whole)
    randomizer = random.Random(seed)
    for _ in range(cut):
        damaged[randomizer.randrange(8, len(damaged))] ^= randomizer.randrange(1, 256)
    grow(data, bytes(damaged) + record(SAMPLE))
    counter = count_all(data)
    assert not counter.behind and counter.offset in (len(HEADER), data.stat().st_size)


def test_samples_of_several_ranks_are_added(tmp_path: Path) -> None:
    files = {}
    for rank, count in ((0, 300), (1, 0), (2, 100)):
        files[f"0/{rank}"] = path = tmp_path / str(rank)
        path.write_bytes(HEADER + record(SAMPLE) * count)
    text = update_progress(tmp_path, files, 100.0).text
    assert text.startswith(
        "400 samples so far · 2 of 3 ranks have written, from 100 (rank\u00a02) to 300 (rank\u00a00) · "
    )
    grow(files["0/1"], record(SAMPLE) * 100)
    files["0/0"].unlink()
    text = update_progress(tmp_path, files, 102.0).text
    assert text.startswith("500 samples so far · 50 per second (last 2\u00a0s) · 3 ranks, from 100 (rank\u00a0")


@pytest.mark.parametrize("options", [(), ("-z",), ("-z", "-m", "1"), ("-z", "-g"), ("-z19",)], ids=" ".join)
def test_as_many_as_perf_counts(tmp_path: Path, options: tuple[str, ...]) -> None:
    require("perf")
    data = tmp_path / "perf.data"
    busy = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
    argv = ["perf", "record", "-q", "-F", "999", "-e", "cpu-clock:u", *options, "-o", data, "--", *busy]
    if subprocess.run(argv, check=False).returncode == 129:
        pytest.skip("perf cannot compress here")
    listed = subprocess.run(["perf", "script", "-i", data, "-F", "comm"], capture_output=True, text=True, check=True)
    counter = count_all(data, data_end(data))
    assert counter.countable and not counter.behind and counter.offset == data_end(data)
    assert counter.count == sum(bool(line.strip()) for line in listed.stdout.split("\n")) > 10


def test_recording_on_standard_output_is_counted(tmp_path: Path) -> None:
    """So perf writes with sudo; the header is shorter."""
    require("perf")
    data = tmp_path / "perf.data"
    busy = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
    with open(data, "wb") as file:
        argv = ["perf", "record", "-q", "-e", "cpu-clock:u", "-o", "-", "--", *busy]
        subprocess.run(argv, check=True, stdout=file)
    listed = subprocess.run(["perf", "script", "-i", data, "-F", "comm"], capture_output=True, text=True, check=True)
    assert count_all(data).count == len(listed.stdout.split("\n")) - 1 > 10


def shown_of(context: JobContext, spec: JobSpec, wanted: str) -> str:
    """The text of a running job once it contains `wanted`; then the job is cancelled."""
    texts: list[str] = []

    def watch(job: Job) -> None:
        if job.state is JobState.RUNNING and wanted in job.progress_text:
            texts.append(job.progress_text)
            context.store.jobs.request_cancel(job.id)
            raise Reached
        assert time.monotonic() < end, job.progress_text

    class Reached(Exception):
        pass

    end = time.monotonic() + 30
    job = submit(context.store, spec)
    with suppress(Reached):
        steps.run_to_end(context, job.id, watch)
    steps.run_to_end(context, job.id)
    return texts[0]


def test_a_job_shows_its_samples(context: JobContext) -> None:
    # This way perf writes often, and not compressed.
    spec = spec_of(
        *ENDLESS,
        call_graph=CallGraph.NONE,
        events=("cpu-clock:u",),
        frequency=997,
        perf_arguments=("--no-compression-level", "-m", "1"),
    )
    text = shown_of(context, spec, "per second")
    assert re.fullmatch(r"Recording: [\d,]+ samples so far · [\d,]+ per second \(last \d\ss\) · .*B", text), text


def test_a_job_shows_compressed_samples(context: JobContext) -> None:
    if "-z" not in context.facts().options:
        pytest.skip("perf cannot compress here")
    spec = spec_of(*ENDLESS, call_graph=CallGraph.NONE, events=("cpu-clock:u",), perf_arguments=("-m", "1"))
    text = shown_of(context, spec, "per second")
    assert re.fullmatch(r"Recording: [\d,]+ samples so far · [\d,]+ per second \(last \d\ss\) · .*B", text), text


def test_a_job_shows_the_last_interval(context: JobContext) -> None:
    spec = spec_of(*ENDLESS, recorder=RecorderName.PERF_STAT, events=("task-clock", "page-faults"), interval_ms=100)
    assert re.search(r"interval until \d+\.\d s: .*page-faults", shown_of(context, spec, "interval"))
