"""What any step does with a job: retry it, end it, drop it."""

import gzip
import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import zstandard

from perfloom.domain.errors import NotFound
from perfloom.domain.jobs import Executor, JobState, Outcome
from perfloom.ingest.perf_text.fields import HEADING_EDGE
from perfloom.store.files.disk import remove_tree
from perfloom.store.jobs import Job

from ..base.context import RETRY_S, JobContext
from ..base.jobfiles import JobFiles, delete_environment
from ..base.outcome import SAMPLES_LOST

MAX_TRIES = 3
"""How often a step that fails for a temporary reason (such as a full disk) is tried."""
RETRY_PAUSE_S = 2.0
HOST_TIMEOUT_S = 180.0
"""After this time without a heartbeat, a host's worker counts as lost, with what ran on it."""
LINE_BYTES = 1 << 20
"""At most this much of a line is read into memory: a compressed line may be endless."""
NO_SAMPLE = "No sample was recorded: the command used too little CPU time, or the selected event did not occur."
log = logging.getLogger(__name__)
StepFunction = Callable[[JobContext, Job, JobFiles], None]


@dataclass(frozen=True)
class ExecutorSteps:
    """What an executor does for a job between its claim and its reading, and what is read then.

    steps: from staging to collecting. recorded: what of the job's files is read. merges_ranks: whether that is a
    directory of ranks, so that only reading knows what is missing. finish_without_recording: ends a job that recorded
    nothing.
    """

    steps: Mapping[JobState, StepFunction]
    recorded: Callable[[JobFiles], tuple[Path, ...]]
    merges_ranks: bool
    finish_without_recording: StepFunction


def retry(context: JobContext, job: Job, reason: str) -> None:
    failures = job.details.failures + 1
    if failures >= MAX_TRIES:
        finish(context, job, JobFiles(context.store.jobs.directory(job.id)), JobState.FAILED, reason)
        return
    log.warning("job %s: %s (try %d of %d)", job.id, reason, failures, MAX_TRIES)
    due = time.time() + RETRY_PAUSE_S * failures
    details = replace(job.details, failures=failures)
    context.store.jobs.update(
        job.id, expected=job.state, details=details, due_at=due, progress_text=f"Retrying. {reason}"
    )


def finish(
    context: JobContext,
    job: Job,
    files: JobFiles,
    state: JobState,
    reason: str | None,
    outcome: Outcome | None = None,
    **columns: Any,
) -> None:
    """Move a job to its final state; nothing of it is left at its target."""
    delete_environment(files)
    if job.details.directory and not job.details.cleaned_up:
        from ..targets import cleanup

        cleanup.clean_up_job(context, job)
    if job.details.executor is Executor.SCRIPTS:
        context.store.credentials.delete(f"job:{job.id}")
    if outcome is not None:
        columns["outcome"] = outcome
    if context.store.jobs.transition(job.id, job.state, state, reason=reason, **columns):
        log.info("job %s: %s%s", job.id, state, f": {reason}" if reason else "")


def discard(context: JobContext, job: Job, files: JobFiles) -> None:
    """End a job that was cancelled during a step, and drop what the step did."""
    outcome = job.outcome or Outcome(cancelled=True, reasons=("It was cancelled.",))
    finish(context, job, files, JobState.CANCELLED, f"It was cancelled while {job.state}.", outcome=outcome)
    remove_tree(files.artifacts)


def finish_without_recording(
    context: JobContext, job: Job, files: JobFiles, explain: Callable[[], str], notes: Sequence[str] = ()
) -> None:
    """End a job that recorded nothing. explain: the reason where it was not cancelled or lost. notes: sentences about a
    lost job."""
    outcome = job.outcome or Outcome()
    if outcome.cancelled:
        finish(context, job, files, JobState.CANCELLED, "It was cancelled before anything was recorded.")
    elif job.details.is_lost:
        reason = " ".join((*outcome.reasons, *notes, "Nothing was recorded before that. Submit the job again."))
        finish(context, job, files, JobState.LOST, reason)
    else:
        finish(context, job, files, JobState.FAILED, explain())


def send_to_reading(context: JobContext, job: Job, *, empty: bool, perf_killed: bool) -> None:
    """Have read what was collected. empty: whether it has no sample. perf_killed: whether a signal ended perf."""
    lacking = (SAMPLES_LOST if perf_killed else NO_SAMPLE,) if empty else ()
    details = replace(job.details.reachable(), incomplete_reasons=(*job.details.incomplete_reasons, *lacking))
    due = time.time() + RETRY_S
    context.store.jobs.transition(job.id, JobState.COLLECTING, JobState.READING, due_at=due, details=details)


def has_samples(text: Path) -> bool:
    """Whether there is a sample below the heading. text: as perf prints it, or compressed (.zst, .gz)."""
    openers: dict[str, Callable[..., Any]] = {".zst": zstandard.open, ".gz": gzip.open}
    with openers.get(text.suffix, open)(text, "rb") as stream:
        lines = io.BufferedReader(stream)
        if lines.peek(len(HEADING_EDGE)).startswith(HEADING_EDGE):
            lines.readline()
            # The command line in a heading may hold line breaks.
            while (line := lines.readline(LINE_BYTES)) and line != HEADING_EDGE:
                pass
        while line := lines.readline(LINE_BYTES):
            if line.strip() and not line.startswith(b"#"):
                return True
        return False


def has_failed(job: Job) -> bool:
    """Whether the program failed, was cancelled, or was lost."""
    outcome = job.outcome or Outcome()
    return bool(outcome.exit_status or outcome.signal or outcome.cancelled or job.details.is_lost)


def runs_on_other_host(context: JobContext, job: Job) -> bool:
    """Whether the program runs on another host, whose worker takes its steps.

    After a long time without its heartbeat, this worker takes the job over.
    """
    if job.host in (None, context.host):
        return False
    try:
        seen = context.store.hosts.get(str(job.host)).seen
    except NotFound:
        seen = 0.0
    if time.time() - seen > HOST_TIMEOUT_S:
        return False
    context.store.jobs.update(job.id, expected=job.state, due_at=time.time() + RETRY_S)
    return True
