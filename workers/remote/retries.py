"""Retries of a job whose target is unreachable or refuses the connection: it waits, with a message.

What runs there continues meanwhile. Before anything was started a job is given up after a few tries; after that only
after the time in the settings, or when its cancellation was requested twice.
"""

import logging
import random
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from perfloom.domain.errors import HostKeyUnknown, PerfloomError, Refused, SecretNeeded, Unavailable, Unreachable
from perfloom.domain.jobs import JobState, Outcome
from perfloom.store.jobs import Job

from ..base.context import RETRY_S, JobContext, StepInterrupted
from ..base.jobfiles import JobFiles
from ..jobs import transitions
from ..targets.access import NoFreeSlot
from . import checks

MAX_WAIT_S = 60.0
SECRET_WAIT_S = 30.0
"""How often a job that waits for a secret is tried again; the form that sends the secret notifies the worker."""
BUSY_S = 2.0
UNREACHABLE_NOTE = "It may still run there, as it could not be reached to end it."
NOT_ENDED_NOTE = "It may still run there, as it has not responded to the request to end."

log = logging.getLogger(__name__)


def with_retries(step: transitions.StepFunction) -> transitions.StepFunction:
    """The step, with its errors handled as a job at a target needs it."""

    def step_with_retries(context: JobContext, job: Job, files: JobFiles) -> None:
        if transitions.runs_on_other_host(context, job):
            return
        try:
            step(context, job, files)
        except NoFreeSlot:
            context.store.jobs.update(job.id, expected=job.state, due_at=time.time() + random.uniform(1, 3) * BUSY_S)
        except StepInterrupted:
            job = _reload(context, job)
            if not job.state.final and (job.cancel_requested or job.details.cancellation.times):
                transitions.discard(context, job, files)
        except (Unreachable, Refused) as error:
            job = _reload(context, job)
            if _has_not_begun(job) and not isinstance(error, SecretNeeded):
                _try_again(context, job, files, error)
            else:
                note_unreachable(context, [job], error)
        except Unavailable as error:
            job = _reload(context, job)
            if job.state is not JobState.COLLECTING or isinstance(error.__cause__, SQLAlchemyError):
                raise
            # The recording stays at the target until there is disk space here.
            note_unreachable(context, [job], error)

    return step_with_retries


def _reload(context: JobContext, job: Job) -> Job:
    return context.store.jobs.find(job.id) or job


def _has_not_begun(job: Job) -> bool:
    return job.state is JobState.STAGING and not job.details.begun


def _try_again(context: JobContext, job: Job, files: JobFiles, error: PerfloomError) -> None:
    """Nothing runs there yet: a few tries, and none where a user has to act first."""
    if job.cancel_requested:
        transitions.discard(context, job, files)
    elif isinstance(error, Refused):
        details = replace(job.details, error_kind=type(error).__name__)
        reason = error.message
        if isinstance(error, HostKeyUnknown):
            checks.save_unknown_key(context.store, job.target, error)
            reason += f" Accept it on the target's page, or with: perfloom target accept {shlex.quote(job.target)}"
        transitions.finish(context, job, files, JobState.FAILED, reason, details=details)
    else:
        transitions.retry(context, job, error.message)


def note_unreachable(context: JobContext, jobs: Sequence[Job], error: PerfloomError) -> None:
    """The state of these jobs is unknown; they wait, each up to its limit."""
    if isinstance(error, HostKeyUnknown) and jobs:
        checks.save_unknown_key(context.store, jobs[0].target, error)
    now = time.time()
    oldest = now
    changes = {}
    for job in jobs:
        files = JobFiles(context.store.jobs.directory(job.id))
        since = job.details.unreachable_since or now
        oldest = min(oldest, since)
        if job.details.cancellation.is_discarded:
            _give_up(context, job, files, JobState.CANCELLED, f"It was cancelled. {UNREACHABLE_NOTE}")
        elif now - since > context.settings.unreachable_seconds:
            _give_up(
                context,
                job,
                files,
                JobState.LOST,
                f"{error.message} Unreachable since {_clock(since)}. {UNREACHABLE_NOTE}",
            )
        else:
            needs = tuple(error.prompts) if isinstance(error, SecretNeeded) else ()
            # A secret that was sent before this time was wrong.
            needed_at = now if needs else job.details.secrets_needed_at
            details = replace(job.details, unreachable_since=since, needed_secrets=needs, secrets_needed_at=needed_at)
            text = error.message if needs else f"{error.message} Perfloom retries. No response since {_clock(since)}."
            if job.details.cancellation.times:
                text = f"To be ended. {text}"
            if (text, details) != (job.progress_text, job.details):
                changes[job.id] = {"details": details, "progress_text": text}
    context.store.jobs.update_all(changes, {job.state for job in jobs})
    wait = SECRET_WAIT_S if isinstance(error, SecretNeeded) else min(MAX_WAIT_S, max(RETRY_S, (now - oldest) / 4))
    context.store.jobs.postpone([job.id for job in jobs], now + wait)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def _give_up(context: JobContext, job: Job, files: JobFiles, state: JobState, reason: str) -> None:
    outcome = Outcome(cancelled=state is JobState.CANCELLED, reasons=(reason,))
    transitions.finish(context, job, files, state, reason, outcome=outcome)
