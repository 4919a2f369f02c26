"""A data directory, its store and its road for the tests of the job road; nothing of a job outlives its test."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.facts import HostFacts
from perfloom.domain.jobs import JobSpec, JobState
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.local import facts_probe, processes, supervised
from perfloom.workers.local.jobfiles import MARK, JobFiles
from perfloom.workers.road import Road, open_road
from tests.parts import require


@pytest.fixture
def settings(tmp_path: Path, short_path: Path) -> Settings:
    """Settings of a new data directory."""
    return Settings.load(tmp_path / "data", environ={}, runtime=short_path / "run", reserve_bytes=0)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """Its store; what its jobs left running is ended."""
    store = open_store(settings)
    yield store
    end_all(store)
    store.close()


def end_all(store: Store) -> None:
    """End what its jobs left running."""
    for job in store.jobs.list(limit=1000):
        supervised.ask_to_end(JobFiles(store.jobs.directory(job.id)), at_once=True)
        processes.end_marked(MARK, job.id, grace_s=0)


@pytest.fixture(scope="session")
def facts() -> HostFacts:
    """What this machine can do, asked once."""
    require("perf")
    return facts_probe.probe()


@pytest.fixture
def road(settings: Settings, store: Store, facts: HostFacts) -> Road:
    """The road of this process, which rings for nobody. It knows what this machine can do, as beside a worker."""
    store.hosts.publish(facts_probe.renewed(facts))
    return open_road(settings, store)


def submit(store: Store, spec: JobSpec, name: str = "a job") -> Job:
    """A queued recording."""
    return store.jobs.create("record", spec.to_json(), name)


def run(road: Road, spec: JobSpec) -> Job:
    """Record, taking all steps in this process."""
    return steps.drive(road, submit(road.store, spec).id)


def to_the_end(road: Road, job: Job, limit_s: float = 40.0) -> Job:
    """Take the job up, as a worker after a restart does too, until it has ended. Fails where it does not."""
    return steps.drive(road, job.id, limited(limit_s))


def limited(limit_s: float) -> Callable[[Job], None]:
    """To be told after each step: fails where the job takes longer."""
    end = time.monotonic() + limit_s

    def watch(job: Job) -> None:
        if time.monotonic() > end:
            pytest.fail(f"the job hangs: {job}")

    return watch


def until_state(road: Road, job_id: str, *states: JobState) -> Job:
    """Take steps until the job is in one of `states`."""

    class Reached(Exception):
        pass

    def watch(job: Job) -> None:
        if job.state in states:
            raise Reached

    try:
        steps.drive(road, job_id, watch)
    except Reached:
        pass
    return road.store.jobs.get(job_id)


def files_of(road: Road, job: Job) -> JobFiles:
    """The job's directory."""
    return JobFiles(road.store.jobs.directory(job.id))


def nobody_left(job: Job) -> bool:
    """Whether nothing that the job started still runs."""
    return not processes.marked(MARK, job.id)
