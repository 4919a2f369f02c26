"""While a job runs by scripts, its page shows what was recorded so far."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import CallGraph, JobState, Mpi, MpiFlavor
from perfloom.domain.targets import Target
from perfloom.store import Store
from perfloom.store.jobs import Job
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.sample_progress import STATE_FILE
from perfloom.workers.remote import recorded
from perfloom.workers.transports import close_all
from tests.support import sshd as servers
from tests.support.batch import BatchSystem
from tests.support.mpi.programs import MpiProgram
from tests.support.sshd import Sshd
from tests.workers.remote.driving import at, far, files_of, sight_of, submit, to_the_end, until_job

ENDLESS = (sys.executable, "-S", "-c", "while True: pass")
# With small buffers perf writes often.
OFTEN = {"call_graph": CallGraph.NONE, "events": ("cpu-clock:u",), "frequency": 997, "perf_arguments": ("-m", "1")}
BYTES = re.compile(r"[\d.]+\s[KM]?i?B of samples so far · [\d.]+\s[KM]?i?B per second \(last \d+\ss\)")
SAMPLES = re.compile(r"([\d,]+) samples so far · [\d,]+ per second \(last \d+\ss\)")
TWO_RANKS = re.compile(r"· 2 ranks, (?:from .* \(rank\s[01]\) to .* \(rank\s[01]\)|.* each)")


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with servers.sshd() as found:
        yield found


@pytest.fixture
def there(store: Store, server: Sshd) -> Iterator[Target]:
    """A host over SSH."""
    target = server.target("there", poll_s=0.3)
    store.targets.save(target)
    yield target
    close_all()


def watch(context: JobContext, job: Job, wanted: re.Pattern[str], times: int = 3) -> list[str]:
    """The texts of a running job until so many different ones are as wanted; then it is cancelled, and taken to its
    end."""
    texts: list[str] = []

    def collect(job: Job) -> bool:
        if job.state is JobState.RUNNING and wanted.search(job.progress_text) and job.progress_text not in texts:
            texts.append(job.progress_text)
        return len(texts) == times

    until_job(context, job, collect)
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job, 60)
    assert job.result_id == job.id, job.reason
    return texts


def samples_of(context: JobContext, job: Job) -> int:
    return context.store.results.open(job.id).samples.num_rows


def sums_of(context: JobContext, job: Job) -> list[int]:
    """The bytes of all polls."""
    return [size for _, size in sight_of(context, job).written]


@pytest.mark.slow
def test_job_over_ssh_shows_bytes_and_their_rate(context: JobContext, there: Target) -> None:
    job = submit(context.store, at(there, *ENDLESS, **OFTEN))
    watch(context, job, BYTES)
    sums = sums_of(context, job)
    assert len(sums) >= 3 and sums == sorted(set(sums))
    [rank] = sight_of(context, job).ranks
    # What the rank reports at its end is the size of its file.
    assert rank.written == sums[-1]


@pytest.mark.slow
def test_sum_is_never_more_than_the_recording(context: JobContext, there: Target) -> None:
    job = submit(context.store, at(there, *ENDLESS, leave_files=True, **OFTEN))
    watch(context, job, BYTES)
    [data] = far(context.store.jobs.get(job.id)).glob("run0/all/perf.data")
    assert sums_of(context, job)[-1] == data.stat().st_size


@pytest.mark.slow
def test_recording_on_scratch_is_reported_by_its_rank(context: JobContext, there: Target, tmp_path: Path) -> None:
    context.store.targets.save(replace(there, scratch=str(tmp_path / "scratch")))
    job = submit(context.store, at(there, *ENDLESS, **OFTEN))
    watch(context, job, re.compile(r"[\d.]+\s[KM]?i?B of samples so far"), 1)
    sums = sums_of(context, job)
    assert len(sums) >= 2 and sums == sorted(set(sums))
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.slow
def test_ranks_over_ssh_are_added(context: JobContext, there: Target, mpi_program: MpiProgram) -> None:
    flavour = MpiFlavor.OPENMPI
    spec = at(there, str(mpi_program(flavour)), "50", "on", mpi=Mpi(flavour, 2), **OFTEN)
    job = submit(context.store, spec)
    for text in watch(context, job, BYTES, 2):
        assert "2 of 2 ranks have started; " in text
    assert TWO_RANKS.search(text), text
    assert sums_of(context, job)[-1] == sum(rank.written or 0 for rank in sight_of(context, job).ranks)


def test_samples_of_ranks_here_are_counted(context: JobContext, here: Target, mpi_program: MpiProgram) -> None:
    flavour = MpiFlavor.OPENMPI
    spec = at(here, str(mpi_program(flavour)), "50", "on", mpi=Mpi(flavour, 2), **OFTEN)
    job = submit(context.store, spec)
    texts = watch(context, job, SAMPLES)
    counts = [int(match[1].replace(",", "")) for text in texts if (match := SAMPLES.search(text))]
    assert counts == sorted(counts) and 0 < counts[0] < counts[-1] <= samples_of(context, job)
    assert TWO_RANKS.search(texts[-1]), texts


@pytest.mark.slow
@pytest.mark.parametrize("system", ["slurm", "lsf"])
def test_job_of_a_batch_system_shows_bytes(
    context: JobContext, system: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    batch: BatchSystem = request.getfixturevalue(system)
    environment = {"PATH": f"{batch.path}:/usr/local/bin:/usr/bin:/bin", **batch.environment}
    directory = str(tmp_path / "jobs")
    queue = Target("queue", scheduler=batch.name, directory=directory, environment=environment, poll_s=0.5)
    context.store.targets.save(queue)
    job = submit(context.store, at(queue, *ENDLESS, **OFTEN))
    watch(context, job, BYTES)
    assert not (files_of(context, job).run / STATE_FILE).exists()


def test_hostile_files_do_not_change_the_job(context: JobContext, there: Target) -> None:
    """Its own program can write anything to its directory."""
    harm = (
        "cd ..; printf 'written 99999999999999999999999\\nstate recording\\n' >>run0/all/state;"
        "mkdir run0/1 run0/2 run0/3; ln -s /dev/zero run0/1/written; mkfifo run0/2/written run0/2/perf.data;"
        "printf 'state recording\\n' | tee run0/1/state run0/2/state >run0/3/state; ln -s /dev/zero run0/3/perf.data;"
        "while :; do :; done"
    )
    job = submit(context.store, at(there, "sh", "-c", harm, **OFTEN))
    until_job(context, job, lambda job: BYTES.search(job.progress_text))
    written = {rank.rank: rank.written for rank in sight_of(context, job).ranks}
    assert written[1] is written[2] is written[3] is None and 0 < (written[None] or 0) < 1 << 30
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job, 60)
    assert job.state is JobState.CANCELLED and job.result_id == job.id


def test_fault_in_the_text_does_not_fail_the_job(
    context: JobContext, here: Target, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> str:
        raise RecursionError

    monkeypatch.setattr(recorded, "describe_written", fail)
    monkeypatch.setattr(recorded, "update_progress", fail)
    busy = (sys.executable, "-S", "-c", "import time\nwhile time.thread_time() < 1: pass")
    job = to_the_end(context, submit(context.store, at(here, *busy, repeat=2, **OFTEN)))
    assert job.state is JobState.STORED, job.reason
    assert "cannot be described" in caplog.text
