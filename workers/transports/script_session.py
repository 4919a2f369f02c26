"""Runs a script over SSH, whatever the user's login shell is and whatever its startup files print.

The command is the same for every script: sshd passes it to the login shell (sh, csh, fish), which replaces itself with
/bin/sh. Standard input has a line with a random marker and the length of the script, then the script, then the script's
own input. /bin/sh prints the marker before it runs the script, so that the output of startup files can be discarded.
The input is sent only after the marker has arrived, so that `head` cannot consume a part of it.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncssh

from perfloom.domain.errors import PerfloomError, Refused
from perfloom.domain.text import sanitize_line

from ..base.scripts import worker_script
from . import ssh_errors
from .base import ScriptResult, output_limit_error, require_script, timeout_error
from .connections import SshLink, discard_link, start_command

_LINES = [line.strip() for line in worker_script("transports/run_script.sh").splitlines() if not line.startswith("#")]
COMMAND = f"exec /bin/sh -c '{' '.join(filter(None, _LINES))}' perfloom"
GRACE_S = 2.0
"""How long the output may take to end after the script: processes that the script left running may keep it open."""
CLEANUP_S = 5
"""How long a script may take to clean up after itself."""
END_S = CLEANUP_S + 8.0
MAX_NOISE = 4 << 20
"""The maximum output of startup files."""
CHUNK = 1 << 18

Sink = Callable[[bytes], None]
"""Receives standard output as it arrives."""


class _Session(asyncssh.SSHClientSession[bytes]):
    """The output and the end of one script."""

    def __init__(self, limit: int, sink: Sink | None) -> None:
        self.mark = secrets.token_hex(16).encode()
        self.limit = limit
        self.sink = sink
        self.begun = asyncio.Event()
        self.changed = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self.pid: int | None = None
        self.status: int | None = None
        self.signalled = False
        self.ended = False
        self.eof = False
        self.closed = False
        self.lost: Exception | None = None
        self.failure: BaseException | None = None
        self._raw: dict[bool, bytearray] = {False: bytearray(), True: bytearray()}
        self._past: dict[bool, bool] = {False: False, True: False}
        self._count = 0

    @property
    def began(self) -> bool:
        """Whether the script has started."""
        return self._past[False]

    def stream(self, error: bool) -> bytes:
        """The output of the script."""
        return bytes(self._raw[error]) if self._past[error] else b""

    def said(self) -> str:
        """The output of the login shell, if the script never started."""
        return sanitize_line(b" ".join(self._raw.values()).decode(errors="replace"))[:300]

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        error = datatype is not None
        raw = self._raw[error]
        raw += data
        if not self._past[error]:
            data = self._begin(error)
        if not self._past[error]:
            if len(raw) > MAX_NOISE:
                del raw[: len(raw) - MAX_NOISE // 2]
            return
        self._count += len(data)
        if self._count > self.limit and self.failure is None:
            self.failure = OverflowError()
            self.changed.set()
        if self.failure is not None:
            raw.clear()
        elif self.sink is not None and not error:
            try:
                self.sink(bytes(raw))
            except BaseException as failure:
                self.failure = failure
                self.changed.set()
            raw.clear()

    def _begin(self, error: bool) -> bytes:
        """Discard the output up to the marker; returns the output after it."""
        raw = self._raw[error]
        at = raw.find(self.mark)
        end = raw.find(b"\n", at) if at >= 0 else -1
        if end < 0:
            return b""
        if not error:
            with contextlib.suppress(ValueError):
                self.pid = int(raw[at + len(self.mark) : end])
        del raw[: end + 1]
        self._past[error] = True
        if not error:
            self.begun.set()
            self.changed.set()
        return bytes(raw)

    def eof_received(self) -> bool:
        self.eof = True
        self.changed.set()
        return False

    def exit_status_received(self, status: int) -> None:
        self.status, self.ended = status, True
        self.changed.set()

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.signalled = self.ended = True
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost, self.closed = exc, True
        self.begun.set()
        self.room.set()
        self.changed.set()

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, the session has closed or an error occurred."""
        while not (condition() or self.closed or self.failure is not None):
            self.changed.clear()
            await self.changed.wait()


async def run_script(
    link: SshLink,
    script: str,
    input: bytes | AsyncIterator[bytes] = b"",
    *,
    timeout_s: float,
    limit_bytes: int,
    sink: Sink | None = None,
) -> ScriptResult:
    """Run a script at the target to its end. See Transport.run. sink: receives its output instead, and may raise."""
    text = require_script(script).encode(errors="surrogateescape")
    async with link.sessions:
        channel, here = await start_command(link, lambda: _Session(limit_bytes, sink), COMMAND)
        link.running += 1
        try:
            async with asyncio.timeout(timeout_s):
                await _feed(channel, here, text, input)
                done = await _finish(link, here)
            channel.close()
            # The server counts the session until it has closed its side.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await channel.wait_closed()
            return done
        except BaseException as error:
            pid = None if here.ended or here.closed else here.pid
            channel.abort()
            if pid is not None and link.alive:
                # In another task: this one may be cancelled, and the caller must not wait for it.
                task = asyncio.get_running_loop().create_task(_end(link, pid))
                _ending.add(task)
                task.add_done_callback(_ending.discard)
            raise _failure(link, here, error, timeout_s, limit_bytes) from None
        finally:
            link.running -= 1
            link.ended.set()


_ending: set[asyncio.Task[None]] = set()


async def _feed(channel: Any, here: _Session, text: bytes, input: bytes | AsyncIterator[bytes]) -> None:
    """Send the script, and after it has started, its input."""
    # A script may end without reading all of its input.
    with contextlib.suppress(OSError):
        channel.write(here.mark + b" %d\n" % len(text) + text)
        if input != b"":
            await here.begun.wait()
            async for piece in _split_input(input):
                await here.room.wait()
                if here.closed or here.ended or here.failure is not None:
                    return
                channel.write(piece)
        channel.write_eof()


async def _split_input(input: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(input, bytes):
        for start in range(0, len(input), CHUNK):
            yield input[start : start + CHUNK]
        return
    async for piece in input:
        yield piece


async def _finish(link: SshLink, here: _Session) -> ScriptResult:
    """Wait for the end of the script and of its output. Returns its result."""
    await here.wait(lambda: here.ended)
    if here.failure is None and not here.closed:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await here.wait(lambda: here.eof)
    if here.failure is not None:
        raise here.failure
    if not here.ended:
        raise here.lost or asyncssh.ConnectionLost("Connection lost")
    if not here.began:
        raise Refused(
            f"The account on {link.host} cannot run commands"
            + (f". Its login shell printed: {here.said()}." if here.said() else ".")
            + " Check its login shell, the shell's startup files, and whether the key is restricted to another command."
        )
    return ScriptResult(None if here.signalled else here.status, here.stream(False), here.stream(True))


def _failure(link: SshLink, here: _Session, error: BaseException, timeout_s: float, limit: int) -> BaseException:
    if isinstance(error, OverflowError) and error is here.failure:
        return output_limit_error(link.host, limit)
    if isinstance(error, TimeoutError):
        hint = "" if here.began else " It did not start. Check whether startup files of the shell block."
        return timeout_error(link.host, timeout_s, hint)
    if isinstance(error, ssh_errors.CONNECTION_LOST):
        discard_link(link)
        return ssh_errors.connection_lost_error(error, link.host, "while a script ran there")
    return error


async def _end(link: SshLink, pid: int) -> None:
    """End a script after a timeout or an error. sshd made it a session leader, so its pid is also its process group."""
    script = f"pl_pid={pid}; pl_wait_s={CLEANUP_S}\n" + worker_script("transports/terminate.sh")
    with contextlib.suppress(PerfloomError, TimeoutError, asyncssh.Error, OSError):
        await run_script(link, script, timeout_s=END_S, limit_bytes=1 << 16)
