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
from perfloom.queue import LAUNCH_TASK, POLL_TASK, READ_TASK, TARGET_TASK, task_of
from perfloom.recording.recorders import perf_record, recorder_of
from perfloom.store.files.disk import remove_tree, unavailable
from perfloom.store.jobs import Job
from perfloom.workers import settling
from perfloom.workers.local import launching, outcomes, supervised
from perfloom.workers.local.jobfiles import JobFiles
from perfloom.workers.read.places import Take, long_places
from perfloom.workers.road import AGAIN_S, Progress, Road, Stopped, done, reporter
from perfloom.workers.states import NO_SAMPLE, Step, drop, elsewhere, end, ended_badly, holds_anything, try_again

READING_TRIES = 5
"""How often reading is begun when its worker is killed each time."""
log = logging.getLogger(__name__)
ALL = (LAUNCH_TASK, TARGET_TASK, POLL_TASK, READ_TASK)


def advance(road: Road, job_id: str, tasks: Collection[str] = ALL) -> None:
    """Take a job as far as it goes now. tasks: those whose steps this worker may do.

    Does nothing where another process has the job, or it has ended.
    """
    job = road.store.jobs.find(job_id)
    if job is None or done(job):
        return
    files = JobFiles(road.store.jobs.directory(job_id))
    held_or_wanted_a_place = job.state in (JobState.QUEUED, *launching.BUSY)
    with files.lock() as mine:
        if not mine:
            return
        left = _as_far_as_it_goes(road, job_id, files, tasks)
    if road.queue is None:
        return
    # Not before the lock is free, or who comes finds it taken. Jobs that are looked at together are so when one is due.
    if left is not None and (task_of(left) != POLL_TASK or (left.due_at or 0.0) <= time.time()):
        road.queue.ring(left)
    present = road.store.jobs.find(job_id)
    if held_or_wanted_a_place and (present is None or present.state not in (JobState.QUEUED, *launching.BUSY)):
        launching.call_next(road)


def _as_far_as_it_goes(road: Road, job_id: str, files: JobFiles, tasks: Collection[str]) -> Job | None:
    """Step after step. Returns the job where the next one belongs to a task that this worker may not do."""
    while True:
        job = road.store.jobs.find(job_id)
        if job is None or done(job):
            return None
        # Ending what waits to be read is quick, and must not wait behind what is being read.
        task = task_of(job)
        if task not in tasks and not (task == READ_TASK and job.cancel_requested):
            return job
        _step(road, job, files)
        now = road.store.jobs.find(job_id)
        if now is None or (now.state, now.cancel_requested) == (job.state, job.cancel_requested):
            return None


def cancel(road: Road, job_id: str) -> None:
    """End a job because a person asked. What was recorded so far is kept; asked again, it is dropped."""
    if road.store.jobs.request_cancel(job_id):
        advance(road, job_id)


def drive(road: Road, job_id: str, watch: Callable[[Job], None] = lambda job: None) -> Job:
    """Take all steps in this process until the job has ended. watch: told after each; may raise."""
    due = 0.0
    while True:
        job = road.store.jobs.get(job_id)
        # Targets are asked when it is time, and not before.
        if not job.planned or job.cancel_requested or due <= time.time():
            advance(road, job_id)
            job = road.store.jobs.get(job_id)
        watch(job)
        if done(job):
            return job
        due = job.due_at or 0.0
        wait = 0.25 if job.due_at is None else due - time.time()
        time.sleep(min(0.25, max(0.02, wait)))


def _steps_of(job: Job) -> Mapping[JobState, Step]:
    if not job.planned:
        return STEPS
    from perfloom.workers.remote.steps import STEPS as AT_TARGETS  # Brings the ways to other machines.

    return STEPS | AT_TARGETS


def _step(road: Road, job: Job, files: JobFiles) -> None:
    """One step, and what becomes of the job when it fails."""
    try:
        _steps_of(job)[job.state](road, job, files)
    except Stopped:
        _stopped(road, job, files)
    except Unavailable as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise  # The catalogue does not answer: nothing is known to have failed, and the sweep rings again.
        try_again(road, _noted(road, job), error.message)
    except PerfloomError as error:
        job = _noted(road, job)
        details = job.details | {"kind": type(error).__name__}
        end(road, job, files, JobState.FAILED, error.message, details=details)
    except OSError as error:
        try_again(road, _noted(road, job), unavailable(files.root, error).message)
    except SQLAlchemyError:
        raise
    except Exception as error:
        log.exception("job %s: %s failed", job.id, job.state)
        text = (
            f"Perfloom itself failed while {job.state}: {type(error).__name__}. Submit the job again; should it fail "
            "again, report it with what the worker's log says."
        )
        try_again(road, _noted(road, job), text)


def _noted(road: Road, job: Job) -> Job:
    """The job with what its step noted down before it failed, as where it lies at its target."""
    present = road.store.jobs.find(job.id)
    return job if present is None else replace(job, details=present.details)


def _stopped(road: Road, job: Job, files: JobFiles) -> None:
    """A step was broken off: because a person asked for the end, or because somebody else has moved the job on."""
    job = road.store.jobs.get(job.id)
    if not done(job) and job.cancel_requested:
        drop(road, job, files)


def _queued(road: Road, job: Job, files: JobFiles) -> None:
    if job.cancel_requested:
        outcome = Outcome(cancelled=True, reasons=("It was cancelled.",))
        end(road, job, files, JobState.CANCELLED, "It was cancelled before it began.", outcome=outcome)
    elif job.kind == "import":
        now = time.time()
        road.store.jobs.move(
            job.id, JobState.QUEUED, JobState.READING, started=now, due_at=now + AGAIN_S, claimed_by=road.worker
        )
    else:
        launching.claim(road, job)


def _staging(road: Road, job: Job, files: JobFiles) -> None:
    if not elsewhere(road, job):
        launching.launch(road, job, files)


def _running(road: Road, job: Job, files: JobFiles) -> None:
    """Look at the program; hand on a cancel."""
    if elsewhere(road, job):
        return
    sight = supervised.look(files)
    if sight.exit is not None or not sight.alive:
        if sight.exit is not None:
            ending = outcomes.ending(sight.exit, job.job_spec, cancel_requested=job.cancel_requested)
        else:
            supervised.clean_up(files, job.id)
            ending = outcomes.vanished()
        details = job.details | {
            "short": list(ending.short),
            "error": ending.error,
            "perf_killed": ending.perf_killed,
            "vanished": sight.exit is None,
            "failures": 0,
        }
        # The wish to cancel is fulfilled; asked again, it means what follows.
        road.store.jobs.move(
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
        supervised.ask_to_end(files)
    now = time.time()
    elapsed = now - (job.started or now)
    limit = job.job_spec.duration_s
    road.store.jobs.update(
        job.id,
        expected=JobState.RUNNING,
        progress=min(1.0, elapsed / limit) if limit else None,
        progress_text="Is being ended" if job.cancel_requested else _recorded_so_far(files),
        due_at=now + (0.2 if job.cancel_requested else min(2.0, max(0.2, elapsed / 10))),
    )


def _recorded_so_far(files: JobFiles) -> str:
    size = sum(path.stat().st_size for path in files.recorded())
    return f"Records; {size / 1e6:.1f} MB so far" if size else "Records"


def _collecting(road: Road, job: Job, files: JobFiles) -> None:
    """The program has ended: bring what it left into text, where it was recorded."""
    if elsewhere(road, job):
        return
    if job.cancel_requested:
        raise Stopped
    spec, recorder = job.job_spec, recorder_of(job.job_spec)
    there = {path.name: path for path in files.recorded()}
    expected = recorder.artefacts(spec)
    if expected[0].name not in there:
        nothing(road, job, files)
        return
    from perfloom.workers.read import reading  # Brings the readers, which a step of another sort does not need.

    report = reporter(road, job)
    report(None, "Looks up names of functions")
    text = there[expected[0].name]
    try:
        if not expected[0].text:
            text = reading.symbolise(road.settings, road.facts().perf, text, files.artefacts, report)
        empty = not holds_anything(text)
    except UnreadableInput:
        if _cut_short(job):
            nothing(road, job, files)
            return
        raise
    if empty and ended_badly(job):
        nothing(road, job, files)
        return
    if perf_record.counts_inside(job.argv or ()) and perf_record.COUNTS not in there:
        # The title of what perf stat prints: without counts below it, it is a loss.
        (files.artefacts / perf_record.COUNTS).write_text(" Performance counter stats for 'a command':\n\n")
    why = outcomes.NOT_WRITTEN if job.details.get("perf_killed") else NO_SAMPLE
    details = job.details | {"short": [*job.details.get("short", ()), *([why] if empty else [])]}
    due = time.time() + AGAIN_S
    road.store.jobs.move(job.id, JobState.COLLECTING, JobState.READING, due_at=due, details=details)


def _cut_short(job: Job) -> bool:
    return bool(job.details.get("short") or job.details.get("vanished") or job.details.get("error"))


def nothing(road: Road, job: Job, files: JobFiles) -> None:
    """There is nothing to read: say why, as far as it is known."""
    outcome = job.outcome or Outcome()
    short = tuple(job.details.get("short") or ())
    if outcome.cancelled:
        end(road, job, files, JobState.CANCELLED, "It was cancelled before anything was recorded.")
    elif job.details.get("vanished"):
        reason = f"{outcomes.VANISHED} Nothing was recorded until then. Submit the job again."
        end(road, job, files, JobState.LOST, reason)
    else:
        killed = bool(job.details.get("perf_killed"))
        ending = outcomes.Ending(outcome, short, job.details.get("error"), killed)
        recorder = Path((job.argv or ("perf",))[0]).name
        reason = outcomes.no_recording(ending, files.tail(), recorder, wrote=bool(files.recorded()))
        end(road, job, files, JobState.FAILED, reason)


def _reading(road: Road, job: Job, files: JobFiles) -> None:
    """Read what was recorded or uploaded into a result of the same id."""
    if job.cancel_requested:
        raise Stopped
    tries = int(job.details.get("readings", 0)) + 1
    if tries > READING_TRIES:
        raise UnreadableInput(
            f"Reading was begun {READING_TRIES} times, and each time its worker was killed. The machine may have too "
            "little memory for it: look at the worker's log, then submit it again."
        )
    details = job.details | {"readings": tries}
    road.store.jobs.update(job.id, expected=JobState.READING, details=details, claimed_by=road.worker)
    with long_places(road.settings) as take:
        # Who is known to take long waits for a place before it begins; who reads for himself alone waits for nobody.
        if road.queue is not None and job.details.get("long") and not take():
            _put_back(road, job)
            return
        try:
            _read(road, job, files, take)
        except _TooLong:
            _put_back(road, job)


class _TooLong(Exception):
    """A reading takes long, and those that do have all the places that they may have."""


def _put_back(road: Road, job: Job) -> None:
    """Read it from its beginning once another one that takes long has ended. That it was begun does not count."""
    log.info("job %s takes long to read, and waits for a place", job.id)
    road.store.jobs.update(
        job.id,
        expected=JobState.READING,
        details=job.details | {"long": True},
        progress=None,
        progress_text="Takes long to read, and waits until another one that does has ended",
        due_at=time.time() + AGAIN_S,
    )


def _leaving_a_place(road: Road, report: Progress, take: Take) -> Progress:
    """`report`, which raises _TooLong where a reading takes long and there is no place for that."""
    if road.queue is None:
        return report
    long_at = time.monotonic() + road.settings.read_short_seconds

    def leaving(progress: float | None, text: str) -> None:
        if time.monotonic() > long_at and not take():
            raise _TooLong
        report(progress, text)

    return leaving


def _read(road: Road, job: Job, files: JobFiles, take: Take) -> None:
    from perfloom.workers.read import reading

    report = _leaving_a_place(road, reporter(road, job), take)
    short = tuple(job.details.get("short") or ())
    changes: dict[str, Any] = {"complete": False, "reasons": short} if short else {}
    if job.kind == "record" and job.job_spec.command:
        changes["command"] = shlex.join(job.job_spec.command)
    try:
        result = reading.read_to_result(
            road.settings,
            road.store,
            job.id,
            _inputs(job, files),
            name=job.name,
            meta_changes=changes,
            progress=report,
            clock=str(job.spec.get("clock", "")) if job.kind == "import" else "",
        )
    except UnreadableInput:
        if not (job.planned and ended_badly(job)):
            raise
        from perfloom.workers.remote import collecting

        # How it ended says more than that there is nothing to read.
        collecting.nothing(road, job, files)
        return
    state = JobState.CANCELLED if job.outcome is not None and job.outcome.cancelled else JobState.STORED
    # What is missing of ranks is known only now.
    reasons = result.reasons if job.planned else short
    end(road, job, files, state, " ".join(reasons) or None, result_id=job.id, progress=1.0)
    _tidy_up(road, job, files)


def _inputs(job: Job, files: JobFiles) -> tuple[Path, ...]:
    """What is to be read: the files that an import names, or all that a recording left, of ranks their directory."""
    if job.kind == "record":
        return (files.artefacts,) if job.planned else files.recorded()
    names = [str(name) for name in job.spec.get("files", ())]
    if not names or any(name != Path(name).name for name in names):
        raise InvalidRequest("This import names no files. Import them again.")
    return tuple(files.artefacts / name for name in names)


def _tidy_up(road: Road, job: Job, files: JobFiles) -> None:
    """The result has its own copy. Nobody waits for this: `tidy` does what a crash left undone."""
    try:
        remove_tree(files.artefacts)
    except (PerfloomError, OSError) as error:
        log.warning("job %s: it is stored, but not tidied up yet: %s", job.id, error)
    if road.ends_with_job:
        settling.settle_beside(road.settings, road.store, job.id)
    else:
        settling.settle(road.store, job.id)


STEPS: dict[JobState, Step] = {
    JobState.QUEUED: _queued,
    JobState.STAGING: _staging,
    JobState.RUNNING: _running,
    JobState.COLLECTING: _collecting,
    JobState.READING: _reading,
}
