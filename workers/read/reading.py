"""Reads recordings into results, and for commands on files: always in a child process with limits.

Recordings are untrusted input. The child (`workers.read.child`) has limits on memory, time and disk space, and none of
the server's secrets. However it ends, the caller gets a result or a PerfloomError.
"""

import json
import logging
import math
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from perfloom.config import Settings
from perfloom.domain.errors import Unavailable, UnreadableInput
from perfloom.store.files import binary_cache
from perfloom.store.files.disk import disk_errors, remove_tree

from ..base import processes
from ..base.progress import Progress
from . import prefork, rank_archive
from .child import EXIT_OUT_OF_MEMORY, memory_error_message, ran_out_of_memory, too_long_message, too_much_cpu_message
from .rank_folders import BUILD_IDS, PLAN, STATE, rank_folders
from .request import (
    DESCRIPTION_FILE,
    CodeRequest,
    Input,
    Limits,
    Request,
    SymbolPlaces,
    error_from_json,
    script_name,
    symbols_name,
)

if TYPE_CHECKING:
    # Not imported at run time: reading without storing needs no database, and reading into a result no pyarrow.
    from perfloom.domain.profile import Profile
    from perfloom.store import Result, Store

POLL_S = 0.25
ANSWER_BYTES = 1 << 20
STDERR_BYTES = 16 << 10
TEXT_FOLDER = "text"
OUT_FOLDER = "profile"

log = logging.getLogger(__name__)


def read_to_result(
    settings: Settings,
    store: "Store",
    job_id: str,
    files: Sequence[Path],
    *,
    name: str,
    meta_changes: Mapping[str, Any],
    progress: Progress,
    clock: str = "",
    keeper: prefork.ReaderKeeper | None = None,
    symbols: SymbolPlaces | None = None,
) -> "Result":
    """Read the files of one run into the result `job_id`, which gets them as originals; or return an existing result.

    If the text of a perf.data file is in the same directory (see `symbolize`), the text is read; its symbols, if they
    are there. Instead of files there
    may be one directory: that of a planned job's ranks, with plan.json. meta_changes: fields of Meta to set; `reasons`
    are appended. clock: see Request. progress: called regularly, even without progress; an exception in it ends the
    reading. keeper: gets the process, for `read_code`. symbols: see `make_request`. Raises
    UnreadableInput, Unavailable (disk full, killed), or what `progress` raised.
    """
    known = store.results.find(job_id)
    if known is not None and not known.missing:
        return known
    # Imported here, because it loads the database.
    from perfloom.store.files.originals import EarlyCompression

    changes = dict(meta_changes)
    early = None if changes else prefork.take_reading(files, clock)
    if early is not None:
        staged, scratch = early.staged, early.scratch
    else:
        staged, scratch = store.results.stage(job_id), store.results.stage(job_id)
    try:
        planned_directory = _find_planned_directory(files)
        with EarlyCompression(files if planned_directory is None else (), scratch, settings.data) as compression:
            request = make_request(
                settings,
                files,
                scratch,
                staged,
                meta=changes,
                clock=clock,
                describe=True,
                stays=keeper is not None,
                symbols=symbols,
            )
            written = _answer(request, progress, keeper, early.reader if early else None)
            packed = compression.wait()
        originals = (
            [*files, *written] if planned_directory is None else _collect_originals(planned_directory, scratch, written)
        )
        return store.results.publish(
            job_id,
            staged,
            name=name,
            originals=originals,
            job_id=job_id,
            description=_read_description(scratch),
            packed=packed,
        )
    finally:
        remove_tree(scratch)
        remove_tree(staged)


def symbolize(settings: Settings, perf: str | None, perf_data: Path, directory: Path, progress: Progress) -> Path:
    """The file in `directory` with the output of `perf script` for a recording. Writes it if it is missing.

    Call it on the machine that recorded: only there perf finds the binaries with the symbols. perf: its path, None to
    search PATH. Raises UnreadableInput, Unavailable, or what `progress` raised.
    """
    text = directory / script_name(perf_data.name)
    if not text.exists():
        with tempfile.TemporaryDirectory(dir=directory, prefix=".perf-") as scratch:
            request = make_request(settings, [perf_data], Path(scratch), None, perf=perf, text_folder=directory)
            _answer(request, progress)
    if not text.exists():
        raise UnreadableInput(f"{perf_data.name} is not a recording of perf. Record it again.")
    return text


def read_code(
    settings: Settings,
    store: "Store",
    id: str,
    files: Sequence[Path],
    *,
    recorded_here: bool,
    started: float | None,
    progress: Progress,
    keeper: prefork.ReaderKeeper | None = None,
    folders: Sequence[str] = (),
    reads_dumps: bool = False,
) -> None:
    """Read the machine code and source lines of the result `id`, unless it has them.

    files: the recordings that it was read from. recorded_here: whether on this machine. started: when the recording
    began, seconds since the epoch. keeper: may have the process that read them. folders: with binaries from elsewhere.
    reads_dumps: see `Binaries`. Raises UnreadableInput, Unavailable.
    """
    from perfloom.ingest.storage_names import CODE_FOLDER
    from perfloom.store.files.code_folder import publish_code, stage_code

    result = store.results.path(id)
    if (result / CODE_FOLDER).exists():
        return
    staged = stage_code(result)
    code = CodeRequest(
        str(staged),
        recorded_here,
        started,
        public=bool(settings.run_as),
        folders=tuple(folders),
        reads_dumps=reads_dumps,
        lines=str(binary_cache.open_origin(settings.data, binary_cache.LINES).root),
    )
    try:
        read_code_to(settings, result, files, code, progress, keeper)
        publish_code(staged, result)
    finally:
        remove_tree(staged)


def read_code_to(
    settings: Settings,
    result: Path,
    files: Sequence[Path],
    code: CodeRequest,
    progress: Progress,
    keeper: prefork.ReaderKeeper | None = None,
) -> None:
    """Read the machine code of the profile in the directory `result` to a new directory. keeper: see `read_code`.
    Raises UnreadableInput, Unavailable."""
    with tempfile.TemporaryDirectory(prefix="perfloom-") as scratch:
        _answer(make_request(settings, files, Path(scratch), result, code=code), progress, keeper)


def read_profile(settings: Settings, files: Sequence[Path | str], progress: Progress | None = None) -> "Profile":
    """The profile in files of one run, without storing it. "-": standard input; a directory: see `read_to_result`.

    Raises UnreadableInput, Unavailable.
    """
    begun = prefork.take_profile(
        lambda other: other.request == make_profile_request(settings, files, other.folder.name)
    )
    with tempfile.TemporaryDirectory(prefix="perfloom-") if begun is None else begun.folder as folder:
        request = make_profile_request(settings, files, folder) if begun is None else begun.request
        reader = None if begun is None else begun.reader
        _answer(request, progress or (lambda part, text: None), reader=reader)
        # Mapped files remain readable after they were removed.
        from perfloom.store.files import columns

        return columns.read(Path(folder, OUT_FOLDER))


def make_profile_request(settings: Settings, files: Sequence[Path | str], folder: str) -> Request:
    """The request to read the profile in `files` to a new directory in `folder`. Raises UnreadableInput."""
    scratch = Path(folder, "scratch")
    scratch.mkdir(exist_ok=True)
    return make_request(settings, files, scratch, Path(folder, OUT_FOLDER))


def make_request(
    settings: Settings,
    files: Sequence[Path | str],
    scratch: Path,
    out: Path | None,
    *,
    perf: str | None = None,
    meta: dict[str, Any] | None = None,
    text_folder: Path | None = None,
    clock: str = "",
    describe: bool = False,
    code: CodeRequest | None = None,
    stays: bool = False,
    symbols: SymbolPlaces | None = None,
) -> Request:
    """The request to read `files`, see `Request`. text_folder: by default in `scratch`. symbols: by default those of a
    recording of this user, who may read what it names. Raises UnreadableInput."""
    planned_directory = _find_planned_directory(files)
    return Request(
        inputs=_inputs(files) if planned_directory is None else (),
        scratch=str(scratch),
        text=str(text_folder or scratch / TEXT_FOLDER),
        limits=Limits(
            memory_bytes=settings.read_memory_bytes,
            seconds=settings.read_seconds,
            unpacked_bytes=settings.upload_limit_bytes,
            free_bytes=settings.reserve_bytes,
            cpu_seconds=_cpu_seconds(settings, files),
        ),
        parent=os.getpid(),
        out=None if out is None else str(out),
        planned=None if planned_directory is None else str(planned_directory.absolute()),
        perf=perf,
        buildid_dir=(symbols and symbols.tables) or str(settings.buildid_dir),
        perf_script=settings.perf_script,
        meta=meta or {},
        clock=clock,
        describe=describe,
        code=code,
        stays=stays,
        symbols=symbols or SymbolPlaces(folders=list_shared_folders(settings)),
    )


def list_shared_folders(settings: Settings) -> tuple[str, ...]:
    """The directories of binaries for all recordings: uploaded ones, and those of debuginfod."""
    return tuple(str(binary_cache.open_origin(settings.data, origin).root) for origin in binary_cache.SHARED)


def write_request(request: Request) -> Path:
    """Write the file from which a reader process reads its request. Returns its path. Raises Unavailable."""
    scratch = Path(request.scratch)
    with disk_errors(scratch):
        Path(request.text).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = scratch / "request.json"
        path.write_text(request.to_json(), encoding="utf-8")
    return path


def _answer(
    request: Request,
    progress: Progress,
    keeper: prefork.ReaderKeeper | None = None,
    reader: prefork.PreforkedReader | None = None,
) -> list[Path]:
    """Let a child process answer a request. Returns the text files of perf.data files that it wrote.

    keeper: for `code`, may have the process; else gets it. reader: has got the request already.
    """
    path = None if reader is not None else write_request(request)
    with disk_errors(Path(request.scratch)), tempfile.TemporaryFile(dir=request.scratch) as temporary_file:
        return _Child(request, path, temporary_file, progress, keeper or prefork.ReaderKeeper(), reader).answer()


def _read_description(scratch: Path) -> dict[str, Any] | None:
    """The description of the profile by the reader process; None if there is none."""
    try:
        described: dict[str, Any] = json.loads((scratch / DESCRIPTION_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return described


def _cpu_seconds(settings: Settings, files: Sequence[Path | str]) -> int | None:
    """The limit on CPU time for these files; None if their size is unknown."""
    size = 0
    for file in files:
        path = Path(file)
        if file == "-" or not (path.is_dir() or path.is_file()):
            return None
        inside = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
        size += sum(one.stat().st_size for one in inside)
    return settings.read_cpu_seconds + math.ceil(settings.read_cpu_seconds / 10 * size / 1e6)


def _find_planned_directory(files: Sequence[Path | str]) -> Path | None:
    """The directory of a planned job if `files` is one, else None. Raises UnreadableInput."""
    folder = next((Path(file) for file in files if file != "-" and os.path.isdir(file)), None)
    if folder is None:
        return None
    if not (folder / PLAN).is_file():
        raise UnreadableInput(f"{folder} is a directory without the {PLAN} of a job. Import the files in it.")
    if len(files) > 1:
        raise UnreadableInput(f"{folder} contains all ranks of a job. Read it separately.")
    return folder


def _collect_originals(planned: Path, scratch: Path, written: Sequence[Path]) -> list[Path]:
    """The original files of a planned job: those of its only rank, or one archive with those of all ranks. written:
    symbols and texts of recordings, which belong to them."""
    found = list(rank_folders(planned))
    if len(found) == 1 and found[0].rank.number is None:
        return [*(path for name, path in found[0].files.items() if name not in (STATE, BUILD_IDS)), *written]
    with disk_errors(scratch):
        rank_archive.pack(planned, scratch / rank_archive.NAME, scratch / TEXT_FOLDER, written)
    return [scratch / rank_archive.NAME]


def _inputs(files: Sequence[Path | str]) -> tuple[Input, ...]:
    """The inputs. A perf.data file and its text or symbols are one input."""
    beside = {str(file): str(Path(file).absolute()) for file in files}
    inputs = []
    for file in files:
        if file == "-":
            inputs.append(Input("-", "standard input"))
            continue
        path = Path(file)
        script = beside.pop(str(path.with_name(script_name(path.name))), None)
        symbols = beside.pop(str(path.with_name(symbols_name(path.name))), None)
        inputs.append(Input(str(path.absolute()), path.name, script, symbols))
    parts = {part for one in inputs for part in (one.script, one.symbols) if part is not None}
    return tuple(one for one in inputs if one.path not in parts)


class _Child:
    """One reader process."""

    def __init__(
        self,
        request: Request,
        path: Path | None,
        stderr: IO[bytes],
        progress: Progress,
        keeper: prefork.ReaderKeeper,
        preforked: prefork.PreforkedReader | None = None,
    ) -> None:
        """path: of the file with the request. stderr: receives its standard error. preforked: has got the request;
        then no path is needed."""
        self.request = request
        self.path = path
        self.stderr = stderr
        self.progress = progress
        self.keeper = keeper
        self.preforked = preforked
        self.last: tuple[float | None, str] = (None, "Reading")
        self.final: dict[str, Any] | None = None

    def answer(self) -> list[Path]:
        """The text files that it wrote. Raises PerfloomError, or what `progress` raises.

        The child has ended then, or is kept.
        """
        process = self._start_reader()
        stays = False
        try:
            self._listen(process)
            stays = self._stays
            return self._outcome(0 if stays else process.wait())
        finally:
            if self.preforked is None:
                self._end(process)
            elif stays:
                self.keeper.keep(self.preforked)
            else:
                self.preforked.end()

    @property
    def _stays(self) -> bool:
        """Whether it waits for another request."""
        done = (self.final or {}).get("done", {})
        return bool(done.get("stays"))

    def _end(self, process: prefork.ReaderProcess) -> None:
        # perf, which the child may have started, is in the same process group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
        self.stderr.close()

    def _start_reader(self) -> prefork.ReaderProcess:
        """The process: the preforked one if there is one and it can do the request, else a new one."""
        if self.preforked is not None:
            self.stderr = self.preforked.stderr
            return self.preforked.process
        assert self.path is not None
        from_input = any(one.path == "-" for one in self.request.inputs)
        preforked = None if from_input or self.request.out is None else self._find_reader()
        if preforked is not None and preforked.send_request(self.path):
            self.preforked, self.stderr = preforked, preforked.stderr
            return preforked.process
        if preforked is not None:
            preforked.end()
        return subprocess.Popen(
            processes.python_argv("perfloom.workers.read.child", str(self.path)),
            stdin=None if from_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=prefork.reader_environment(),
            cwd=self.request.scratch,
            start_new_session=True,
        )

    def _find_reader(self) -> prefork.PreforkedReader | None:
        """A process that waits for requests; None where a new one that answers only this request will do."""
        found = self.keeper.take() or prefork.take_reader()
        return prefork.start_reader(loads_loops=False) if found is None and self.request.stays else found

    def _listen(self, process: prefork.ReaderProcess) -> None:
        assert process.stdout is not None
        deadline = time.monotonic() + self.request.limits.seconds
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(POLL_S)
                if time.monotonic() > deadline:
                    raise UnreadableInput(too_long_message(self.request.limits.seconds))
                if not ready:
                    self.progress(*self.last)
                    continue
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data or len(rest) > ANSWER_BYTES:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
                if self._stays:
                    return

    def _take(self, answer: dict[str, Any]) -> None:
        if "progress" in answer:
            self.last = (answer["progress"], answer["text"])
            self.progress(*self.last)
        else:
            self.final = answer

    def _outcome(self, status: int) -> list[Path]:
        final = self.final or {}
        if "error" in final:
            raise error_from_json(final["error"])
        if "done" in final and status == 0:
            return [Path(path) for path in final["done"]["written"]]
        if status == EXIT_OUT_OF_MEMORY:
            raise UnreadableInput(memory_error_message(self.request.limits))
        if status == -signal.SIGXCPU:
            raise UnreadableInput(too_much_cpu_message(self.request.limits))
        if status == -signal.SIGKILL:
            raise Unavailable(
                "Reading was killed, most likely as the machine ran out of memory. Free memory, or record a shorter "
                "time or at a lower frequency, then read it again."
            )
        trace = self._stderr_tail()
        if (status < 0 or status == 1) and ran_out_of_memory(trace, self.request.limits, crashed=status < 0):
            raise UnreadableInput(memory_error_message(self.request.limits))
        if status < 0:
            name = signal.Signals(-status).name
            raise UnreadableInput(
                f"Reading this recording crashed ({name}). It is damaged or malicious. Record it again."
            )
        log.error("reading failed with status %d:\n%s", status, trace)
        raise RuntimeError(f"reading failed with status {status}: {trace.strip().rpartition(chr(10))[2]}")

    def _stderr_tail(self) -> str:
        """The end of its standard error."""
        self.stderr.seek(max(0, self.stderr.seek(0, os.SEEK_END) - STDERR_BYTES))
        return self.stderr.read().decode(errors="replace")
