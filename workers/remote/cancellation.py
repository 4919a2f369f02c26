"""Cancellation of a job at a target. After one request the recording is kept; after another one it is dropped.

Each request is counted in the job's row. The target gets TERM first, so that recordings are completed, and KILL after a
timeout. While the target is unreachable the request waits, and a second one gives the job up.
"""

import time
from dataclasses import replace
from typing import Any

from perfloom.domain.jobs import Cancellation, JobSpec
from perfloom.recording.recorders import recorder_of
from perfloom.store.jobs import Job

from ..base.context import JobContext

KILL_AFTER_S = 20.0
"""How long a job that was asked to end may take to complete its recordings."""
KILL_AFTER_INJECTED_S = 60.0
"""The same if the program itself writes the recording."""
DISCARD_TIMEOUT_S = 30.0
"""How long a dropped job is polled until it has ended."""
PROGRESS_TEXT = "Ending"


def is_kill_due(cancellation: Cancellation, now: float, spec: JobSpec) -> bool:
    """Whether the job `spec` is to be killed, as it had its time to end."""
    timeout = KILL_AFTER_S if recorder_of(spec).injection(spec) is None else KILL_AFTER_INJECTED_S
    return cancellation.is_discarded or now - cancellation.since > timeout


def count_request(context: JobContext, job: Job) -> Job:
    """The job, with a new request for its end counted and taken off its row, so that the next one is seen."""
    if not job.cancel_requested:
        return job
    now = time.time()
    cancellation = job.details.cancellation
    ending = replace(cancellation, times=cancellation.times + 1, since=cancellation.since or now, last=now)
    return save(
        context, replace(job, cancel_requested=False), ending, cancel_requested=False, progress_text=PROGRESS_TEXT
    )


def save(context: JobContext, job: Job, cancellation: Cancellation, **columns: Any) -> Job:
    """Store the cancellation in the job's row."""
    details = replace(job.details, cancellation=cancellation)
    context.store.jobs.update(job.id, expected=job.state, details=details, **columns)
    return replace(job, details=details)
