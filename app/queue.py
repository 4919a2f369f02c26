"""Notifications between web and workers: the name of a task and an id, nothing more.

The database is authoritative. The workers' sweep sends lost notifications again, so a broker that is down, emptied or
slow delays jobs and loses none.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .config import Settings
from .domain.errors import PerfloomError
from .domain.jobs import Executor, JobState
from .store import Store, open_store
from .store.jobs import POLLED_STATES, Job

if TYPE_CHECKING:
    from celery import Celery

    from .recording.recorders.preflight import PreflightFinding

LAUNCH_QUEUE = "perfloom.launch"
"""Short steps: claim, start, poll, cancel."""
TARGET_QUEUE = "perfloom.target"
"""Steps that wait for other machines: stage, start, poll, collect, check."""
READ_QUEUE = "perfloom.read"
"""Steps whose duration depends on the size of recordings."""

LAUNCH_TASK = "perfloom.launch"
READ_TASK = "perfloom.read"
TARGET_TASK = "perfloom.target"
POLL_TASK = "perfloom.poll"
CHECK_TASK = "perfloom.check"
TARGET_CHECK_TASK = "perfloom.target-check"
RECOVERY_TASK = "perfloom.tidy"
CODE_TASK = "perfloom.code"
QUEUES = {
    LAUNCH_TASK: LAUNCH_QUEUE,
    CHECK_TASK: LAUNCH_QUEUE,
    TARGET_TASK: TARGET_QUEUE,
    POLL_TASK: TARGET_QUEUE,
    TARGET_CHECK_TASK: TARGET_QUEUE,
    CODE_TASK: TARGET_QUEUE,
    READ_TASK: READ_QUEUE,
    RECOVERY_TASK: READ_QUEUE,
}

_POLL_S = 0.03
_CONNECT_S = 1.0

log = logging.getLogger(__name__)


def celery_app(settings: Settings, *, retry: bool = True) -> "Celery":
    """The Celery application of web and workers, with the same broker, names and queues.

    Messages are acknowledged after their task, so those of a killed worker are delivered again. A message may be
    delivered again while its task still runs, which every task permits. retry: a worker waits for an unreachable
    broker; a process that only sends fails fast.
    """
    # Imported here, because commands without a worker to notify do not need it.
    from celery import Celery

    app = Celery("perfloom", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_acks_on_failure_or_timeout=True,
        task_default_queue=LAUNCH_QUEUE,
        task_create_missing_queues=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": 3600,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
            "socket_connect_timeout": _CONNECT_S,
            "socket_keepalive": True,
        },
    )
    if not retry:
        at_once = {"max_retries": 0, "interval_start": 0, "interval_step": 0, "connect_retries_timeout": _CONNECT_S}
        app.conf.broker_transport_options |= at_once
    return app


class TaskQueue:
    """Notifies workers. Thread-safe; connects at its first use."""

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self._settings = settings
        self._store = store
        self._app: Celery | None = None
        self._lock = threading.Lock()

    def enqueue_job(self, job_id: str) -> bool:
        """Ask a worker to take the next step of a recording. False if the broker cannot be reached now."""
        return self._send(LAUNCH_TASK, job_id)

    def enqueue_read(self, job_id: str) -> bool:
        """Ask a worker to read the files of a job. False if the broker cannot be reached now."""
        return self._send(READ_TASK, job_id)

    def enqueue_recovery(self) -> bool:
        """Ask a worker to clean up after crashes, and to compress originals. False if the broker cannot be reached."""
        return self._send(RECOVERY_TASK)

    def enqueue_poll(self, target: str) -> bool:
        """Ask a worker to poll all jobs of a target. False if the broker cannot be reached."""
        return self._send(POLL_TASK, target)

    def enqueue_target_check(self, check_id: str) -> bool:
        """Ask a worker to check a target. False if the broker cannot be reached."""
        return self._send(TARGET_CHECK_TASK, check_id)

    def enqueue_code(self, id: str) -> bool:
        """Ask a worker to answer the request for files of the machine code of a result. False if the broker cannot be
        reached."""
        return self._send(CODE_TASK, id)

    def enqueue(self, job: Job) -> bool:
        """Send the task of the present step of `job`."""
        task = next_task(job)
        return self._send(task, job.target if task == POLL_TASK else job.id)

    def is_reachable(self) -> bool:
        """Whether the broker can be reached now."""
        try:
            with self._celery().connection_for_write() as connection:
                connection.ensure_connection(max_retries=0, timeout=_CONNECT_S)
            return True
        except Exception:
            return False

    def has_worker(self, host: str | None = None) -> bool:
        """Whether a worker (of that host) was active recently and its broker responds."""
        alive = self._open_store().hosts.list_alive()
        return any(host in (None, one.name) for one in alive) and self.is_reachable()

    def check_job(self, spec_json: Mapping[str, Any], timeout_s: float) -> "list[PreflightFinding] | None":
        """The worker's findings about a JobSpec: whether command, directory and files exist. The question may identify
        the server in `server`.

        None if no worker responds within `timeout_s`.
        """
        checks = self._open_store().checks
        if not self._open_store().hosts.list_alive():
            return None
        # Imported here, because imports of files need no adapters.
        from .recording.recorders.preflight import PreflightFinding

        end = time.monotonic() + timeout_s
        id = checks.ask(spec_json).id
        if not self._send(CHECK_TASK, id):
            return None
        while time.monotonic() < end:
            time.sleep(_POLL_S)
            try:
                answer = checks.get(id).answer
            except PerfloomError:
                return None
            if answer is not None:
                return [PreflightFinding.from_json(finding) for finding in answer["findings"]]
        return None

    def close(self) -> None:
        """Close connections to the broker, and the store if this object opened it."""
        with self._lock:
            if self._app is not None:
                self._app.close()
                self._app = None

    def _send(self, task: str, *arguments: str) -> bool:
        try:
            self._celery().send_task(
                task, args=arguments, queue=QUEUES[task], retry=False, ignore_result=True, expires=600
            )
        except Exception as error:  # All errors of the client mean that the broker cannot be reached.
            log.warning("the broker does not respond (%s); the sweep will enqueue %s", error, arguments or task)
            return False
        return True

    def _celery(self) -> "Celery":
        with self._lock:
            if self._app is None:
                self._app = celery_app(self._settings, retry=False)
            return self._app

    def _open_store(self) -> Store:
        with self._lock:
            if self._store is None:
                self._store = open_store(self._settings, migrate=False)
            return self._store


def next_task(job: Job) -> str:
    """The task that takes the present step of `job`."""
    if job.kind == "import" or job.state is JobState.READING:
        return READ_TASK
    if job.details.executor is Executor.SCRIPTS and job.state is not JobState.QUEUED:
        return POLL_TASK if job.state in POLLED_STATES else TARGET_TASK
    return READ_TASK if job.state is JobState.COLLECTING else LAUNCH_TASK
