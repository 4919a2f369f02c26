"""Fetches what is missing of the machine code of stored results, and adds what was uploaded.

A request is a directory (`binary_cache.request_files`), so that none is lost.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from perfloom.analysis.source.missing_code import list_known_sources, list_missing_objects, list_missing_sources
from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError, Unavailable, UnreadableInput
from perfloom.domain.schemas.code import Code, CodeStatus
from perfloom.domain.targets import LOCAL, Target
from perfloom.store import Store, open_store
from perfloom.store.code_uploads import list_uploaded_texts
from perfloom.store.files import binary_cache
from perfloom.store.files.code_folder import write_note
from perfloom.store.files.locks import try_lock
from perfloom.store.jobs import Job

from . import code_reading
from .base import processes
from .base.context import JobContext, open_context
from .code_change import list_folders, open_change
from .read.code_provider import CodeProvider, ReceivedTexts, select_objects

SLOTS = 2
REQUEST_AGE_S = 600.0
"""After this time a request that nothing answered is sent again."""
log = logging.getLogger(__name__)
_slots = threading.BoundedSemaphore(SLOTS)
_started: "list[subprocess.Popen[bytes]]" = []
"""Not waited for: they outlive this process."""


def list_origins(store: Store, job: Job | None) -> tuple[str, ...]:
    """The origins of received files that may be used for a recording."""
    target = find_remote_target(store, job)
    of_target = () if target is None else (_name_origin(target),)
    return (*binary_cache.SHARED, *of_target)


def find_remote_target(store: Store, job: Job | None) -> Target | None:
    """The other machine that recorded; None for this one, an import, and a target that was removed."""
    if job is None or job.kind != "record" or job.target == LOCAL:
        return None
    with suppress(PerfloomError):
        target = store.targets.get(job.target).target
        return target if target.ssh is not None else None
    return None


def request_missing(context: JobContext, job: Job) -> None:
    """After the code of a result was read: have a worker fetch what is missing, or without one do it now."""
    if find_remote_target(context.store, job) is None and not context.settings.debuginfod_urls:
        return
    code = context.store.results.open_code(job.id)
    if code is None or not _lacks_files(context.store, job.id, code):
        return
    binary_cache.request_files(context.settings.data, job.id, fetch=True)
    if context.queue is not None:
        context.queue.enqueue_code(job.id)
    elif find_remote_target(context.store, job) is None and context.ends_with_job:
        # A person waits for the command, and servers may take minutes.
        _start_answering(context.settings, job.id)
    else:
        answer_request(context, job.id)


def _start_answering(settings: Settings, id: str) -> None:
    argv = processes.python_argv("perfloom.workers.code_files", str(settings.data), id)
    nowhere = subprocess.DEVNULL
    _started.append(subprocess.Popen(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True))


def main() -> None:
    """Answer the request for one result: data directory and id are given."""
    processes.name_process("perfloom-code")
    processes.disable_dumping()
    settings = Settings.load(Path(sys.argv[1]))
    store = open_store(settings)
    try:
        answer_request(open_context(settings, store), sys.argv[2])
    finally:
        store.close()


def _lacks_files(store: Store, id: str, code: Code) -> bool:
    if list_missing_sources(code):
        return True
    return bool(select_objects(list_missing_objects(store.results.open_once(id), code)))


def answer_requests(context: JobContext, id: str) -> None:
    """Answer the request for a result, and those that came meanwhile. Does nothing if `SLOTS` threads of this process
    do so already, which then answer this one, too: others must remain for polling."""
    waiting, seen = [id], {id}
    while waiting:
        if not _slots.acquire(blocking=False):
            return
        try:
            for one in waiting:
                answer_request(context, one)
        finally:
            _slots.release()
        waiting = [one for one in binary_cache.list_requests(context.settings.data, time.time()) if one not in seen]
        seen.update(waiting)


def answer_request(context: JobContext, id: str) -> None:
    """Add to the code of a result what was uploaded for it, and what can be fetched, if that was requested. What was
    not possible is written down for its page. Does nothing if another process answers it."""
    data = context.settings.data
    if not binary_cache.is_requested(data, id):
        return
    if context.store.results.find(id) is None:
        binary_cache.drop_request(data, id)
        return
    with try_lock(context.store.results.cache(id) / "code-requests.lock") as locked:
        while locked and (request := binary_cache.read_request(data, id)) is not None:
            if not request.paths and request.is_new:
                return  # Its uploads are being written, and then it is sent again.
            notes = _add_files(context, id, request)
            with suppress(PerfloomError):
                write_note(context.store.results.path(id), " ".join(notes))
            binary_cache.end_request(data, id, request)
            if not request.paths:
                return


def _add_files(context: JobContext, id: str, request: binary_cache.FileRequest) -> list[str]:
    """Add the files of a request. Returns what was not possible, in sentences."""
    notes: list[str] = []
    if not request.paths:
        notes.append("Uploaded files were lost, because the worker ended meanwhile. Upload them again.")
    with _noting(notes):
        if request.uploads:
            add_uploads(context.settings, context.store, id, request.uploads)
    with _noting(notes):
        if request.texts or request.removed:
            change_texts(context.settings, context.store, id, request.removed)
    if request.read:
        try:
            repeat_reading(context, id)
        except (PerfloomError, OSError, RuntimeError) as error:
            code_reading.note_failure(context, id, error)
    with _noting(notes):
        if request.fetch:
            notes += fetch_missing(context, id)
    return notes


@contextmanager
def _noting(notes: list[str]) -> Iterator[None]:
    """Append the reason of a failure."""
    try:
        yield
    except PerfloomError as error:
        notes.append(error.message)
    except (OSError, RuntimeError, ValueError) as error:
        log.warning("files could not be added to machine code: %s", error)
        notes.append(f"Files could not be added to the machine code: {error}.")


def resume_requests(context: JobContext) -> None:
    """Send requests again that nothing answered, and remove files beyond the limit of the cache."""
    data, now = context.settings.data, time.time()
    for id in binary_cache.list_requests(data, now - REQUEST_AGE_S):
        if context.store.results.find(id) is None:
            binary_cache.drop_request(data, id)
        elif context.queue is not None:
            context.queue.enqueue_code(id)
    binary_cache.trim(data, context.settings.binary_cache_bytes, now)


def add_uploads(settings: Settings, store: Store, id: str, uploads: Mapping[str, Path]) -> None:
    """Add uploaded binaries and debug files, by name, to the code of a result. The files are moved. All or none.

    Raises UnreadableInput if one does not belong to the recording, or adds nothing; NotFound, Unavailable.
    """
    with open_change(settings, store, id, list_origins(store, store.jobs.find(id))) as change:
        before = change.code
        change.read_again(uploads)
        if _list_states(change.code) == _list_states(before):
            raise UnreadableInput(
                f"{', '.join(uploads)}: the build is the recorded one, but the file adds no instructions, symbols or "
                "debug information. Upload one that has them; to a debug file belongs the binary itself."
            )
        if change.code.symbols.num_rows <= before.symbols.num_rows and _count_complete(change.code) > _count_complete(
            before
        ):
            raise UnreadableInput(
                f"{', '.join(uploads)}: the build is the recorded one, but the recording was read without it, so that "
                "the functions of its samples are not known. Add it to perf’s cache on the machine that reads "
                "recordings (perf buildid-cache --add FILE), and import the recording again."
            )
        change.keep_received(binary_cache.UPLOADS)
        change.publish()


def change_texts(settings: Settings, store: Store, id: str, removed: Sequence[str] = ()) -> None:
    """Add and replace uploaded texts of source files in the code of a result, and remove those of the files `removed`.
    Raises NotFound, Unavailable."""
    texts = ReceivedTexts(binary_cache.open_origin(settings.data, binary_cache.UPLOADS))
    with open_change(settings, store, id, list_origins(store, store.jobs.find(id))) as change:
        if removed:
            change.remove_texts(removed)
        change.replace_texts(texts, list_uploaded_texts(settings.data, list_known_sources(change.code)))
        change.use(texts)
        change.publish()


def repeat_reading(context: JobContext, id: str) -> None:
    """Read the code of a result that has none, from its stored files. Raises NotFound, UnreadableInput, Unavailable."""
    from .read.prefork import ReaderKeeper

    job, results = context.store.jobs.find(id), context.store.results
    inputs = tuple(original.path for original in results.original(id))
    folders = list_folders(context.settings, list_origins(context.store, job))
    with ReaderKeeper() as keeper:
        code_reading.read_code(context, id, job, inputs, keeper, folders)


def fetch_missing(context: JobContext, id: str) -> list[str]:
    """Fetch what is missing of the code of a result. Returns why that was not possible."""
    job = context.store.jobs.find(id)
    notes = []
    with open_change(context.settings, context.store, id, list_origins(context.store, job)) as change:
        for opened in _open_providers(context, job):
            try:
                with opened as provider:
                    change.use(provider)
            except PerfloomError as error:
                notes.append(error.message)
        change.publish()
    return notes


def _open_providers(context: JobContext, job: Job | None) -> Iterator[AbstractContextManager[CodeProvider]]:
    target = find_remote_target(context.store, job)
    if job is not None and target is not None:
        yield _open_target_files(context, target, job)
    if context.settings.debuginfod_urls:
        yield _open_debuginfod(context.settings)


@contextmanager
def _open_target_files(context: JobContext, target: Target, job: Job) -> Iterator[CodeProvider]:
    # Not needed without SSH, and slow to import.
    from .remote.code_files import TargetFiles
    from .targets.access import open_target

    try:
        with open_target(context, target, [job]) as transport:
            yield TargetFiles(target, transport, _count_free_bytes(context.settings))
    except PerfloomError as error:
        raise Unavailable(f"Files could not be fetched from {target.name}: {error.message}") from None


@contextmanager
def _open_debuginfod(settings: Settings) -> Iterator[CodeProvider]:
    # Not needed without servers.
    from .debuginfod import DebuginfodFiles

    yield DebuginfodFiles(settings.debuginfod_urls, _count_free_bytes(settings))


def _count_free_bytes(settings: Settings) -> int:
    disk = os.statvfs(settings.data)
    return max(0, disk.f_bavail * disk.f_frsize - settings.reserve_bytes)


def _name_origin(target: Target) -> str:
    ssh = target.ssh
    assert ssh is not None
    return binary_cache.name_target(target.name, ssh.host, ssh.user, ssh.port)


def _count_complete(code: Code) -> int:
    """The binaries whose functions are known."""
    states = code.objects.column("status").to_pylist()
    return sum(1 for state in states if state in (CodeStatus.COMPLETE, CodeStatus.NO_LINES))


def _list_states(code: Code) -> list[tuple[str, str]]:
    return [(row["module"], row["status"]) for row in code.objects.to_pylist()]
