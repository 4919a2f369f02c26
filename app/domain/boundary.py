"""Whether programs that somebody starts on the server's machine are kept from what the server keeps. Pure.

The same user is no boundary: a program may read, change and end whatever belongs to its user.
"""

from dataclasses import dataclass

from .facts import HostFacts


@dataclass(frozen=True)
class Place:
    """Where a process is. mounts: which files it sees, by the boot of the machine and the mount namespace."""

    uid: int
    mounts: str


START = (
    "Start the worker with --run-as USER, or record on another machine (see Security in the documentation). Where "
    "everybody with the token may read all that the server can, set PERFLOOM_TRUST_USERS=1."
)


def open_door(server: Place, facts: HostFacts | None) -> str:
    """Why programs of others must not run where `facts` are of, empty where they may."""
    if facts is None or facts.jobs_uid is None:
        return f"No worker has said as which user it starts programs here, and they must not run as the server. {START}"
    together = facts.jobs_mounts == server.mounts
    if together and facts.jobs_uid in (server.uid, 0):
        who = "root" if facts.jobs_uid == 0 else "the same user as the server"
        return f"Programs on this machine would run as {who}, and could read its secrets. {START}"
    if facts.readable_secrets:
        return f"Programs on this machine could read {facts.readable_secrets[0]} of the server. {START}"
    return ""
