"""A real Slurm whose daemons are killed while a job runs: the state of the job outranks that of Slurm."""

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import JobState
from perfloom.domain.targets import BatchState, Target
from perfloom.store.jobs import Job
from perfloom.web.views.jobs import progress as job_progress
from perfloom.workers.base.context import JobContext
from perfloom.workers.remote import outcome
from tests.support.batch import Daemons, restartable_slurm
from tests.support.marks import SLOW
from tests.workers.remote.driving import at, far, files_of, is_cleaned_up, sight_of, submit, to_the_end, until_job

# Its sum is seen where only root may see the kernel.
UNTIL = "import os, sys, time\nsum(range(10**6))\nprint('begun', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.05)\n"


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    """A Slurm of this test alone, that gives up a node after five seconds."""
    with restartable_slurm("SlurmdTimeout=5\nMessageTimeout=3\n") as found:
        yield found


@pytest.fixture
def job(context: JobContext, daemons: Daemons, tmp_path: Path) -> Job:
    """A job that runs there until there is a file `go`."""
    system = daemons.system
    environment = {"PATH": f"{system.path}:/usr/local/bin:/usr/bin:/bin", **system.environment}
    target = Target("q", scheduler=system.name, directory=str(tmp_path / "jobs"), environment=environment, poll_s=0.5)
    context.store.targets.save(target)
    made = submit(context.store, at(target, sys.executable, "-S", "-c", UNTIL, str(tmp_path / "go")))
    return until_job(context, made, lambda job: "begun" in files_of(context, job).tail())


def elsewhere(job: Job) -> None:
    """Have the job look as if it ran on another machine, whose processes cannot be seen from here."""
    name, state = far(job) / "sub0.id", far(job) / "sub0.state"
    name.write_text(" ".join([*name.read_text().split()[:2], "another-boot"]) + "\n")
    state.write_text("".join(line for line in state.read_text().splitlines(True) if not line.startswith("host ")))


def says(context: JobContext, state: BatchState) -> Callable[[Job], bool]:
    """Whether Slurm reports this state of a job that still runs, for `until_job`."""

    def check(job: Job) -> bool:
        batch = sight_of(context, job).submissions[0].batch
        return batch is not None and batch.state is state

    return check


def let_end(context: JobContext, job: Job, tmp_path: Path) -> Job:
    (tmp_path / "go").touch()
    return to_the_end(context, job, 60)


@SLOW
@pytest.mark.parametrize(("seen", "longer_s"), [("its process", 7), ("its heartbeat", 17)])
def test_a_job_whose_node_slurm_takes_for_failed_runs_on(
    context: JobContext, job: Job, daemons: Daemons, tmp_path: Path, seen: str, longer_s: float
) -> None:
    if seen == "its heartbeat":
        elsewhere(job)
    daemons.kill("slurmd")
    job = until_job(context, job, says(context, BatchState.FAILED), 60)
    since = time.monotonic()
    # Longer than it would have been waited for a word from a job that has ended.
    job = until_job(
        context, job, lambda job: time.monotonic() - since > longer_s and "NODE_FAIL" in job.progress_text, 60
    )
    assert job.state is JobState.RUNNING and "still sends heartbeats" in job.progress_text
    job = let_end(context, job, tmp_path)
    assert (job.state, job.reason, job.result_id) == (JobState.STORED, None, job.id)
    assert job.outcome is not None and job.outcome.exit_status == 0 and not job.outcome.reasons
    assert is_cleaned_up(job)


@SLOW
def test_a_job_that_slurm_has_forgotten_runs_on(
    context: JobContext, job: Job, daemons: Daemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "GONE_S", 3.0)
    daemons.kill("slurmd", "slurmctld")
    shutil.rmtree(daemons.system.folder / "state")
    (daemons.system.folder / "state").mkdir()
    daemons.start("slurmctld")
    job = until_job(context, job, says(context, BatchState.GONE), 60)
    since = time.monotonic()
    job = until_job(context, job, lambda job: time.monotonic() - since > 5, 60)
    assert job.state is JobState.RUNNING
    job = let_end(context, job, tmp_path)
    assert (job.state, job.reason) == (JobState.STORED, None) and is_cleaned_up(job)


@pytest.mark.slow
def test_a_job_ends_while_slurm_does_not_answer(
    context: JobContext, job: Job, daemons: Daemons, tmp_path: Path
) -> None:
    """Its end is recorded in its directory."""
    daemons.kill("slurmctld")
    job = until_job(context, job, lambda job: "does not respond" in job.progress_text, 60)
    assert job.state is JobState.RUNNING and job.progress_text.startswith("Running")
    job = let_end(context, job, tmp_path)
    assert (job.state, job.reason) == (JobState.STORED, None) and is_cleaned_up(job)


@pytest.mark.slow
def test_a_restart_of_the_controller_changes_nothing(
    context: JobContext, job: Job, daemons: Daemons, tmp_path: Path
) -> None:
    daemons.kill("slurmctld", by=signal.SIGTERM)
    daemons.start("slurmctld")
    job = until_job(context, job, says(context, BatchState.RUNNING), 60)
    assert [state for state, _ in job.history].count("running") == 1
    assert let_end(context, job, tmp_path).state is JobState.STORED


@SLOW
def test_job_killed_with_its_node_ends(context: JobContext, job: Job, daemons: Daemons, tmp_path: Path) -> None:
    """The heartbeat has stopped, so the state of Slurm counts. The page shows since when there is no heartbeat."""
    elsewhere(job)
    daemons.kill("slurmctld")
    job = until_job(context, job, lambda job: "does not respond" in job.progress_text, 60)
    daemons.stack.close()
    sight = sight_of(context, job)
    job = until_job(context, job, lambda job: job.details.unreachable_since, 90)
    later = job_progress.build_progress_view(replace(sight, seen_at=sight.seen_at + 120), None, {})
    assert later.submissions[0].unreachable_since.startswith("No heartbeat since 20")
    assert not job_progress.build_progress_view(sight, None, {}).submissions[0].unreachable_since
