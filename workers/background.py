"""A process that does what is left to do for a result after the command that stored it has ended: read its machine
code, and postprocess it."""

import os
import sys
import time
from pathlib import Path

from perfloom.config import Settings
from perfloom.store import open_store
from perfloom.store.files import binary_cache

from . import steps
from .base import processes
from .base.context import open_context

NICE = 10


def main() -> None:
    """Data directory and id are given, and maybe a descriptor with the lock of the code."""
    processes.name_process("perfloom-settle")
    processes.disable_dumping()
    os.nice(NICE)
    settings, id = Settings.load(Path(sys.argv[1])), sys.argv[2]
    store = open_store(settings)
    try:
        steps.complete_result(open_context(settings, store), id, int(sys.argv[3]) if len(sys.argv) > 3 else None)
        # Without a server, nothing else does so.
        binary_cache.trim(settings.data, settings.binary_cache_bytes, time.time())
    finally:
        store.close()
