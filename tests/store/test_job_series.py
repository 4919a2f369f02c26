"""Run series on both databases: of a series only one run at a time may start, in the order of the series."""

from __future__ import annotations

import itertools

import pytest

from perfloom.domain.errors import Conflict, NotFound
from perfloom.domain.jobs import JobDetails, JobSpec, JobState, SeriesRun, Side, order_runs
from perfloom.store import Job, NewRun, RunSeries, Store
from tests.store.making import store_result

FIRST = "series000000"
END = (JobState.QUEUED, JobState.STAGING, JobState.RUNNING)


def create(store: Store, runs: int = 2, first: str = FIRST, base: str = "") -> RunSeries:
    order = order_runs(runs, 1, (Side.BASE,), keeps_base=bool(base))
    store.series.create(
        [
            NewRun(
                f"{first[:-2]}{number:02}",
                SeriesRun(first, number, side, run, base),
                f"{side}: a",
                JobSpec(command=(str(side),)),
                JobDetails(),
            )
            for number, (side, run) in enumerate(order)
        ]
    )
    return store.series.of_job(store.jobs.get(first))


def end(store: Store, job: Job, state: JobState = JobState.STORED) -> None:
    """Let a job that may start end in a state, with a result if it is stored."""
    assert job.id in store.jobs.list_due()
    for before, after in itertools.pairwise((*END, state)):
        result = {"result_id": store_result(store).id} if after is JobState.STORED else {}
        assert store.jobs.transition(job.id, before, after, **result)


def waiting(store: Store) -> list[str]:
    """Ids of the jobs that take a place in the queue."""
    return [job.id for job in store.jobs.list_queued(kind="record", limit=100)]


def test_one_run_at_a_time(store: Store) -> None:
    jobs = create(store).jobs
    assert [(job.details.series.side, job.details.series.run) for job in jobs if job.details.series] == [
        ("base", 0),
        ("base", 1),
        ("other", 1),
        ("other", 2),
        ("base", 2),
    ]
    later = store.jobs.create("record", JobSpec().to_json(), "another")
    results = {}
    for number, job in enumerate(jobs):
        assert store.series.start_turns() == ((job.id,) if number else ())
        assert store.series.start_turns() == ()
        assert waiting(store) == [job.id, later.id] and store.jobs.count_queued_before(later) == 1
        end(store, job)
        results[job.id] = store.jobs.get(job.id).result_id
    series = store.series.of_job(jobs[3])
    assert series.is_over and series.has_pairs and series.without_result() == ()
    assert series.results(Side.BASE) == (results[jobs[1].id], results[jobs[4].id])
    assert series.results(Side.OTHER) == (results[jobs[2].id], results[jobs[3].id])


def test_two_series_are_independent(store: Store) -> None:
    one, two = create(store), create(store, first="seriesa00000")
    end(store, one.jobs[0])
    assert store.series.start_turns() == (one.jobs[1].id,)
    assert [job.id for job in store.series.of_job(two.jobs[0]).jobs] == [job.id for job in two.jobs]


def test_series_is_created_once(store: Store) -> None:
    jobs = create(store).jobs
    with pytest.raises(Conflict):
        create(store)
    assert len(store.jobs.list()) == len(jobs)
    with pytest.raises(NotFound):
        store.series.of_job(store.jobs.create("record", JobSpec().to_json(), "alone"))


def test_series_continues_after_a_run_that_is_cancelled_or_deleted(store: Store) -> None:
    jobs = create(store).jobs
    for job, state in zip(jobs[:2], (JobState.STORED, JobState.CANCELLED), strict=True):
        end(store, job, state)
        store.series.start_turns()
    end(store, jobs[2])
    store.jobs.delete(jobs[2].id)
    assert store.series.start_turns() == (jobs[3].id,)
    store.jobs.request_cancel(jobs[3].id)
    end(store, jobs[3], JobState.CANCELLED)
    assert store.series.start_turns() == (jobs[4].id,)
    end(store, jobs[4])
    series = store.series.of_job(jobs[0])
    assert not series.has_pairs and [job.id for job in series.without_result()] == [jobs[1].id, jobs[3].id]


def test_nothing_more_runs_if_the_first_run_fails(store: Store) -> None:
    jobs = create(store, base="result000000").jobs
    end(store, jobs[0], JobState.FAILED)
    assert store.series.start_turns() == ()
    left = [store.jobs.get(job.id) for job in jobs[1:]]
    assert all(job.cancel_requested and job.due_at for job in left)
    assert store.series.of_job(jobs[0]).results(Side.BASE) == ("result000000",)


def test_cancelling_the_rest(store: Store) -> None:
    jobs = create(store).jobs
    end(store, jobs[0])
    store.series.start_turns()
    store.series.request_cancel(store.series.of_job(jobs[0]))
    assert store.series.start_turns() == ()
    assert [store.jobs.get(job.id).cancel_requested for job in jobs] == [False, True, True, True, True]
