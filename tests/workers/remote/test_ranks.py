"""Ranks that fail, or report nothing: recordings of the others are kept, and the result lists what is missing."""

import dataclasses

import pytest

from perfloom.domain.event_names import split_modifiers
from perfloom.domain.jobs import JobState, Mpi, MpiFlavor, RecorderName
from perfloom.domain.targets import Target
from perfloom.store.jobs import Job
from perfloom.workers.base.context import JobContext
from tests.support.marks import slow_except
from tests.support.mpi.programs import MpiBuild, MpiProgram
from tests.workers.remote.driving import at, files_of, is_cleaned_up, run, sight_of, submit, to_the_end, until_job

both = pytest.mark.parametrize("flavour", [MpiFlavor.OPENMPI, MpiFlavor.MPICH])


@both
def test_a_rank_that_crashes(context: JobContext, here: Target, mpi_program: MpiProgram, flavour: MpiFlavor) -> None:
    job = run(context, at(here, str(mpi_program(flavour)), "150", "crash", "2", mpi=Mpi(flavour, 3), frequency=999), 60)
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.exit_status, job
    result = context.store.results.get(job.id)
    assert not result.complete and any("ank 2" in reason and "SIGSEGV" in reason for reason in result.reasons), result
    ranks = set(context.store.results.open(job.id).threads.column("rank").to_pylist())
    assert ranks == {0, 1, 2} and is_cleaned_up(job)


def test_a_rank_that_does_no_work(context: JobContext, here: Target, mpi_program: MpiProgram) -> None:
    flavour = MpiFlavor.OPENMPI
    job = run(context, at(here, str(mpi_program(flavour)), "100", mpi=Mpi(flavour, 3, only="0,2"), frequency=999))
    assert job.state is JobState.STORED, job.reason
    assert set(context.store.results.open(job.id).threads.column("rank").to_pylist()) == {0, 2}
    assert [rank.recorded for rank in sight_of(context, job).ranks] == [True, False, True]


@pytest.mark.slow
@both
def test_cancelled_ranks_keep_what_they_recorded(
    context: JobContext, here: Target, mpi_program: MpiProgram, flavour: MpiFlavor
) -> None:
    job = submit(context.store, at(here, str(mpi_program(flavour)), "50", "on", mpi=Mpi(flavour, 3), frequency=999))
    until_job(context, job, lambda job: files_of(context, job).tail().count("rank ") >= 3)
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job, 60)
    assert (job.state, job.reason) == (JobState.CANCELLED, "It was cancelled."), job
    assert set(context.store.results.open(job.id).threads.column("rank").to_pylist()) == {0, 1, 2}
    assert is_cleaned_up(job)


def test_missing_mpi_launcher(context: JobContext, here: Target, mpi_program: MpiProgram) -> None:
    mpi = Mpi(MpiFlavor.OPENMPI, 2, program="/no/mpirun")
    job = run(context, at(here, str(mpi_program(MpiFlavor.OPENMPI)), mpi=mpi))
    assert job.state is JobState.FAILED and "No launcher of" in (job.reason or ""), job.reason
    assert is_cleaned_up(job)


def test_a_program_that_no_rank_can_start(context: JobContext, here: Target) -> None:
    job = run(context, at(here, "/no/such/program", mpi=Mpi(MpiFlavor.MPICH, 2)))
    assert job.state is JobState.FAILED and "/no/such/program" in (job.reason or ""), job.reason
    assert is_cleaned_up(job)


def test_counts_of_ranks(context: JobContext, here: Target, mpi_program: MpiProgram) -> None:
    flavour = MpiFlavor.MPICH
    spec = at(
        here,
        *(str(mpi_program(flavour)), "500"),
        mpi=Mpi(flavour, 3),
        recorder=RecorderName.PERF_STAT,
        events=("task-clock:u",),
        frequency=None,
    )
    job = run(context, spec)
    assert job.state is JobState.STORED, job.reason
    counts = {row["rank"]: row["value"] for row in context.store.results.open(job.id).counts.to_pylist()}
    # Rank 1 computes twice as long. MPI_Init adds the same to all, more on a busy machine.
    assert sorted(counts) == [0, 1, 2] and 1.3 < counts[1] / counts[0] < 2.5, counts


@pytest.mark.slow
@pytest.mark.parametrize("signal", slow_except([None], [None, 11]))
def test_page_faults_of_ranks_and_their_children_are_counted(
    context: JobContext, here: Target, mpi_build: MpiBuild, signal: int | None
) -> None:
    pages, children, more = 20_000, 3, [str(signal)] if signal else []
    program = str(mpi_build(MpiFlavor.OPENMPI, "faults"))
    plain = at(here, program, "0", "1", mpi=Mpi(MpiFlavor.OPENMPI, 3), events=("page-faults",), frequency=499)
    own = faults_of(context, run(context, plain, 90))
    spec = dataclasses.replace(plain, command=(program, str(pages), str(children), *more))
    job = run(context, spec, 90)
    counts = faults_of(context, job)
    assert sorted(counts) == [0, 1, 2], (job, files_of(context, job).tail())
    for rank, count in counts.items():
        known = (rank + 1) * pages * (children + 1)
        assert abs(count - own[rank] - known) < 0.01 * known, (counts, own)
    assert job.outcome is not None and bool(job.outcome.exit_status) == bool(signal)
    reasons = context.store.results.get(job.id).reasons
    assert any("ank 1" in reason and "SIGSEGV" in reason for reason in reasons) == bool(signal), reasons
    assert is_cleaned_up(job)


def faults_of(context: JobContext, job: Job) -> dict[int, float]:
    """Page faults by rank, as they were counted."""
    assert job.state is JobState.STORED, job
    profile = context.store.results.open(job.id)
    names = profile.events.column("name").to_pylist()
    # With `:u` where only root may see the kernel.
    assert [split_modifiers(name)[0] for name in names] == ["page-faults"]
    assert "perfloom-wait" not in set(profile.threads.column("name").to_pylist())
    return {row["rank"]: row["value"] for row in profile.counts.to_pylist()}
