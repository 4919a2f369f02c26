"""The steps of a job: what is done in each state. Each may be begun again after a crash at any point of it.

    queued → staging → running → collecting → reading → stored               a recording
    queued → staging → pending → running → collecting → reading → stored     a planned one, here or elsewhere
    queued → reading → stored                                                an import

A step works under the job's lock (a file lock, which its process's death releases), looks at what is really there,
and does what is missing. Steps are short but for collecting and reading; nobody waits here for the user's program.
The program is started at most once: see `launching`. A planned job is laid down in a directory at its target and
started from there: what is done for it between queued and reading is in `targeted`.
"""

import logging
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from perfloom.domain.errors import InvalidRequest, PerfloomError, Unavailable, UnreadableInput
from perfloom.domain.jobs import JobState, Outcome
from perfloom.queue import LAUNCH_TASK, POLL_TASK, READ_TASK, TARGET_TASK, next_task
from perfloom.recording.recorders import perf_record, recorder_of
from perfloom.store.files.disk import remove_tree, unavailable
from perfloom.store.jobs import Job

from . import postprocess
from .context import RETRY_S, JobContext, Progress, StepInterrupted, is_finished, make_reporter
from .local import launch, outcome, supervisor_client
from .local.jobfiles import JobFiles
from .read.long_slots import TakeSlot, long_slots
from .transitions import (
    NO_SAMPLE,
    StepFunction,
    discard,
    finish,
    has_failed,
    has_samples,
    retry,
    runs_on_other_host,
)

MAX_READING_TRIES = 5
"""How often reading is begun when its worker is killed each time."""
log = logging.getLogger(__name__)
ALL_TASKS = (LAUNCH_TASK, TARGET_TASK, POLL_TASK, READ_TASK)


def advance(context: JobContext, job_id: str, tasks: Collection[str] = ALL_TASKS) -> None:
    """Take a job as far as it goes now. tasks: those whose steps this worker may do.

    Does nothing where another process has the job, or it has ended.
    """
    job = context.store.jobs.find(job_id)
    if job is None or is_finished(job):
        return
    files = JobFiles(context.store.jobs.directory(job_id))
    held_or_wanted_a_place = job.state in (JobState.QUEUED, *launch.BUSY_STATES)
    with files.lock() as mine:
        if not mine:
            return
        left = _as_far_as_it_goes(context, job_id, files, tasks)
    if context.queue is None:
        return
    # Not before the lock is free, or who comes finds it taken. Jobs that are looked at together are so when one is due.
    if left is not None and (next_task(left) != POLL_TASK or (left.due_at or 0.0) <= time.time()):
        context.queue.enqueue(left)
    present = context.store.jobs.find(job_id)
    if held_or_wanted_a_place and (present is None or present.state not in (JobState.QUEUED, *launch.BUSY_STATES)):
        launch.enqueue_next(context)


def _as_far_as_it_goes(context: JobContext, job_id: str, files: JobFiles, tasks: Collection[str]) -> Job | None:
    """Step after step. Returns the job where the next one belongs to a task that this worker may not do."""
    while True:
        job = context.store.jobs.find(job_id)
        if job is None or is_finished(job):
            return None
        # Ending what waits to be read is quick, and must not wait behind what is being read.
        task = next_task(job)
        if task not in tasks and not (task == READ_TASK and job.cancel_requested):
            return job
        _step(context, job, files)
        now = context.store.jobs.find(job_id)
        if now is None or (now.state, now.cancel_requested) == (job.state, job.cancel_requested):
            return None


def cancel(context: JobContext, job_id: str) -> None:
    """End a job because a person asked. What was recorded so far is kept; asked again, it is dropped."""
    if context.store.jobs.request_cancel(job_id):
        advance(context, job_id)


def run_to_end(context: JobContext, job_id: str, watch: Callable[[Job], None] = lambda job: None) -> Job:
    """Take all steps in this process until the job has ended. watch: told after each; may raise."""
    due = 0.0
    while True:
        job = context.store.jobs.get(job_id)
        # Targets are asked when it is time, and not before.
        if not job.planned or job.cancel_requested or due <= time.time():
            advance(context, job_id)
            job = context.store.jobs.get(job_id)
        watch(job)
        if is_finished(job):
            return job
        due = job.due_at or 0.0
        wait = 0.25 if job.due_at is None else due - time.time()
        time.sleep(min(0.25, max(0.02, wait)))


def _steps_of(job: Job) -> Mapping[JobState, StepFunction]:
    if not job.planned:
        return STEPS
    from .remote.steps import STEPS as AT_TARGETS  # Brings the ways to other machines.

    return STEPS | AT_TARGETS


def _step(context: JobContext, job: Job, files: JobFiles) -> None:
    """One step, and what becomes of the job when it fails."""
    try:
        _steps_of(job)[job.state](context, job, files)
    except StepInterrupted:
        _stopped(context, job, files)
    except Unavailable as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise  # The catalogue does not answer: nothing is known to have failed, and the sweep sends it again.
        retry(context, _noted(context, job), error.message)
    except PerfloomError as error:
        job = _noted(context, job)
        details = replace(job.details, error_kind=type(error).__name__)
        finish(context, job, files, JobState.FAILED, error.message, details=details)
    except OSError as error:
        retry(context, _noted(context, job), unavailable(files.root, error).message)
    except SQLAlchemyError:
        raise
    except Exception as error:
        log.exception("job %s: %s failed", job.id, job.state)
        text = (
            f"Perfloom failed while {job.state}: {type(error).__name__}. Submit the job again. If it fails "
            "again, report it with the messages in the worker's log."
        )
        retry(context, _noted(context, job), text)


def _noted(context: JobContext, job: Job) -> Job:
    """The job with what its step noted down before it failed, as where it lies at its target."""
    present = context.store.jobs.find(job.id)
    return job if present is None else replace(job, details=present.details)


def _stopped(context: JobContext, job: Job, files: JobFiles) -> None:
    """A step was broken off: because a person asked for the end, or because somebody else has moved the job on."""
    job = context.store.jobs.get(job.id)
    if not is_finished(job) and job.cancel_requested:
        discard(context, job, files)


def _queued(context: JobContext, job: Job, files: JobFiles) -> None:
    if job.cancel_requested:
        program_outcome = Outcome(cancelled=True, reasons=("It was cancelled.",))
        finish(context, job, files, JobState.CANCELLED, "It was cancelled before it started.", outcome=program_outcome)
    elif job.kind == "import":
        now = time.time()
        context.store.jobs.transition(
            job.id, JobState.QUEUED, JobState.READING, started=now, due_at=now + RETRY_S, claimed_by=context.worker
        )
    else:
        launch.claim(context, job)


def _staging(context: JobContext, job: Job, files: JobFiles) -> None:
    if not runs_on_other_host(context, job):
        launch.launch(context, job, files)


def _running(context: JobContext, job: Job, files: JobFiles) -> None:
    """Look at the program; hand on a cancel."""
    if runs_on_other_host(context, job):
        return
    supervisor_status = supervisor_client.read_status(files)
    if supervisor_status.exit is not None or not supervisor_status.alive:
        if supervisor_status.exit is not None:
            ending = outcome.parse_exit(supervisor_status.exit, job.job_spec, cancel_requested=job.cancel_requested)
        else:
            supervisor_client.clean_up(files, job.id)
            ending = outcome.supervisor_lost()
        details = replace(
            job.details,
            incomplete_reasons=ending.incomplete_reasons,
            start_error=ending.error,
            perf_killed=ending.perf_killed,
            is_lost=supervisor_status.exit is None,
            failures=0,
        )
        # The wish to cancel is fulfilled; asked again, it means what follows.
        context.store.jobs.transition(
            job.id,
            JobState.RUNNING,
            JobState.COLLECTING,
            outcome=ending.outcome,
            details=details,
            cancel_requested=False,
            due_at=time.time(),
        )
        return
    if job.cancel_requested:
        supervisor_client.request_stop(files)
    now = time.time()
    elapsed = now - (job.started or now)
    limit = job.job_spec.duration_s
    context.store.jobs.update(
        job.id,
        expected=JobState.RUNNING,
        progress=min(1.0, elapsed / limit) if limit else None,
        progress_text="Ending" if job.cancel_requested else _recorded_so_far(files),
        due_at=now + (0.2 if job.cancel_requested else min(2.0, max(0.2, elapsed / 10))),
    )


def _recorded_so_far(files: JobFiles) -> str:
    size = sum(path.stat().st_size for path in files.recorded_files())
    return f"Recording: {size / 1e6:.1f} MB so far" if size else "Recording"


def _collecting(context: JobContext, job: Job, files: JobFiles) -> None:
    """The program has ended: bring what it left into text, where it was recorded."""
    if runs_on_other_host(context, job):
        return
    if job.cancel_requested:
        raise StepInterrupted
    spec, recorder = job.job_spec, recorder_of(job.job_spec)
    there = {path.name: path for path in files.recorded_files()}
    expected = recorder.artifacts(spec)
    if expected[0].name not in there:
        finish_without_recording(context, job, files)
        return
    from .read import reading  # Brings the readers, which a step of another sort does not need.

    report = make_reporter(context, job)
    report(None, "Resolving symbols")
    text = there[expected[0].name]
    try:
        if not expected[0].text:
            text = reading.symbolize(context.settings, context.facts().perf, text, files.artifacts, report)
        empty = not has_samples(text)
    except UnreadableInput:
        if _cut_short(job):
            finish_without_recording(context, job, files)
            return
        raise
    if empty and has_failed(job):
        finish_without_recording(context, job, files)
        return
    if perf_record.has_nested_stat(job.argv or ()) and perf_record.COUNTS_FILE not in there:
        # The title of what perf stat prints: without counts below it, it is a loss.
        (files.artifacts / perf_record.COUNTS_FILE).write_text(" Performance counter stats for 'a command':\n\n")
    why = outcome.SAMPLES_LOST if job.details.perf_killed else NO_SAMPLE
    details = replace(job.details, incomplete_reasons=(*job.details.incomplete_reasons, *([why] if empty else [])))
    due = time.time() + RETRY_S
    context.store.jobs.transition(job.id, JobState.COLLECTING, JobState.READING, due_at=due, details=details)


def _cut_short(job: Job) -> bool:
    return bool(job.details.incomplete_reasons or job.details.is_lost or job.details.start_error)


def finish_without_recording(context: JobContext, job: Job, files: JobFiles) -> None:
    """There is nothing to read: say why, as far as it is known."""
    program_outcome = job.outcome or Outcome()
    short = job.details.incomplete_reasons
    if program_outcome.cancelled:
        finish(context, job, files, JobState.CANCELLED, "It was cancelled before anything was recorded.")
    elif job.details.is_lost:
        reason = f"{outcome.SUPERVISOR_LOST} Nothing was recorded before that. Submit the job again."
        finish(context, job, files, JobState.LOST, reason)
    else:
        killed = job.details.perf_killed
        ending = outcome.RecordingOutcome(program_outcome, short, job.details.start_error, killed)
        recorder = Path((job.argv or ("perf",))[0]).name
        reason = outcome.explain_no_recording(ending, files.tail(), recorder, wrote=bool(files.recorded_files()))
        finish(context, job, files, JobState.FAILED, reason)


def _reading(context: JobContext, job: Job, files: JobFiles) -> None:
    """Read what was recorded or uploaded into a result of the same id."""
    if job.cancel_requested:
        raise StepInterrupted
    tries = job.details.read_attempts + 1
    if tries > MAX_READING_TRIES:
        raise UnreadableInput(
            f"Reading was started {MAX_READING_TRIES} times, and its worker was killed each time. The "
            "machine may not have "
            "enough memory. Check the worker's log, then submit it again."
        )
    details = replace(job.details, read_attempts=tries)
    context.store.jobs.update(job.id, expected=JobState.READING, details=details, claimed_by=context.worker)
    with long_slots(context.settings) as take:
        # Who is known to take long waits for a place before it begins; who reads for himself alone waits for nobody.
        if context.queue is not None and job.details.reads_long and not take():
            _put_back(context, job)
            return
        try:
            _read(context, job, files, take)
        except _NoLongSlot:
            _put_back(context, job)


class _NoLongSlot(Exception):
    """A reading takes long, and those that do have all the places that they may have."""


def _put_back(context: JobContext, job: Job) -> None:
    """Read it from its beginning once another one that takes long has ended. That it was begun does not count."""
    log.info("job %s takes long to read, and waits for a slot", job.id)
    context.store.jobs.update(
        job.id,
        expected=JobState.READING,
        details=replace(job.details, reads_long=True),
        progress=None,
        progress_text="Waiting until another long reading ends",
        due_at=time.time() + RETRY_S,
    )


def _with_long_slot(context: JobContext, report: Progress, take: TakeSlot) -> Progress:
    """`report`, which raises _TooLong where a reading takes long and there is no place for that."""
    if context.queue is None:
        return report
    long_at = time.monotonic() + context.settings.read_short_seconds

    def leaving(progress: float | None, text: str) -> None:
        if time.monotonic() > long_at and not take():
            raise _NoLongSlot
        report(progress, text)

    return leaving


def _read(context: JobContext, job: Job, files: JobFiles, take: TakeSlot) -> None:
    from .read import reading

    report = _with_long_slot(context, make_reporter(context, job), take)
    short = job.details.incomplete_reasons
    changes: dict[str, Any] = {"complete": False, "reasons": short} if short else {}
    if job.kind == "record" and job.job_spec.command:
        changes["command"] = shlex.join(job.job_spec.command)
    try:
        result = reading.read_to_result(
            context.settings,
            context.store,
            job.id,
            _inputs(job, files),
            name=job.name,
            meta_changes=changes,
            progress=report,
            clock=str(job.spec.get("clock", "")) if job.kind == "import" else "",
        )
    except UnreadableInput:
        if not (job.planned and has_failed(job)):
            raise
        from .remote import collection

        # How it ended says more than that there is nothing to read.
        collection.finish_without_recording(context, job, files)
        return
    state = JobState.CANCELLED if job.outcome is not None and job.outcome.cancelled else JobState.STORED
    # What is missing of ranks is known only now.
    reasons = result.reasons if job.planned else short
    finish(context, job, files, state, " ".join(reasons) or None, result_id=job.id, progress=1.0)
    _tidy_up(context, job, files)


def _inputs(job: Job, files: JobFiles) -> tuple[Path, ...]:
    """What is to be read: the files that an import names, or all that a recording left, of ranks their directory."""
    if job.kind == "record":
        return (files.artifacts,) if job.planned else files.recorded_files()
    names = [str(name) for name in job.spec.get("files", ())]
    if not names or any(name != Path(name).name for name in names):
        raise InvalidRequest("This import has no files. Import them again.")
    return tuple(files.artifacts / name for name in names)


def _tidy_up(context: JobContext, job: Job, files: JobFiles) -> None:
    """The result has its own copy. Nobody waits for this: `tidy` does what a crash left undone."""
    try:
        remove_tree(files.artifacts)
    except (PerfloomError, OSError) as error:
        log.warning("job %s is stored, but not cleaned up yet: %s", job.id, error)
    if context.ends_with_job:
        postprocess.postprocess_in_background(context.settings, context.store, job.id)
    else:
        postprocess.postprocess_result(context.store, job.id)


STEPS: dict[JobState, StepFunction] = {
    JobState.QUEUED: _queued,
    JobState.STAGING: _staging,
    JobState.RUNNING: _running,
    JobState.COLLECTING: _collecting,
    JobState.READING: _reading,
}
