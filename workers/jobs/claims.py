"""Claiming a queued job for this worker: in order of submission, if this machine has a free place."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from perfloom.domain.jobs import JobState
from perfloom.store.files.disk import disk_errors
from perfloom.store.jobs import Job

from ..base.context import RETRY_S, JobContext

MIN_WAIT_S = 1.0
"""How long the first job of the queue waits until it is checked again."""
MAX_WAIT_S = 30.0
BUSY_STATES = (JobState.STAGING, JobState.RUNNING)


def claim(context: JobContext, job: Job) -> None:
    """Take a queued recording for this worker, if it is the next one and a place is free.

    A job on this machine takes one of its places; a job at another target or in a batch system takes none.
    """
    if job.due_at is None:
        # A notification that came too early: the runs of its series before this one have not ended.
        return
    # Imported here, because imports of files need no adapters.
    from perfloom.recording.plan.plan import choose_executor

    target = context.store.targets.get(job.target).target
    executor = choose_executor(job.job_spec, target, run_as=context.settings.run_as)
    details = replace(job.details, executor=executor)
    if not target.is_local:
        host = context.host if target.ssh is None else None
        context.store.jobs.claim(job.id, context.worker, host, RETRY_S, details=details)
        return
    with _claim_lock(context):
        here = [name for name, target in context.store.targets.all().items() if target.is_local]
        busy = [one for name in here for one in context.store.jobs.list(states=BUSY_STATES, kind="record", target=name)]
        running = [one for one in busy if one.host == context.host]
        earlier = context.store.jobs.count_queued_before(job, here)
        free = context.settings.recordings_at_once - len(running)
        if earlier < free:
            context.store.jobs.claim(job.id, context.worker, context.host, RETRY_S, details=details)
            return
    names = ", ".join(one.name or one.id for one in running[:3])
    text = f"Waiting for {names}" if running else "Waiting in the queue"
    text += f"; {earlier} ahead of it" if earlier else ""
    # Jobs at the end of the queue are checked less often; a job that ends notifies a worker of the next ones.
    due = time.time() + min(MAX_WAIT_S, MIN_WAIT_S * (1 + earlier))
    context.store.jobs.update(job.id, expected=JobState.QUEUED, due_at=due, progress_text=text)


def enqueue_next(context: JobContext) -> None:
    """A job has ended: notify a worker for those that have waited longest."""
    if context.queue is None:
        return
    for one in context.store.jobs.list_queued(kind="record", limit=context.settings.recordings_at_once):
        context.queue.enqueue(one)


@contextmanager
def _claim_lock(context: JobContext) -> Iterator[None]:
    """Only one process of this host counts and claims jobs at a time."""
    path = context.settings.data / "jobs" / ".turn"
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
