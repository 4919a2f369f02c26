"""The state and outcome of a job from its last poll, and the text about them. Pure."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from perfloom.domain.jobs import JobSpec, Outcome, Scope
from perfloom.domain.list_text import abbreviate_names
from perfloom.domain.targets import BatchState, BatchStatus
from perfloom.domain.text import signal_name
from perfloom.domain.units import format_utc
from perfloom.recording.job_status import JobStatus, RunStatus, SubmissionStatus
from perfloom.recording.liveness import silent_since

from ..base.outcome import RecordingOutcome

WAITING_STATES = (BatchState.PENDING, BatchState.HELD)
RUNNING_STATES = (BatchState.RUNNING, BatchState.SUSPENDED)
SETTLE_S = 5.0
"""How long the files of a job that ended may take to be visible, on a filesystem that several machines share."""
HEARTBEAT_WAIT_S = 15.0
"""How long a job that is reported as ended may take for its next heartbeat: there is one every 5 s."""
GONE_S = 45.0
"""How long a batch system must not know a job before it counts as ended: it may not know it just after submission."""
JOB_LOST = "Its supervisor there was killed, or the machine restarted."
UNKNOWN_TO_BATCH_SYSTEM = "The batch system no longer knows it, and it wrote no exit status."


class Phase(Enum):
    """The phase of one submission."""

    WAITS = "waits"
    RUNS = "runs"
    UNKNOWN = "unknown"
    """It is unknown at present."""
    SILENT = "silent"
    """Others report that it ended, and it has written no exit status."""
    ENDED = "ended"


@dataclass(frozen=True)
class Assessment:
    """The conclusion from all submissions. text: for the page, about a job that has not ended."""

    is_pending: bool
    has_ended: bool
    text: str = ""


def get_phase(submission_status: SubmissionStatus) -> Phase:
    """The phase of a submission, as far as it is known."""
    if submission_status.exit_status is not None:
        return Phase.ENDED
    # Its own files and process outrank its batch system, which may have been restarted or have lost its node.
    if submission_status.alive or (
        submission_status.lives and (submission_status.batch is not None or submission_status.alive is None)
    ):
        return Phase.RUNS
    if submission_status.batch is None:
        return Phase.UNKNOWN if submission_status.alive is None else Phase.SILENT
    if submission_status.batch.state in WAITING_STATES:
        return Phase.WAITS
    if submission_status.batch.state in (BatchState.RUNNING, BatchState.SUSPENDED):
        return Phase.RUNS
    return Phase.UNKNOWN if submission_status.batch.state is BatchState.UNKNOWN else Phase.SILENT


def is_quiet(job_status: JobStatus) -> bool:
    """Whether none of its submissions waits or runs, or may do so without being visible."""
    return all(get_phase(submission) in (Phase.SILENT, Phase.ENDED) for submission in job_status.submissions)


def assess_status(
    spec: JobSpec, job_status: JobStatus, quiet_s: float, *, end_requested: bool = False, recorded: str = ""
) -> Assessment:
    """The conclusion from a poll. quiet_s: how long all submissions have been `is_quiet`. end_requested: a person asked
    for its end, so that no other reason is needed. recorded: what was recorded so far, for the text."""
    phases = [get_phase(submission) for submission in job_status.submissions]
    waits = Phase.WAITS in phases and Phase.RUNS not in phases and Phase.UNKNOWN not in phases
    over = is_quiet(job_status) and quiet_s >= max(
        (_confirmation_delay(submission, job_status, end_requested) for submission in job_status.submissions),
        default=0.0,
    )
    text = "" if over else _waiting(job_status) if waits else _running(spec, job_status, recorded)
    return Assessment(waits, over, text)


def _confirmation_delay(submission_status: SubmissionStatus, job_status: JobStatus, end_requested: bool) -> float:
    if get_phase(submission_status) is not Phase.SILENT:
        # The script writes that it got a signal before the batch system reports its end and the reason.
        unreported = submission_status.batch is not None and submission_status.batch.state in (
            BatchState.RUNNING,
            BatchState.SUSPENDED,
        )
        return SETTLE_S if submission_status.stopped and unreported and not end_requested else 0.0
    if submission_status.batch is not None and submission_status.batch.state is BatchState.GONE:
        return GONE_S
    if (
        submission_status.batch is not None
        and submission_status.life_at is not None
        and submission_status.alive is None
    ):
        return HEARTBEAT_WAIT_S
    never_began = not job_status.runs and not submission_status.host
    ended_by_others = submission_status.batch is not None and submission_status.batch.state is BatchState.CANCELLED
    return 0.0 if never_began and ended_by_others else SETTLE_S


def _waiting(job_status: JobStatus) -> str:
    waiting = [
        submission.batch
        for submission in job_status.submissions
        if submission.batch is not None and submission.batch.state in WAITING_STATES
    ]
    held = any(batch.state is BatchState.HELD for batch in waiting)
    text = "Held in the queue until it is released" if held else "Waiting in the queue"
    if reason := next((batch.reason for batch in waiting if batch.reason), ""):
        text += f": {reason.rstrip('.')}"
    if (position := next((batch.position for batch in waiting if batch.position is not None), None)) is not None:
        text += f"; {position} ahead of it"
    return text


def _running(spec: JobSpec, job_status: JobStatus, recorded: str) -> str:
    parts = []
    if any(
        submission.batch and submission.batch.state is BatchState.SUSPENDED for submission in job_status.submissions
    ):
        parts.append("Suspended by the batch system")
    else:
        hosts = list(dict.fromkeys(rank.host for rank in job_status.ranks if rank.host))
        parts.append(f"Running on {abbreviate_names(hosts, 3)}" if hosts else "Running")
    parts += _status_conflicts(job_status)
    if len(job_status.runs) > 1:
        parts.append(f"{sum(run.state == 'ended' for run in job_status.runs)} of {len(job_status.runs)} runs are done")
    if spec.mpi is not None and not spec.mpi.per_host and job_status.ranks:
        latest = max(rank.run for rank in job_status.ranks)
        ranks = [rank for rank in job_status.ranks if rank.run == latest]
        parts.append(f"{len(ranks)} of {spec.mpi.ranks} ranks have started")
    return "; ".join((*parts, *filter(None, (recorded,))))


def is_doubtful(submission_status: SubmissionStatus) -> bool:
    """Whether its batch system does not report that it waits or runs."""
    return submission_status.batch is not None and submission_status.batch.state not in (
        *RUNNING_STATES,
        *WAITING_STATES,
    )


def _status_conflicts(job_status: JobStatus) -> Iterator[str]:
    """Contradictions of the batch system, and since when there is no heartbeat."""
    for submission in job_status.submissions:
        if get_phase(submission) is Phase.RUNS and is_doubtful(submission):
            assert submission.batch is not None
            yield f"it still sends heartbeats, although the batch system reports: {_state_text(submission.batch)}"
            break
    unheard = [
        at for submission in job_status.submissions if (at := silent_since(submission, job_status.seen_at)) is not None
    ]
    if unheard:
        yield f"no heartbeat since {format_utc(max(unheard))}"


def _state_text(status: BatchStatus) -> str:
    """The batch system's state of a job, in its own term if it has one."""
    return status.native or status.reason.rstrip(".") or status.state.value


def is_lost(job_status: JobStatus) -> bool:
    """Whether what ran it ended without a report, for an unknown reason."""
    return any(
        get_phase(submission) is Phase.SILENT
        and (submission.batch is None or submission.batch.state is BatchState.GONE)
        for submission in job_status.submissions
    )


def recording_outcome(spec: JobSpec, job_status: JobStatus, *, end_requested: bool) -> RecordingOutcome:
    """How a job ended. end_requested: a person asked for its end.

    The reasons for an incomplete recording do not include those that the ranks report.
    """
    ended_early = [
        submission for submission in job_status.submissions if submission.stopped or submission.exit_status is None
    ]
    cancelled = end_requested and bool(ended_early or not job_status.submissions)
    limit = not cancelled and (
        _at_own_limit(job_status) or any(_at_limit(submission) for submission in job_status.submissions)
    )
    short = ["It was cancelled."] if cancelled else list(dict.fromkeys(_incomplete_reasons(spec, job_status)))
    stop_requested = cancelled or limit or any(submission.stopped for submission in job_status.submissions)
    # A program that was requested to end says nothing about the command with its status.
    runs = [] if stop_requested else [run for run in job_status.runs if run.exit_status is not None]
    worst = next((run.exit_status for run in runs if run.exit_status), 0 if runs else None)
    if not worst and any(rank.perf_killed for rank in job_status.ranks):
        worst = None  # The program ended without its perf, so that its status was lost.
    number = _signal_of_status(worst) if spec.mpi is None else None
    failures = [
        _describe_failed_run(spec, job_status, run)
        for run in runs
        if run.exit_status and not _has_failed_rank(job_status, run)
    ]
    outcome = Outcome(
        exit_status=None if number else worst,
        signal=number,
        time_limit=limit,
        cancelled=cancelled,
        reasons=tuple(
            dict.fromkeys(
                (*short, *(_describe_failed_run(spec, job_status, r) for r in runs if r.exit_status), *job_status.notes)
            )
        ),
    )
    return RecordingOutcome(outcome, (*short, *failures))


def _ended_normally(submission_status: SubmissionStatus) -> bool:
    """Whether it wrote its exit status and got no request to end, whatever the batch system reports then."""
    return submission_status.exit_status is not None and not submission_status.stopped


def _at_limit(submission_status: SubmissionStatus) -> bool:
    return (
        not _ended_normally(submission_status)
        and submission_status.batch is not None
        and submission_status.batch.state is BatchState.TIME_LIMIT
    )


def _at_own_limit(job_status: JobStatus) -> bool:
    return any(rank.stopped == "limit" for rank in job_status.ranks)


def _incomplete_reasons(spec: JobSpec, job_status: JobStatus) -> Iterator[str]:
    """Why the recording is incomplete, without how the command ended."""
    # A recording without a command ends only at its limit.
    if _at_own_limit(job_status) and (spec.scope is Scope.COMMAND or spec.command):
        yield f"The command reached the limit of {spec.duration_s or 0:g} s."
    for submission in job_status.submissions:
        if _ended_normally(submission):
            continue
        state = submission.batch.state if submission.batch is not None else None
        reason = (
            f": {submission.batch.reason.rstrip('.')}"
            if submission.batch is not None and submission.batch.reason
            else ""
        )
        if state is BatchState.TIME_LIMIT:
            yield "The batch system ended it at its time limit. Request a longer one."
        elif state is BatchState.CANCELLED:
            yield f"It was cancelled in the batch system, not by Perfloom{reason}."
        elif submission.exit_status is None and state in (BatchState.FAILED, BatchState.DONE):
            yield f"The batch system ended it{reason or ' and gave no reason'}."
        elif submission.exit_status is None:
            yield UNKNOWN_TO_BATCH_SYSTEM if state is BatchState.GONE else JOB_LOST
        elif submission.stopped:
            yield "Another process there requested its end."


def _describe_failed_run(spec: JobSpec, job_status: JobStatus, run: RunStatus) -> str:
    """How a run of the command failed."""
    number = _signal_of_status(run.exit_status) if spec.mpi is None else None
    how = f"was ended by {signal_name(number)}" if number else f"ended with exit status {run.exit_status}"
    return f"Run {run.run}: the command {how}." if len(job_status.runs) > 1 else f"The command {how}."


def _has_failed_rank(job_status: JobStatus, run: RunStatus) -> bool:
    """Whether a rank of a failed run failed itself: then its recording reports it."""
    return any(rank.run == run.run and (rank.exit_status or rank.stopped) for rank in job_status.ranks)


def _signal_of_status(status: int | None) -> int | None:
    """The signal that a shell reports as this exit status, if there is one."""
    if status is None or status <= 128:
        return None
    try:
        return signal.Signals(status - 128).value
    except ValueError:
        return None
