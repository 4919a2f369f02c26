"""Reads the machine code of a result's functions, right after it was stored: binaries and sources may change soon."""

from pathlib import Path

from perfloom.domain.errors import PerfloomError
from perfloom.store.files.code_folder import MIN_SAMPLES
from perfloom.store.jobs import Job
from perfloom.store.result import Result

from . import code_reading
from .base.context import JobContext
from .read.prefork import ReaderKeeper
from .read.request import SymbolPlaces


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
    results = context.store.results
    try:
        if not needs_code(results.get(job.id)):
            return
        code_reading.read_code(context, job.id, job, inputs, keeper, _list_folders(context, job), is_locked=is_locked)
        if job.is_from_elsewhere or context.settings.debuginfod_urls:
            from . import code_files

            code_files.request_missing(context, job)
    except (PerfloomError, OSError, RuntimeError) as error:
        code_reading.note_failure(context, job.id, error)


def find_symbol_places(context: JobContext, job: Job) -> SymbolPlaces:
    """Where symbols of the recordings of a job are looked for. Who uploads a file must not choose files of this machine
    by their path alone, so that their build ids have to be right."""
    by_command = code_reading.is_by_command(job)
    return SymbolPlaces(
        recorded_here=by_command or code_reading.is_recorded_here(job),
        public=bool(context.settings.run_as) and not by_command,
        folders=_list_folders(context, job),
        tables=_find_tables(context, job),
    )


def _find_tables(context: JobContext, job: Job) -> str | None:
    """The directory of the symbol tables that were brought from the host that recorded."""
    if not job.is_from_elsewhere:
        return None
    from .code_files import find_remote_target
    from .remote.symbol_tables import open_target_symbols

    target = find_remote_target(context.store, job)
    symbols = open_target_symbols(context.settings.data, target) if target else None
    return str(symbols.root) if symbols and symbols.root.is_dir() else None


def _list_folders(context: JobContext, job: Job) -> tuple[str, ...]:
    """The directories with files that were fetched from the host that recorded, or uploaded."""
    # Only for other machines pyarrow is needed here.
    if not job.is_from_elsewhere:
        from .read.reading import list_shared_folders

        return list_shared_folders(context.settings)
    from .code_change import list_folders
    from .code_files import list_origins

    return list_folders(context.settings, list_origins(context.store, job))
