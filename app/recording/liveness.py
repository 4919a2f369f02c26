"""Whether a job is alive, by its own heartbeats and by what its batch system reports. Pure.

A batch system that was restarted, or that has lost contact with a node, may report running jobs as failed or unknown.
The job's own files take precedence: its exit status and its heartbeats.
"""

from dataclasses import replace

from ..domain.targets import BatchState
from .job_status import JobStatus, SubmissionStatus

HEARTBEAT_TIMEOUT_S = 45.0
"""How long a heartbeat counts: job.sh writes one every 5 s, and network file systems show changes late."""
HEARTBEAT_WARNING_S = 60.0
"""The page shows a warning after this time without a heartbeat."""

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
    # The files of a pending job are not polled, so its first heartbeat is not a change.
    if before is None or not before.life:
        lives = bool(submission_status.alive)
    return replace(submission_status, life_at=life_at, doubted_at=doubted_at, lives=lives)


def silent_since(submission_status: SubmissionStatus, seen_at: float) -> float | None:
    """Since when a running submission has had no heartbeat (epoch seconds); null if it has one, or none is expected."""
    if (
        submission_status.exit_status is not None
        or submission_status.life_at is None
        or seen_at - submission_status.life_at < HEARTBEAT_WARNING_S
    ):
        return None
    if submission_status.batch is not None and submission_status.batch.state is BatchState.SUSPENDED:
        return None
    return submission_status.life_at
