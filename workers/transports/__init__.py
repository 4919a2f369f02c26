"""Transports to targets: `open_transport` opens the one for a target.

`base` defines what a transport does. Callers need no other module of this package.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from perfloom.domain.targets import Target

from ..base.progress import Progress
from ..base.secret_provider import SecretProvider, no_secrets
from .as_user import UserTransport
from .base import FileCopy, ScriptResult, Transport
from .local import LocalTransport

__all__ = [
    "FileCopy",
    "LocalTransport",
    "Progress",
    "ScriptResult",
    "SecretProvider",
    "Transport",
    "close_all",
    "no_secrets",
    "open_transport",
]


@contextlib.contextmanager
def open_transport(
    target: Target, secrets: SecretProvider = no_secrets, run_as: str = "", owner: str = ""
) -> Iterator[Transport]:
    """A transport to a target, for the duration of the block. It connects at its first use.

    run_as: the user on this machine itself, empty for the current one. owner: the job whose secrets these are; a
    connection that used one is not shared with other owners, unless the target keeps connections.

    secrets: provides passwords, passphrases and one-time codes; if it returns None, SecretNeeded is raised. A
    connection stays open for a while after the block, and is reused for the same target in this process.
    """
    if target.ssh is None:
        transport: Transport = UserTransport(run_as) if run_as else LocalTransport()
    else:
        # Not needed without SSH, and slow to import.
        from .ssh import SshTransport

        transport = SshTransport(target.ssh, secrets, owner)
    with contextlib.closing(transport):
        yield transport


def owners() -> set[str]:
    """The owners of connections of this process that are not shared."""
    module = _connections()
    return module.owners() if module else set()


def close_owned(owner: str) -> None:
    """Close the connections of this owner."""
    if module := _connections():
        module.close(lambda link: link.owner == owner)


def close_target(target: Target) -> None:
    """Close all connections of this process to a target."""
    if module := _connections():
        module.close(lambda link: link.ssh == target.ssh)


def _connections() -> Any:
    """The module if it was imported."""
    return sys.modules.get("perfloom.workers.transports.connections")


def close_all() -> None:
    """Close the connections of this process before it ends."""
    if module := _connections():
        module.close_all()
