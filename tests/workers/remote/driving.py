"""Running jobs at targets through their states in the tests."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.jobs import JobSpec
from perfloom.domain.targets import Target
from perfloom.recording.job_status import JobStatus
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base import processes
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.jobfiles import JOB_VARIABLE
from perfloom.workers.remote.polling import read_last_status
from tests.support.jobspecs import spec_of
from tests.workers.conftest import files_of, limited, submit, to_the_end

__all__ = ["at", "far", "files_of", "is_cleaned_up", "run", "sight_of", "submit", "to_the_end", "until_job"]


def at(target: Target, *command: str, **more: Any) -> JobSpec:
    """A recording of `command` at a target."""
    return spec_of(*command, target=target.name, **more)


def run(context: JobContext, spec: JobSpec, limit_s: float = 40.0) -> Job:
    """Record, taking all steps in this process."""
    return to_the_end(context, submit(context.store, spec), limit_s)


class Reached(Exception):
    """The job is where a test wants it."""


def until_job(context: JobContext, job: Job, wanted: Callable[[Job], object], limit_s: float = 30.0) -> Job:
    """Take steps until the job is as wanted. Fails where it ends before."""
    in_time = limited(limit_s)

    def watch(job: Job) -> None:
        if wanted(job):
            raise Reached
        in_time(job)

    try:
        ended = steps.run_to_end(context, job.id, watch)
    except Reached:
        return context.store.jobs.get(job.id)
    pytest.fail(f"the job ended: {ended}")


def sight_of(context: JobContext, job: Job) -> JobStatus:
    """What was last seen of it."""
    sight = read_last_status(files_of(context, job))
    assert sight is not None
    return sight


def far(job: Job) -> Path:
    """The job's directory at its target, which is this machine."""
    return Path(job.details.directory)


def is_cleaned_up(job: Job) -> bool:
    """Whether neither a process nor a file of the job is left at its target."""
    # On a busy machine, a killed process takes a moment to end.
    end = time.monotonic() + 20
    while left := processes.find_by_variable(JOB_VARIABLE, job.id):
        assert time.monotonic() < end, [Path(f"/proc/{one.pid}/cmdline").read_bytes() for one in left]
        time.sleep(0.05)
    return not job.details.directory or not far(job).exists()
