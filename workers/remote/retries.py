"""What becomes of a job whose target cannot be reached, or does not let us in: it waits, and says so.

What runs there goes on meanwhile. Before anything was started a job is given up after a few tries; after that only when
the time that the settings give it is over, or when a person has asked twice for its end.
"""

import logging
import random
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from perfloom.domain.errors import HostKeyUnknown, PerfloomError, Refused, SecretNeeded, Unavailable, Unreachable
from perfloom.domain.jobs import JobState, Outcome
from perfloom.store.jobs import Job

from .. import transitions
from ..context import RETRY_S, JobContext, StepInterrupted
from ..local.jobfiles import JobFiles
from . import cancellation, checks
from .access import NoFreeSlot

MAX_WAIT_S = 60.0
SECRET_WAIT_S = 30.0
"""A job that waits for a secret is tried again so often; the form that sends the secret notifies the worker."""
BUSY_S = 2.0
UNREACHABLE_NOTE = "It may still run there, as it could not be reached to end it."
NOT_ENDED_NOTE = "It may still run there, as it has not responded to the request to end."

log = logging.getLogger(__name__)


def with_retries(step: transitions.StepFunction) -> transitions.StepFunction:
    """The step, where what it raises means what it means for a job at a target."""

    def patiently(context: JobContext, job: Job, files: JobFiles) -> None:
        if transitions.runs_on_other_host(context, job):
            return
        try:
            step(context, job, files)
        except NoFreeSlot:
            context.store.jobs.update(job.id, expected=job.state, due_at=time.time() + random.uniform(1, 3) * BUSY_S)
        except StepInterrupted:
            job = _present(context, job)
            if not job.state.final and (job.cancel_requested or cancellation.get_cancellation(job).times):
                transitions.discard(context, job, files)
        except (Unreachable, Refused) as error:
            job = _present(context, job)
            if _nothing_begun(job) and not isinstance(error, SecretNeeded):
                _try_again(context, job, files, error)
            else:
                note_unreachable(context, [job], error)
        except Unavailable as error:
            job = _present(context, job)
            if job.state is not JobState.COLLECTING or isinstance(error.__cause__, SQLAlchemyError):
                raise
            # What was recorded is there, and stays there until there is room for it here.
            note_unreachable(context, [job], error)

    return patiently


def _present(context: JobContext, job: Job) -> Job:
    return context.store.jobs.find(job.id) or job


def _nothing_begun(job: Job) -> bool:
    return job.state is JobState.STAGING and not job.details.get("begun")


def _try_again(context: JobContext, job: Job, files: JobFiles, error: PerfloomError) -> None:
    """Nothing runs there yet: a few tries, and none where somebody has to do something first."""
    if job.cancel_requested:
        transitions.discard(context, job, files)
    elif isinstance(error, Refused):
        details = job.details | {"kind": type(error).__name__}
        reason = error.message
        if isinstance(error, HostKeyUnknown):
            checks.save_unknown_key(context.store, job.target, error)
            reason += f" Accept it on the target's page, or with: perfloom target accept {shlex.quote(job.target)}"
        transitions.finish(context, job, files, JobState.FAILED, reason, details=details)
    else:
        transitions.retry(context, job, error.message)


def note_unreachable(context: JobContext, jobs: Sequence[Job], error: PerfloomError) -> None:
    """Nobody knows how these jobs are; they wait, each for as long as it may."""
    if isinstance(error, HostKeyUnknown) and jobs:
        checks.save_unknown_key(context.store, jobs[0].target, error)
    now = time.time()
    oldest = now
    changes = {}
    for job in jobs:
        files = JobFiles(context.store.jobs.directory(job.id))
        since = float(job.details.get("unreached") or now)
        oldest = min(oldest, since)
        if cancellation.get_cancellation(job).is_discarded:
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
            needs = [asdict(prompt) for prompt in error.prompts] if isinstance(error, SecretNeeded) else []
            # When it was asked for last tells who gave something before that it was wrong.
            details = job.details | {"unreached": since, "needs": needs} | ({"needed": now} if needs else {})
            text = error.message if needs else f"{error.message} Perfloom retries. No response since {_clock(since)}."
            if cancellation.get_cancellation(job).times:
                text = f"To be ended. {text}"
            if (text, details) != (job.progress_text, job.details):
                changes[job.id] = {"details": details, "progress_text": text}
    context.store.jobs.update_all(changes, {job.state for job in jobs})
    wait = SECRET_WAIT_S if isinstance(error, SecretNeeded) else min(MAX_WAIT_S, max(RETRY_S, (now - oldest) / 4))
    context.store.jobs.postpone([job.id for job in jobs], now + wait)


def reachable_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a job whose target can be reached."""
    return {key: value for key, value in details.items() if key not in ("unreached", "needs", "needed")}


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def _give_up(context: JobContext, job: Job, files: JobFiles, state: JobState, reason: str) -> None:
    outcome = Outcome(cancelled=state is JobState.CANCELLED, reasons=(reason,))
    transitions.finish(context, job, files, state, reason, outcome=outcome)
