"""Ways to targets: `open_transport` gives the one for a target.

What a transport is stands in `base`. Whoever opens one needs to know of no other module here.
"""

import contextlib
from collections.abc import Iterator

from perfloom.domain.targets import Target
from perfloom.workers.transports.as_user import UserTransport
from perfloom.workers.transports.base import Copy, Done, Progress, Secrets, Transport, no_secrets
from perfloom.workers.transports.local import LocalTransport

__all__ = [
    "Copy",
    "Done",
    "Progress",
    "Secrets",
    "Transport",
    "close_all",
    "no_secrets",
    "open_transport",
]


@contextlib.contextmanager
def open_transport(target: Target, secrets: Secrets = no_secrets, run_as: str = "") -> Iterator[Transport]:
    """The way to a target, for the time of the block. Connects at its first use.

    run_as: the user to be on this machine itself, empty for our own.

    secrets: asked for passwords, passphrases and one-time codes; None from it raises SecretNeeded. A connection stays
    open for a while after the block, and the next one for the same target in this process takes it up.
    """
    if target.ssh is None:
        transport: Transport = UserTransport(run_as) if run_as else LocalTransport()
    else:
        # Not needed where nobody uses SSH, and slow to import.
        from perfloom.workers.transports.ssh import SshTransport

        transport = SshTransport(target.ssh, secrets)
    with contextlib.closing(transport):
        yield transport


def close_all() -> None:
    """Close the connections of this process, for its end."""
    import sys

    if module := sys.modules.get("perfloom.workers.transports.connections"):
        module.close_all()
