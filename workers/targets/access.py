"""Transports to targets for steps: with the known secrets, and without a new attempt at a dead host for every job."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from perfloom.domain.errors import Refused, SecretNeeded, Unreachable
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.jobs import JobState
from perfloom.domain.targets import Ssh, Target
from perfloom.store.jobs import Job

from ..base.context import JobContext
from ..transports import Transport, close_owned, no_secrets, open_transport, owners
from . import job_user
from .secrets import secrets_for

FAILURE_CACHE_S = 10.0
"""How long a host that could not be reached, or refused the login, is not tried again, for any job."""
JOB = "job:"
SLOTS = 4
"""How many jobs this process stages at a time, and how many it collects; a thread for polling is always free."""

_failures: dict[str, tuple[float, Unreachable | Refused]] = {}
_staging = threading.BoundedSemaphore(SLOTS)
_collecting = threading.BoundedSemaphore(SLOTS)


class NoFreeSlot(Exception):
    """This process stages, or collects, as many jobs as it may."""


@contextmanager
def open_target(
    context: JobContext, target: Target, jobs: Sequence[Job], server: ProtectedServer | None = None
) -> Iterator[Transport]:
    """A transport to a target for these jobs. server: the one that a deleted job was submitted to.

    Raises Unreachable, Refused and its kinds; and Forbidden for this machine, if the server of the jobs has secrets
    that they could read here. A target may have been changed after a job was submitted, so this is checked again.
    """
    if target.ssh is None:
        for one in (server, *(job.details.server for job in jobs)):
            job_user.require_allowed(context.settings, one)
    key = json.dumps(target.to_json(), sort_keys=True)
    at, error = _failures.get(key, (0.0, None))
    if error is not None and time.monotonic() - at < FAILURE_CACHE_S:
        # Without the traceback of where it was raised before.
        raise error.with_traceback(None)
    try:
        secrets = context.secret_provider or secrets_for(context.store, target.name, [job.id for job in jobs])
        if len(jobs) > 1 and target.ssh is not None and not target.ssh.keep:
            # The secret of one of them is of no use to the others.
            secrets = no_secrets
        owner = _owner(jobs[0].id) if len(jobs) == 1 else ""
        with open_transport(target, secrets, context.settings.run_as, owner) as transport:
            yield transport
    except SecretNeeded:
        raise
    except (Unreachable, Refused) as failed:
        # If the connection is open, the error concerns only these jobs.
        if target.ssh is not None and not _is_open(target.ssh):
            _failures[key] = (time.monotonic(), failed)
        raise
    _failures.pop(key, None)


def group_by_connection(target: Target, jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """The jobs in groups that may share a connection: each alone as long as no open connection serves all."""
    rest = list(jobs)
    while rest and target.ssh is not None and not target.ssh.keep and not _is_shared(target.ssh):
        yield [rest.pop(0)]
    if rest:
        yield rest


def close_finished(context: JobContext) -> None:
    """Close the connections of single jobs that need none any more."""
    for owner in owners():
        job = context.store.jobs.find(owner.removeprefix(JOB)) if owner.startswith(JOB) else None
        if owner.startswith(JOB) and (job is None or job.state.final or job.state is JobState.READING):
            close_owned(owner)


def _owner(job_id: str) -> str:
    return f"{JOB}{job_id}"


def _is_shared(ssh: Ssh) -> bool:
    # Not needed without SSH, and slow to import.
    from ..transports import connections

    return connections.is_shared(ssh)


def _is_open(ssh: Ssh) -> bool:
    # Not needed without SSH, and slow to import.
    from ..transports import connections

    return connections.is_open(ssh)


def staging_slot() -> AbstractContextManager[None]:
    """A slot for staging a job. Raises NoFreeSlot."""
    return _slot(_staging)


def collecting_slot() -> AbstractContextManager[None]:
    """A slot for collecting a job. Raises NoFreeSlot."""
    return _slot(_collecting)


@contextmanager
def _slot(slots: threading.BoundedSemaphore) -> Iterator[None]:
    if not slots.acquire(blocking=False):
        raise NoFreeSlot
    try:
        yield
    finally:
        slots.release()
