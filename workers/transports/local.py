"""A Transport to this machine: runs scripts with /bin/sh, and copies files."""

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from perfloom.domain.errors import NotFound, Refused, Unavailable
from perfloom.paths import os_error_text
from perfloom.store.files.disk import disk_errors, unavailable

from ..base.processes import clean_environment
from ..base.progress import Progress
from ..base.scripts import worker_script
from .base import (
    FileCopy,
    ScriptResult,
    output_limit_error,
    require_script,
    timeout_error,
)

SHELL = "/bin/sh"
VARIABLE_BYTES = 100_000
"""Linux limits one variable to 128 KiB (MAX_ARG_STRLEN); longer scripts are passed in a file."""
VARIABLE = "pl_given"
"""Scripts are passed in this variable because all users see command lines, and a script may contain values of a job's
variables."""
GRACE_S = 1.0
"""How long a script may take to end after TERM, and its output to end after the script: processes that the script left
running may keep the pipe open."""
BLOCK_BYTES = 1 << 16
COPY_BYTES = 1 << 20


class LocalTransport:
    """A Transport to this machine."""

    @property
    def title(self) -> str:
        """Its name."""
        return socket.gethostname()

    def run(
        self, script: str, *, input: bytes = b"", timeout_s: float = 60.0, limit_bytes: int = 64 << 20
    ) -> ScriptResult:
        """See Transport."""
        try:
            with self._start_script(script, input) as (process, given), process:
                try:
                    return self._follow(process, given, time.monotonic() + timeout_s, timeout_s, limit_bytes)
                finally:
                    self._end(process)
                    _close(process.stdin)
        except OSError as error:
            raise Unavailable(f"A script could not be run on {self.title}: {os_error_text(error)}.") from error

    @contextlib.contextmanager
    def _start_script(self, script: str, input: bytes) -> Iterator[tuple["subprocess.Popen[bytes]", bytes]]:
        """A process that runs the script, and the data for its standard input."""
        with _script_argv(script) as (argv, variables):
            pipe = subprocess.PIPE
            yield (
                subprocess.Popen(
                    argv,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    env=clean_environment() | variables,
                    cwd=_home(),
                    start_new_session=True,
                ),
                input,
            )

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """End the script, if it still runs, with its process group."""
        if process.poll() is not None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        self._kill(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)

    def _follow(
        self, process: subprocess.Popen[bytes], input: bytes, end: float, timeout_s: float, limit: int
    ) -> ScriptResult:
        """Write its input and read its output until it has ended and its output is complete, or GRACE_S has passed."""
        assert process.stdin and process.stdout and process.stderr
        found = {process.stdout: bytearray(), process.stderr: bytearray()}
        rest = memoryview(input)
        with selectors.DefaultSelector() as waiting:
            for stream in found:
                os.set_blocking(stream.fileno(), False)
                waiting.register(stream, selectors.EVENT_READ)
            os.set_blocking(process.stdin.fileno(), False)
            waiting.register(process.stdin, selectors.EVENT_WRITE)
            closing: float | None = None
            while any(stream in waiting.get_map() for stream in found):
                now = time.monotonic()
                if process.poll() is not None:
                    closing = closing or min(end, now + GRACE_S)
                    if now > closing:
                        break
                elif now > end:
                    raise timeout_error(self.title, timeout_s)
                for key, _ in waiting.select(0.05 if closing is None else 0.01):
                    if key.fileobj is process.stdin:
                        rest = _write(process.stdin, rest)
                        if not rest:
                            waiting.unregister(process.stdin)
                            _close(process.stdin)
                        continue
                    stream = process.stdout if key.fileobj is process.stdout else process.stderr
                    data = stream.read(BLOCK_BYTES)
                    if data == b"":
                        waiting.unregister(stream)
                    elif data:
                        found[stream] += data
                if sum(map(len, found.values())) > limit:
                    raise output_limit_error(self.title, limit)
            while process.poll() is None:
                if time.monotonic() > end:
                    raise timeout_error(self.title, timeout_s)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
        status = process.returncode
        return ScriptResult(status if status >= 0 else None, bytes(found[process.stdout]), bytes(found[process.stderr]))

    def put(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """See Transport."""
        for number, file in enumerate(files):
            size = max(1, file.bytes or 0)

            def report(copied: int, number: int = number, file: FileCopy = file, size: int = size) -> None:
                part = min(1.0, copied / size)
                report_progress(progress, number + part, len(files), f"Copying {file.local.name}")

            with open_for_reading(file.local) as source:
                copy_to(source, Path(file.remote), mode_of(file), report)

    def get(self, files: Sequence[FileCopy], progress: Progress | None = None) -> None:
        """See Transport."""
        for number, file in enumerate(files):
            if is_complete(file):
                continue
            report_progress(progress, number, len(files), f"Copying {Path(file.remote).name}")
            with open_for_reading(Path(file.remote)) as source:
                with disk_errors(file.local):
                    file.local.parent.mkdir(parents=True, exist_ok=True)
                copy_to(source, file.local, 0o600)

    def close(self) -> None:
        """Does nothing: it holds no resource."""


def is_complete(file: FileCopy) -> bool:
    """Whether it was fetched before."""
    if file.bytes is None:
        return False
    try:
        return file.local.stat().st_size == file.bytes
    except OSError:
        return False


def mode_of(file: FileCopy) -> int:
    """The permissions of the copy of a file here."""
    if file.mode is not None:
        return file.mode
    return 0o700 if os.access(file.local, os.X_OK) else 0o600


@contextlib.contextmanager
def _script_argv(script: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """argv that runs a script, and the variable that contains it."""
    text = os.fsencode(require_script(script))
    if len(text) < VARIABLE_BYTES:
        yield [SHELL, "-c", worker_script("transports/run_variable.sh")], {VARIABLE: script}
        return
    with tempfile.NamedTemporaryFile(prefix="perfloom-", suffix=".sh") as file:
        file.write(text)
        file.flush()
        yield [SHELL, file.name], {}


def _home() -> str:
    home = os.path.expanduser("~")
    return home if os.access(home, os.X_OK) else "/"


def _write(stream: IO[bytes], data: memoryview) -> memoryview:
    """Write a part of `data`. Returns the rest; nothing if the reader has closed the pipe."""
    try:
        return data[os.write(stream.fileno(), data[:BLOCK_BYTES]) :] if data else data
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.close()


def copy_to(source: IO[bytes], to: Path, mode: int, report: Callable[[int], None] = lambda copied: None) -> None:
    """Copy to a temporary name in the same directory, then rename. report: called with the bytes copied so far; may
    raise."""
    partial = to.parent / f".{to.name[:100]}.{secrets.token_hex(6)}.part"
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(handle, "wb") as target:
                os.fchmod(handle, mode)
                while data := source.read(COPY_BYTES):
                    target.write(data)
                    report(target.tell())
            os.replace(partial, to)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"The directory {to.parent} does not exist, or no longer.") from error
    except OSError as error:
        raise unavailable(to, error) from error


def open_for_reading(path: Path) -> IO[bytes]:
    """A file of this machine, open for reading. Raises NotFound, Refused."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist, or no longer.") from None
    except OSError as error:
        raise Refused(
            f"{path} cannot be read: {os_error_text(error)}. Check its permissions, then try again."
        ) from error


def report_progress(progress: Progress | None, done: float, of: int, text: str) -> None:
    if progress is not None:
        progress(done / of, text)
