"""Work on a stored result that no user waits for: compress its original files, and prepare the data of its tables and
timeline. A crash loses nothing: `tidy` does the first, pages the rest.
"""

import logging
import subprocess

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.store import Store
from perfloom.store.result import Result

from .base import processes

LARGE_BYTES, LARGE_RESULT_BYTES = 8 << 20, 4 << 20
"""For larger originals or results, a command would wait for it longer than for the start of another process: 30 MB of a
result take more than a second."""
SMALL_RESULT_BYTES = 1 << 20
"""A result with fewer bytes has too few rows for anything to be prepared: a slice takes more than 16 bytes."""
log = logging.getLogger(__name__)
_begun: "list[subprocess.Popen[bytes]]" = []


def postprocess_result(store: Store, id: str) -> None:
    """Do it now, as far as possible."""
    try:
        if store.results.compress(id).bytes < SMALL_RESULT_BYTES:
            return
        store.results.prepare_tables(id)
        store.timelines.prepare_large(id, store.results.open_once(id))
    except (PerfloomError, OSError) as error:
        log.warning("result %s is stored, but not postprocessed yet: %s", id, error)


def is_long(result: Result) -> bool:
    """Whether a command should not wait for postprocessing."""
    return sum(original.bytes for original in result.originals) >= LARGE_BYTES or result.bytes >= LARGE_RESULT_BYTES


def start_process(settings: Settings, id: str, locked: int | None = None) -> None:
    """Start a process that does what is left to do for a result, and outlives this one; see `background`. locked: a
    descriptor that holds the lock of its code, which is then read."""
    held = () if locked is None else (locked,)
    argv = processes.python_argv("perfloom.workers.background", str(settings.data), id, *map(str, held))
    nowhere = subprocess.DEVNULL
    _begun.append(
        subprocess.Popen(
            argv,
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
            pass_fds=held,
        )
    )
