"""A data directory, its store and its job context for the tests of jobs; no process of a job outlives its test."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec, JobState
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base import facts_probe, processes
from perfloom.workers.base.context import JobContext, open_context
from perfloom.workers.base.jobfiles import JOB_VARIABLE, JobFiles
from perfloom.workers.local import supervisor_client
from tests.support.parts import require


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
        supervisor_client.request_stop(JobFiles(store.jobs.directory(job.id)), at_once=True)
        processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)


@pytest.fixture(scope="session")
def facts() -> HostFacts:
    """What this machine can do, asked once."""
    require("perf")
    return facts_probe.probe()


@pytest.fixture
def context(settings: Settings, store: Store, facts: HostFacts) -> JobContext:
    """The context of this process, without a queue, and with the facts of this machine, as in a worker."""
    store.hosts.publish(facts_probe.refresh_facts(facts))
    return open_context(settings, store)


def submit(store: Store, spec: JobSpec, name: str = "a job") -> Job:
    """A queued recording."""
    return store.jobs.create("record", spec.to_json(), name)


def run(context: JobContext, spec: JobSpec) -> Job:
    """Record, taking all steps in this process."""
    return steps.run_to_end(context, submit(context.store, spec).id)


def to_the_end(context: JobContext, job: Job, limit_s: float = 40.0) -> Job:
    """Take the job up, as a worker after a restart does too, until it has ended. Fails where it does not."""
    return steps.run_to_end(context, job.id, limited(limit_s))


def limited(limit_s: float) -> Callable[[Job], None]:
    """For `watch`: fails if the job takes longer."""
    end = time.monotonic() + limit_s

    def watch(job: Job) -> None:
        if time.monotonic() > end:
            pytest.fail(f"the job hangs: {job}")

    return watch


def until_state(context: JobContext, job_id: str, *states: JobState) -> Job:
    """Take steps until the job is in one of `states`."""

    class Reached(Exception):
        pass

    def watch(job: Job) -> None:
        if job.state in states:
            raise Reached

    try:
        steps.run_to_end(context, job_id, watch)
    except Reached:
        pass
    return context.store.jobs.get(job_id)


def files_of(context: JobContext, job: Job) -> JobFiles:
    """The job's directory."""
    return JobFiles(context.store.jobs.directory(job.id))


def has_no_process(job: Job) -> bool:
    """Whether no process of the job still runs."""
    return not processes.find_by_variable(JOB_VARIABLE, job.id)
