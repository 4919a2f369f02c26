"""Asking the batch system of a target, and ending what was started there with or without one."""

import logging
from collections.abc import Mapping, Sequence

from perfloom.domain.errors import PerfloomError, Unreachable
from perfloom.domain.targets import BatchState, BatchStatus, Target
from perfloom.recording.plan.around import surrounded
from perfloom.recording.plan.plan import end_script
from perfloom.recording.schedulers import scheduler_of
from perfloom.workers.transports import Transport

MOST_LOOKED_BACK = 20
"""Of how many vanished jobs the history is asked in one go; the others follow with the next."""

log = logging.getLogger(__name__)


def states(there: Transport, target: Target, ids: Sequence[str]) -> Mapping[str, BatchStatus]:
    """The state of each of these jobs of the batch system: one question for all. Empty where there is no such system.

    Raises Unreachable, Unavailable or InvalidRequest where it does not say.
    """
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None or not ids:
        return {}
    done = there.run(surrounded(target, scheduler.look(ids)))
    try:
        return scheduler.seen(ids, *done.answer)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        log.warning("%s of %s is not understood: %r", scheduler.title, target.name, error)
        raise Unreachable(f"{scheduler.title} at {target.name} does not answer as expected.") from None


def look_back(there: Transport, target: Target, ids: Sequence[str]) -> Mapping[str, BatchStatus]:
    """What the history says of jobs that the batch system knows nothing of any more, where it says something."""
    scheduler = scheduler_of(target.scheduler)
    found = {}
    for id in ids[:MOST_LOOKED_BACK] if scheduler is not None else ():
        assert scheduler is not None
        done = there.run(surrounded(target, scheduler.look_back(id)))
        try:
            status = scheduler.seen_back(id, *done.answer)
        except PerfloomError as error:
            log.info("the history of %s says nothing: %s", target.name, error)
            continue
        if status.state not in (BatchState.UNKNOWN, BatchState.GONE):
            found[id] = status
    return found


def end(there: Transport, target: Target, ids: Sequence[str], directories: Sequence[str], *, gently: bool) -> None:
    """End jobs: ids those of the batch system, directories of the jobs there."""
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None:
        for directory in directories:
            there.run(end_script(directory, gently=gently))
    elif ids:
        done = there.run(surrounded(target, scheduler.cancel(ids, gently=gently)))
        scheduler.cancelled(*done.answer)


def named(there: Transport, target: Target, job_name: str) -> str | None:
    """The batch system's id of the job of that name, None where it knows none. Raises Unreachable, Unavailable."""
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None:
        return None
    done = there.run(surrounded(target, scheduler.named(job_name)))
    return scheduler.found(*done.answer)
