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
from perfloom.ingest.compression import HOLE, only_a_hole
from perfloom.queue import Queue
from perfloom.store import Store, open_store
from perfloom.store.files.disk import disk_errors, remove_tree, safe_name
from perfloom.store.ids import new_id
from perfloom.store.jobs import Job
from perfloom.workers import refusing, steps
from perfloom.workers.local import supervised
from perfloom.workers.local.facts_probe import host_name
from perfloom.workers.local.jobfiles import JobFiles, keep_environment
from perfloom.workers.read import spare
from perfloom.workers.refusing import Say
from perfloom.workers.road import Road, open_road
from perfloom.workers.serve.prompting import Courier, Typed
from perfloom.workers.transports.base import Secrets, no_secrets

_PIECE_BYTES = 4 << 20
LOOK_S = 0.1
SILENT_S = 30.0
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
                    room = max(0, supervised.HEAD_BYTES - self._offset)
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
class Wishes:
    """How often a person has asked for the end."""

    count: int = 0
    granted: int = 0


def record(
    settings: Settings,
    spec: JobSpec,
    name: str,
    watch: Callable[[Job], None],
    *,
    output: BinaryIO | None = None,
    ask: Secrets = no_secrets,
    say: Say | None = None,
) -> Job:
    """Record, wait, and return the job in its final state.

    watch: told whenever state or progress change. A first Ctrl-C (or SIGTERM) ends the program and keeps what was
    recorded; a second one drops it. A program on this machine gets this process's environment. output: where what it
    prints is copied to; by default standard error. ask: asked for the passwords of a target, in a thread of its own.
    say: is told what the preflight warns of. Raises NotFound where there is no such target, and InvalidRequest where
    the preflight finds that nothing can come of it.
    """
    store = open_store(settings)
    queue = Queue(settings, store)
    try:
        stored = store.targets.get(spec.target)
        target = stored.target
        road = open_road(settings, store, ends_with_job=True)
        refusing.refuse(road, spec, stored, say or (lambda finding: None))
        id = new_id()
        files = JobFiles(store.jobs.directory(id))
        if target.ssh is None:
            keep_environment(files, os.environ)
        # Who goes to another machine may sit anywhere.
        host = host_name() if target.ssh is None else None
        with _asked_to_end() as wishes:
            by_worker = queue.worker_there(host)
            # Not due before somebody was rung for: who comes by first would be another worker than ours.
            job = store.jobs.create("record", spec.to_json(), name, id=id)
            if by_worker:
                queue.ring_job(id)
            tail = OutputTail(files, output or sys.stderr.buffer)
            return _follow(road, queue, job, files, wishes, watch, tail, by_worker, host, ask)
    finally:
        queue.close()
        store.close()


def bring_in(settings: Settings, files: Sequence[str], name: str, watch: Callable[[Job], None], clock: str = "") -> Job:
    """Import the files of one run ("-": standard input), wait, and return the job in its final state.

    clock: the unit of their times, where they do not say it, one of TIME_UNITS. watch: told whenever state or progress
    change. Ctrl-C cancels it. Raises UnreadableInput, TooLarge, Unavailable.
    """
    store = open_store(settings)
    queue = Queue(settings, store)
    try:
        id = new_id()
        job_files = JobFiles(store.jobs.directory(id))
        by_worker = queue.worker_there(host_name())
        if by_worker:
            spare.end()
        try:
            kept = _keep(settings, job_files, files, copy=by_worker)
        except BaseException:
            remove_tree(job_files.root)
            raise
        with _asked_to_end() as wishes:
            shown = name or kept[0] + (f" and {len(kept) - 1} more" if len(kept) > 1 else "")
            job = store.jobs.create("import", {"files": kept} | ({"clock": clock} if clock else {}), shown, id=id)
            if by_worker:
                queue.ring_read(id)
            tail = OutputTail(job_files, sys.stderr.buffer)
            road = open_road(settings, store, ends_with_job=True)
            return _follow(road, queue, job, job_files, wishes, watch, tail, by_worker, host_name(), no_secrets)
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
                if file != "-" and only_a_hole(source):
                    raise UnreadableInput(f"{file} {HOLE}")
                if file != "-" and not copy and os.path.isfile(file):
                    os.symlink(os.path.abspath(file), job_files.artefacts / name)
                else:
                    _copy(settings, source, file, job_files.artefacts / name)
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
    road: Road,
    queue: Queue,
    job: Job,
    files: JobFiles,
    wishes: Wishes,
    watch: Callable[[Job], None],
    tail: OutputTail,
    by_worker: bool,
    host: str | None,
    ask: Secrets,
) -> Job:
    store, typed = road.store, Typed(ask)
    courier, road = Courier(store, ask), replace(road, ask=typed)
    own = None if by_worker else _begin_own_steps(road, job.id)
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
        _grant(store, queue if own is None else None, job, files, wishes)
        if (reason := _unanswered(job, typed, courier, wishes)) is not None:
            # The step that waits for an answer cannot be broken off; what it does later finds a job that has ended.
            state = JobState.CANCELLED if wishes.count else JobState.FAILED
            store.jobs.move(job.id, job.state, state, reason=reason)
            return store.jobs.get(job.id)
        if own is None and courier.see_to(job):
            queue.ring(job)
        if own is None and time.monotonic() - heard > SILENT_S / 3:
            if queue.worker_there(host):
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENT_S:
                own = _begin_own_steps(road, job.id)
        elif own is not None and not own.is_alive():
            # What it stumbled over was the catalogue; here it is asked too, and raises.
            own = _begin_own_steps(road, job.id)
        time.sleep(LOOK_S)


def _unanswered(job: Job, typed: Typed, courier: Courier, wishes: Wishes) -> str | None:
    """Why a job is given up that a secret is asked for; None where it is not."""
    if wishes.count > bool(job.details.get("begun")) and (typed.asking or courier.asking):
        return "It was cancelled while a secret was asked for."
    if not job.details.get("begun") and job.needs and (typed.declined or courier.declined):
        return f"{job.progress_text} Nobody did. Record from a terminal, or use a key that an agent holds."
    return None


def _grant(store: Store, queue: Queue | None, job: Job, files: JobFiles, wishes: Wishes) -> None:
    """Hand on what a person asked for."""
    if wishes.granted >= wishes.count:
        return
    wishes.granted = wishes.count
    store.jobs.request_cancel(job.id)
    if wishes.count > 1 and not job.planned:
        supervised.ask_to_end(files, at_once=True)
    if queue is not None:
        queue.ring(job)


def _begin_own_steps(road: Road, job_id: str) -> threading.Thread:
    """Take the steps in a thread, so that this one can listen and report."""

    def run() -> None:
        with contextlib.suppress(PerfloomError):
            steps.drive(road, job_id)

    thread = threading.Thread(target=run, name="steps", daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def _asked_to_end() -> Iterator[Wishes]:
    """Count the signals that ask for the end, in place of what they would do."""
    wishes = Wishes()

    def count(number: int, frame: FrameType | None) -> None:
        wishes.count += 1

    before = {number: signal.signal(number, count) for number in _SIGNALS}
    try:
        yield wishes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
