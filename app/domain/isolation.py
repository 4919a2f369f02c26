"""Whether programs on the server's machine are isolated from the server's data. Pure.

The same user is no boundary: a program may read, change and end everything of its user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .json_fields import select_known_fields

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The initial PID namespace of a machine, which sees the processes of all others: PROC_PID_INIT_INO of Linux."""


@dataclass(frozen=True)
class ProcessNamespaces:
    """User and namespaces of a process, see namespaces(7). boot: the boot id of its machine.

    uid: its user, as seen by the parent of its user namespace, so that two namespaces can be compared. root: whether it
    is root in its own namespace.
    """

    uid: int
    boot: str = ""
    mounts: str = ""
    pids: str = ""
    users: str = ""
    root: bool = False


@dataclass(frozen=True)
class ProtectedServer:
    """A web server for more than one user: its namespaces, and the files with its secrets."""

    place: ProcessNamespaces
    secrets: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ProtectedServer":
        """The reverse of `to_json`."""
        return cls(
            ProcessNamespaces(**select_known_fields(ProcessNamespaces, data["place"])),
            tuple(map(str, data.get("secrets", ()))),
        )

    @classmethod
    def from_request(cls, data: object) -> "ProtectedServer | None":
        """The server of a request that may name one."""
        return cls.from_json(data) if isinstance(data, Mapping) else None


ISOLATION_ADVICE = (
    "Start the worker with --run-as USER, or record on another machine (see Security in the documentation). If "
    "everyone with the token may read everything that the server can read, set PERFLOOM_TRUST_USERS=1."
)


def find_exposed_secret(server: ProcessNamespaces, jobs: ProcessNamespaces | None, readable: Sequence[str] = ()) -> str:
    """Why programs of other users must not run in `jobs`; empty if they may. readable: files with secrets of the server
    that they can read."""
    if jobs is None:
        return (
            "No worker has reported the user under which it runs programs here, and they must not run as "
            f"the server. {ISOLATION_ADVICE}"
        )
    if not _is_separate(server, jobs):
        if jobs.uid == 0 or (jobs.root and jobs.users == server.users):
            return (
                f"Programs on this machine would run as root, and could read the server's secrets. {ISOLATION_ADVICE}"
            )
        if jobs.uid == server.uid:
            return (
                "Programs on this machine would run as the server's own user, and could read its "
                f"secrets. {ISOLATION_ADVICE}"
            )
    if readable:
        return f"Programs on this machine could read {readable[0]} of the server. {ISOLATION_ADVICE}"
    return ""


def _is_separate(server: ProcessNamespaces, jobs: ProcessNamespaces) -> bool:
    """Whether programs there see neither the server's processes nor its files, whatever their user.

    A mount namespace alone does not isolate: /proc shows the server. Neither does a user namespace, where users may be
    the same as outside, or the initial PID namespace, which contains those of containers.
    """
    if server.boot != jobs.boot:
        return True
    return server.mounts != jobs.mounts and server.pids != jobs.pids and jobs.pids != INITIAL_PID_NAMESPACE
