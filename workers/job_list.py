"""Jobs as commands list them. Jobs that commands left before their end get a process again.

What runs jobs is imported only if there is one to run, because a list should appear at once.
"""

from collections.abc import Sequence

from perfloom.config import Settings
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job


def list_jobs(settings: Settings, *, active: bool | None, limit: int) -> tuple[Job, ...]:
    """Jobs, newest first. active: only those that have not ended."""
    store = open_store(settings)
    try:
        _resume(settings, store, store.jobs.list(active=True, limit=1000))
        return store.jobs.list(active=active, limit=limit)
    finally:
        store.close()


def get_job(settings: Settings, job_id: str) -> Job:
    """A job. Raises NotFound."""
    store = open_store(settings)
    try:
        job = store.jobs.get(job_id)
        _resume(settings, store, () if job.state.final else (job,))
        return job
    finally:
        store.close()


def _resume(settings: Settings, store: Store, jobs: Sequence[Job]) -> None:
    if not jobs:
        return
    from perfloom.queue import TaskQueue

    from . import job_runner

    queue = TaskQueue(settings, store)
    try:
        job_runner.resume_jobs(settings, store, queue, jobs)
    finally:
        queue.close()
