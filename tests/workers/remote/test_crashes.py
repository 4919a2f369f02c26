"""A worker is killed at any moment of a job at a target: the job continues, and ran once."""

import dataclasses
from pathlib import Path

import pytest

from perfloom.domain.jobs import JobSpec, JobState
from perfloom.domain.targets import Target
from perfloom.workers import steps
from perfloom.workers.base.context import JobContext
from tests.support.marks import slow_but_every
from tests.workers.remote.driving import is_cleaned_up, submit, to_the_end, until_job
from tests.workers.test_crashes import counted, killed_at, starts

RUN = "perfloom.workers.transports.local:LocalTransport.run"
PLACES = [
    ("perfloom.store.jobs:Jobs.claim", "after", 1),
    (RUN, "after", 1),  # its directory's name is known
    ("perfloom.workers.remote.staging:_commit", "after", 1),
    (RUN, "after", 2),  # the directory is made
    ("perfloom.workers.transports.local:LocalTransport.put", "after", 1),
    ("perfloom.workers.remote.staging:_commit", "after", 2),
    (RUN, "before", 3),
    (RUN, "after", 3),  # it is started
    ("perfloom.workers.remote.staging:_commit", "after", 3),
    ("perfloom.store.jobs:Jobs.transition", "after", 1),
    (RUN, "after", 4),  # it was polled
    ("perfloom.workers.remote.outcome:recording_outcome", "after", 1),
    ("perfloom.store.jobs:Jobs.transition", "after", 2),
    ("perfloom.workers.remote.collection:files_to_fetch", "after", 1),
    ("perfloom.workers.transports.local:LocalTransport.get", "before", 1),
    ("perfloom.workers.transports.local:LocalTransport.get", "after", 1),
    ("perfloom.workers.remote.collection:_commit", "after", 1),
    ("perfloom.workers.targets.cleanup:remove_directory", "after", 1),
    ("perfloom.workers.remote.collection:_commit", "after", 2),
    ("perfloom.store.jobs:Jobs.transition", "after", 3),
    ("perfloom.store.results:Results._rename", "after", 1),
    ("perfloom.store.jobs:Jobs.transition", "before", 4),
]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "moment", "call"), slow_but_every(4, PLACES))
def test_a_worker_killed_there_loses_nothing(
    context: JobContext, here: Target, tmp_path: Path, place: str, moment: str, call: int
) -> None:
    job = submit(context.store, _counted(here, tmp_path))
    killed_at(context, job, place, moment, call)
    job = to_the_end(context, job)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert starts(tmp_path) == 1 and is_cleaned_up(job)
    assert context.store.results.get(job.id).samples > 0


def _counted(here: Target, tmp_path: Path, then: str = "sum(i * i for i in range(1_000_000))") -> JobSpec:
    return dataclasses.replace(counted(tmp_path, then), target=here.name)


def test_killed_while_cancelling(context: JobContext, here: Target, tmp_path: Path) -> None:
    job = submit(context.store, _counted(here, tmp_path, "while True: pass"))
    until_job(context, job, lambda job: starts(tmp_path))
    context.store.jobs.request_cancel(job.id)
    killed_at(context, job, "perfloom.workers.remote.cancellation:count_request", "after")
    killed_at(context, job, "perfloom.workers.targets.batch:cancel_jobs", "before")
    killed_at(context, job, "perfloom.workers.targets.batch:cancel_jobs", "after")
    job = to_the_end(context, job)
    assert job.state is JobState.CANCELLED and starts(tmp_path) == 1 and job.details.cancellation.times == 1
    assert is_cleaned_up(job)


@pytest.mark.slow
def test_killed_after_the_end_there_is_nothing_to_do(context: JobContext, here: Target, tmp_path: Path) -> None:
    job = submit(context.store, _counted(here, tmp_path))
    killed_at(context, job, "perfloom.store.jobs:Jobs.transition", "after", 4)
    steps.advance(context, job.id)
    assert context.store.jobs.get(job.id).state is JobState.STORED and starts(tmp_path) == 1
