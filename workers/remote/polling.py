"""Polling jobs: all those of a target together, with one query to its batch system and one script for the rest.

The status of a job is written to `run/sight.json` of its directory here, its output to its log, and its state changes
accordingly. When the target is polled next depends on how much happens there.
"""

import hashlib
import json
import logging
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from perfloom.domain.errors import InvalidRequest, PerfloomError, Unavailable, Unreachable
from perfloom.domain.jobs import JobState, Outcome
from perfloom.domain.targets import BatchState, BatchStatus, Target
from perfloom.recording.job_status import JobStatus, SubmissionStatus
from perfloom.recording.liveness import with_heartbeats
from perfloom.recording.plan.plan import PollRequest, PollResult, cancel_script, parse_poll_output, poll_script
from perfloom.recording.plan.plan import with_batch_status as with_states
from perfloom.recording.samples_so_far import with_written
from perfloom.store.files.locks import try_lock
from perfloom.store.jobs import POLLED_STATES, Job

from ..base.context import JobContext
from ..base.jobfiles import JobFiles
from ..jobs import claims, transitions
from ..targets import batch, cleanup
from ..targets.access import group_by_connection, open_target
from ..transports import Transport
from . import cancellation, outcome, recorded, retries
from .output import RemoteOutput

STATUS_FILE = "sight.json"
OUTPUT_BYTES = 256 << 10
TOTAL_OUTPUT_BYTES = 16 << 20
"""New output that one poll fetches: of one job, and of all together."""
POLL_BYTES = 256 << 20
POLL_TIMEOUT_S = 120.0
MIN_POLL_S = 0.25
MIN_BATCH_POLL_S = 1.0
ENDING_POLL_S = 0.5
MAX_POLL_S = 30.0
"""The interval of polls: at first, after a cancellation, and if nothing has changed for long."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observation:
    """The result of a poll for one job. output_offset: which byte of its output `output` begins with. directory_exists:
    whether its directory exists."""

    status: JobStatus
    output: bytes = b""
    output_offset: int = 0
    directory_exists: bool = True


def poll(context: JobContext, name: str) -> None:
    """Poll all jobs of a target that this worker can poll. Does nothing if another worker polls it."""
    with try_lock(_lock_of(context, name)) as lock:
        if not lock:
            return
        known = context.store.targets.describe(name)
        known = None if known is None or known.problem else known
        jobs = [job for job in context.store.jobs.list_polled(name) if not transitions.runs_on_other_host(context, job)]
        for group in group_by_connection(known.target, jobs) if known is not None else [jobs] if jobs else []:
            _poll(context, group, locked=False)
        if known is not None:
            cleanup.clean_up_target(context, known.target)
    if context.queue is None:
        return
    still = {job.id for job in context.store.jobs.list_polled(name)}
    gone_on = [present for job in jobs if job.id not in still and (present := context.store.jobs.find(job.id))]
    for present in gone_on:
        if not present.state.final:
            context.queue.enqueue(present)
    if gone_on and known is not None and known.target.is_local:
        claims.enqueue_next(context)


def poll_job(context: JobContext, job: Job, files: JobFiles) -> None:
    """The same for one job, whose lock is held."""
    _poll(context, [job], locked=True)


def _lock_of(context: JobContext, name: str) -> Path:
    """The lock of polling a target."""
    return context.settings.data / "jobs" / f".poll-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _poll(context: JobContext, jobs: Sequence[Job], *, locked: bool) -> None:
    jobs = [cancellation.count_request(context, job) for job in jobs]
    try:
        target = context.store.targets.get(jobs[0].target).target
        with open_target(context, target, jobs) as transport:
            seen = _observe(context, transport, target, jobs)
            jobs = _apply_cancellations(context, transport, target, jobs, seen)
    except PerfloomError as error:
        retries.note_unreachable(context, jobs, error)
        return
    jobs = _select_visible(context, target, jobs, seen)
    # Most jobs still wait, and at most their text changes.
    waiting = {job.id: text for job in jobs if (text := _queue_text(context, job, seen[job.id]))}
    texts = {job.id: job.progress_text for job in jobs}
    changes = {id: {"progress_text": text} for id, text in waiting.items() if text != texts[id]}
    context.store.jobs.update_all(changes, POLLED_STATES)
    for job in jobs:
        if job.id in waiting:
            continue
        try:
            _apply(context, job, seen[job.id], locked=locked)
        except Unavailable as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise  # The database does not answer for any of them.
            context.store.jobs.update(job.id, expected=job.state, progress_text=error.message)
    now = time.time()
    pause = min((_pause(context, job, target, now) for job in jobs), default=0.0)
    context.store.jobs.postpone([job.id for job in jobs], now + pause)


def _pause(context: JobContext, job: Job, target: Target, now: float) -> float:
    """How long a job need not be polled."""
    soon = MIN_POLL_S if target.is_local else MIN_BATCH_POLL_S
    if job.details.cancellation.times:
        return min(target.poll_s, ENDING_POLL_S)
    files = JobFiles(context.store.jobs.directory(job.id))
    try:
        quiet = now - max(job.changed, files.output.stat().st_mtime)
    except OSError:
        quiet = now - job.changed
    return max(min(target.poll_s, max(soon, quiet / 4)), min(MAX_POLL_S, quiet / 20))


# ---- seeing ------------------------------------------------------------------------------------------------


def _observe(
    context: JobContext, transport: Transport, target: Target, jobs: Sequence[Job]
) -> Mapping[str, Observation]:
    """The present status of these jobs, by their ids. A job without an answer is not in it."""
    now = time.time()
    ids = [id for job in jobs for id in _submission_ids(job)]
    silent = False
    try:
        statuses = dict(batch.query_states(transport, target, ids))
    except (Unreachable, Unavailable) as error:
        # The directory of a job that ran shows whether it still runs.
        silent = True
        statuses = {id: BatchStatus(id, BatchState.UNKNOWN, reason=error.message) for id in ids}
    seen = {}
    closer = []
    for job in jobs:
        bare = tuple(SubmissionStatus(number, native) for number, native in enumerate(_submission_ids(job)))
        job_status = with_states(JobStatus(bare, seen_at=now), statuses)
        waits = all(
            outcome.get_phase(unknown_submission) is outcome.Phase.WAITS
            for unknown_submission in job_status.submissions
        )
        if bare and (waits or silent) and job.state is not JobState.RUNNING:
            seen[job.id] = Observation(job_status)
        else:
            closer.append(job)
    seen |= _observe_directories(context, transport, closer, statuses, now)
    seen |= {job.id: _with_signs(context, job, seen[job.id], now) for job in closer if job.id in seen}
    unknown = [
        unknown_submission.native
        for job in closer
        if job.id in seen
        for unknown_submission in _unknown_submissions(seen[job.id].status)
    ]
    if history := batch.query_history(transport, target, unknown):
        statuses |= history
        seen |= {job.id: _with(seen[job.id], statuses) for job in closer if job.id in seen}
    return seen


def _submission_ids(job: Job) -> tuple[str, ...]:
    """The ids of the job's submissions at the target, in their order."""
    return tuple(id for _, id in sorted(job.details.submission_ids.items()))


def _observe_directories(
    context: JobContext, transport: Transport, jobs: Sequence[Job], statuses: Mapping[str, BatchStatus], now: float
) -> dict[str, Observation]:
    """The status in the directories of these jobs."""
    if not jobs:
        return {}
    most = max(4096, min(OUTPUT_BYTES, TOTAL_OUTPUT_BYTES // len(jobs)))
    requests = []
    # An unreadable answer of one job hides those after it, so the order changes with each poll.
    for job in random.sample(jobs, len(jobs)):
        files = JobFiles(context.store.jobs.directory(job.id))
        last_status = read_last_status(files)
        offset = RemoteOutput(files).next_offset(last_status.output_bytes if last_status else 0, most)
        requests.append(PollRequest(job.id, job.details.directory, offset, _submission_ids(job)))
    done = transport.run(poll_script(requests, most), timeout_s=POLL_TIMEOUT_S, limit_bytes=POLL_BYTES)
    results: Mapping[str, PollResult] = parse_poll_output(requests, done.stdout)
    return {
        request.id: _with(
            Observation(
                replace(results[request.id].status, seen_at=now),
                results[request.id].output,
                request.output_offset,
                results[request.id].directory_exists,
            ),
            statuses,
        )
        for request in requests
        if request.id in results
    }


def _with(observation: Observation, statuses: Mapping[str, BatchStatus]) -> Observation:
    return replace(observation, status=with_states(observation.status, statuses))


def _with_signs(context: JobContext, job: Job, observation: Observation, now: float) -> Observation:
    last = read_last_status(JobFiles(context.store.jobs.directory(job.id)))
    return replace(observation, status=with_written(with_heartbeats(observation.status, last, now), last))


def _unknown_submissions(job_status: JobStatus) -> Iterator[SubmissionStatus]:
    for submission in job_status.submissions:
        if (
            submission.batch is not None
            and submission.batch.state is BatchState.GONE
            and submission.exit_status is None
        ):
            yield submission


def directory_gone(job: Job) -> str:
    """The reason of a job whose directory was removed at its target."""
    return f"Its directory {job.details.directory} no longer exists, and its content is lost."


def read_last_status(files: JobFiles) -> JobStatus | None:
    """The last status of a job; None if there is none."""
    try:
        return JobStatus.from_json(json.loads((files.run / STATUS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError):
        return None


# ---- acting on it ------------------------------------------------------------------------------------------


def _apply_cancellations(
    context: JobContext, transport: Transport, target: Target, jobs: Sequence[Job], seen: Mapping[str, Observation]
) -> list[Job]:
    """End the cancelled jobs at the target: one request for those that get TERM, and one for those that get KILL."""
    now = time.time()
    gently, hard = [], []
    for job in jobs:
        ending = job.details.cancellation
        if not ending.times or job.id not in seen or outcome.is_quiet(seen[job.id].status):
            continue
        if cancellation.is_kill_due(ending, now, job.job_spec):
            # Repeated with each poll, until it has ended.
            hard.append(job)
        elif not ending.gentle:
            gently.append(job)
    for group, softly in ((gently, True), (hard, False)):
        if group:
            _end(transport, target, group, seen, gently=softly)
    changed = {
        job.id: cancellation.save(context, job, replace(job.details.cancellation, gentle=True)) for job in gently
    }
    return [changed.get(job.id, job) for job in jobs]


def _end(
    transport: Transport, target: Target, jobs: Sequence[Job], seen: Mapping[str, Observation], *, gently: bool
) -> None:
    """End jobs by their batch system, and those that it does not know by their processes, if these are on this host."""
    denied = [
        job for job in jobs if any(outcome.is_doubtful(submission) for submission in seen[job.id].status.submissions)
    ]
    for job in denied:
        transport.run(cancel_script(job.details.directory, gently=gently))
    ids = [id for job in jobs for id in _submission_ids(job)]
    try:
        batch.cancel_jobs(transport, target, ids, [job.details.directory for job in jobs], gently=gently)
    except InvalidRequest as error:
        # The user may not end some of them. The others are polled all the same.
        log.warning("%s cannot end jobs: %s", target.name, error.message)
    except (Unreachable, Unavailable) as error:
        if len(denied) < len(jobs):
            raise
        log.warning("%s cannot end jobs at the moment: %s", target.name, error.message)


def _select_visible(
    context: JobContext, target: Target, jobs: Sequence[Job], seen: Mapping[str, Observation]
) -> list[Job]:
    """The jobs of which it is known whether they run. The others (hidden directories, lost hosts, what cannot be
    understood) wait as if the target could not be reached."""
    unsure: dict[str, list[Job]] = {}
    for job in jobs:
        job_status = seen[job.id].status if job.id in seen else JobStatus()
        if job.id not in seen:
            why = f"The report of {target.name} about it cannot be parsed."
        elif seen[job.id].directory_exists and {
            outcome.get_phase(submission) for submission in job_status.submissions
        } == {outcome.Phase.UNKNOWN}:
            texts = [
                submission.batch.reason
                for submission in job_status.submissions
                if submission.batch is not None and submission.batch.reason
            ]
            why = next(iter((*job_status.notes, *texts)), f"Whether it runs at {target.name} is unknown at the moment.")
            _write_status(JobFiles(context.store.jobs.directory(job.id)), job_status)
        else:
            continue
        unsure.setdefault(why, []).append(job)
    for why, group in unsure.items():
        retries.note_unreachable(context, group, Unreachable(why))
    ids = {job.id for group in unsure.values() for job in group}
    return [job for job in jobs if job.id not in ids]


def _queue_text(context: JobContext, job: Job, observation: Observation) -> str:
    """The text of a job that waits in the queue as before; empty for any other."""
    details = job.details
    unreachable_since = (
        details.unreachable_since or details.needed_secrets or details.quiet_since or details.cancellation.times
    )
    if job.state is not JobState.PENDING or unreachable_since:
        return ""
    if {outcome.get_phase(submission) for submission in observation.status.submissions} != {outcome.Phase.WAITS}:
        return ""
    _write_status(JobFiles(context.store.jobs.directory(job.id)), observation.status)
    return outcome.assess_status(job.job_spec, observation.status, 0.0).text


def _apply(context: JobContext, job: Job, observation: Observation, *, locked: bool) -> None:
    """Store the status of a job, and change its state accordingly."""
    files = JobFiles(context.store.jobs.directory(job.id))
    if locked:
        _apply_alone(context, job, files, observation)
        return
    with files.lock() as locked_here:
        present = context.store.jobs.find(job.id)
        if locked_here and present is not None and present.state is job.state and present.details == job.details:
            _apply_alone(context, job, files, observation)


def _apply_alone(context: JobContext, job: Job, files: JobFiles, observation: Observation) -> None:
    now = time.time()
    ending = job.details.cancellation
    details = replace(job.details.reachable(), quiet_since=None)
    if not observation.directory_exists:
        reason = directory_gone(job)
        program_outcome = Outcome(cancelled=bool(ending.times), reasons=(reason,))
        transitions.finish(
            context, job, files, JobState.CANCELLED if ending.times else JobState.LOST, reason, outcome=program_outcome
        )
        return
    RemoteOutput(files).append(observation.output, observation.output_offset)
    _write_status(files, observation.status)
    quiet = outcome.is_quiet(observation.status)
    since = job.details.quiet_since or now
    verdict = outcome.assess_status(
        job.job_spec,
        observation.status,
        now - since if quiet else 0.0,
        end_requested=bool(ending.times),
        recorded="" if quiet else recorded.describe_recorded(context, job, files, observation.status),
    )
    if quiet:
        details = replace(details, quiet_since=since)
    if ending.is_discarded and (verdict.has_ended or now - ending.last > cancellation.DISCARD_TIMEOUT_S):
        reason = "It was cancelled, and the recording was discarded."
        reason += "" if verdict.has_ended else f" {retries.NOT_ENDED_NOTE}"
        program_outcome = Outcome(cancelled=True, reasons=(reason,))
        transitions.finish(context, job, files, JobState.CANCELLED, reason, outcome=program_outcome)
        return
    if verdict.has_ended:
        recording = outcome.recording_outcome(job.job_spec, observation.status, end_requested=bool(ending.times))
        details = replace(
            details,
            incomplete_reasons=recording.incomplete_reasons,
            is_lost=outcome.is_lost(observation.status),
            failures=0,
        )
        context.store.jobs.transition(
            job.id,
            POLLED_STATES,
            JobState.COLLECTING,
            outcome=recording.outcome,
            started=job.started or now,
            details=details,
            # A cancellation meanwhile is done; another one is for the steps that follow.
            cancel_requested=False,
            due_at=now,
        )
        return
    text = cancellation.PROGRESS_TEXT if ending.times else verdict.text
    state = JobState.PENDING if verdict.is_pending else JobState.RUNNING
    if state is not job.state:
        context.store.jobs.transition(
            job.id, POLLED_STATES, state, details=details, progress_text=text, due_at=now + MIN_POLL_S
        )
    elif (text, details) != (job.progress_text, job.details):
        context.store.jobs.update(job.id, expected=state, details=details, progress_text=text)


def _write_status(files: JobFiles, job_status: JobStatus) -> None:
    """Write it completely or not at all. It need not survive a power cut, and a full disk is ignored."""
    path = files.run / STATUS_FILE
    temporary = path.with_name(f".{STATUS_FILE}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(json.dumps(job_status.to_json()), encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        log.warning("cannot write %s: %s", path, error)
