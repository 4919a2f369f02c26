"""How many samples a running recording has: counted by the records of the growing perf.data."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from perfloom.domain.jobs import CallGraph, JobSpec, JobState, RecorderName
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base.context import JobContext
from perfloom.workers.local import sample_progress
from perfloom.workers.local.sample_progress import STATE_FILE, count_samples, update_progress
from tests.support.jobspecs import spec_of
from tests.support.parts import require
from tests.workers.conftest import submit

HEADER = b"PERFILE2" + struct.pack("<QQQQQQ", 104, 128, 104, 0, 104, 0) + b"\0" * 48
ENDLESS = (sys.executable, "-S", "-c", "while True: pass")
SAMPLE, COMM, AUXTRACE, COMPRESSED = 9, 3, 71, 81


def record(kind: int, body: bytes = b"\0" * 40) -> bytes:
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "perf.data"
    path.write_bytes(HEADER)
    return path


def grow(path: Path, content: bytes) -> None:
    with open(path, "ab") as file:
        file.write(content)


def test_only_new_records_are_read(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(data, record(COMM) + record(SAMPLE) * 1000)
    first = update_progress(tmp_path, [data], now=100.0)
    assert (first.count, first.behind, first.offset) == (1000, False, data.stat().st_size)
    assert first.text.startswith("1,000 samples so far · ") and "per second" not in first.text
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *words: read.append(words[2]) or pread(*words))
    before = data.stat().st_size
    grow(data, record(SAMPLE) * 500)
    second = update_progress(tmp_path, [data], now=102.0)
    assert second.count == 1500 and second.text.startswith("1,500 samples so far · 250 per second (last 2 s) · ")
    assert all(place == 0 or place >= before for place in read) and read


def test_at_most_once_per_second(data: Path, tmp_path: Path) -> None:
    grow(data, record(SAMPLE) * 10)
    assert update_progress(tmp_path, [data], now=100.0).count == 10
    grow(data, record(SAMPLE) * 10)
    assert update_progress(tmp_path, [data], now=100.9).count == 10
    assert update_progress(tmp_path, [data], now=101.1).count == 20


def test_a_record_that_is_not_complete_is_counted_later(data: Path, tmp_path: Path) -> None:
    whole = record(SAMPLE, b"\0" * 65_000)
    grow(data, whole[:5])
    assert update_progress(tmp_path, [data], now=100.0).count == 0
    grow(data, whole[5:-1])
    assert update_progress(tmp_path, [data], now=102.0).count == 0
    grow(data, whole[-1:] + record(SAMPLE))
    assert update_progress(tmp_path, [data], now=104.0).count == 2


def test_trace_data_behind_a_record_is_skipped(data: Path, tmp_path: Path) -> None:
    trace = record(SAMPLE) * 5000
    grow(data, struct.pack("<IHHQ", AUXTRACE, 0, 48, len(trace)) + b"\0" * 32 + trace + record(SAMPLE) * 3)
    assert update_progress(tmp_path, [data], now=100.0).count == 3


def test_of_compressed_samples_the_bytes_are_shown(data: Path, tmp_path: Path) -> None:
    grow(data, record(COMM))
    assert "no samples written yet" in update_progress(tmp_path, [data], now=100.0).text
    grow(data, record(COMPRESSED, b"\0" * 30_000))
    update_progress(tmp_path, [data], now=102.0)
    grow(data, record(COMPRESSED, b"\0" * 20_480) * 2)
    text = update_progress(tmp_path, [data], now=104.0).text
    assert text == "69.5\u00a0KiB of compressed samples so far · 17.3\u00a0KiB per second (last 4 s)"


def test_the_rate_of_writes_that_are_far_apart(data: Path, tmp_path: Path) -> None:
    for now, count in ((100.0, 100), (102.0, 0), (113.0, 1300), (115.0, 0)):
        grow(data, record(SAMPLE) * count)
        progress = update_progress(tmp_path, [data], now=now)
    assert "1,400 samples so far · 100 per second (last 13 s)" in progress.text
    assert "per second" not in update_progress(tmp_path, [data], now=200.0).text, "it has stopped"


def test_what_takes_too_long_is_counted_later(data: Path, tmp_path: Path) -> None:
    grow(data, record(SAMPLE) * 300_000)
    descriptor = os.open(data, os.O_RDONLY)
    start = sample_progress.SampleProgress(0.0, countable=True)
    began = time.thread_time()
    found = count_samples(descriptor, data.stat().st_size, start, 0.005)
    assert found.behind and 0 < found.count < 300_000 and time.thread_time() - began < 0.1
    assert found.text.startswith("more than ") and "per second" not in found.text
    while found.behind:
        found = count_samples(descriptor, data.stat().st_size, found, 0.05)
    assert found.count == 300_000
    os.close(descriptor)


@pytest.mark.parametrize("content", [b"", b"PERFILE2", HEADER + b"\0" * 100, HEADER + b"\xff" * 100, b"x" * 1000])
def test_damaged_files_and_states(tmp_path: Path, content: bytes) -> None:
    data = tmp_path / "perf.data"
    data.write_bytes(content)
    for number, state in enumerate((b"", b"{}", b"[]", b'{"updated": "x", "points": 3}', b"\xff")):
        (tmp_path / STATE_FILE).write_bytes(state)
        assert update_progress(tmp_path, [data], now=100.0 + 10 * number).count == 0
    (tmp_path / "link").symlink_to(data)
    os.mkfifo(tmp_path / "fifo")
    assert update_progress(tmp_path, [tmp_path / "link", tmp_path / "fifo", tmp_path / "no"], now=900.0).size == 0


def test_as_perf_counts_them(tmp_path: Path) -> None:
    require("perf")
    data = tmp_path / "perf.data"
    busy = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
    subprocess.run(["perf", "record", "-q", "-F", "999", "-e", "cpu-clock:u", "-o", data, "--", *busy], check=True)
    listed = subprocess.run(["perf", "script", "-i", data, "-F", "comm"], capture_output=True, text=True, check=True)
    # Behind the records are the features of the header, which are only there at the end.
    size = sum(struct.unpack_from("<QQ", data.read_bytes(), 40))
    descriptor = os.open(data, os.O_RDONLY)
    found = count_samples(descriptor, size, sample_progress.SampleProgress(0.0, countable=True), 5.0)
    os.close(descriptor)
    assert found.count == len(listed.stdout.split("\n")) - 1 > 10


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
    assert re.fullmatch(r"Recording: [\d,]+ samples so far · [\d,]+ per second \(last \d s\) · .*B", text), text


def test_a_job_shows_bytes_of_compressed_samples(context: JobContext) -> None:
    if "-z" not in context.facts().options:
        pytest.skip("perf cannot compress here")
    spec = spec_of(*ENDLESS, call_graph=CallGraph.NONE, events=("cpu-clock:u",), perf_arguments=("-m", "1"))
    text = shown_of(context, spec, "per second")
    assert re.search(r"B of compressed samples so far · .*B per second \(last \d s\)", text), text


def test_a_job_shows_the_last_interval(context: JobContext) -> None:
    spec = spec_of(*ENDLESS, recorder=RecorderName.PERF_STAT, events=("task-clock", "page-faults"), interval_ms=100)
    assert re.search(r"interval until \d+\.\d s: .*page-faults", shown_of(context, spec, "interval"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("     0.2;76;;page-faults;7;100.00;;\n", ""),
        ("     0.2;0.78;msec;task-clock;7\n     0.2;7600;;page-faults;7\n     0.4;1;msec;task", ""),
        ("     0.2;0.78;msec;task-clock;7\n     0.2;7600;;page-faults;7\n     0.4;1;msec;task-clock;7\n",
         "interval until 0.2 s: 0.78 msec task-clock, 7,600 page-faults"),
        ("     0.2;<not counted>;;cycles;0\n     0.2;5;;a;7\n     0.4;1;;a;7\n", "interval until 0.2 s: 5 a"),
        ('{"interval" : 0.2, "counter-value" : "9.0", "unit" : "", "event" : "a"}\n'
         '{"interval" : 0.4, "counter-value" : "8.0", "unit" : "", "event" : "a"}\n', "interval until 0.2 s: 9 a"),
        ("nan;1;;a;\n1;inf;;a\n{}\n{]\n;;;;\n", ""),
    ],
)  # fmt: skip
def test_intervals(tmp_path: Path, text: str, shown: str) -> None:
    path = tmp_path / "perf-stat.txt"
    path.write_text("# started on\n\n" + text)
    assert sample_progress.format_last_interval(path) == shown
