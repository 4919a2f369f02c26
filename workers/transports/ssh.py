"""A host reached over SSH as a target. Everything here waits in the calling thread; the work is done by asyncssh."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from perfloom.domain.targets import Ssh
from perfloom.workers.transports import connections, copying, sessions
from perfloom.workers.transports.base import Copy, Done, Progress, Secrets
from perfloom.workers.transports.connections import Link
from perfloom.workers.transports.copying import Tally

T = TypeVar("T")


class SshTransport:
    """A Transport over SSH. Connects at its first use, and shares the connection with others to the same target."""

    def __init__(self, ssh: Ssh, secrets: Secrets, owner: str = "") -> None:
        """owner: who gives the secrets, see `connections.using`."""
        self.ssh = ssh
        self.secrets = secrets
        self.owner = owner

    @property
    def where(self) -> str:
        """The host, as the target has it."""
        return self.ssh.host

    def run(self, script: str, *, input: bytes = b"", timeout_s: float = 60.0, limit_bytes: int = 64 << 20) -> Done:
        """See Transport."""
        return connections.call(
            self._linked(lambda link: sessions.run(link, script, input, timeout_s=timeout_s, limit_bytes=limit_bytes))
        )

    def put(self, files: Sequence[Copy], progress: Progress | None = None) -> None:
        """See Transport."""
        sizes = [_size(file) for file in files]
        self._copy(copying.put, files, sizes, progress, "Copies")

    def get(self, files: Sequence[Copy], progress: Progress | None = None) -> None:
        """See Transport."""
        self._copy(copying.get, files, [file.bytes for file in files], progress, "Fetches")

    def _copy(
        self,
        how: copying.Way,
        files: Sequence[Copy],
        sizes: Sequence[int | None],
        progress: Progress | None,
        verb: str,
    ) -> None:
        if not files:
            return
        total = None if None in sizes else sum(size or 0 for size in sizes)
        tally = Tally(len(files), total, name=files[0].there.rpartition("/")[2])
        look = None if progress is None else lambda: tally.tell(progress, verb)
        connections.call(self._linked(lambda link: how(link, files, tally)), look)

    async def _linked(self, work: Callable[[Link], Awaitable[T]]) -> T:
        """What `work` makes of a link to the host."""
        try:
            async with connections.using(self.ssh, self.secrets, self.owner) as link:
                return await work(link)
        except connections.NotBegun as error:
            # An old connection turned out to be broken before anything was done with it. A new one may do.
            if error.fresh:
                raise
        async with connections.using(self.ssh, self.secrets, self.owner) as link:
            return await work(link)

    def close(self) -> None:
        """The connection stays open for a while, for whoever comes next."""


def _size(file: Copy) -> int | None:
    try:
        return file.here.stat().st_size
    except OSError:
        return None
