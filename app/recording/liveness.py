"""What a job itself shows of its being alive, beside what its batch system says. Pure.

A batch system that was restarted, or has lost a node for a while, says of jobs that run that they failed, or that it
does not know them. What a job writes outranks that: its exit status, and the signs of life that it gives.
"""

from dataclasses import replace

from ..domain.targets import BatchState
from .job_status import JobStatus, SubmissionStatus

HEARTBEAT_TIMEOUT_S = 45.0
"""For how long a sign of life counts: job.sh gives one every 5 s, and files of another machine come late."""
HEARTBEAT_WARNING_S = 60.0
"""After how long without one a person is told."""

_CREDIBLE = (BatchState.RUNNING, BatchState.SUSPENDED)


def with_heartbeats(job_status: JobStatus, last: JobStatus | None, now: float) -> JobStatus:
    """The job status with `life_at`, `doubted_at` and `lives`, derived from the previous status. now: epoch seconds."""
    before = {submission.number: submission for submission in last.submissions} if last else {}
    return replace(
        job_status,
        submissions=tuple(
            _with_heartbeat(submission, before.get(submission.number), now) for submission in job_status.submissions
        ),
    )


def _with_heartbeat(
    submission_status: SubmissionStatus, before: SubmissionStatus | None, now: float
) -> SubmissionStatus:
    changed = bool(submission_status.life) and (before is None or submission_status.life != before.life)
    life_at = now if changed or submission_status.alive else before.life_at if before else None
    state = submission_status.batch.state if submission_status.batch is not None else None
    doubted_at = None
    if state is not None and state not in (*_CREDIBLE, BatchState.UNKNOWN):
        doubted_at = (before.doubted_at if before else None) or now
    lives = life_at is not None and now - life_at < HEARTBEAT_TIMEOUT_S and (doubted_at is None or life_at > doubted_at)
    # Nothing of a job that waits is looked at, so what is seen of it first is no change.
    if before is None or not before.life:
        lives = bool(submission_status.alive)
    return replace(submission_status, life_at=life_at, doubted_at=doubted_at, lives=lives)


def silent_since(submission_status: SubmissionStatus, seen_at: float) -> float | None:
    """Since when there is no sign of life of what should run; null where there is one, or none can be expected."""
    if (
        submission_status.exit_status is not None
        or submission_status.life_at is None
        or seen_at - submission_status.life_at < HEARTBEAT_WARNING_S
    ):
        return None
    if submission_status.batch is not None and submission_status.batch.state is BatchState.SUSPENDED:
        return None
    return submission_status.life_at
