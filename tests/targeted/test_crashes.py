"""A worker that is killed with SIGKILL at whatever moment of a planned job: the job goes on, and ran once."""

import dataclasses
from pathlib import Path

import pytest

from perfloom.domain.jobs import JobSpec, JobState
from perfloom.domain.targets import Target
from perfloom.workers import steps
from perfloom.workers.remote import wishes
from perfloom.workers.road import Road
from tests.marks import slow_but_every
from tests.targeted.driving import nothing_left, submit, to_the_end, until_job
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
    ("perfloom.store.jobs:Jobs.move", "after", 1),
    (RUN, "after", 4),  # it was looked at
    ("perfloom.workers.remote.judging:ending", "after", 1),
    ("perfloom.store.jobs:Jobs.move", "after", 2),
    ("perfloom.workers.remote.collecting:wanted", "after", 1),
    ("perfloom.workers.transports.local:LocalTransport.get", "before", 1),
    ("perfloom.workers.transports.local:LocalTransport.get", "after", 1),
    ("perfloom.workers.remote.collecting:_commit", "after", 1),
    ("perfloom.workers.remote.leaving:remove", "after", 1),
    ("perfloom.workers.remote.collecting:_commit", "after", 2),
    ("perfloom.store.jobs:Jobs.move", "after", 3),
    ("perfloom.store.results:Results._rename", "after", 1),
    ("perfloom.store.jobs:Jobs.move", "before", 4),
]


@pytest.mark.parametrize(("place", "moment", "call"), slow_but_every(4, PLACES))
def test_a_worker_killed_there_loses_nothing(
    road: Road, here: Target, tmp_path: Path, place: str, moment: str, call: int
) -> None:
    job = submit(road.store, _counted(here, tmp_path))
    killed_at(road, job, place, moment, call)
    job = to_the_end(road, job)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert starts(tmp_path) == 1 and nothing_left(job)
    assert road.store.results.get(job.id).samples > 0


def _counted(here: Target, tmp_path: Path, then: str = "sum(i * i for i in range(1_000_000))") -> JobSpec:
    return dataclasses.replace(counted(tmp_path, then), target=here.name)


def test_killed_while_cancelling(road: Road, here: Target, tmp_path: Path) -> None:
    job = submit(road.store, _counted(here, tmp_path, "while True: pass"))
    until_job(road, job, lambda job: starts(tmp_path))
    road.store.jobs.request_cancel(job.id)
    killed_at(road, job, "perfloom.workers.remote.wishes:noted", "after")
    killed_at(road, job, "perfloom.workers.remote.batch:end", "before")
    killed_at(road, job, "perfloom.workers.remote.batch:end", "after")
    job = to_the_end(road, job)
    assert job.state is JobState.CANCELLED and starts(tmp_path) == 1 and wishes.of(job).times == 1
    assert nothing_left(job)


def test_killed_after_the_end_there_is_nothing_to_do(road: Road, here: Target, tmp_path: Path) -> None:
    job = submit(road.store, _counted(here, tmp_path))
    killed_at(road, job, "perfloom.store.jobs:Jobs.move", "after", 4)
    steps.advance(road, job.id)
    assert road.store.jobs.get(job.id).state is JobState.STORED and starts(tmp_path) == 1
