"""The stages of a job as its page shows them: done, current and future ones, each with its duration."""

from dataclasses import dataclass
from enum import StrEnum

from ...domain.jobs import JobState, Outcome
from ...domain.units import format_elapsed
from ...store.jobs import Job

STAGE_SEQUENCES = {
    "record": (
        JobState.QUEUED,
        JobState.STAGING,
        JobState.RUNNING,
        JobState.COLLECTING,
        JobState.READING,
        JobState.STORED,
    ),
    "import": (JobState.QUEUED, JobState.READING, JobState.STORED),
}
"""The states of a successful job of each kind; others are shown if the job was in them."""

LABELS = {
    JobState.DRAFT: "Draft",
    JobState.QUEUED: "Queued",
    JobState.STAGING: "Staging",
    JobState.PENDING: "Pending",
    JobState.RUNNING: "Recording",
    JobState.COLLECTING: "Collecting",
    JobState.READING: "Reading",
    JobState.STORED: "Stored",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
    JobState.LOST: "Lost",
}
_ORDER = {state: number for number, state in enumerate(JobState)}
SIGNALS = {1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE"}
SIGNALS |= {14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ"}


class StageStatus(StrEnum):
    """The status of a stage."""

    DONE = "done"
    NOW = "now"
    AHEAD = "ahead"
    ENDED = "ended"
    """The job failed, was cancelled or was lost in this stage."""
    NEVER = "never"
    """It will not be reached."""


@dataclass(frozen=True)
class JobStage:
    """One stage. seconds: how long it took or has taken so far, None if not entered. since: seconds since the epoch,
    for the current stage. progress: 0 to 1 or None."""

    name: str
    label: str
    status: StageStatus
    seconds: float | None = None
    since: float | None = None
    progress: float | None = None
    text: str = ""

    @property
    def duration_text(self) -> str:
        """The time as text, empty without one."""
        return "" if self.seconds is None else format_elapsed(self.seconds)


def list_stages(job: Job, now: float, *, batch: bool = False) -> tuple[JobStage, ...]:
    """The stages of a job in their order, the last one is its actual or expected end.

    batch: it runs in a batch system, where it will be pending.
    """
    spent: dict[JobState, float] = {}
    for (state, entered), (_, left) in zip(job.history, [*job.history[1:], (job.state, now)], strict=True):
        spent[state] = spent.get(state, 0.0) + max(0.0, left - entered)
    usual = (*STAGE_SEQUENCES[job.kind], JobState.PENDING) if batch else STAGE_SEQUENCES[job.kind]
    states = [*usual, *(state for state in spent if state not in usual and not state.final)]
    states.sort(key=_ORDER.__getitem__)
    went_wrong = job.state.final and job.state is not JobState.STORED
    last = next((state for state, _ in reversed(job.history) if not state.final), JobState.QUEUED)
    # A cancelled recording can have been read: its data is kept.
    here = JobState.STORED if job.result_id else last if went_wrong else job.state
    return tuple(_stage(job, state, here, went_wrong, spent.get(state), now) for state in states)


def _stage(
    job: Job, state: JobState, job_state: JobState, went_wrong: bool, spent: float | None, now: float
) -> JobStage:
    label = LABELS[state]
    if state is JobState.STORED:
        if job.state is JobState.STORED:
            return JobStage(state.value, label, StageStatus.DONE)
        if went_wrong:
            return JobStage(job.state.value, LABELS[job.state], StageStatus.ENDED)
        return JobStage(state.value, label, StageStatus.AHEAD)
    if _ORDER[state] < _ORDER[job_state]:
        return JobStage(state.value, label, StageStatus.DONE if spent is not None else StageStatus.NEVER, spent)
    if state is not job_state:
        return JobStage(state.value, label, StageStatus.NEVER if went_wrong else StageStatus.AHEAD)
    if went_wrong:
        return JobStage(state.value, label, StageStatus.ENDED, spent)
    since = next((at for entered, at in reversed(job.history) if entered is state), job.changed)
    return JobStage(state.value, label, StageStatus.NOW, max(0.0, now - since), since, job.progress, job.progress_text)


def outcome_text(outcome: Outcome | None) -> str:
    """How the user's program ended, in one sentence; empty while unknown."""
    if outcome is None:
        return ""
    if outcome.cancelled:
        return "The program was ended because the job was cancelled."
    if outcome.time_limit:
        return "The recording was ended at its time limit."
    if outcome.signal is not None:
        name = SIGNALS.get(outcome.signal)
        return f"The program was ended by signal {outcome.signal}{f' (SIG{name})' if name else ''}."
    if outcome.exit_status is None:
        return ""
    return f"The program ended with exit status {outcome.exit_status}."


def failure_advice(job: Job) -> str:
    """What to do after an unintended end, if the reason does not contain it."""
    if job.result_id:
        return "What was recorded before that is kept."
    if (job.reason or "").endswith("submit it again."):
        return ""
    return _ADVICE.get(job.state, "")


_ADVICE = {
    JobState.FAILED: "The output below may show why. Change the settings and submit again, or retry unchanged.",
    JobState.CANCELLED: "It is no longer running. Submit it again, changed or unchanged, to start over.",
    JobState.LOST: "The process that ran it disappeared, so the program may have run partly. Retry starts it again.",
}
