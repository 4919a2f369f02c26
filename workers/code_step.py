"""Reads the machine code of a result's functions, right after it was stored: binaries and sources may change soon."""

import logging
from contextlib import nullcontext, suppress
from pathlib import Path

from perfloom.domain.errors import PerfloomError
from perfloom.domain.targets import LOCAL
from perfloom.store.files.code_folder import MIN_SAMPLES, write_reason
from perfloom.store.files.locks import wait_for_lock
from perfloom.store.jobs import Job
from perfloom.store.result import Result

from .base.context import JobContext
from .read.prefork import ReaderKeeper
from .read.rank_folders import BUILD_IDS, PLAN, RECORDING, rank_folders
from .read.request import SymbolPlaces

BY_COMMAND = "by_command"
"""In the specification of an import by the user of this machine, not of the web page."""
log = logging.getLogger(__name__)


LOCK_S = 60.0


def needs_code(result: Result) -> bool:
    """Whether machine code is read for a result."""
    return result.samples >= MIN_SAMPLES and result.format.startswith("perf")


def read_code(
    context: JobContext, job: Job, inputs: tuple[Path, ...], keeper: ReaderKeeper, *, is_locked: bool = False
) -> None:
    """Read the code of the result of `job`, as far as possible. inputs: what the result was read from. keeper: may have
    the process that read it. is_locked: whether this process holds the lock of the code.

    Without it the result has all other pages, so that an error is only logged, and written down for the page.
    """
    from .read import reading

    results = context.store.results
    try:
        if not needs_code(results.get(job.id)):
            return
        with (
            nullcontext()
            if is_locked
            else wait_for_lock(results.code_lock(job.id), LOCK_S, "Another process reads the machine code.")
        ):
            reading.read_code(
                context.settings,
                context.store,
                job.id,
                _list_recordings(inputs),
                recorded_here=job.kind == "record" and job.target == LOCAL,
                started=job.started if job.kind == "record" else None,
                progress=lambda part, text: None,
                keeper=keeper,
                folders=_list_folders(context, job),
            )
        if _is_remote(job) or context.settings.debuginfod_urls:
            from . import code_files

            code_files.request_missing(context, job)
    except (PerfloomError, OSError, RuntimeError) as error:
        log.warning("result %s is stored, but without source lines: %s", job.id, error)
        reason = error.message if isinstance(error, PerfloomError) else f"An unexpected error: {error}."
        with suppress(PerfloomError):
            write_reason(context.store.results.path(job.id), reason)


def find_symbol_places(context: JobContext, job: Job) -> SymbolPlaces:
    """Where symbols of the recordings of a job are looked for. Who uploads a file must not choose files of this machine
    by their path alone, so that their build ids have to be right."""
    by_command = job.kind == "import" and bool(job.spec.get(BY_COMMAND))
    return SymbolPlaces(
        recorded_here=by_command or (job.kind == "record" and job.target == LOCAL),
        public=bool(context.settings.run_as) and not by_command,
        folders=_list_folders(context, job),
    )


def _is_remote(job: Job) -> bool:
    """Whether another machine may have recorded. Only then pyarrow is needed here."""
    return job.kind == "record" and job.target != LOCAL


def _list_folders(context: JobContext, job: Job) -> tuple[str, ...]:
    """The directories with files that were fetched from the host that recorded, or uploaded."""
    if not _is_remote(job):
        from .read.reading import list_shared_folders

        return list_shared_folders(context.settings)
    from .code_change import list_folders
    from .code_files import list_origins

    return list_folders(context.settings, list_origins(context.store, job))


def _list_recordings(inputs: tuple[Path, ...]) -> tuple[Path, ...]:
    """The recordings among the inputs, or of the ranks in a directory the lists of their build ids and recordings."""
    if len(inputs) == 1 and (inputs[0] / PLAN).is_file():
        names = (BUILD_IDS, RECORDING)
        return tuple(rank.files[name] for rank in rank_folders(inputs[0]) for name in names if name in rank.files)
    return tuple(path for path in inputs if path.is_file())
