"""Jobs in batch systems: a real Slurm, and the double of LSF."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import Batch, EventSplitting, JobSpec, JobState, Mpi, MpiFlavor
from perfloom.domain.targets import BatchState, Target
from perfloom.store.jobs import POLLED_STATES
from perfloom.workers import steps
from perfloom.workers.base.context import JobContext
from perfloom.workers.remote import cancellation, outcome
from tests.support.batch import BatchSystem, LsfDouble
from tests.support.marks import slow_except
from tests.workers.remote.driving import at, far, files_of, is_cleaned_up, run, sight_of, submit, to_the_end, until_job

BUSY = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
ENDLESS = (sys.executable, "-S", "-c", "print('begun', flush=True)\nwhile True: pass")


@pytest.fixture(params=slow_except(["slurm"], ["slurm", "lsf"]))
def system(request: pytest.FixtureRequest) -> BatchSystem:
    """Each batch system."""
    found: BatchSystem = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def queue(context: JobContext, system: BatchSystem, tmp_path: Path) -> Target:
    """A target that hands jobs to it."""
    environment = {"PATH": f"{system.path}:/usr/local/bin:/usr/bin:/bin", **system.environment}
    target = Target(
        "queue", scheduler=system.name, directory=str(tmp_path / "jobs"), environment=environment, poll_s=0.5
    )
    context.store.targets.save(target)
    return target


@pytest.mark.slow
def test_a_job_in_the_queue_becomes_a_result(context: JobContext, queue: Target) -> None:
    job = run(context, at(queue, *BUSY))
    assert (job.state, job.result_id) == (JobState.STORED, job.id), job.reason
    states = [state for state, _ in job.history]
    assert states[:3] == ["queued", "staging", "pending"] and states[-3:] == ["collecting", "reading", "stored"]
    assert job.outcome is not None and job.outcome.exit_status == 0 and is_cleaned_up(job)
    (submission,) = sight_of(context, job).submissions
    assert submission.native.isdigit() and submission.batch is not None


@pytest.mark.slow
@pytest.mark.parametrize("system", ["slurm"], indirect=True)
@pytest.mark.parametrize("words", [("--export=NONE",), ("--export=OF_USER=1", "--get-user-env")], ids="".join)
def test_a_job_that_gets_another_environment_from_slurm(
    context: JobContext, queue: Target, words: tuple[str, ...]
) -> None:
    """What the job and its target set is there in each rank all the same."""
    show = ("sh", "-c", 'echo "of the job: [$OF_JOB]"; exec "$@"', "sh", *BUSY)
    batch, mpi = Batch(arguments=words), Mpi(MpiFlavor.SRUN, ranks=2)
    job = run(context, at(queue, *show, batch=batch, mpi=mpi, environment={"OF_JOB": "1"}), 60)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None), files_of(context, job).tail()
    assert files_of(context, job).tail().count("of the job: [1]") == 2
    profile = context.store.results.open(job.id)
    assert {row["rank"] for row in profile.threads.to_pylist()} == {0, 1} and is_cleaned_up(job)


def test_simultaneous_runs_are_separate_batch_jobs(context: JobContext, queue: Target) -> None:
    events = ("cpu-clock:u", "task-clock:u")
    job = run(context, at(queue, *BUSY, events=events, splitting=EventSplitting.AT_ONCE, events_per_run=1), 60)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    submissions = sight_of(context, job).submissions
    assert len({one.native for one in submissions}) == 2 and all(one.exit_status == 0 for one in submissions)
    profile = context.store.results.open(job.id)
    assert profile.runs.num_rows == 2 and profile.events.num_rows == 2 and is_cleaned_up(job)


@pytest.mark.slow
def test_all_of_them_are_cancelled(context: JobContext, queue: Target) -> None:
    events = ("cpu-clock:u", "task-clock:u")
    job = submit(context.store, at(queue, *ENDLESS, events=events, splitting=EventSplitting.AT_ONCE, events_per_run=1))
    job = until_job(context, job, lambda job: files_of(context, job).tail().count("begun") == 2)
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job, 60)
    assert (job.state, job.reason) == (JobState.CANCELLED, "It was cancelled.") and is_cleaned_up(job)


def waiting(queue: Target, system: BatchSystem) -> JobSpec:
    """A job that waits until the test continues it."""
    if isinstance(system, LsfDouble):
        system.control(delay=3600.0)
        return at(queue, *ENDLESS)
    return at(queue, *ENDLESS, batch=Batch(arguments=("--hold",)))


@pytest.mark.slow
def test_pending_job_has_reason_and_can_be_cancelled(context: JobContext, queue: Target, system: BatchSystem) -> None:
    job = submit(context.store, waiting(queue, system))
    job = until_job(context, job, lambda job: "queue" in job.progress_text)
    assert job.state is JobState.PENDING
    batch = sight_of(context, job).submissions[0].batch
    if isinstance(system, LsfDouble):
        assert "New job is waiting for scheduling" in job.progress_text
        assert batch is not None and batch.state is BatchState.PENDING
    else:
        assert "held" in job.progress_text
        assert batch is not None and batch.state is BatchState.HELD
    steps.cancel(context, job.id)
    job = to_the_end(context, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, None) and is_cleaned_up(job)
    assert "before anything was recorded" in (job.reason or "")


def test_cancelling_keeps_what_was_recorded(context: JobContext, queue: Target) -> None:
    job = until_job(
        context, submit(context.store, at(queue, *ENDLESS)), lambda job: "begun" in files_of(context, job).tail()
    )
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job)
    assert (job.state, job.result_id, job.reason) == (JobState.CANCELLED, job.id, "It was cancelled.")
    assert is_cleaned_up(job)


def test_cancelling_twice_drops_it(context: JobContext, queue: Target) -> None:
    job = until_job(
        context, submit(context.store, at(queue, *ENDLESS)), lambda job: "begun" in files_of(context, job).tail()
    )
    for _ in range(2):
        job = cancellation.count_request(
            context, (context.store.jobs.request_cancel(job.id), context.store.jobs.get(job.id))[1]
        )
    job = to_the_end(context, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, None) and is_cleaned_up(job)


@pytest.mark.slow
def test_job_cancelled_by_other_user(context: JobContext, queue: Target, system: BatchSystem) -> None:
    job = until_job(
        context, submit(context.store, at(queue, *ENDLESS)), lambda job: "begun" in files_of(context, job).tail()
    )
    system.run(system.scheduler.cancel_command([job.details.submission_ids[0]], gently=False))
    job = to_the_end(context, job, 60)
    assert job.state in (JobState.STORED, JobState.FAILED), job.reason
    assert "not by Perfloom" in (job.reason or "") or "Another process" in (job.reason or ""), job.reason
    assert is_cleaned_up(job)


@pytest.mark.parametrize("name", ["nowhere", "$(touch x)"])
def test_a_queue_that_does_not_exist(context: JobContext, queue: Target, name: str) -> None:
    job = run(context, at(queue, "true", batch=Batch(queue=name)))
    assert (job.state, job.result_id) == (JobState.FAILED, None)
    assert "rejected" in (job.reason or ""), job.reason
    assert is_cleaned_up(job) and not list(Path(queue.directory).iterdir())


def test_the_time_limit_of_the_batch_system(context: JobContext, queue: Target, system: BatchSystem) -> None:
    if not isinstance(system, LsfDouble):
        pytest.skip("Slurm's shortest limit is a minute")
    system.control(minute=1.5, ten_minutes=1.0, ten_seconds=1.0)
    job = run(context, at(queue, *ENDLESS, batch=Batch(wall_time_s=60)), 60)
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.time_limit, job
    assert "time limit" in (job.reason or "") and not context.store.results.get(job.id).complete
    assert is_cleaned_up(job)


@pytest.mark.slow
def test_the_answer_of_the_batch_system_is_lost(
    context: JobContext, queue: Target, system: BatchSystem, tmp_path: Path
) -> None:
    """The job was submitted, and its id was lost: it is found by its name."""
    spec = at(queue, "sh", "-c", f"echo x >>{tmp_path}/starts; sleep 3")
    if isinstance(system, LsfDouble):
        system.control(lose_answers=True)
        job = submit(context.store, spec)
    else:
        job = until_job(context, submit(context.store, spec), lambda job: job.state in POLLED_STATES)
        details = replace(job.details, submission_ids={})
        context.store.jobs.transition(job.id, POLLED_STATES, JobState.STAGING, details=details)
        (far(job) / "sub0.answer").write_text("")
        (far(job) / "sub0.errors").write_text("sbatch: error: Unable to contact slurm controller (connect failure)\n")
        (far(job) / "sub0.status").write_text("1\n")
    job = to_the_end(context, job, 60)
    assert job.state is JobState.STORED, job.reason
    assert (tmp_path / "starts").read_text() == "x\n" and is_cleaned_up(job)
    assert job.details.submission_ids[0].isdigit()


def test_a_job_that_the_batch_system_forgot(
    context: JobContext, queue: Target, system: BatchSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing knows of it, and it has written nothing."""
    monkeypatch.setattr(outcome, "GONE_S", 0.6)
    job = until_job(context, submit(context.store, waiting(queue, system)), lambda job: "queue" in job.progress_text)
    system.run(system.scheduler.cancel_command([job.details.submission_ids[0]], gently=False))
    context.store.jobs.update(job.id, details=replace(job.details, submission_ids={0: "99999"}))
    job = to_the_end(context, job, 60)
    assert job.state is JobState.LOST and outcome.UNKNOWN_TO_BATCH_SYSTEM in (job.reason or ""), job
    assert is_cleaned_up(job)
