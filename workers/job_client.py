"""`perfloom record` and `perfloom import`: ask for a job and follow it to its end.

A running worker takes the steps; without one this process does.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError, TooLarge, UnreadableInput
from perfloom.domain.jobs import JobSpec, JobState
from perfloom.ingest.compression import EMPTY_SPARSE_FILE, is_empty_sparse_file
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store
from perfloom.store.files.disk import disk_errors, remove_tree, safe_name
from perfloom.store.ids import new_id
from perfloom.store.jobs import Job

from . import preflight, steps
from .context import JobContext, open_context
from .local import supervisor_client
from .local.facts_probe import host_name
from .local.jobfiles import JobFiles, save_environment
from .preflight import FindingCallback
from .read import prefork
from .serve.secret_prompts import SecretPrompter, TerminalSecrets
from .transports.base import SecretProvider, no_secrets

_PIECE_BYTES = 4 << 20
POLL_S = 0.1
WORKER_TIMEOUT_S = 30.0
"""When the worker was not heard of for so long, this process takes the steps itself."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class OutputTail:
    """Copies what the program prints, as it comes, from the job's log to a stream."""

    def __init__(self, files: JobFiles, to: BinaryIO) -> None:
        self._path = files.output
        self._to = to
        self._offset = 0

    def copy(self) -> None:
        """What has come since the last time. Of more than is kept, the middle is left out as in the log."""
        try:
            with open(self._path, "rb") as log:
                log.seek(self._offset)
                while data := log.read(1 << 16):
                    # Past this the file is written anew while the program prints; its end is copied when it is done.
                    room = max(0, supervisor_client.HEAD_BYTES - self._offset)
                    self._to.write(data[:room])
                    self._offset += min(len(data), room)
                    if len(data) >= room:
                        break
            self._to.flush()
        except FileNotFoundError:
            return

    def finish(self) -> None:
        """The rest, now that nobody writes to the log any more."""
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as log:
            log.seek(self._offset)
            while data := log.read(1 << 16):
                self._to.write(data)
                self._offset += len(data)
            self._to.flush()


@dataclass
class CancelRequests:
    """How often a person has asked for the end."""

    count: int = 0
    forwarded: int = 0


def record(
    settings: Settings,
    spec: JobSpec,
    name: str,
    watch: Callable[[Job], None],
    *,
    output: BinaryIO | None = None,
    ask: SecretProvider = no_secrets,
    say: FindingCallback | None = None,
) -> Job:
    """Record, wait, and return the job in its final state.

    watch: told whenever state or progress change. A first Ctrl-C (or SIGTERM) ends the program and keeps what was
    recorded; a second one drops it. A program on this machine gets this process's environment. output: where what it
    prints is copied to; by default standard error. ask: asked for the passwords of a target, in a thread of its own.
    say: is told what the preflight warns of. Raises NotFound where there is no such target, and InvalidRequest where
    the preflight finds that nothing can come of it.
    """
    store = open_store(settings)
    queue = TaskQueue(settings, store)
    try:
        stored = store.targets.get(spec.target)
        target = stored.target
        context = open_context(settings, store, ends_with_job=True)
        preflight.raise_for_errors(context, spec, stored, say or (lambda finding: None))
        id = new_id()
        files = JobFiles(store.jobs.directory(id))
        if target.ssh is None:
            save_environment(files, os.environ)
        # Who goes to another machine may sit anywhere.
        host = host_name() if target.ssh is None else None
        with _count_signals() as cancel_requests:
            by_worker = queue.has_worker(host)
            # Not due before somebody was rung for: who comes by first would be another worker than ours.
            job = store.jobs.create("record", spec.to_json(), name, id=id)
            if by_worker:
                queue.enqueue_job(id)
            tail = OutputTail(files, output or sys.stderr.buffer)
            return _follow(context, queue, job, files, cancel_requests, watch, tail, by_worker, host, ask)
    finally:
        queue.close()
        store.close()


def import_files(
    settings: Settings, files: Sequence[str], name: str, watch: Callable[[Job], None], clock: str = ""
) -> Job:
    """Import the files of one run ("-": standard input), wait, and return the job in its final state.

    clock: the unit of their times, where they do not say it, one of TIME_UNITS. watch: told whenever state or progress
    change. Ctrl-C cancels it. Raises UnreadableInput, TooLarge, Unavailable.
    """
    store = open_store(settings)
    queue = TaskQueue(settings, store)
    try:
        id = new_id()
        job_files = JobFiles(store.jobs.directory(id))
        by_worker = queue.has_worker(host_name())
        if by_worker:
            prefork.end_reader()
        try:
            kept = _keep(settings, job_files, files, copy=by_worker)
        except BaseException:
            remove_tree(job_files.root)
            raise
        with _count_signals() as cancel_requests:
            shown = name or kept[0] + (f" and {len(kept) - 1} more" if len(kept) > 1 else "")
            job = store.jobs.create("import", {"files": kept} | ({"clock": clock} if clock else {}), shown, id=id)
            if by_worker:
                queue.enqueue_read(id)
            tail = OutputTail(job_files, sys.stderr.buffer)
            context = open_context(settings, store, ends_with_job=True)
            return _follow(
                context, queue, job, job_files, cancel_requests, watch, tail, by_worker, host_name(), no_secrets
            )
    finally:
        queue.close()
        store.close()


def _keep(settings: Settings, job_files: JobFiles, files: Sequence[str], copy: bool) -> list[str]:
    """Put files where the steps look for them; returns their names there.

    copy: they must outlast this process. Otherwise a link will do: the result gets its own copy.
    """
    kept: list[str] = []
    job_files.prepare()
    for file in files:
        name = safe_name("standard input" if file == "-" else os.path.basename(file), set(kept))
        try:
            with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as source:
                if file != "-" and is_empty_sparse_file(source):
                    raise UnreadableInput(f"{file} {EMPTY_SPARSE_FILE}")
                if file != "-" and not copy and os.path.isfile(file):
                    os.symlink(os.path.abspath(file), job_files.artifacts / name)
                else:
                    _copy(settings, source, file, job_files.artifacts / name)
        except OSError as error:
            raise UnreadableInput(f"{file} cannot be read: {error.strerror}. Check its permissions.") from None
        kept.append(name)
    return kept


def _copy(settings: Settings, source: BinaryIO, shown: str, target: Path) -> None:
    disk = os.statvfs(target.parent)
    room = min(disk.f_bavail * disk.f_frsize - settings.reserve_bytes, settings.upload_limit_bytes)
    with disk_errors(target.parent), open(target, "xb") as copy:
        while data := source.read(_PIECE_BYTES):
            room -= len(data)
            if room < 0:
                raise TooLarge(
                    f"{shown} is too large: there is no room for it in {settings.data}, or it is past the limit of "
                    f"{settings.upload_limit_bytes:,} bytes. Delete results, or raise PERFLOOM_UPLOAD_LIMIT_BYTES."
                )
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())


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
    store, typed = context.store, TerminalSecrets(ask)
    prompter, context = SecretPrompter(store, ask), replace(context, secret_provider=typed)
    own = None if by_worker else _begin_own_steps(context, job.id)
    heard = time.monotonic()
    said: object = None
    while True:
        job = store.jobs.get(job.id)
        tail.copy()
        if (now := (job.state, job.progress_text, job.progress)) != said:
            said = now
            watch(job)
        if job.state.final:
            if own is not None:
                own.join()
            tail.finish()
            return job
        _forward_cancel(store, queue if own is None else None, job, files, cancel_requests)
        if (reason := _unanswered(job, typed, prompter, cancel_requests)) is not None:
            # The step that waits for an answer cannot be broken off; what it does later finds a job that has ended.
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
            # What it stumbled over was the catalogue; here it is asked too, and raises.
            own = _begin_own_steps(context, job.id)
        time.sleep(POLL_S)


def _unanswered(
    job: Job, typed: TerminalSecrets, prompter: SecretPrompter, cancel_requests: CancelRequests
) -> str | None:
    """Why a job is given up that a secret is asked for; None where it is not."""
    if cancel_requests.count > bool(job.details.get("begun")) and (typed.asking or prompter.asking):
        return "It was cancelled while a secret was asked for."
    if not job.details.get("begun") and job.needed_secrets and (typed.declined or prompter.declined):
        return f"{job.progress_text} Nobody did. Record from a terminal, or use a key that an agent holds."
    return None


def _forward_cancel(
    store: Store, queue: TaskQueue | None, job: Job, files: JobFiles, cancel_requests: CancelRequests
) -> None:
    """Hand on what a person asked for."""
    if cancel_requests.forwarded >= cancel_requests.count:
        return
    cancel_requests.forwarded = cancel_requests.count
    store.jobs.request_cancel(job.id)
    if cancel_requests.count > 1 and not job.planned:
        supervisor_client.request_stop(files, at_once=True)
    if queue is not None:
        queue.enqueue(job)


def _begin_own_steps(context: JobContext, job_id: str) -> threading.Thread:
    """Take the steps in a thread, so that this one can listen and report."""

    def run() -> None:
        with contextlib.suppress(PerfloomError):
            steps.run_to_end(context, job_id)

    thread = threading.Thread(target=run, name="steps", daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def _count_signals() -> Iterator[CancelRequests]:
    """Count the signals that ask for the end, in place of what they would do."""
    cancel_requests = CancelRequests()

    def count(number: int, frame: FrameType | None) -> None:
        cancel_requests.count += 1

    before = {number: signal.signal(number, count) for number in _SIGNALS}
    try:
        yield cancel_requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
