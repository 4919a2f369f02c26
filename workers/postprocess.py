"""Work on a stored result that no user waits for: compress its original files, and prepare the data of its tables and
timeline. A crash loses nothing: `tidy` does the first, pages the rest.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.store import Store, open_store

from .base import processes

LARGE_BYTES, MANY_SAMPLES = 64 << 20, 500_000
"""With larger originals, or more samples, it takes several seconds."""
SMALL_RESULT_BYTES = 1 << 20
"""A result with fewer bytes has too few rows for anything to be prepared: a slice takes more than 16 bytes."""
NICE = 10
log = logging.getLogger(__name__)
_begun: "list[subprocess.Popen[bytes]]" = []


def postprocess_result(store: Store, id: str) -> None:
    """Do it now, as far as possible."""
    try:
        store.results.compress(id)
        if store.results.get(id).bytes < SMALL_RESULT_BYTES:
            return
        store.results.prepare_tables(id)
        store.timelines.prepare_large(id, store.results.open_once(id))
    except (PerfloomError, OSError) as error:
        log.warning("result %s is stored, but not postprocessed yet: %s", id, error)


def postprocess_in_background(settings: Settings, store: Store, id: str) -> None:
    """The same for a process that ends with the job: small results now, large ones in another process."""
    result = store.results.get(id)
    if sum(original.bytes for original in result.originals) < LARGE_BYTES and result.samples < MANY_SAMPLES:
        postprocess_result(store, id)
        return
    argv = processes.python_argv("perfloom.workers.postprocess", str(settings.data), id)
    nowhere = subprocess.DEVNULL
    _begun.append(subprocess.Popen(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True))


def main() -> None:
    """Postprocess one result: data directory and id are given."""
    processes.name_process("perfloom-settle")
    processes.disable_dumping()
    os.nice(NICE)
    store = open_store(Settings.load(Path(sys.argv[1])))
    try:
        postprocess_result(store, sys.argv[2])
    finally:
        store.close()
