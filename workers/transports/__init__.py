"""Ways to targets: `open_transport` gives the one for a target.

What a transport is stands in `base`. Whoever opens one needs to know of no other module here.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from perfloom.domain.targets import Target

from .as_user import UserTransport
from .base import FileCopy, Progress, ScriptResult, SecretProvider, Transport, no_secrets
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
    """The way to a target, for the time of the block. Connects at its first use.

    run_as: the user to be on this machine itself, empty for our own. owner: for whom the secrets are; a connection that
    takes one serves nobody else, unless the target is to keep it.

    secrets: asked for passwords, passphrases and one-time codes; None from it raises SecretNeeded. A connection stays
    open for a while after the block, and the next one for the same target in this process takes it up.
    """
    if target.ssh is None:
        transport: Transport = UserTransport(run_as) if run_as else LocalTransport()
    else:
        # Not needed where nobody uses SSH, and slow to import.
        from .ssh import SshTransport

        transport = SshTransport(target.ssh, secrets, owner)
    with contextlib.closing(transport):
        yield transport


def owners() -> set[str]:
    """Whom connections of this process serve alone."""
    module = _connections()
    return module.owners() if module else set()


def close_owned(owner: str) -> None:
    """Close the connections that serve this owner alone."""
    if module := _connections():
        module.close(lambda link: link.owner == owner)


def close_target(target: Target) -> None:
    """Close all connections to a target that this process has."""
    if module := _connections():
        module.close(lambda link: link.ssh == target.ssh)


def _connections() -> Any:
    """The module, where anybody has used it."""
    return sys.modules.get("perfloom.workers.transports.connections")


def close_all() -> None:
    """Close the connections of this process, for its end."""
    if module := _connections():
        module.close_all()
