"""The SSH connections of this process: opened when needed, reused for a while, discarded when broken.

asyncssh runs in one thread with one event loop, created at the first use in each process, so that a forked process has
its own. Other threads call `run_in_loop`, which waits.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import asyncssh

from perfloom.domain.errors import Prompt, Unreachable
from perfloom.domain.targets import KEEP_HOURS, Ssh

from ..base.secret_provider import SecretProvider
from . import hostkeys, ssh_errors
from .hops import Hop, resolve_hops
from .login import HostSecrets, Login
from .proxies import ProxyCommand

IDLE_S = 300.0
"""Idle time after which a connection is closed."""
IDLE_WITH_SECRET_S = KEEP_HOURS * 3600.0
"""The same for a shared connection that needed a secret: opening it again would need a user."""
IDLE_OWNED_S = 900.0
"""The same for a connection with an owner, in case it was not closed when the owner ended."""
KEEPALIVE_S = 6.0
KEEPALIVE_COUNT = 3
"""Interval of keepalive messages on a silent connection, and how many may remain unanswered. After one more interval,
that is 24 s, the connection counts as broken."""
SESSIONS = 8
"""Concurrent sessions of one connection; others wait. sshd allows 10 by default (MaxSessions)."""
SESSION_RETRY_S = (0.1, 0.3, 1.0, 3.0)
"""Pauses before a refused session is retried: an earlier one may be about to end."""
CALLBACK_S = 0.25

T = TypeVar("T")
log = logging.getLogger(__name__)
# asyncssh logs each connection and channel.
logging.getLogger("asyncssh").setLevel(logging.ERROR)


class LinkBroken(Unreachable):
    """A connection was broken before it was used. fresh: whether it was new."""

    def __init__(self, message: str, fresh: bool) -> None:
        super().__init__(message)
        self.fresh = fresh


@dataclass(eq=False)
class SshLink:
    """A link to a target: the connections to its jump hosts and, last, to the target. used_secrets: prompts of the
    secrets that it used. owner: the only one that may use it, empty for a shared link."""

    ssh: Ssh
    hops: tuple[Hop, ...]
    owner: str = ""
    connections: list[asyncssh.SSHClientConnection] = field(default_factory=list)
    used_secrets: list[Prompt] = field(default_factory=list)
    users: int = 0
    used: bool = False
    sessions: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SESSIONS))
    running: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    sftp: Any = None
    copying: int = 0
    sftp_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: asyncio.TimerHandle | None = None
    proxies: list[ProxyCommand] = field(default_factory=list)

    @property
    def target(self) -> asyncssh.SSHClientConnection:
        """The connection to the target itself."""
        return self.connections[-1]

    @property
    def host(self) -> str:
        """The target's name for users."""
        return self.hops[-1].title

    @property
    def alive(self) -> bool:
        """Whether it is open, as far as is known."""
        return bool(self.connections) and not any(connection.is_closed() for connection in self.connections)

    def abort(self) -> None:
        """Close it immediately."""
        if self.closing is not None:
            self.closing.cancel()
        for connection in reversed(self.connections):
            connection.abort()
        for proxy in self.proxies:
            proxy.end()


class _EventLoop:
    """The event loop of this process and its connections."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.links: dict[tuple[Ssh, str], SshLink] = {}
        self.locks: dict[Ssh, asyncio.Lock] = {}
        self.thread = threading.Thread(target=self._run, name="ssh", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def close(self) -> None:
        """Close all connections and end the thread."""

        async def end() -> None:
            links = list(self.links.values())
            self.links.clear()
            for link in links:
                link.abort()
            for link in links:
                for connection in link.connections:
                    with contextlib.suppress(Exception):
                        await asyncio.wait_for(connection.wait_closed(), 1.0)
            rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self.loop.shutdown_default_executor()

        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), self.loop).result(5.0)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(2.0)
        if not self.thread.is_alive():
            self.loop.close()


_event_loop: _EventLoop | None = None
_event_loop_lock = threading.Lock()


def _forget() -> None:
    """A forked child has the parent's memory but not its threads; it must not use the parent's connections."""
    global _event_loop, _event_loop_lock
    _event_loop = None
    _event_loop_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _get_event_loop() -> _EventLoop:
    global _event_loop
    with _event_loop_lock:
        if _event_loop is None:
            _event_loop = _EventLoop()
        return _event_loop


def close_all() -> None:
    """Close all connections of this process; the next use opens new ones."""
    global _event_loop
    with _event_loop_lock:
        event_loop, _event_loop = _event_loop, None
    if event_loop is not None:
        event_loop.close()


atexit.register(close_all)


def run_in_loop(coroutine: Coroutine[Any, Any, T], callback: Callable[[], None] | None = None) -> T:
    """Run a coroutine in the event loop and wait for it. callback: called every CALLBACK_S in this thread; an exception
    in it cancels the coroutine."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _get_event_loop().loop)
    try:
        while callback is not None:
            done, _ = concurrent.futures.wait([future], CALLBACK_S)
            if done:
                break
            callback()
        return future.result()
    except BaseException:
        future.cancel()
        raise


@contextlib.asynccontextmanager
async def open_link(ssh: Ssh, secrets: SecretProvider, owner: str = "") -> AsyncIterator[SshLink]:
    """A link to a target, for the duration of the block. Reuses an open one. Raises what `_connect` does.

    owner: the job whose secrets these are. A link that used some is not shared with other owners, unless the target
    keeps connections.
    """
    event_loop = _get_event_loop()
    async with event_loop.locks.setdefault(ssh, asyncio.Lock()):
        link = None
        for key in dict.fromkeys(((ssh, ""), (ssh, owner))):
            found = event_loop.links.get(key)
            if found is not None and not found.alive:
                discard_link(found)
            elif found is not None:
                link = link or found
        if link is None:
            link = await _connect(ssh, secrets)
            link.owner = owner if link.used_secrets and not ssh.keep else ""
            event_loop.links[ssh, link.owner] = link
        if link.closing is not None:
            link.closing.cancel()
            link.closing = None
        link.users += 1
    try:
        yield link
    finally:
        link.users -= 1
        link.used = True
        if not link.users and event_loop.links.get((ssh, link.owner)) is link:
            idle = IDLE_OWNED_S if link.owner else IDLE_WITH_SECRET_S if link.used_secrets else IDLE_S
            link.closing = asyncio.get_running_loop().call_later(idle, discard_link, link)


def is_open(ssh: Ssh) -> bool:
    """Whether this process has an open link to a target, as far as is known."""
    event_loop = _event_loop
    return event_loop is not None and any(link.alive for key, link in list(event_loop.links.items()) if key[0] == ssh)


def is_shared(ssh: Ssh) -> bool:
    """Whether this process has an open shared link to a target."""
    link = None if _event_loop is None else _event_loop.links.get((ssh, ""))
    return link is not None and link.alive


def owners() -> set[str]:
    """The owners of links of this process."""
    return set() if _event_loop is None else {owner for _, owner in list(_event_loop.links) if owner}


def close(matches: Callable[[SshLink], bool]) -> None:
    """Close the matching links of this process."""
    event_loop = _event_loop
    if event_loop is None:
        return

    async def end() -> None:
        for link in list(event_loop.links.values()):
            if matches(link):
                discard_link(link)

    run_in_loop(end())


def discard_link(link: SshLink | None) -> None:
    """Close a link that is broken or idle, so that it is not reused."""
    if link is None:
        return
    event_loop = _get_event_loop()
    if event_loop.links.get((link.ssh, link.owner)) is link:
        del event_loop.links[link.ssh, link.owner]
    link.abort()


async def _connect(ssh: Ssh, secrets: SecretProvider) -> SshLink:
    """Connect to each jump host and the target. Raises Unreachable or Refused, which name the host that failed."""
    hops = await asyncio.get_running_loop().run_in_executor(None, resolve_hops, ssh)
    link = SshLink(ssh, hops)
    try:
        for number, hop in enumerate(hops):
            last = number == len(hops) - 1
            on_the_way = "" if last else f" (a jump host of {hops[-1].title})"
            before = hops[number - 1] if number else None
            await _connect_one(link, hop, secrets, on_the_way, before)
        return link
    except BaseException:
        link.abort()
        raise


async def _connect_one(link: SshLink, hop: Hop, secrets: SecretProvider, on_the_way: str, before: Hop | None) -> None:
    known = await asyncio.get_running_loop().run_in_executor(None, hostkeys.find_known_keys, hop, link.ssh.host_keys)
    asking = HostSecrets(secrets, hop, own=hop is link.hops[-1])
    login = Login(hop, asking, passwords=link.ssh.password)
    more: dict[str, Any] = {}
    proxy = None
    if not hop.algorithms:
        more["server_host_key_algs"] = known.algorithms
    try:
        if hop.proxy_command:
            proxy = ProxyCommand(hop.proxy_command)
            link.proxies.append(proxy)
            more["sock"] = proxy.sock
        async with asking.time_limit(hop.timeout_s):
            connection = await asyncssh.connect(
                hop.name,
                hop.port,
                config=list(hop.config),
                username=hop.user,
                proxy_command=None,
                tunnel=link.connections[-1] if link.connections else None,
                client_factory=lambda: login,
                known_hosts=lambda host, addr, port: known.trusted,
                client_keys=None,
                agent_path=None,
                x509_trusted_certs=None,
                connect_timeout=None,
                login_timeout=0,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVE_COUNT,
                **more,
            )
    except asyncssh.HostKeyNotVerifiable as error:
        if "revoked" in str(error):
            raise hostkeys.revoked_key_error(hop, on_the_way) from None
        raise hostkeys.untrusted_key_error(hop, known, login.shown, on_the_way) from None
    except asyncssh.PermissionDenied:
        raise login.refused(on_the_way, link.used_secrets) from None
    except (OSError, ValueError, asyncssh.Error) as error:
        if ssh_errors.is_too_many_tries(error):
            raise login.refused(on_the_way, link.used_secrets, hung_up=True) from None
        raise ssh_errors.connect_error(error, hop, on_the_way, before, proxy.stderr_text() if proxy else "") from None
    finally:
        await login.done()
    link.connections.append(connection)
    link.used_secrets += [*asking.sent.values(), *asking.once.values()]


def link_broken(link: SshLink, error: BaseException) -> Unreachable:
    """The error for a link that was found broken before its use. Discards the link."""
    discard_link(link)
    return LinkBroken(
        ssh_errors.connection_lost_error(error, link.host, "before anything was done").message, fresh=not link.used
    )


async def open_session_on(link: SshLink, open_it: Callable[[], Awaitable[T]]) -> T:
    """Call `open_it`, which opens a session on the link. Retries while the host allows no more sessions. Raises
    Unreachable if it failed for good; then nothing was started."""
    pauses = list(SESSION_RETRY_S)
    while True:
        link.ended.clear()
        try:
            return await open_it()
        except asyncssh.ChannelOpenError as error:
            if not link.alive:
                raise link_broken(link, error) from None
            if not link.running and not pauses:
                raise Unreachable(
                    f"{link.host} refused a session ({error.reason}). Its sshd_config may allow none (MaxSessions), or "
                    "it cannot start more processes. Perfloom retries."
                ) from None
        except ssh_errors.CONNECTION_LOST as error:
            if isinstance(error, asyncssh.SFTPError) and link.alive:
                raise  # Only the program of the session ended.
            raise link_broken(link, error) from None
        if link.running:
            # The host allows fewer than usual: wait for a session of this link to end.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(link.ended.wait(), SESSION_RETRY_S[-1])
        elif link.sftp and not link.copying:
            # The idle SFTP client occupies a session.
            link.sftp.exit()
            link.sftp = None
            await asyncio.sleep(SESSION_RETRY_S[0])
        else:
            await asyncio.sleep(pauses.pop(0))


async def start_command(link: SshLink, factory: Callable[[], Any], command: str) -> tuple[Any, Any]:
    """Start a command at the target. Raises what `open_session_on` does."""
    return await open_session_on(
        link,
        lambda: link.target.create_session(
            factory, command, encoding=None, request_pty=False, send_env=None, x11_forwarding=False
        ),
    )
