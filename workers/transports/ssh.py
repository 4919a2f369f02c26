"""A host reached over SSH as a target. Everything here waits in the calling thread; the work is done by asyncssh."""

from collections.abc import Callable, Sequence

from perfloom.domain.targets import Ssh
from perfloom.workers.transports import connections, copying, sessions
from perfloom.workers.transports.base import Copy, Done, Progress, Secrets
from perfloom.workers.transports.copying import Tally


class SshTransport:
    """A Transport over SSH. Connects at its first use, and shares the connection with others to the same target."""

    def __init__(self, ssh: Ssh, secrets: Secrets) -> None:
        self.ssh = ssh
        self.secrets = secrets

    @property
    def where(self) -> str:
        """The host, as the target has it."""
        return self.ssh.host

    def run(self, script: str, *, input: bytes = b"", timeout_s: float = 60.0, limit_bytes: int = 64 << 20) -> Done:
        """See Transport."""
        return connections.call(self._run(script, input, timeout_s, limit_bytes))

    async def _run(self, script: str, input: bytes, timeout_s: float, limit_bytes: int) -> Done:
        try:
            async with connections.using(self.ssh, self.secrets) as link:
                return await sessions.run(link, script, input, timeout_s=timeout_s, limit_bytes=limit_bytes)
        except connections.NotBegun as error:
            # An old connection turned out to be broken before the script was sent. A new one may do.
            if error.fresh:
                raise
        async with connections.using(self.ssh, self.secrets) as link:
            return await sessions.run(link, script, input, timeout_s=timeout_s, limit_bytes=limit_bytes)

    def put(self, files: Sequence[Copy], progress: Progress | None = None) -> None:
        """See Transport."""
        sizes = [_size(file) for file in files]
        tally = Tally(len(files), None if None in sizes else sum(size or 0 for size in sizes), name=_name(files))
        connections.call(self._copy(copying.put, files, tally), _look(tally, progress, "Copies"))

    def get(self, files: Sequence[Copy], progress: Progress | None = None) -> None:
        """See Transport."""
        known = all(file.bytes is not None for file in files)
        tally = Tally(len(files), sum(file.bytes or 0 for file in files) if known else None, name=_name(files))
        connections.call(self._copy(copying.get, files, tally), _look(tally, progress, "Fetches"))

    async def _copy(self, how: copying.Way, files: Sequence[Copy], tally: Tally) -> None:
        if not files:
            return
        try:
            async with connections.using(self.ssh, self.secrets) as link:
                return await how(link, files, tally)
        except connections.NotBegun as error:
            if error.fresh:
                raise
        async with connections.using(self.ssh, self.secrets) as link:
            await how(link, files, tally)

    def close(self) -> None:
        """The connection stays open for a while, for whoever comes next."""


def _look(tally: Tally, progress: Progress | None, verb: str) -> Callable[[], None] | None:
    return None if progress is None else lambda: tally.tell(progress, verb)


def _size(file: Copy) -> int | None:
    try:
        return file.here.stat().st_size
    except OSError:
        return None


def _name(files: Sequence[Copy]) -> str:
    return files[0].there.rpartition("/")[2] if files else ""
