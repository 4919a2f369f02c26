"""The reader process. All untrusted input is parsed in such processes, under resource limits; only what unpacks the
symbol tables of targets (`remote/symbol_tables.py`) is in the worker.

Its argument is the path of a file with one request in JSON, or (`prefork`) a descriptor from which it reads that path
after it has loaded its libraries, and maybe that of a second one. It answers in lines of JSON on standard output:

    {"progress": 0.25, "text": "…"}                              progress: 0 to 1, null if unknown
    {"done": {"written": [path, …], "stays": false}}             the last line after success
    {"error": {"kind": "UnreadableInput", "message": "…"}}       the last line after an error

It sets its limits itself, before it opens an input file, so that its parent, which may have threads, does nothing
between fork and exec.
"""

import errno
import importlib
import math
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from perfloom import garbage
from perfloom.domain.errors import PerfloomError
from perfloom.ingest.jit import cache as compiled_cache
from perfloom.store.files.disk import unavailable

from ..base import processes
from ..base.without_pandas import block_pandas
from .prefork import END
from .request import AnswerWriter, Limits, Request
from .watchdog import DeadlockWatchdog

CPU_GRACE_S = 5
"""CPU seconds between SIGXCPU, at the soft limit, and SIGKILL, at the hard limit."""
EXIT_OUT_OF_MEMORY = 3
"""Exit status after the memory limit was reached."""
OUT_OF_MEMORY_MESSAGES = re.compile(
    r"can't start new thread|out of memory|Cannot allocate memory|Resource temporarily unavailable|bad_alloc"
    r"|MemoryError|Not enough memory|cannot map|failed to map segment|could not find/load|mmap failed"
    r"|Unable to allocate",
    re.IGNORECASE,
)
"""Messages of Python, the dynamic linker, LLVM and C++ if the address space is exhausted. Not all of these errors are
MemoryErrors."""
MIN_MEMORY_BYTES = 1_000_000_000
"""Enough for any small file. Most of it is libraries and compiled code."""


def main() -> None:
    """Answer requests and end: status 0 with the result, 1 with an error that was reported, 3 out of memory."""
    if len(sys.argv) == 2:
        _answer(_read_request(sys.argv[1]), _prepare())
        return
    answer_requests(int(sys.argv[1]), int(sys.argv[2]), loads_loops=bool(sys.argv[3]))


def answer_requests(descriptor: int, parent: int, *, loads_loops: bool) -> NoReturn:
    """Answer the requests whose paths come from a descriptor. loads_loops: also load compiled loops before the first.

    Exits as `main` does.
    """
    answers = _prepare()
    _load_libraries(descriptor, parent, loads_loops)
    while True:
        _answer(_read_request(_wait_for_path(descriptor)), answers)


def _prepare() -> AnswerWriter:
    """Prepare this process. Returns the writer of its answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.name_process("perfloom-read")
    # Output of libraries must not mix with the answers.
    answer_fd = os.dup(1)
    os.dup2(2, 1)
    os.umask(0o077)
    block_pandas()
    garbage.collect_rarely()
    return AnswerWriter(answer_fd)


def _read_request(path: str) -> Request:
    return Request.from_json(Path(path).read_text(encoding="utf-8"))


def _load_libraries(descriptor: int, parent: int, loads_loops: bool) -> None:
    """Load the libraries that files may need, until there is a request. loads_loops: also load compiled loops."""
    processes.die_with_parent(signal.SIGKILL, parent)
    from . import columns  # noqa: F401

    def has_request() -> bool:
        return bool(select.select([descriptor], [], [], 0)[0])

    # If a request is waiting, loading what it may not need would delay it.
    for module in ("perfloom.readers.formats", "perfloom.store.description"):
        if not has_request():
            importlib.import_module(module)
    # Without a cache for this user, every process would compile the loops, needed or not.
    if loads_loops and compiled_cache.is_ready() and not has_request():
        importlib.import_module("perfloom.ingest.jit.decorators")


def _wait_for_path(descriptor: int) -> str:
    """The path of the next request. Exits if the parent closes the pipe."""
    path = b""
    while not path.endswith(END):
        data = os.read(descriptor, 1 << 16)
        if not data:
            os._exit(0)
        path += data
    return os.fsdecode(path.removesuffix(END))


def _answer(request: Request, answers: AnswerWriter) -> None:
    """Answer a request. Returns only if the process stays for another one."""
    processes.die_with_parent(signal.SIGKILL, request.parent)
    os.chdir(request.scratch)
    os.environ |= {"HOME": request.scratch, "TMPDIR": request.scratch}
    tempfile.tempdir = None
    # Imported before the limits apply. Text alone does not need pyarrow, which takes longer to load than perf to start.
    if request.code is not None:
        from .machine_code import read_machine_code as read
    elif request.out is None:
        from .files import read_texts as read
    else:
        from .columns import read_columns as read
    cpu_seconds = _limit(request.limits)
    DeadlockWatchdog(lambda: os._exit(EXIT_OUT_OF_MEMORY))
    try:
        written = read(request, answers)
        # The limit on CPU time cannot be raised for the next request.
        stays = request.stays and time.process_time() < cpu_seconds / 2
        answers.done(written, stays=stays)
        if stays:
            return
        # Everything is written and reported; freeing memory would only delay the caller.
        sys.stderr.flush()
        os._exit(0)
    except PerfloomError as error:
        answers.error(error)
        sys.exit(1)
    except Exception as error:
        if is_memory_error(error):
            os._exit(EXIT_OUT_OF_MEMORY)
        if not isinstance(error, OSError):
            raise
        answers.error(unavailable(Path(request.out or request.text), error))
        sys.exit(1)


def is_memory_error(error: BaseException) -> bool:
    """Whether an error was caused by insufficient memory."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, RuntimeError | ImportError | OSError) and bool(OUT_OF_MEMORY_MESSAGES.search(str(error)))


def ran_out_of_memory(printed: str, limits: Limits, *, crashed: bool) -> bool:
    """Whether a process that ended without an answer ran out of memory. printed: the end of its standard error."""
    lines = printed.rstrip().splitlines()[-3:]
    # Python raises a SystemError where C code failed without an exception, as some does without memory.
    crashed = crashed or (bool(lines) and lines[-1].startswith("SystemError:"))
    return bool(OUT_OF_MEMORY_MESSAGES.search("\n".join(lines))) or (crashed and limits.memory_bytes < MIN_MEMORY_BYTES)


def memory_error_message(limits: Limits) -> str:
    """The message for a recording that needs more memory than the limit."""
    more = max(MIN_MEMORY_BYTES, 2 * limits.memory_bytes)
    # Below this limit even the smallest file cannot be read, so a shorter recording would not help.
    smaller = "" if limits.memory_bytes < MIN_MEMORY_BYTES else ", or record a shorter time or at a lower frequency"
    return (
        f"Reading needs more than the memory limit of {limits.memory_bytes / 1e9:.3g} GB. Set "
        f"PERFLOOM_READ_MEMORY_BYTES={-(-more // 10**9)}GB{smaller}."
    )


def too_much_cpu_message(limits: Limits) -> str:
    """The message for a file whose reading exceeds the limit on CPU time."""
    if limits.cpu_seconds is None:
        return too_long_message(limits.seconds)
    return (
        f"Reading took more than {limits.cpu_seconds} seconds of CPU time, the limit for files of this size, "
        "as their content is unusually large. Import a part of them, or raise PERFLOOM_READ_CPU_SECONDS."
    )


def too_long_message(seconds: int) -> str:
    """The message for a reading that exceeds the limit, in seconds of wall-clock time."""
    return (
        f"Reading took more than {seconds} seconds, the limit. Record a shorter time or at a lower frequency, "
        "or raise PERFLOOM_READ_SECONDS."
    )


def _limit(limits: Limits) -> int:
    """Set limits of this process. Returns that on its CPU time, seconds."""
    cpus = len(os.sched_getaffinity(0))
    # The caller enforces the limit on wall-clock time. This limit also applies if the caller was killed, and to small
    # files that decompress to very large ones.
    seconds = limits.seconds * cpus + 10
    if limits.cpu_seconds is not None:
        # The CPU time of starting up is not counted.
        seconds = min(seconds, limits.cpu_seconds + math.ceil(time.process_time()))
    values = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: max(limits.unpacked_bytes, 1 << 30),
        resource.RLIMIT_CORE: 0,
    }
    for limited_resource, value in values.items():
        _, hard = resource.getrlimit(limited_resource)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limited_resource, (value, value))
    # The kernel sends SIGXCPU, which identifies the reason, at the soft limit, but SIGKILL at the hard limit.
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = seconds + CPU_GRACE_S if hard == resource.RLIM_INFINITY else min(seconds + CPU_GRACE_S, hard)
    seconds = min(seconds, max(1, most - CPU_GRACE_S))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
    return seconds
