"""The steps of a job: what is done in each state. Each may be repeated after a crash at any point of it.

    queued → staging → running → collecting → reading → stored               a recording with a supervisor
    queued → staging → pending → running → collecting → reading → stored     a recording at a target
    queued → reading → stored                                                an import

A step works under the job's lock (a file lock, which its process's death releases), checks which part of its work is
done, and does the rest. Steps are short, except collecting and reading; none waits for the user's program. The first
and the last step are here. Those between depend on who runs the program (`Executor`): they are in `local/steps.py` (a
supervisor on this machine) and `remote/steps.py` (scripts in a directory at the target).
"""

import logging
import os
import shlex
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from perfloom.domain.errors import InvalidRequest, PerfloomError, Unavailable, UnreadableInput
from perfloom.domain.jobs import Executor, JobState, Outcome
from perfloom.domain.rank_state import parse_conditions
from perfloom.queue import LAUNCH_TASK, POLL_TASK, READ_TASK, TARGET_TASK, next_task
from perfloom.store.files.disk import remove_tree, unavailable
from perfloom.store.files.locks import open_locked
from perfloom.store.jobs import Job

from . import code_reading, code_step, postprocess
from .base.context import RETRY_S, JobContext, StepInterrupted, is_finished, make_reporter
from .base.jobfiles import JobFiles
from .base.json_files import read_json
from .base.long_slots import TakeSlot, long_slots
from .base.progress import Progress
from .jobs import claims
from .jobs.transitions import ExecutorSteps, StepFunction, discard, finish, has_failed, retry
from .local.conditions import CONDITIONS_FILE
from .read.prefork import ReaderKeeper

MAX_READING_TRIES = 5
"""How often reading is started if its worker is killed each time."""
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
    held_or_wanted_a_place = job.state in (JobState.QUEUED, *claims.BUSY_STATES)
    with files.lock() as lock:
        if not lock:
            return
        steps = _take_steps(context, job_id, files, tasks)
    if context.queue is None:
        return
    # Not before the lock is free, which the next worker needs. Jobs that are polled together are when one is due.
    if steps is not None and (next_task(steps) != POLL_TASK or (steps.due_at or 0.0) <= time.time()):
        context.queue.enqueue(steps)
    present = context.store.jobs.find(job_id)
    if held_or_wanted_a_place and (present is None or present.state not in (JobState.QUEUED, *claims.BUSY_STATES)):
        claims.enqueue_next(context)


def _take_steps(context: JobContext, job_id: str, files: JobFiles, tasks: Collection[str]) -> Job | None:
    """Take step after step. Returns the job if the next step belongs to a task that this worker may not do."""
    while True:
        job = context.store.jobs.find(job_id)
        if job is None or is_finished(job):
            return None
        # Cancelling a job that waits to be read is quick, and must not wait for other jobs that are read.
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
    """Take all steps in this process until the job has ended. watch: called after each; may raise."""
    due = 0.0
    while True:
        job = context.store.jobs.get(job_id)
        # Targets are not polled before the job is due.
        if job.details.executor is Executor.SUPERVISOR or job.cancel_requested or due <= time.time():
            advance(context, job_id)
            job = context.store.jobs.get(job_id)
        watch(job)
        if is_finished(job):
            return job
        due = job.due_at or 0.0
        wait = 0.25 if job.due_at is None else due - time.time()
        time.sleep(min(0.25, max(0.02, wait)))


def _executor_steps(job: Job) -> ExecutorSteps:
    # Imported here: imports of files need neither; the steps of scripts load the transports to other machines.
    if job.details.executor is Executor.SUPERVISOR:
        from .local import steps as local_steps

        return local_steps.STEPS
    from .remote import steps as remote_steps

    return remote_steps.STEPS


def _step(context: JobContext, job: Job, files: JobFiles) -> None:
    """Take one step, and handle its failure."""
    try:
        step = STEPS.get(job.state) or _executor_steps(job).steps[job.state]
        step(context, job, files)
    except StepInterrupted:
        _end_interrupted(context, job, files)
    except Unavailable as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise  # The database does not answer: the step may not have failed, and the sweep sends it again.
        retry(context, _reload(context, job), error.message)
    except PerfloomError as error:
        job = _reload(context, job)
        details = replace(job.details, error_kind=type(error).__name__)
        finish(context, job, files, JobState.FAILED, error.message, details=details)
    except OSError as error:
        retry(context, _reload(context, job), unavailable(files.root, error).message)
    except SQLAlchemyError:
        raise
    except Exception as error:
        log.exception("job %s: %s failed", job.id, job.state)
        text = (
            f"Perfloom failed while {job.state}: {type(error).__name__}. Submit the job again. If it fails "
            "again, report it with the messages in the worker's log."
        )
        retry(context, _reload(context, job), text)


def _reload(context: JobContext, job: Job) -> Job:
    """The job with what its step stored before it failed, such as its directory at the target."""
    present = context.store.jobs.find(job.id)
    return job if present is None else replace(job, details=present.details)


def _end_interrupted(context: JobContext, job: Job, files: JobFiles) -> None:
    """A step was interrupted: a person asked for the end, or another process has moved the job on."""
    job = context.store.jobs.get(job.id)
    if not is_finished(job) and job.cancel_requested:
        discard(context, job, files)


def _run_queued(context: JobContext, job: Job, files: JobFiles) -> None:
    if job.cancel_requested:
        program_outcome = Outcome(cancelled=True, reasons=("It was cancelled.",))
        finish(context, job, files, JobState.CANCELLED, "It was cancelled before it started.", outcome=program_outcome)
    elif job.kind == "import":
        now = time.time()
        context.store.jobs.transition(
            job.id, JobState.QUEUED, JobState.READING, started=now, due_at=now + RETRY_S, claimed_by=context.worker
        )
    else:
        claims.claim(context, job)


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
        # A long reading waits for a slot before it begins; a command that reads its own job does not.
        if context.queue is not None and job.details.reads_long and not take():
            _put_back(context, job)
            return
        try:
            with ReaderKeeper() as keeper:
                _read(context, job, files, take, keeper)
        except _NoLongSlot:
            _put_back(context, job)


class _NoLongSlot(Exception):
    """A reading takes long, and no slot for long readings is free."""


def _put_back(context: JobContext, job: Job) -> None:
    """Read it from its beginning once another long reading has ended. This attempt does not count."""
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
    """`report`, which raises _NoLongSlot if a reading takes long and no slot for that is free."""
    if context.queue is None:
        return report
    long_at = time.monotonic() + context.settings.read_short_seconds

    def report_unless_long(progress: float | None, text: str) -> None:
        if time.monotonic() > long_at and not take():
            raise _NoLongSlot
        report(progress, text)

    return report_unless_long


def _read(context: JobContext, job: Job, files: JobFiles, take: TakeSlot, keeper: ReaderKeeper) -> None:
    from .read import reading

    report = _with_long_slot(context, make_reporter(context, job), take)
    short = job.details.incomplete_reasons
    executor = _executor_steps(job) if job.kind == "record" else None
    merges_ranks = executor is not None and executor.merges_ranks
    changes: dict[str, Any] = {"complete": False, "reasons": short} if short else {}
    if job.kind == "record" and job.job_spec.command:
        changes["command"] = shlex.join(job.job_spec.command)
    if job.kind == "record" and (conditions := read_json(files.run / CONDITIONS_FILE)):
        changes["facts"] = parse_conditions(conditions)
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
            keeper=keeper,
            symbols=code_step.find_symbol_places(context, job),
        )
    except UnreadableInput:
        if executor is None or not (merges_ranks and has_failed(job)):
            raise
        # How it ended is a better reason than the missing recording.
        executor.finish_without_recording(context, job, files)
        return
    state = JobState.CANCELLED if job.outcome is not None and job.outcome.cancelled else JobState.STORED
    # What is missing of ranks is known only now.
    reasons = result.reasons if merges_ranks else short
    finish(context, job, files, state, " ".join(reasons) or None, result_id=job.id, progress=1.0)
    if context.ends_with_job and job.kind == "import" and code_step.needs_code(result):
        _complete_in_background(context, job.id)
    else:
        code_step.read_code(context, job, _inputs(job, files), keeper)
        _clean_up(context, job, files)


def _complete_in_background(context: JobContext, id: str) -> None:
    """Let another process read the code of a result and postprocess it. It gets the lock of the code from this one, so
    that at no moment the code seems to be missing."""
    locked = open_locked(context.store.results.code_lock(id), code_reading.LOCK_S)
    if locked is not None:
        try:
            postprocess.start_process(context.settings, id, locked)
        finally:
            os.close(locked)


def complete_result(context: JobContext, id: str, locked: int | None) -> None:
    """Do what is left to do for a stored result. locked: a descriptor with the lock of its code, which is read; None if
    it was read before."""
    job, files = context.store.jobs.find(id), JobFiles(context.store.jobs.directory(id))
    if job is None or locked is None:
        postprocess.postprocess_result(context.store, id)
        return
    with ReaderKeeper() as keeper:
        # Not those of the import, which are links to files that its user may remove or replace when it has ended.
        inputs = tuple(original.path for original in context.store.results.original(id))
        code_step.read_code(context, job, inputs, keeper, is_locked=True)
    os.close(locked)
    _clean_up(context, job, files)


def _inputs(job: Job, files: JobFiles) -> tuple[Path, ...]:
    """What is to be read: the files of an import, those of a recording, or the directory of ranks."""
    if job.kind == "record":
        return _executor_steps(job).recorded(files)
    names = [str(name) for name in job.spec.get("files", ())]
    if not names or any(name != Path(name).name for name in names):
        raise InvalidRequest("This import has no files. Import them again.")
    return tuple(files.artifacts / name for name in names)


def _clean_up(context: JobContext, job: Job, files: JobFiles) -> None:
    """The result has its own copy. No user waits for this, and recovery does what a crash left undone."""
    try:
        remove_tree(files.artifacts)
    except (PerfloomError, OSError) as error:
        log.warning("job %s is stored, but not cleaned up yet: %s", job.id, error)
    if context.ends_with_job and postprocess.is_long(context.store.results.get(job.id)):
        postprocess.start_process(context.settings, job.id)
    else:
        postprocess.postprocess_result(context.store, job.id)


STEPS: dict[JobState, StepFunction] = {JobState.QUEUED: _run_queued, JobState.READING: _reading}
"""The steps that all jobs have."""
