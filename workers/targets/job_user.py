"""The user that runs programs on this machine, and which secrets of the server that user could read."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from perfloom.config import Settings
from perfloom.domain.errors import Forbidden, PerfloomError
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.isolation import ProtectedServer, find_exposed_secret
from perfloom.paths import process_boundary
from perfloom.recording.quoting import join

from ..base.scripts import worker_script
from ..transports.as_user import UserTransport, passwd_entry

CACHE_S = 2.0
"""How long an answer is cached: running jobs are polled several times a second."""

_cache: dict[tuple[str, str, ProtectedServer], tuple[float, str]] = {}
_lock = threading.Lock()


def with_job_user(facts: HostFacts, settings: Settings) -> HostFacts:
    """The facts with those of the user that programs run as."""
    readable = _readable(settings, [str(path) for path in settings.secret_files])
    if not settings.run_as:
        return replace(facts, jobs=process_boundary(), readable_secrets=readable)
    user = passwd_entry(settings.run_as)
    return replace(facts, jobs=process_boundary(user.pw_uid), readable_secrets=readable, user=user.pw_name, root=False)


def refusal(settings: Settings, server: ProtectedServer | None) -> str:
    """Why programs that a server submits may not run here as this worker runs them, empty if they may. server: null for
    one without secrets to protect."""
    if server is None:
        return ""
    key = (str(settings.data), settings.run_as, server)
    with _lock:
        at, reason = _cache.get(key, (0.0, ""))
        if not at or time.monotonic() - at > CACHE_S:
            at, reason = time.monotonic(), _find_refusal(settings, server)
            _cache.clear()
            _cache[key] = (at, reason)
    return reason


def require_allowed(settings: Settings, server: ProtectedServer | None) -> None:
    """Raises Forbidden with the reason."""
    if reason := refusal(settings, server):
        raise Forbidden(reason)


def _find_refusal(settings: Settings, server: ProtectedServer) -> str:
    jobs = process_boundary(passwd_entry(settings.run_as).pw_uid if settings.run_as else None)
    names = dict.fromkeys([*server.secrets, *map(str, settings.secret_files)])
    return find_exposed_secret(server.place, jobs, _readable(settings, list(names)))


def _readable(settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the files that programs can read."""
    if not settings.run_as:
        return tuple(name for name in names if os.access(name, os.R_OK, effective_ids=True))
    try:
        done = UserTransport(settings.run_as).run(f"set -- {join(names)}\n{worker_script('targets/readable_files.sh')}")
    except (PerfloomError, OSError):
        # It is unknown whether they can be read.
        return tuple(names)
    return tuple(done.text.splitlines()) if done.status == 0 else tuple(names)
