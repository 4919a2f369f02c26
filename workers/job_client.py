"""`perfloom record` and other commands about jobs: submit a job and wait for its end.

A running worker takes the steps; without one this process does.
"""

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

from perfloom.config import Settings
from perfloom.domain.errors import Conflict, JobFailed, PerfloomError
from perfloom.domain.jobs import Executor, JobDetails, JobState
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store
from perfloom.store.ids import new_id
from perfloom.store.jobs import Job

from . import job_runner
from .base.context import JobContext, open_context
from .base.facts_probe import host_name
from .base.jobfiles import JobFiles, save_environment
from .base.secret_provider import SecretProvider, no_secrets
from .code_reading import BY_COMMAND
from .local import supervisor_client
from .serve.secret_prompts import SecretPrompter, TerminalSecrets

if TYPE_CHECKING:
    from perfloom.domain.jobs import JobSpec

    from .preflight import FindingCallback

POLL_S = 0.1
WORKER_TIMEOUT_S = 30.0
"""After this time without a heartbeat of the worker, this process takes the steps."""
RUNNER_CHECK_S = 1.0
"""How often a command that waits makes sure that something runs the job."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class OutputTail:
    """Copies what the program prints, as it comes, from the job's log to a stream."""

    def __init__(self, files: JobFiles, to: BinaryIO) -> None:
        self._path = files.output
        self._to = to
        self._offset = 0

    def copy(self) -> None:
        """Copy the output since the last call. The middle of long output is omitted, as in the log."""
        try:
            with open(self._path, "rb") as log:
                log.seek(self._offset)
                while data := log.read(1 << 16):
                    # After this position the file is rewritten while the program prints; its end is copied when the
                    # program has ended.
                    room = max(0, supervisor_client.HEAD_BYTES - self._offset)
                    self._to.write(data[:room])
                    self._offset += min(len(data), room)
                    if len(data) >= room:
                        break
            self._to.flush()
        except FileNotFoundError:
            return

    def finish(self) -> None:
        """Copy the rest, when no process writes to the log any more."""
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as log:
            log.seek(self._offset)
            while data := log.read(1 << 16):
                self._to.write(data)
                self._offset += len(data)
            self._to.flush()


@dataclass
class CancelRequests:
    """How often a person has requested the end."""

    count: int = 0
    forwarded: int = 0


def record(
    settings: Settings,
    spec: "JobSpec",
    name: str,
    watch: Callable[[Job], None],
    *,
    output: BinaryIO | None = None,
    ask: SecretProvider = no_secrets,
    say: "FindingCallback | None" = None,
) -> Job:
    """Record, wait, and return the job in its final state.

    watch: called whenever state or progress change. A first Ctrl-C (or SIGTERM) ends the program and keeps what was
    recorded; a second one drops it. A program on this machine gets this process's environment. output: what it prints
    is copied to it; by default standard error. ask: prompts for the passwords of a target, in another thread. say: gets
    the warnings and hints of the preflight. Raises NotFound if there is no such target, and InvalidRequest if the
    preflight finds an error.
    """
    with _open_store_and_queue(settings) as (store, queue):
        context = open_context(settings, store, ends_with_job=True)
        files, host = _prepare_recording(context, spec, say)
        with _count_signals() as cancel_requests:
            job, by_worker = _submit_recording(store, queue, spec, name, files, host)
            tail = OutputTail(files, output or sys.stderr.buffer)
            return _follow(context, queue, job, files, cancel_requests, watch, tail, by_worker, host, ask)


def submit(settings: Settings, spec: "JobSpec", name: str, *, say: "FindingCallback | None" = None) -> Job:
    """Submit a recording and return its job. A worker runs it, or a process that outlives this one. Arguments and
    errors: as for `record`."""
    with _open_store_and_queue(settings) as (store, queue):
        files, host = _prepare_recording(open_context(settings, store), spec, say)
        job, by_worker = _submit_recording(store, queue, spec, name, files, host)
        if not by_worker:
            job_runner.start_runner(settings, files, job.id)
        return job


def wait(
    settings: Settings,
    job_id: str,
    watch: Callable[[Job], None] = lambda job: None,
    *,
    output: BinaryIO | None = None,
    ask: SecretProvider = no_secrets,
) -> Job:
    """Wait for the end of a job, and start a process that runs it if none does. Returns the job.

    watch: called whenever state or progress change. output: what the program prints is copied to it. ask: asked for
    the secrets of a target, in another thread. Raises NotFound, and JobFailed where a secret is needed and not given.
    """
    with _open_store_and_queue(settings) as (store, queue):
        job, seen, checked_at = store.jobs.get(job_id), None, -math.inf
        files = JobFiles(store.jobs.directory(job_id))
        tail = None if output is None else OutputTail(files, output)
        secrets, prompter = TerminalSecrets(ask), SecretPrompter(store, ask)
        context = replace(open_context(settings, store, ends_with_job=True), secret_provider=secrets)
        own: threading.Thread | None = None
        while not job.state.final:
            if tail is not None:
                tail.copy()
            if (now := (job.state, job.progress_text, job.progress)) != seen:
                seen = now
                watch(job)
            if job.details.needed_secrets and (secrets.declined or prompter.declined):
                raise JobFailed(f"{job.progress_text} Wait for it on a terminal, or use a key that an agent holds.")
            if own is None or not own.is_alive():
                if time.monotonic() - checked_at > RUNNER_CHECK_S:
                    checked_at = time.monotonic()
                    by_worker = queue.has_worker()
                    if not by_worker and job.details.needed_secrets and job_runner.may_run(job):
                        own = _begin_own_steps(context, job_id)
                    elif not by_worker:
                        job_runner.resume_jobs(settings, store, queue, [job])
                if by_worker and prompter.prompt_for(job):
                    queue.enqueue(job)
            time.sleep(POLL_S)
            job = store.jobs.get(job_id)
        if own is not None:
            own.join()
        watch(job)
        if tail is not None:
            tail.finish()
        return job


def cancel(settings: Settings, job_ids: Sequence[str]) -> None:
    """Request the end of jobs. What was recorded so far is kept; requested again, it is dropped.

    Raises NotFound, and Conflict for a job that has ended, before any is cancelled.
    """
    with _open_store_and_queue(settings) as (store, queue):
        jobs = [store.jobs.get(id) for id in job_ids]
        for job in jobs:
            if job.state.final:
                raise Conflict(f"Job {job.id} has ended ({job.state}); there is nothing to cancel.")
        for job in jobs:
            files = JobFiles(store.jobs.directory(job.id))
            store.jobs.request_cancel(job.id)
            if job.cancel_requested and job.host == host_name():
                _kill_program(job, files)
        jobs = [store.jobs.get(id) for id in job_ids]
        if not queue.has_worker():
            job_runner.resume_jobs(settings, store, queue, jobs)
            return
        for job in jobs:
            queue.enqueue(job)


def write_output(settings: Settings, job_id: str, output: BinaryIO) -> None:
    """Write what the program of a job has printed. Raises NotFound."""
    with _open_store_and_queue(settings) as (store, _):
        OutputTail(JobFiles(store.jobs.directory(store.jobs.get(job_id).id)), output).finish()


@contextlib.contextmanager
def _open_store_and_queue(settings: Settings) -> Iterator[tuple[Store, TaskQueue]]:
    """The database and the queue, closed at the end."""
    store = open_store(settings)
    queue = TaskQueue(settings, store)
    try:
        yield store, queue
    finally:
        queue.close()
        store.close()


def _prepare_recording(
    context: JobContext, spec: "JobSpec", say: "FindingCallback | None"
) -> tuple[JobFiles, str | None]:
    """Check a recording. Returns the files of its job, and the host that has to run it (None: any)."""
    # Imported here, because imports of files do not need it.
    from . import preflight

    target = context.store.targets.get(spec.target)
    preflight.raise_for_errors(context, spec, target, say or (lambda finding: None))
    files = JobFiles(context.store.jobs.directory(new_id()))
    if target.target.ssh is not None:
        # A job at another machine may be run from any host.
        return files, None
    save_environment(files, os.environ)
    return files, host_name()


def _submit_recording(
    store: Store, queue: TaskQueue, spec: "JobSpec", name: str, files: JobFiles, host: str | None
) -> tuple[Job, bool]:
    """The new job, and whether a worker runs it."""
    by_worker = queue.has_worker(host)
    id, details = files.root.name, JobDetails(runner_host=host_name())
    # Not due before a worker is notified: otherwise a worker of another user could claim it first.
    job = store.jobs.create("record", spec.to_json(), name, id=id, details=details)
    if by_worker:
        queue.enqueue_job(id)
    return job, by_worker


def run_import(
    settings: Settings,
    job_files: JobFiles,
    file_names: Sequence[str],
    name: str,
    watch: Callable[[Job], None],
    *,
    clock: str,
    leave_to_worker: Callable[[], None],
    submitted: Callable[[], object],
) -> Job:
    """Import files that are in the directory of a job, or links there. Wait, and return the job in its final state.

    leave_to_worker: called if a worker will read them. submitted: called when the job exists. Other arguments and
    errors: see `import_client.import_files`.
    """
    with _open_store_and_queue(settings) as (store, queue):
        id = job_files.root.name
        if by_worker := queue.has_worker(host_name()):
            leave_to_worker()
        with _count_signals() as cancel_requests:
            spec: dict[str, Any] = {"files": list(file_names), BY_COMMAND: True} | ({"clock": clock} if clock else {})
            job = store.jobs.create("import", spec, name, id=id, details=JobDetails(runner_host=host_name()))
            submitted()
            if by_worker:
                queue.enqueue_read(id)
            tail = OutputTail(job_files, sys.stderr.buffer)
            context = open_context(settings, store, ends_with_job=True)
            return _follow(
                context, queue, job, job_files, cancel_requests, watch, tail, by_worker, host_name(), no_secrets
            )


def _follow(
    context: JobContext,
    queue: TaskQueue,
    job: Job,
    files: JobFiles,
    cancel_requests: CancelRequests,
    watch: Callable[[Job], None],
    tail: OutputTail,
    by_worker: bool,
    host: str | None,
    ask: SecretProvider,
) -> Job:
    store, secret_provider = context.store, TerminalSecrets(ask)
    prompter, context = SecretPrompter(store, ask), replace(context, secret_provider=secret_provider)
    own = None if by_worker else _begin_own_steps(context, job.id)
    heard = time.monotonic()
    reported: object = None
    while True:
        job = store.jobs.get(job.id)
        tail.copy()
        if (now := (job.state, job.progress_text, job.progress)) != reported:
            reported = now
            watch(job)
        if job.state.final:
            # What the last step still does, such as fetching files for source lines, may take minutes.
            while own is not None and own.is_alive() and cancel_requests.count == cancel_requests.forwarded:
                own.join(POLL_S)
            tail.finish()
            return job
        _forward_cancel(store, queue if own is None else None, job, files, cancel_requests)
        if (reason := _request_secret(job, secret_provider, prompter, cancel_requests)) is not None:
            # The step that waits for an answer cannot be interrupted; its later writes find a job that has ended.
            state = JobState.CANCELLED if cancel_requests.count else JobState.FAILED
            store.jobs.transition(job.id, job.state, state, reason=reason)
            return store.jobs.get(job.id)
        if own is None and prompter.prompt_for(job):
            queue.enqueue(job)
        if own is None and time.monotonic() - heard > WORKER_TIMEOUT_S / 3:
            if queue.has_worker(host):
                heard = time.monotonic()
            elif time.monotonic() - heard > WORKER_TIMEOUT_S:
                own = _begin_own_steps(context, job.id)
        elif own is not None and not own.is_alive():
            # It failed because of the database; the query here raises the same error.
            own = _begin_own_steps(context, job.id)
        if own is not None:
            own.join(POLL_S)
        else:
            time.sleep(POLL_S)


def _request_secret(
    job: Job, terminal_secrets: TerminalSecrets, prompter: SecretPrompter, cancel_requests: CancelRequests
) -> str | None:
    """Why a job that needs a secret is given up; None if it is not."""
    if cancel_requests.count > bool(job.details.begun) and (terminal_secrets.asking or prompter.asking):
        return "It was cancelled while it waited for a secret."
    if not job.details.begun and job.details.needed_secrets and (terminal_secrets.declined or prompter.declined):
        return f"{job.progress_text} No secret was entered. Record from a terminal, or use a key of an SSH agent."
    return None


def _forward_cancel(
    store: Store, queue: TaskQueue | None, job: Job, files: JobFiles, cancel_requests: CancelRequests
) -> None:
    """Forward requests to end the job."""
    if cancel_requests.forwarded >= cancel_requests.count:
        return
    cancel_requests.forwarded = cancel_requests.count
    store.jobs.request_cancel(job.id)
    if cancel_requests.count > 1:
        _kill_program(job, files)
    if queue is not None:
        queue.enqueue(job)


def _kill_program(job: Job, files: JobFiles) -> None:
    """End a program of a supervisor immediately; scripts at targets are ended by the next poll."""
    if job.details.executor is Executor.SUPERVISOR:
        supervisor_client.request_stop(files, at_once=True)


def _begin_own_steps(context: JobContext, job_id: str) -> threading.Thread:
    """Take the steps in a thread, so that this one can handle signals and report."""

    def run() -> None:
        with contextlib.suppress(PerfloomError):
            job_runner.run_job(context, job_id)

    thread = threading.Thread(target=run, name="steps", daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def _count_signals() -> Iterator[CancelRequests]:
    """Count the signals that request the end, instead of their default action."""
    cancel_requests = CancelRequests()

    def count(number: int, frame: FrameType | None) -> None:
        cancel_requests.count += 1

    before = {number: signal.signal(number, count) for number in _SIGNALS}
    try:
        yield cancel_requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
