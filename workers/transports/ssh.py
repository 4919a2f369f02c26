"""A Transport to a host over SSH. Its methods block the calling thread; asyncssh does the work in its own."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perfloom.domain.targets import Ssh

from ..base.progress import Progress
from ..base.secret_provider import SecretProvider
from . import connections, script_session, sftp_copy
from .base import FileCopy, ScriptResult
from .connections import SshLink
from .sftp_copy import CopyProgress

T = TypeVar("T")


class SshTransport:
    """A Transport over SSH. Connects at its first use, and shares the connection with others for the same target."""

    def __init__(self, ssh: Ssh, secrets: SecretProvider, owner: str = "") -> None:
        """owner: the job whose secrets these are, see `connections.open_link`."""
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
            self._with_link(
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
        callback = None if progress is None else lambda: tally.report(progress, verb)
        connections.run_in_loop(self._with_link(lambda link: how(link, files, tally)), callback)

    async def _with_link(self, work: Callable[[SshLink], Awaitable[T]]) -> T:
        """The result of `work` with a link to the host."""
        try:
            async with connections.open_link(self.ssh, self.secrets, self.owner) as link:
                return await work(link)
        except connections.LinkBroken as error:
            # A reused connection was broken. A new one may work.
            if error.fresh:
                raise
        async with connections.open_link(self.ssh, self.secrets, self.owner) as link:
            return await work(link)

    def close(self) -> None:
        """Does nothing: the connection stays open for a while, for reuse."""


def _size(file: FileCopy) -> int | None:
    try:
        return file.local.stat().st_size
    except OSError:
        return None
