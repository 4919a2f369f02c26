"""Whether somebody may start programs on this server's machine, where the server is for more than one person.

The worker decides it for itself once more, when it starts something: by what `origin` says of where it comes from.
"""

from typing import Any

from ....domain.boundary import Server, open_door
from ....domain.errors import Forbidden
from ....domain.facts import HostFacts
from ....domain.targets import Target
from ....places import place_of
from ...services import services

ORIGIN = "server"
"""The word for it in what workers are asked for: details of a job, and questions."""


def origin() -> dict[str, Any]:
    """What goes with whatever a worker is asked for: `{"server": …}`. Empty where nothing is kept from anybody."""
    here = services()
    if not here.shared or here.settings.trust_users:
        return {}
    return {ORIGIN: Server(place_of(), tuple(map(str, here.settings.secret_files))).to_json()}


def refusal(target: Target) -> str:
    """Why not at a target, empty where they may. Programs of other machines are kept from the server by that."""
    return refusal_here() if target.ssh is None else ""


def refusal_here() -> str:
    """Why not on this machine, empty where they may."""
    here = services()
    if not here.shared or here.settings.trust_users:
        return ""
    own = place_of()
    # Any of them may take the job.
    hosts = here.store.hosts
    found: list[HostFacts | None] = [facts for one in hosts.heard_of() if (facts := hosts.get(one.name).facts)]
    known = [(facts.jobs, facts.readable_secrets) if facts else (None, ()) for facts in found or [None]]
    return next((reason for jobs, readable in known if (reason := open_door(own, jobs, readable))), "")


def refuse(target: Target) -> None:
    """Raises Forbidden with the reason."""
    if reason := refusal(target):
        raise Forbidden(reason)
