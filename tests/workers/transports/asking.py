"""An SSH server in this process that asks its own questions, like one with one-time codes."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import asyncssh

from perfloom.domain.targets import Ssh
from tests.support.sshd import key, public


@dataclass(frozen=True)
class Asker:
    """A server. rounds: the questions of each round. answers: what is right, by question."""

    port: int

    def ssh(self, **changes: object) -> Ssh:
        """What logs in there."""
        known = f"[127.0.0.1]:{self.port} {public(key('host'))}"
        values = {"user": "me", "port": self.port, "agent": False, "config": False, "password": True}
        return Ssh("127.0.0.1", host_keys=(known,), **(values | changes))  # type: ignore[arg-type]


class _Server(asyncssh.SSHServer):
    def __init__(self, rounds: Sequence[Sequence[str]], answers: dict[str, str], seen: list[str]) -> None:
        self.rounds = list(rounds)
        self.answers = answers
        self.seen = seen
        self.left: list[Sequence[str]] = []

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return False

    def password_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, list[tuple[str, bool]]]:
        self.left = list(self.rounds)
        return "", "Who are you?", "", [(text, False) for text in self.left[0]]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> object:
        asked = self.left.pop(0)
        self.seen.extend(responses)
        if [self.answers[text] for text in asked] != list(responses):
            return False
        if not self.left:
            return True
        return "", "", "", [(text, False) for text in self.left[0]]


async def _process(process: asyncssh.SSHServerProcess[bytes]) -> None:
    given = await process.stdin.read()
    done = await asyncio.to_thread(subprocess.run, ["/bin/sh", "-c", process.command], input=given, capture_output=True)
    process.stdout.write(done.stdout)
    process.exit(done.returncode)


@contextlib.contextmanager
def asker(rounds: Sequence[Sequence[str]], answers: dict[str, str], seen: list[str]) -> Iterator[Asker]:
    """A server for the time of the block. seen: every answer that it was given."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(
            lambda: _Server(rounds, answers, seen),
            "127.0.0.1",
            0,
            server_host_keys=[str(key("host"))],
            process_factory=_process,
            encoding=None,
        )

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield Asker(server.get_port())
    finally:

        async def stop() -> None:
            server.close()
            await server.wait_closed()
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
