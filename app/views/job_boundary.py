"""Whether somebody may start programs on the machine of a target, where this server is for more than one person."""

import os

from ..domain.boundary import Place, open_door
from ..domain.errors import Forbidden
from ..domain.facts import HostFacts
from ..domain.targets import Target
from ..places import mounts
from ..services import services


def refusal(target: Target) -> str:
    """Why not, empty where they may. Programs of other machines are kept from the server by that."""
    here = services()
    if not here.shared or here.settings.trust_users or target.ssh is not None:
        return ""
    own = Place(os.geteuid(), mounts())
    # Any of them may take the job.
    hosts = here.store.hosts
    known: list[HostFacts | None] = [facts for one in hosts.heard_of() if (facts := hosts.get(one.name).facts)]
    return next((reason for facts in known or [None] if (reason := open_door(own, facts))), "")


def refuse(target: Target) -> None:
    """Raises Forbidden with the reason."""
    if reason := refusal(target):
        raise Forbidden(reason)
