"""A process that takes the steps of one job where no worker runs. It outlives the command that started it.

One process at a time runs a job, by a lock that the end of the process releases: a command that finds a job without a
process starts another one.
"""

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job

from . import steps
from .base import processes
from .base.context import JobContext, is_finished, open_context
from .base.facts_probe import host_name
from .base.jobfiles import JobFiles

LOCK_POLL_S = 0.2
LOCK_TIMEOUT_S = 5.0
"""How long a new runner waits for a process that runs the job and is about to end."""
LOG_NAME = "runner.log"
log = logging.getLogger(__name__)
_started: "list[subprocess.Popen[bytes]]" = []
"""Not waited for: they outlive this process."""


class _SecretNeeded(Exception):
    """The job needs a secret that only a person can type."""


def run_job(context: JobContext, job_id: str, watch: Callable[[Job], None] = lambda job: None) -> None:
    """Take the steps of a job until it has ended; while another process takes them, wait. watch: as in
    `steps.run_to_end`."""
    files = JobFiles(context.store.jobs.directory(job_id))
    while not is_finished(context.store.jobs.find(job_id)):
        with files.runner_lock() as runner_lock:
            if runner_lock:
                steps.run_to_end(context, job_id, watch)
                return
        time.sleep(LOCK_POLL_S)


def start_runner(settings: Settings, files: JobFiles, job_id: str) -> None:
    """Start a process that runs a job until it has ended, in another session."""
    argv = processes.python_argv("perfloom.workers.job_runner", str(settings.data), job_id)
    files.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(files.root / LOG_NAME, "ab") as errors:
        _started.append(
            subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True, cwd="/"
            )
        )


def may_run(job: Job) -> bool:
    """Whether a command on this host may run the job: one that a command submitted here. A server's workers may run as
    another user, which a command does not know."""
    return job.details.runner_host == host_name()


def has_runner(files: JobFiles) -> bool:
    """Whether a process runs the job."""
    with files.runner_lock() as runner_lock:
        return not runner_lock


def resume_jobs(settings: Settings, store: Store, queue: TaskQueue, jobs: Sequence[Job]) -> None:
    """Start a runner for each of the jobs that no process runs, except those that need a secret, which a person has to
    type."""
    waiting = [job for job in jobs if may_run(job) and not job.details.needed_secrets]
    found = [(job.id, JobFiles(store.jobs.directory(job.id))) for job in waiting]
    left = [(id, files) for id, files in found if not has_runner(files)]
    if left and not queue.has_worker(host_name()):
        for id, files in left:
            start_runner(settings, files, id)


def main() -> None:
    """Run one job: data directory and id are given."""
    processes.name_process("perfloom-job")
    processes.disable_dumping()
    settings, job_id = Settings.load(Path(sys.argv[1])), sys.argv[2]
    store = open_store(settings)

    def watch(job: Job) -> None:
        if job.details.needed_secrets:
            raise _SecretNeeded

    files, end = JobFiles(store.jobs.directory(job_id)), time.monotonic() + LOCK_TIMEOUT_S
    try:
        while time.monotonic() < end:
            with files.runner_lock() as runner_lock:
                if runner_lock:
                    steps.run_to_end(open_context(settings, store, ends_with_job=True), job_id, watch)
                    return
            time.sleep(LOCK_POLL_S)
    except _SecretNeeded:
        pass  # `perfloom wait` prompts for it.
    except PerfloomError as error:
        log.warning("job %s: %s", job_id, error.message)
    finally:
        store.close()
