"""The process that reads a recording: everything that comes from outside is parsed in one of these, below limits.

It is given the name of a file with one request in JSON, or (`read_spare`) a descriptor to read that name from once all
is loaded. It answers in lines of JSON on standard output:

    {"progress": 0.25, "text": "…"}                              progress: 0 to 1, or null where it is not known
    {"done": {"written": [path, …]}}                             the last line, when all went well
    {"error": {"kind": "UnreadableInput", "message": "…"}}       the last line, when not

Its limits are its own doing, before it looks at a file. So nothing has to happen between fork and exec of a process
that may have threads.
"""

import errno
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

from perfloom.domain.errors import PerfloomError
from perfloom.ingest.jit import cache as compiled_cache
from perfloom.store.files.disk import unavailable

from .. import processes
from .prefork import END
from .request import AnswerWriter, Limits, Request
from .watchdog import DeadlockWatchdog
from .without_pandas import block_pandas

CPU_GRACE_S = 5
"""Between the signal that says that the CPU time is over and the one that ends a process that heeds no signal."""
EXIT_OUT_OF_MEMORY = 3
"""Exit status where the limit on memory was met."""
OUT_OF_MEMORY_MESSAGES = re.compile(
    r"can't start new thread|out of memory|Cannot allocate memory|Resource temporarily unavailable|bad_alloc"
    r"|MemoryError|Not enough memory|cannot map|failed to map segment|could not find/load|mmap failed"
    r"|Unable to allocate",
    re.IGNORECASE,
)
"""What Python, the loader of libraries, LLVM and C++ say where something does not fit into what is left of the address
space: not all of it comes as a MemoryError."""
MIN_MEMORY_BYTES = 1_000_000_000
"""So much is enough for any small file; most of it is libraries and what is compiled."""


def main() -> None:
    """Answer one request and end: status 0 with the result, 1 with an error that was reported, 3 out of memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.name_process("perfloom-read")
    # What a library prints by itself must not get between the answers.
    answer_fd = os.dup(1)
    os.dup2(2, 1)
    os.umask(0o077)
    block_pandas()
    path = sys.argv[1] if len(sys.argv) == 2 else _wait_for_path(int(sys.argv[1]), int(sys.argv[2]), bool(sys.argv[3]))
    _answer(Request.from_json(Path(path).read_text(encoding="utf-8")), AnswerWriter(answer_fd))


def _wait_for_path(descriptor: int, parent: int, loads_loops: bool) -> str:
    """Load what files may need until there is the path of a request. Ends the process where none will come.

    loads_loops: compiled loops, too.
    """
    processes.die_with_parent(signal.SIGKILL, parent)
    from . import columns  # noqa: F401

    def asked() -> bool:
        return bool(select.select([descriptor], [], [], 0)[0])

    # Whoever asks already waits: what he does not need would only keep him.
    # Where nothing is kept for this user, it would be compiled here each time, whether needed or not.
    if loads_loops and compiled_cache.is_ready() and not asked():
        from perfloom.ingest.jit import decorators
        from perfloom.readers import warmup as compiling

        if decorators.IS_CACHED:
            compiling.load_all(asked)
    path = b""
    while not path.endswith(END):
        data = os.read(descriptor, 1 << 16)
        if not data:
            os._exit(0)
        path += data
    os.close(descriptor)
    return os.fsdecode(path.removesuffix(END))


def _answer(request: Request, answers: AnswerWriter) -> None:
    processes.die_with_parent(signal.SIGKILL, request.parent)
    os.chdir(request.scratch)
    os.environ |= {"HOME": request.scratch, "TMPDIR": request.scratch}
    tempfile.tempdir = None
    # Imported before there is a limit. Text alone needs no libraries of tables, which take longer to begin than perf.
    if request.out is None:
        from .files import read_texts as read
    else:
        from .columns import read_columns as read
    _limit(request.limits)
    DeadlockWatchdog(lambda: os._exit(EXIT_OUT_OF_MEMORY))
    try:
        answers.done(read(request, answers))
        # All is written and reported; freeing the memory would only keep the caller waiting.
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
    """Whether an error comes of too little memory."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, RuntimeError | ImportError | OSError) and bool(OUT_OF_MEMORY_MESSAGES.search(str(error)))


def ran_out_of_memory(printed: str, limits: Limits, *, crashed: bool) -> bool:
    """Whether a process that ended without an answer had too little memory. printed: the end of what it said."""
    last = "\n".join(printed.rstrip().splitlines()[-3:])
    return bool(OUT_OF_MEMORY_MESSAGES.search(last)) or (crashed and limits.memory_bytes < MIN_MEMORY_BYTES)


def memory_error_message(limits: Limits) -> str:
    """The message for a recording that needs more memory than it may have."""
    more = max(MIN_MEMORY_BYTES, 2 * limits.memory_bytes)
    # What the smallest file cannot be read with is no matter of how much was recorded.
    smaller = "" if limits.memory_bytes < MIN_MEMORY_BYTES else ", or record a shorter time or at a lower frequency"
    return (
        f"Reading needs more than the memory limit of {limits.memory_bytes / 1e9:.3g} GB. Set "
        f"PERFLOOM_READ_MEMORY_BYTES={-(-more // 10**9)}GB{smaller}."
    )


def _limit(limits: Limits) -> None:
    cpus = len(os.sched_getaffinity(0))
    # The wall clock is the caller's to watch; this one ends what escaped him, and what unpacks to far more than it is.
    seconds = limits.seconds * cpus + 10
    if limits.cpu_seconds is not None:
        # What it took to begin is not counted.
        seconds = min(seconds, limits.cpu_seconds + math.ceil(time.process_time()))
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: max(limits.unpacked_bytes, 1 << 30),
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        _, hard = resource.getrlimit(what)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))
    # At the hard one the kernel sends KILL, which would say nothing.
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = seconds + CPU_GRACE_S if hard == resource.RLIM_INFINITY else min(seconds + CPU_GRACE_S, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, most), most))
