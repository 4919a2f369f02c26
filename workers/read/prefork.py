"""A reader process (see `workers.read.child`) that is started before there is a request, because loading its libraries
takes longer than reading most files. It waits for one request, obeys the same limits as any other, and then exits; or
it stays for one more about the same files (`ReaderKeeper`).

Only the standard library is imported here: a command starts it before it loads anything else.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from perfloom.ingest.jit import cache as compiled_cache

from ..base import processes
from ..base.huge_pages import has_free_huge_pages

if TYPE_CHECKING:
    from .request import Request

IDLE_S = 20.0
"""How long it waits. It uses 150 MB and saves the next reading one second, which is worth it only while jobs come."""
END = b"\0"
"""The byte after the path of a request."""
MALLOC_OPTIONS = {
    processes.MallocOption.ARENA_MAX: 2,
    # Reuse the memory of one chunk for the next, instead of returning it to the kernel in between.
    processes.MallocOption.TRIM_THRESHOLD_: 256 << 20,
    processes.MallocOption.MMAP_THRESHOLD_: 32 << 20,
    processes.MallocOption.TOP_PAD_: 32 << 20,
}
"""Options of malloc in a reader process."""
_waiting: "list[PreforkedReader]" = []
_early: "list[EarlyReading]" = []
_begun: "list[BegunProfile]" = []
_lock = threading.RLock()


class ReaderProcess(Protocol):
    """What is used of a Popen object."""

    @property
    def pid(self) -> int: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...


class ForkedProcess:
    """A process that this one forked, as a Popen object shows it. stdout: its standard output."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self._status: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end. Returns the exit status."""
        status = self._wait(0)
        assert status is not None
        return status

    def _wait(self, options: int) -> int | None:
        with self._lock:
            if self._status is None:
                pid, status = os.waitpid(self.pid, options)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
            return self._status


@dataclass(frozen=True)
class PreforkedReader:
    """A process that waits for a request. request_descriptor: of the pipe to it. stderr: its standard error."""

    process: ReaderProcess
    request_descriptor: int
    stderr: IO[bytes]
    owner: int

    @property
    def usable(self) -> bool:
        """Whether this process started it, and it still waits."""
        return self.owner == os.getpid() and self.process.poll() is None

    def send_request(self, request: Path) -> bool:
        """Send it the path of a request; False if the process has ended."""
        try:
            os.write(self.request_descriptor, os.fsencode(request) + END)
        except OSError:
            return False
        return True

    def end(self) -> None:
        """End it and what it started, unless this process was forked from the one that started it."""
        os.close(self.request_descriptor)
        self.stderr.close()
        if self.process.stdout:
            self.process.stdout.close()
        if self.owner == os.getpid():
            # perf, which it may have started, is in the same process group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass(frozen=True)
class EarlyReading:
    """A process that reads `files` already, for the directories `staged` and `scratch` of `read_to_result`. clock: see
    Request."""

    reader: PreforkedReader
    files: tuple[Path, ...]
    clock: str
    staged: Path
    scratch: Path


@dataclass(frozen=True)
class BegunProfile:
    """A process that reads a profile already, for `read_profile`. folder: of this process, for what it writes."""

    reader: PreforkedReader
    request: "Request"
    folder: "tempfile.TemporaryDirectory[str]"

    def end(self) -> None:
        """End the process, and remove what it wrote."""
        self.reader.end()
        self.folder.cleanup()


@dataclass
class ReaderKeeper:
    """Keeps the process that read the files of a result for another request about them, so that libraries are not
    loaded again. A context manager that ends it, without waiting until its memory is free."""

    _kept: PreforkedReader | None = None

    def keep(self, reader: PreforkedReader) -> None:
        """Keep a process that waits for its last request."""
        self._kept = reader

    def take(self) -> PreforkedReader | None:
        """The process, which the caller must use and end; None if there is none."""
        kept, self._kept = self._kept, None
        if kept is not None and not kept.usable:
            kept.end()
            return None
        return kept

    def __enter__(self) -> "ReaderKeeper":
        return self

    def __exit__(self, *error: object) -> None:
        kept, self._kept = self._kept, None
        if kept is None:
            return
        try:
            # Not a daemon, as this thread may be: the process waits for it at its exit.
            threading.Thread(target=kept.end, daemon=False).start()
        except RuntimeError:
            kept.end()


def prefork_reader(*, loads_loops: bool = True) -> None:
    """Start a process that waits for a request, unless one waits. It is killed when the calling thread ends.

    loads_loops: whether it loads compiled loops, which a small file does not need.
    """
    if any(one.usable for one in _waiting):
        return
    end_reader()
    preforked = start_reader(loads_loops=loads_loops)
    # Otherwise the reading starts its own process, and reports the error.
    if preforked is not None:
        offer_reader(preforked)


def offer_reader(preforked: PreforkedReader) -> None:
    """Let the next reading use a process that waits for a request."""
    with _lock:
        _waiting.append(preforked)
    idle = threading.Timer(IDLE_S, _end_idle, [preforked])
    idle.daemon = True
    idle.start()


def start_reader(*, loads_loops: bool) -> PreforkedReader | None:
    """A new process that waits for a request; None if it cannot be started. It is killed when the calling thread ends.

    loads_loops: see `prefork_reader`.
    """
    descriptor, asked = os.pipe()
    stderr = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        process = subprocess.Popen(
            processes.python_argv(
                "perfloom.workers.read.child", str(descriptor), str(os.getpid()), "loops" if loads_loops else ""
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=reader_environment(),
            cwd="/",
            start_new_session=True,
            pass_fds=(descriptor,),
        )
    except OSError:
        os.close(asked)
        stderr.close()
        return None
    finally:
        os.close(descriptor)
    return PreforkedReader(process, asked, stderr, os.getpid())


def take_reader() -> PreforkedReader | None:
    """The waiting process, which the caller must use and end; None if there is none."""
    with _lock:
        usable = next((one for one in _waiting if one.usable), None)
        if usable is not None:
            _waiting.remove(usable)
            return usable
    end_reader()
    return None


def offer_reading(early: EarlyReading) -> None:
    """Let the reading of these files, when it is asked for, continue with this process."""
    with _lock:
        _early.append(early)


def take_reading(files: Sequence[Path], clock: str) -> EarlyReading | None:
    """The process that reads these files already, if any. The caller must end it, and remove its directories."""
    with _lock:
        found = next((one for one in _early if (one.files, one.clock) == (tuple(files), clock)), None)
        if found is not None:
            _early.remove(found)
        return found


def offer_profile(begun: BegunProfile) -> None:
    """Let the next `read_profile` use the process, if it asks for the same."""
    if not _begun:
        # They must end before their directories are removed at the exit of this process.
        atexit.register(_end_begun)
    _begun.append(begun)


def has_begun() -> bool:
    """Whether a process reads a profile already that was not asked for yet."""
    return bool(_begun)


def take_profile(is_wanted: Callable[[BegunProfile], bool]) -> BegunProfile | None:
    """The process that reads a wanted profile already, or has read it, which the caller must use; if there is none, all
    that read are ended."""
    for begun in _begun:
        if begun.reader.owner == os.getpid() and is_wanted(begun):
            _begun.remove(begun)
            return begun
    _end_begun()
    return None


def _end_begun() -> None:
    while _begun:
        _begun.pop().end()


def _end_idle(preforked: PreforkedReader) -> None:
    with _lock:
        if preforked not in _waiting:
            return
    end_reader()


def end_reader() -> None:
    """End the waiting process."""
    while True:
        with _lock:
            if not _waiting:
                return
            preforked = _waiting.pop()
        preforked.end()


def reader_environment() -> dict[str, str]:
    """The environment of a reader process. It has no other variables of the server, as some are secret."""
    variables = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV") if name in os.environ}
    return (
        variables
        | {
            "LC_ALL": "C.UTF-8",
            # These keep libraries from reserving address space, which is what is limited.
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "NUMBA_CACHE_DIR": str(compiled_cache.get_base_folder()),
            "NUMPY_MADVISE_HUGEPAGE": str(int(has_free_huge_pages())),
        }
        | {f"MALLOC_{option.name}": str(value) for option, value in MALLOC_OPTIONS.items()}
    )
