"""Real servers for tests: started in temporary directories, on Unix sockets, and ended with the test run.

Each is a direct child that the kernel ends when the test process dies, however that happens, so that a killed run
leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests.support.parts import require


@dataclass(frozen=True)
class OrdinaryUser:
    """An unprivileged user: `nobody` if the tests run as root (as in CI), else the user who runs them."""

    uid: int
    gid: int
    name: str
    home: Path
    """Their home directory, empty at first."""

    def command(self, *argv: str | Path, death_signal: str = "KILL") -> list[str]:
        """The command line that runs `argv` as this user, ended by a signal when its parent dies."""
        prefix = ["setpriv", "--pdeathsig", death_signal]
        if os.geteuid() == 0:
            # If Python or the checkout is in root's home, only the directories on its path become accessible.
            more = "" if _open_to_all(Path(sys.executable).resolve(), Path(__file__)) else ",+dac_read_search"
            prefix += [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", f"--inh-caps=-all{more}"]
            prefix += [f"--ambient-caps=-all{more}"]
        return [*prefix, "--", *map(str, argv)]

    def environment(self) -> dict[str, str]:
        """The environment of this test run with the user's own HOME."""
        return {**os.environ, "HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}


def _open_to_all(*files: Path) -> bool:
    """Whether all users can enter the directories of these files."""
    return all(folder.stat().st_mode & stat.S_IXOTH for file in files for folder in file.parents)


@contextlib.contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """An unprivileged user with a home directory that exists for the time of the block.

    The home directory is directly in /tmp: pytest's own directories are accessible to root only, and the path of a Unix
    socket may not be longer than 107 bytes.
    """
    entry = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    home = Path(tempfile.mkdtemp(prefix="pl-", dir="/tmp"))
    try:
        os.chown(home, entry.pw_uid, entry.pw_gid)
        yield OrdinaryUser(entry.pw_uid, entry.pw_gid, entry.pw_name, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def wait_until(ready: Callable[[], object], server: subprocess.Popen[bytes], log: Path, limit_s: float) -> None:
    """Return when `ready` raises no error; fail with the end of the log when the server ends or after a time limit."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            ready()
        except (psycopg.OperationalError, redis.RedisError) as error:
            if server.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{server.args!r} is not up: {error}\n{tail}") from error
            time.sleep(0.02)
        else:
            return


@contextlib.contextmanager
def running(argv: list[str], log: Path, stop: signal.Signals, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A server process for the time of the block, then stopped by a signal and waited for."""
    with log.open("wb") as output:
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)  # type: ignore[call-overload]
    try:
        yield server
    finally:
        server.send_signal(stop)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@dataclass(frozen=True)
class RedisServer:
    """A private Redis server."""

    socket: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """The URL as Celery wants it, for broker and result backend."""
        return f"redis+socket://{self.socket}"

    def client(self) -> redis.Redis:
        """A connection; close it."""
        return redis.Redis(unix_socket_path=str(self.socket))


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """A Redis server with its socket and its files in a directory (whose path must be short)."""
    program = require("redis")
    socket = folder / "r.sock"
    argv = [program, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--save", "", "--dir", folder]
    died = ["setpriv", "--pdeathsig", "KILL", "--"]
    with running([*died, *map(str, argv)], folder / "redis.log", signal.SIGTERM) as process:
        server = RedisServer(socket, process)
        with contextlib.closing(server.client()) as client:
            wait_until(client.ping, process, folder / "redis.log", 20)
        yield server


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """A PostgreSQL server; yields the URL of its database `t`, user `app`, without a password."""
    with ordinary_user() as user:
        make_postgres(user)
        with postgres_running(user) as url:
            with psycopg.connect(f"host={user.home} user=app dbname=postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE t")
            yield url


def make_postgres(user: OrdinaryUser) -> None:
    """A PostgreSQL cluster in the home of an ordinary user, since initdb refuses root."""
    binaries = require("postgres").resolve().parent
    options = ["-U", "app", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    made = subprocess.run(
        user.command(binaries / "initdb", "-D", user.home / "data", *options),
        cwd="/",
        env=user.environment(),
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        raise RuntimeError(f"initdb failed: {made.stderr or made.stdout}")


@contextlib.contextmanager
def postgres_running(user: OrdinaryUser) -> Iterator[str]:
    """The server of such a cluster for the time of the block; yields the URL of its database `t`."""
    log = user.home / "log"
    settings = ["listen_addresses=", f"unix_socket_directories={user.home}", "fsync=off", "max_connections=50"]
    program = require("postgres").resolve().with_name("postgres")
    argv = [program, "-D", user.home / "data", *(word for s in settings for word in ("-c", s))]
    # PostgreSQL's SIGINT is a fast stop, its SIGQUIT one that leaves nothing running.
    command = user.command(*argv, death_signal="QUIT")
    with running(command, log, signal.SIGINT, cwd="/", env=user.environment()) as process:
        where = f"host={user.home} user=app dbname=postgres"
        wait_until(lambda: psycopg.connect(where).close(), process, log, 30)
        yield f"postgresql+psycopg://app@/t?host={user.home}"


@contextlib.contextmanager
def postgres_database(server_url: str, name: str) -> Iterator[str]:
    """A new empty database on a server, dropped at the end; yields its URL."""
    host = server_url.partition("?host=")[2]
    with psycopg.connect(f"host={host} user=app dbname=postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
        try:
            yield f"postgresql+psycopg://app@/{name}?host={host}"
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[arg-type]
