"""A host reached over SSH as a target. Everything here waits in the calling thread; the work is done by asyncssh."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perfloom.domain.targets import Ssh

from . import connections, script_session, sftp_copy
from .base import FileCopy, Progress, ScriptResult, SecretProvider
from .connections import SshLink
from .sftp_copy import CopyProgress

T = TypeVar("T")


class SshTransport:
    """A Transport over SSH. Connects at its first use, and shares the connection with others to the same target."""

    def __init__(self, ssh: Ssh, secrets: SecretProvider, owner: str = "") -> None:
        """owner: the session that gives the secrets, see `connections.open_link`."""
        self.ssh = ssh
        self.secrets = secrets
        self.owner = owner

    @property
    def title(self) -> str:
        """The host, as the target has it."""
        return self.ssh.host

    def run(
        self, script: str, *, input: bytes = b"", timeout_s: float = 60.0, limit_bytes: int = 64 << 20
    ) -> ScriptResult:
        """See Transport."""
        return connections.run_in_loop(
            self._linked(
                lambda link: script_session.run_script(
                    link, script, input, timeout_s=timeout_s, limit_bytes=limit_bytes
                )
            )
        )

    def put(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """See Transport."""
        sizes = [_size(file) for file in files]
        self._copy(sftp_copy.put, files, sizes, progress, "Copying")

    def get(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """See Transport."""
        self._copy(sftp_copy.get, files, [file.bytes for file in files], progress, "Fetching")

    def _copy(
        self,
        how: sftp_copy.CopyFunction,
        files: Sequence[FileCopy],
        sizes: Sequence[int | None],
        progress: Progress | None,
        verb: str,
    ) -> None:
        if not files:
            return
        total = None if None in sizes else sum(size or 0 for size in sizes)
        tally = CopyProgress(len(files), total, name=files[0].remote.rpartition("/")[2])
        look = None if progress is None else lambda: tally.report(progress, verb)
        connections.run_in_loop(self._linked(lambda link: how(link, files, tally)), look)

    async def _linked(self, work: Callable[[SshLink], Awaitable[T]]) -> T:
        """What `work` makes of a link to the host."""
        try:
            async with connections.open_link(self.ssh, self.secrets, self.owner) as link:
                return await work(link)
        except connections.LinkBroken as error:
            # An old connection turned out to be broken before anything was done with it. A new one may do.
            if error.fresh:
                raise
        async with connections.open_link(self.ssh, self.secrets, self.owner) as link:
            return await work(link)

    def close(self) -> None:
        """The connection stays open for a while, for whoever comes next."""


def _size(file: FileCopy) -> int | None:
    try:
        return file.local.stat().st_size
    except OSError:
        return None
