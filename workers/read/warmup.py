"""Compiles the loops of readers before a job needs them, in a process of low priority."""

import os
import signal
import subprocess
import sys

from perfloom.ingest.jit import cache as compiled_cache

from ..base import processes

NICE = 19
_begun: "list[subprocess.Popen[bytes]]" = []


def start_warmup() -> None:
    """Start compiling in a child process, unless the cache is complete. Remove the caches of other versions."""
    compiled_cache.remove_unused()
    if not compiled_cache.is_ready():
        argv = processes.python_argv("perfloom.workers.read.warmup", str(os.getpid()))
        _begun.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))


def main() -> None:
    """Compile all loops."""
    processes.die_with_parent(signal.SIGKILL, int(sys.argv[1]))
    processes.name_process("perfloom-warm")
    os.nice(NICE)
    if not compiled_cache.acquire_lock():
        return
    from perfloom.readers.warmup import compile_all

    compile_all()
