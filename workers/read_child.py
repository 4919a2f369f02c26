"""The process that reads a recording: everything that comes from outside is parsed in one of these, below limits.

It is given the name of a file with one request in JSON, and answers in lines of JSON on standard output:

    {"progress": 0.25, "text": "…"}                              progress: 0 to 1, or null where it is not known
    {"done": {"written": [path, …]}}                             the last line, when all went well
    {"error": {"kind": "UnreadableInput", "message": "…"}}       the last line, when not

Its limits are its own doing, before it looks at a file. So nothing has to happen between fork and exec of a process
that may have threads.
"""

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from perfloom.domain.errors import PerfloomError, TooLarge, UnreadableInput
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import column
from perfloom.domain.validity import too_heavy
from perfloom.readers import HEAD_BYTES, perf_data, recognise
from perfloom.readers.compression import PlainStream, open_plain
from perfloom.readers.merge import merge
from perfloom.store import columns
from perfloom.store.disk import disk_errors, unavailable
from perfloom.workers import perf_tool, processes

Read = Callable[[BinaryIO, str], Profile]
REPORT_S = 0.2
NO_THREAD = "can't start new thread"
"""What Python says where a thread's stack does not fit into what is left of the address space."""
LINES_BYTES = 1 << 16
EXHAUSTED = 3
"""Exit status where the limit on memory was met."""


@dataclass(frozen=True)
class Limits:
    """What reading may take. memory_bytes: address space. unpacked_bytes: of one file, unpacked. free_bytes: of disk,
    which unpacking leaves untouched."""

    memory_bytes: int
    seconds: int
    unpacked_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Input:
    """A file to read. path: "-" for standard input. name: for messages. script: the text that perf printed of this
    perf.data, where there is one."""

    path: str
    name: str
    script: str | None = None


@dataclass(frozen=True)
class Request:
    """What to do. scratch: an empty directory of the caller's, for what only reading needs.

    out: the directory that gets the columns of the profile; None: only the text of perf.data files is wanted.
    text: the directory that gets that text, as NAME.script.zst. perf: None for the one on PATH. parent: the pid that
    it ends with. meta: what the caller knows better, by the fields of Meta; its `reasons` are added.
    """

    inputs: tuple[Input, ...]
    scratch: str
    text: str
    limits: Limits
    parent: int
    out: str | None = None
    perf: str | None = None
    meta: dict[str, Any] | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Request":
        data = json.loads(text)
        data["inputs"] = tuple(Input(**one) for one in data["inputs"])
        data["limits"] = Limits(**data["limits"])
        return cls(**data)


def main() -> None:
    """Answer one request and end: status 0 with the result, 1 with an error that was told, 3 out of memory."""
    request = Request.from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.die_with_parent(signal.SIGKILL, request.parent)
    processes.name_process("perfloom-read")
    answers = Answers(os.dup(1))
    # What a library prints by itself must not get between the answers.
    os.dup2(2, 1)
    os.umask(0o077)
    _limit(request.limits)
    try:
        answers.done(read(request, answers))
    except PerfloomError as error:
        answers.error(error)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and NO_THREAD not in str(error):
            raise
        answers.give({"error": {"kind": "UnreadableInput", "message": too_much_memory(request.limits)}})
        os._exit(EXHAUSTED)
    except OSError as error:
        answers.error(unavailable(Path(request.out or request.text), error))
        sys.exit(1)


def too_much_memory(limits: Limits) -> str:
    """The message for a recording that needs more memory than it may have."""
    return (
        f"Reading it needs more than {limits.memory_bytes / 1e9:.3g} GB of memory, which is the limit. Record a "
        "shorter time or at a lower frequency, or raise PERFLOOM_READ_MEMORY_BYTES."
    )


def _limit(limits: Limits) -> None:
    cpus = len(os.sched_getaffinity(0))
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        # The wall clock is the caller's to watch; this one ends what escaped him.
        resource.RLIMIT_CPU: limits.seconds * cpus + 10,
        resource.RLIMIT_FSIZE: max(limits.unpacked_bytes, 1 << 30),
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        _, hard = resource.getrlimit(what)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


class Answers:
    """The lines of JSON that go to the caller."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)
        self._last = 0.0

    def give(self, answer: dict[str, Any]) -> None:
        self._file.write(json.dumps(answer) + "\n")

    def progress(self, part: float | None, text: str, *, now: bool = False) -> None:
        """Tell how far it got; too many of these in a short time are left out."""
        clock = time.monotonic()
        if now or clock - self._last >= REPORT_S:
            self._last = clock
            self.give({"progress": part, "text": text})

    def error(self, error: PerfloomError) -> None:
        self.give({"error": {"kind": type(error).__name__, "message": error.message}})

    def done(self, written: Sequence[Path]) -> None:
        self.give({"done": {"written": [str(path) for path in written]}})


class Watched:
    """A stream that tells when it was read, and writes what was read to a second file where one is wanted."""

    def __init__(self, stream: Any, tell: Callable[[int], None], copy: IO[bytes] | None = None) -> None:
        self._stream = stream
        self._tell = tell
        self._copy = copy
        self._taken = 0
        self._ahead = b""

    @property
    def defect(self) -> str | None:
        """See `PlainStream`."""
        return getattr(self._stream, "defect", None)

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        if self._copy is not None:
            self._copy.write(data)
        self._taken += len(data)
        self._tell(self._taken)
        return data

    def readline(self, limit: int) -> bytes:
        """The next line with its end, or `limit` bytes of it. For readers that use nothing else."""
        while b"\n" not in self._ahead[:limit] and len(self._ahead) < limit and (data := self.read(LINES_BYTES)):
            self._ahead += data
        end = self._ahead.find(b"\n", 0, limit) + 1 or limit
        line, self._ahead = self._ahead[:end], self._ahead[end:]
        return line


def read(request: Request, answers: Answers) -> tuple[Path, ...]:
    """Do what the request asks for. Returns the files of text that were written. Raises PerfloomError, OSError."""
    written: list[Path] = []
    profiles = []
    for number, wanted in enumerate(request.inputs):
        of = f" ({number + 1} of {len(request.inputs)})" if len(request.inputs) > 1 else ""
        reading = _Reading(request, answers, wanted, of)
        profile = reading.read()
        if profile is not None:
            profiles.append(profile)
        written += reading.written
    if request.out is not None:
        answers.progress(None, "Brings the runs together" if len(profiles) > 1 else "Stores", now=True)
        profile = merge(profiles)
        if too_heavy(column(profile.samples, "weight")):
            raise UnreadableInput(
                "The weights of the samples add up to more than 2^63, which cannot be right: the recording is damaged. "
                "Record it again."
            )
        meta = told(profile.meta, request.meta or {})
        columns.write(replace(profile, meta=meta), Path(request.out))
    return tuple(written)


def told(meta: Meta, changes: dict[str, Any]) -> Meta:
    """`meta` with what the caller knows better; reasons are added to those there are."""
    known = {field.name for field in fields(Meta)}
    changes = {name: value for name, value in changes.items() if name in known}
    reasons = tuple(dict.fromkeys((*meta.reasons, *changes.pop("reasons", ()))))
    if not meta.complete:
        changes.pop("complete", None)
    return replace(meta, **changes, reasons=reasons)


class _Reading:
    """Reads one file."""

    def __init__(self, request: Request, answers: Answers, wanted: Input, of: str) -> None:
        self.request = request
        self.answers = answers
        self.wanted = wanted
        self.of = of
        self.written: list[Path] = []

    def read(self) -> Profile | None:
        """The profile in the file; None where only its text was wanted."""
        limit = self.request.limits.unpacked_bytes
        if self.wanted.script is not None:
            with open_plain(Path(self.wanted.script), limit) as text:
                return self._profile(perf_data.read, text)
        with open_plain(sys.stdin.buffer if self.wanted.path == "-" else Path(self.wanted.path), limit) as stream:
            head = stream.peek(HEAD_BYTES)
            if not head and stream.defect:
                raise UnreadableInput(f"{self.wanted.name} cannot be unpacked. {stream.defect} Copy it again.")
            reader = recognise(head, self.wanted.name)
            if reader.needs_perf:
                with self._plain_file(stream) as path:
                    return self._by_perf(reader.read, path)
            return self._profile(reader.read, stream) if self.request.out is not None else None

    def _profile(self, read: Read, stream: PlainStream) -> Profile:
        size = _size(self.wanted.script or self.wanted.path)

        def tell(taken: int) -> None:
            part = min(1.0, stream.read_bytes / size) if size else None
            self.answers.progress(part, f"Reads{self.of}; {taken / 1e6:,.0f} MB so far")

        return read(cast(BinaryIO, Watched(stream, tell)), self.wanted.name)

    @contextmanager
    def _plain_file(self, stream: PlainStream) -> Iterator[Path]:
        """A file that holds what the stream does: perf must be able to seek in it."""
        if stream.packed is None and self.wanted.path != "-":
            yield Path(self.wanted.path)
            return
        disk = os.statvfs(self.request.scratch)
        room = disk.f_bavail * disk.f_frsize - self.request.limits.free_bytes
        with tempfile.NamedTemporaryFile(dir=self.request.scratch, suffix=".perf.data") as file:
            with disk_errors(Path(self.request.scratch)):
                while data := stream.read(8 << 20):
                    if stream.unpacked_bytes > room:
                        raise TooLarge(
                            f"There is not enough disk space to unpack {self.wanted.name}: more than "
                            f"{max(0, room):,} bytes are needed. Delete results or other files, then try again."
                        )
                    file.write(data)
                    self.answers.progress(None, f"Unpacks{self.of}; {stream.unpacked_bytes / 1e6:,.0f} MB so far")
                file.flush()
            yield Path(file.name)

    def _by_perf(self, read: Read, path: Path) -> Profile | None:
        """Have perf print the recording; keep the text, and read it where that is wanted."""
        perf = perf_tool.find_perf(self.request.perf)
        out = Path(self.request.text, perf_tool.script_name(self.wanted.name))
        self._looks_up(0)
        with tempfile.TemporaryDirectory(dir=self.request.scratch) as scratch:
            if self.request.out is None:
                perf_tool.script(perf, path, out, Path(scratch), self._looks_up)
                profile = None
            else:
                with (
                    perf_tool.opened(perf, path, Path(scratch)) as stream,
                    disk_errors(out),
                    perf_tool.packed(out) as copy,
                ):
                    profile = read(cast(BinaryIO, Watched(stream, self._looks_up, copy)), self.wanted.name)
        self.written.append(out)
        return profile

    def _looks_up(self, taken: int) -> None:
        self.answers.progress(None, f"Looks up names of functions{self.of}; {taken / 1e6:,.0f} MB of text so far")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
