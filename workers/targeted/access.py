"""The way to a target for a step: with the secrets there are, and without asking a dead host for every job again."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from perfloom.domain.errors import Refused, SecretNeeded, Unreachable
from perfloom.domain.targets import Target
from perfloom.store.jobs import Job
from perfloom.workers.road import Road
from perfloom.workers.secrets import secrets_for
from perfloom.workers.transports import Transport, open_transport

KNOWN_BAD_S = 10.0
"""A host that could not be reached, or let us not in, is not tried again for so long, whichever job is next."""
SLOTS = 4
"""How many jobs this process prepares, or brings back, at a time; looking at jobs always finds a free thread."""

_bad: dict[str, tuple[float, Unreachable | Refused]] = {}
_slots = threading.BoundedSemaphore(SLOTS)


class Busy(Exception):
    """This process prepares, or brings back, as many jobs as it may."""


@contextmanager
def reach(road: Road, target: Target, jobs: Sequence[Job]) -> Iterator[Transport]:
    """The way to a target, for the sake of these jobs. Raises Unreachable, Refused and its kinds."""
    key = json.dumps(target.to_json(), sort_keys=True)
    at, error = _bad.get(key, (0.0, None))
    if error is not None and time.monotonic() - at < KNOWN_BAD_S:
        raise error
    try:
        secrets = road.ask or secrets_for(road.store, target.name, [job.id for job in jobs])
        with open_transport(target, secrets) as there:
            yield there
    except SecretNeeded:
        raise
    except (Unreachable, Refused) as failed:
        if target.ssh is not None:
            _bad[key] = (time.monotonic(), failed)
        raise
    _bad.pop(key, None)


@contextmanager
def slot() -> Iterator[None]:
    """One of the places for what takes long. Raises Busy."""
    if not _slots.acquire(blocking=False):
        raise Busy
    try:
        yield
    finally:
        _slots.release()
