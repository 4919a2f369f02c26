"""Queries to the batch system of a target, and ending jobs there with or without one."""

import logging
from collections.abc import Mapping, Sequence

from perfloom.domain.errors import PerfloomError, Unreachable
from perfloom.domain.targets import BatchState, BatchStatus, Target
from perfloom.recording.plan.plan import cancel_script
from perfloom.recording.plan.target_environment import in_target_environment
from perfloom.recording.schedulers import scheduler_of

from ..transports import Transport

MAX_HISTORY = 20
"""For how many unknown jobs one query asks the history; the others follow with the next poll."""

log = logging.getLogger(__name__)


def query_states(transport: Transport, target: Target, ids: Sequence[str]) -> Mapping[str, BatchStatus]:
    """The state of each of these jobs of the batch system: one query for all. Empty without a batch system. Raises
    Unreachable, Unavailable or InvalidRequest without an answer.
    """
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None or not ids:
        return {}
    done = transport.run(in_target_environment(target, scheduler.status_command(ids)))
    try:
        return scheduler.parse_status_output(ids, *done.output)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        log.warning("cannot parse the output of %s at %s: %r", scheduler.title, target.name, error)
        raise Unreachable(f"{scheduler.title} at {target.name} does not respond as expected.") from None


def query_history(transport: Transport, target: Target, ids: Sequence[str]) -> Mapping[str, BatchStatus]:
    """The states in the accounting history of jobs that the batch system does not know any more."""
    scheduler = scheduler_of(target.scheduler)
    statuses = {}
    for id in ids[:MAX_HISTORY] if scheduler is not None else ():
        assert scheduler is not None
        done = transport.run(in_target_environment(target, scheduler.history_command(id)))
        try:
            status = scheduler.parse_history_output(id, *done.output)
        except PerfloomError as error:
            log.info("the history of %s is not available: %s", target.name, error)
            continue
        if status.state not in (BatchState.UNKNOWN, BatchState.GONE):
            statuses[id] = status
    return statuses


def cancel_jobs(
    transport: Transport, target: Target, ids: Sequence[str], directories: Sequence[str], *, gently: bool
) -> None:
    """End jobs. ids: of the batch system. directories: of the jobs at the target."""
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None:
        for directory in directories:
            transport.run(cancel_script(directory, gently=gently))
    elif ids:
        done = transport.run(in_target_environment(target, scheduler.cancel_command(ids, gently=gently)))
        scheduler.parse_cancel_output(*done.output)


def find_by_name(transport: Transport, target: Target, job_name: str) -> str | None:
    """The batch system's id of the job with that name, None if there is none. Raises Unreachable, Unavailable."""
    scheduler = scheduler_of(target.scheduler)
    if scheduler is None:
        return None
    done = transport.run(in_target_environment(target, scheduler.find_command(job_name)))
    return scheduler.parse_find_output(*done.output)
