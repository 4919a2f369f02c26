"""Whether users may start programs on the server's machine, if the server has several users.

The worker checks it again when it starts a program, by the `protected_server` in the request.
"""

from typing import Any

from ...domain.errors import Forbidden
from ...domain.host_facts import HostFacts
from ...domain.isolation import ProtectedServer, find_exposed_secret
from ...domain.jobs import JobDetails
from ...domain.targets import Target
from ...paths import process_boundary
from ..services import current_services

ORIGIN_FIELD = "server"
"""Its key in checks."""


def protected_server() -> ProtectedServer | None:
    """This server, if it has secrets that programs of its users must not read."""
    here = current_services()
    if not here.is_shared or here.settings.trust_users:
        return None
    return ProtectedServer(process_boundary(), tuple(map(str, here.settings.secret_files)))


def origin_details() -> JobDetails:
    """The details of a job that is submitted here."""
    return JobDetails(server=protected_server())


def request_origin() -> dict[str, Any]:
    """What is added to a check: `{"server": …}`, empty without a server to protect."""
    server = protected_server()
    return {ORIGIN_FIELD: server.to_json()} if server else {}


def denied_reason(target: Target) -> str:
    """Why not at a target, empty if allowed. Programs on other machines cannot reach the server's files."""
    return denied_here_reason() if target.ssh is None else ""


def denied_here_reason() -> str:
    """Why not on this machine, empty if allowed."""
    here = current_services()
    if not here.is_shared or here.settings.trust_users:
        return ""
    own = process_boundary()
    # Any of them may take the job.
    hosts = here.store.hosts
    found: list[HostFacts | None] = [facts for one in hosts.list_alive() if (facts := hosts.get(one.name).facts)]
    known = [(facts.jobs, facts.readable_secrets) if facts else (None, ()) for facts in found or [None]]
    return next((reason for jobs, readable in known if (reason := find_exposed_secret(own, jobs, readable))), "")


def require_permission(target: Target) -> None:
    """Raises Forbidden with the reason."""
    if reason := denied_reason(target):
        raise Forbidden(reason)
