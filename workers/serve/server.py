"""`perfloom serve`: private broker, workers, sweep and web server, which start and end together."""

import contextlib
import http.client
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

from perfloom.config import Settings
from perfloom.domain.errors import Conflict, InvalidRequest, PerfloomError, Unavailable
from perfloom.domain.jobs import Executor, JobSpec, JobState
from perfloom.domain.targets import Target
from perfloom.queue import TaskQueue
from perfloom.recording.plan.plan import cancel_script
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job

from ..base.facts_probe import host_name
from ..base.jobfiles import JobFiles
from ..local import supervisor_client
from ..targets import secrets
from ..transports import open_transport
from ..transports.as_user import require_usable
from . import web_server
from .services import (
    REDIS,
    ProcessManager,
    lock_server,
    settings_descriptor,
    start_redis,
    web_child,
    worker_children,
)
from .sweep import Sweeper

START_TIMEOUT_S = 30.0
END_RECORDINGS_S = 8.0
ANY_ADDRESS = ("0.0.0.0", "::")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunningServer:
    """A running server. settings: with the actual port."""

    settings: Settings
    processes: ProcessManager
    store: Store

    def link(self, path: str) -> str:
        """The URL of a page, with a generated token. A configured token is known to the user and left out, because
        others may read the log of a server."""
        settings = self.settings
        if settings.host in ANY_ADDRESS:
            settings = replace(settings, host=socket.gethostname())
        token = "" if settings.configured_token else f"?token={settings.token}"
        return f"http://{web_server.address(settings)}{path}{token}"

    def wait(self) -> None:
        """Wait for a signal to end."""
        self.processes.run()

    def record(self, spec: JobSpec, watch: Callable[[Job], None]) -> Job | None:
        """Submit a recording and wait for its end. watch: called for each new state. None after a signal to end."""
        job = self.store.jobs.create("record", spec.to_json(), spec.name)
        queue = TaskQueue(self.settings, self.store)
        queue.enqueue_job(job.id)
        queue.close()
        seen: set[JobState] = set()

        def ended() -> bool:
            now = self.store.jobs.get(job.id)
            if now.state not in seen:
                seen.add(now.state)
                watch(now)
            return now.state.final

        self.processes.run(ended)
        return None if self.processes.stop_signals else self.store.jobs.get(job.id)


@contextlib.contextmanager
def run_server(settings: Settings) -> Iterator[RunningServer]:
    """Start all processes. At the end of the block all have ended, also recordings. Raises PerfloomError.

    If this process is killed, its children end too, but recordings continue: the next server polls them.
    """
    require_token(settings)
    if settings.run_as:
        require_usable(settings.run_as)
    store = open_store(settings)
    process_manager = ProcessManager()
    with lock_server(settings, store.database) as locks, web_server.listen(settings) as listening:
        settings = trust_own_name(replace(settings, port=listening.getsockname()[1]))
        assert settings.token  # Generate it before several processes read it.
        process_manager.handle_signals()
        key, descriptor = secrets.make_key(store), settings_descriptor(settings)
        workers = worker_children(settings, key=key, descriptor=descriptor)

        def working() -> bool:
            try:
                locks.check()
            except Conflict as error:
                process_manager.fail(error)
                return False
            return all(child.alive for child in workers)

        sweeper = Sweeper(settings, working)
        try:
            if settings.uses_private_broker:
                start_redis(process_manager, settings)
            for child in [*workers, web_child(settings, listening.fileno(), descriptor)]:
                process_manager.add(child)
            sweeper.start()
            _wait_for_pages(process_manager, settings)
            locks.write_url(f"http://{web_server.address(settings)}/")
            yield RunningServer(settings, process_manager, store)
        finally:
            process_manager.stop([child.name for child in process_manager.children if child.name != REDIS])
            sweeper.stop()
            # If another server took over the database, the recordings in it belong to that one.
            if process_manager.failure is None:
                end_recordings(store)
            process_manager.stop()
            os.close(key)
            os.close(descriptor)
            store.close()


def run_workers(settings: Settings, queues: Sequence[str], report: Callable[[str], None]) -> None:
    """Run workers for these queues until a signal to end. report: gets messages for the user. Raises Unavailable
    without a broker."""
    if settings.run_as:
        require_usable(settings.run_as)
    open_store(settings).close()
    queue = TaskQueue(settings)
    if not queue.is_reachable():
        if settings.uses_private_broker:
            raise Unavailable(
                "The message broker does not respond. Start “perfloom serve”, which has its own, or set "
                "PERFLOOM_BROKER_URL to a Redis server."
            )
        report("The message broker does not respond yet. The worker waits for it.")
    queue.close()
    process_manager = ProcessManager()
    process_manager.handle_signals()
    key = None
    if "target" in queues:
        with contextlib.closing(open_store(settings, migrate=False)) as store:
            key = secrets.make_key(store)
    descriptor = settings_descriptor(settings)
    children = worker_children(settings, queues, key, descriptor)
    sweeper = Sweeper(settings, lambda: all(child.alive for child in children), announce="launch" in queues)
    try:
        for child in children:
            process_manager.add(child)
        sweeper.start()
        report(f"Working on {' and '.join(queues)} for {settings.data}")
        process_manager.run()
    finally:
        sweeper.stop()
        process_manager.stop()
        os.close(descriptor)
        if key is not None:
            os.close(key)


def require_token(settings: Settings) -> None:
    """Raise InvalidRequest if the server would be reachable from other machines without a configured token."""
    if _loopback(settings.host) or settings.configured_token:
        return
    raise InvalidRequest(
        f"{settings.host} can be reached from other machines. Set a token first, with at least 32 letters and digits: "
        "export PERFLOOM_TOKEN=$(openssl rand -hex 24) — or listen on 127.0.0.1 and use an SSH tunnel.",
        "host",
    )


def trust_own_name(settings: Settings) -> Settings:
    """The settings; if the server listens on every address, with this machine's name as a trusted host, because the
    printed link contains it."""
    if settings.host not in ANY_ADDRESS:
        return settings
    return replace(settings, trusted_hosts=tuple(dict.fromkeys((*settings.trusted_hosts, socket.gethostname()))))


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _wait_for_pages(process_manager: ProcessManager, settings: Settings) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    while not process_manager.stop_signals:
        connection = http.client.HTTPConnection(host.strip("[]"), settings.port, timeout=2)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status < 500:
                return
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        if time.monotonic() > end:
            raise Unavailable("The web server does not respond. Its messages above may show why.")
        process_manager.restart_ended()
        time.sleep(0.05)


def _end_scripts(store: Store, jobs: Sequence[Job]) -> None:
    """End jobs that scripts run on this machine. Jobs of a batch system continue."""
    for job in jobs:
        if store.targets.get(job.target).target.is_local and job.details.directory:
            with contextlib.suppress(PerfloomError):
                with open_transport(Target(job.target), run_as=store.settings.run_as) as transport:
                    transport.run(cancel_script(job.details.directory, gently=True))


def end_recordings(store: Store) -> None:
    """End the recordings on this machine. The next start reads what they recorded."""
    try:
        jobs = store.jobs.list(states=(JobState.STAGING, JobState.RUNNING), kind="record")
    except PerfloomError as error:
        log.warning("recordings may continue: %s", error)
        return
    here = [job for job in jobs if job.host == host_name()]
    _end_scripts(store, here)
    supervised = [JobFiles(store.jobs.directory(job.id)) for job in here if job.details.executor is Executor.SUPERVISOR]
    for files in supervised:
        supervisor_client.request_stop(files)
    end = time.monotonic() + END_RECORDINGS_S
    while any(supervisor_client.read_status(files).alive for files in supervised):
        if time.monotonic() > end:
            end += END_RECORDINGS_S
            for files in supervised:
                supervisor_client.request_stop(files, at_once=True)
        time.sleep(0.05)
