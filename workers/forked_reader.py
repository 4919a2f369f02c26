"""A reader process (see `workers.read.prefork`) that a command forks as its first step.

Most commands need the libraries of the reader, which take longer to load than most files take to read: they are
loaded once, before the fork; for a command that does not need them, after it. The reader sets the same limits as every
other. Of the command it has the memory that a command has before it reads settings or files; its environment is
erased. A process that has secrets, more than one thread or another encoding of text starts a reader with a new
interpreter.
"""

import ctypes
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import NoReturn

from perfloom.ingest.jit.mode import may_need_loops
from perfloom.secret_settings import SECRETS

from .base import processes
from .read import prefork

LOADED_BEFORE = ("ARROW_DEFAULT_MEMORY_POOL", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMPY_MADVISE_HUGEPAGE")
"""Variables of `reader_environment` that libraries read when they are loaded."""
NO_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps an allocator of pyarrow that is not used here from starting a thread when it is loaded (jemalloc(3))."""


def prefork_readers(files: Sequence[str], *, shares_libraries: bool, count: int = 1) -> None:
    """Start processes that will read these files, as `prefork.prefork_reader` does: by a fork if that is safe, else
    one.

    shares_libraries: load their libraries before, because the command needs them, too.
    """
    loads_loops = may_need_loops(files)
    may_fork = sys.getfilesystemencoding() == "utf-8" and not any(os.environ.get(name) for name in SECRETS)
    if may_fork and _has_one_thread():
        if shares_libraries:
            _load_libraries()
        if _has_one_thread() and (readers := [one for _ in range(count) if (one := _fork_reader(loads_loops))]):
            # Not before the last fork, because it starts a thread.
            for reader in readers:
                prefork.offer_reader(reader)
            return
    prefork.prefork_reader(loads_loops=loads_loops)


def _has_one_thread() -> bool:
    """Whether this process may fork one that continues as it does. Threads would end, with the locks they hold."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _fork_reader(loads_loops: bool) -> prefork.PreforkedReader | None:
    """A forked process that waits for a request; None if there is no memory for it."""
    request, asked = os.pipe()
    answers, answered = os.pipe()
    stderr = tempfile.TemporaryFile()  # noqa: SIM115
    parent = os.getpid()
    # Without collections of what exists now, the processes share its memory.
    gc.freeze()
    try:
        pid = os.fork()
    except OSError:
        for descriptor in (request, asked, answers, answered):
            os.close(descriptor)
        stderr.close()
        return None
    if pid == 0:
        _become_reader(request, answered, stderr.fileno(), parent, loads_loops)
    os.close(request)
    os.close(answered)
    process = prefork.ForkedProcess(pid, os.fdopen(answers, "rb", buffering=0))
    return prefork.PreforkedReader(process, asked, stderr, parent)


def _load_libraries() -> None:
    """Load what both processes need, with the settings of a reader."""
    variables = prefork.reader_environment()
    variables = NO_THREAD | {name: variables[name] for name in LOADED_BEFORE}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        from .base.without_pandas import load_pyarrow

        load_pyarrow()
        from .read import child, columns  # noqa: F401
    finally:
        # Recorded programs, and what else the command starts, must not inherit them.
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _become_reader(request: int, answers: int, stderr: int, parent: int, loads_loops: bool) -> NoReturn:
    """In the forked process: give up what the parent's process had, and answer requests."""
    status = 1
    try:
        processes.die_with_parent(signal.SIGKILL, parent)
        os.setsid()
        os.chdir("/")
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (answers, 1), (stderr, 2)):
            os.dup2(descriptor, target)
        kept = os.dup2(request, 3) if request != 3 else request
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        _replace_environment()
        from .read import child

        child.answer_requests(kept, parent, loads_loops=loads_loops)
    except SystemExit as exit:
        status = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _replace_environment() -> None:
    """Erase the environment, also where /proc/PID/environ shows it, and set that of readers."""
    variables = prefork.reader_environment()
    os.environ.clear()
    with open("/proc/self/stat", "rb") as stat:
        # Fields 50 and 51 of proc(5): where the environment of the program begins and ends.
        first, end = map(int, stat.read().rpartition(b")")[2].split()[47:49])
    ctypes.memset(first, 0, end - first)
    os.environ.update(variables)
    processes.set_malloc_options(prefork.MALLOC_OPTIONS)
