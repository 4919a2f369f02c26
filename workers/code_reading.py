"""Reads the machine code of a stored result, while no other process does."""

import logging
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from perfloom.domain.errors import PerfloomError
from perfloom.domain.targets import LOCAL
from perfloom.store.files.code_folder import write_reason
from perfloom.store.files.locks import wait_for_lock
from perfloom.store.jobs import Job

from .base.context import JobContext
from .read.prefork import ReaderKeeper
from .read.rank_folders import PLAN, rank_folders

BY_COMMAND = "by_command"
"""In the specification of an import by a command."""
LOCK_S = 60.0
log = logging.getLogger(__name__)


def read_code(
    context: JobContext,
    id: str,
    job: Job | None,
    inputs: tuple[Path, ...],
    keeper: ReaderKeeper,
    folders: Sequence[str],
    *,
    is_locked: bool = False,
) -> None:
    """Read the code of a result, unless it has some. job: of the result, None if it was deleted. inputs: what the
    result was read from. keeper: may have the process that read it. folders: with binaries from elsewhere. is_locked:
    whether this process holds the lock of the code. Raises UnreadableInput, Unavailable."""
    from .read import reading

    message = "Another process reads the machine code."
    lock = wait_for_lock(context.store.results.code_lock(id), LOCK_S, message)
    with nullcontext() if is_locked else lock:
        reading.read_code(
            context.settings,
            context.store,
            id,
            _list_recordings(inputs),
            recorded_here=is_recorded_here(job),
            started=job.started if job is not None and job.kind == "record" else None,
            progress=lambda part, text: None,
            keeper=keeper,
            folders=folders,
            reads_dumps=is_recorded_here(job) or is_by_command(job),
        )


def is_by_command(job: Job | None) -> bool:
    """Whether files were imported by a command of this machine, not by an upload."""
    return job is not None and job.kind == "import" and bool(job.spec.get(BY_COMMAND))


def is_recorded_here(job: Job | None) -> bool:
    """Whether this machine recorded."""
    return job is not None and job.kind == "record" and job.target == LOCAL


def note_failure(context: JobContext, id: str, error: Exception) -> None:
    """Log why the code of a result could not be read, and write it down for its page."""
    log.warning("result %s is stored, but without source lines: %s", id, error)
    reason = error.message if isinstance(error, PerfloomError) else f"An unexpected error: {error}."
    with suppress(PerfloomError):
        write_reason(context.store.results.path(id), reason)


def _list_recordings(inputs: tuple[Path, ...]) -> tuple[Path, ...]:
    """The recordings among the inputs, or of the ranks in a directory the lists of their build ids and recordings."""
    if len(inputs) == 1 and (inputs[0] / PLAN).is_file():
        return tuple(path for rank in rank_folders(inputs[0]) for path in rank.recordings)
    return tuple(path for path in inputs if path.is_file())
