"""What is done to a result when nobody waits for it: by whoever stored it, or by a process that outlives the command."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import JobState
from perfloom.store.jobs import Job
from perfloom.workers import settling, steps
from perfloom.workers.local.jobfiles import JobFiles
from perfloom.workers.road import Road
from tests.workers.waiting import until

SCRIPT = Path(__file__).parent.parent / "data/perf/spin.script.txt"


def imported(road: Road) -> Job:
    job = road.store.jobs.create("import", {"files": [SCRIPT.name]}, "a spin")
    files = JobFiles(road.store.jobs.directory(job.id))
    files.prepare()
    shutil.copy(SCRIPT, files.artefacts / SCRIPT.name)
    return steps.drive(road, job.id)


def settled(road: Road, job: Job) -> bool:
    return all(one.settled for one in road.store.results.get(job.id).originals)


def test_what_is_soon_done_is_done_at_once(road: Road) -> None:
    job = imported(replace(road, ends_with_job=True))
    assert job.state is JobState.STORED and settled(road, job)


def test_what_takes_long_is_left_to_another_process(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LARGE_BYTES", 1)
    before = len(settling._begun)
    job = imported(replace(road, ends_with_job=True))
    assert job.state is JobState.STORED
    (process,) = settling._begun[before:]
    assert process.wait(60) == 0
    until(lambda: settled(road, job), "the original is compressed")
    assert (road.store.results.open(job.id)).samples.num_rows
