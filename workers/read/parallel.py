"""Reading many files with all cores: helpers, each a process forked from the one that reads, are a few files ahead.

A helper has a part of the memory that reading may take. A file that needs more is read by the parent itself, which has
all of it by then: the helpers are ended, and the rest is read one by one.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from perfloom.domain.errors import PerfloomError
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import SCHEMAS
from perfloom.ingest.compression import detect_compression
from perfloom.readers import perf_data

from .. import processes
from .files import FileReading
from .request import AnswerWriter, Input, Request, error_from_json, error_to_json
from .watchdog import DeadlockWatchdog

MAX_HELPERS = 8
MIN_FILES = 8
MIN_BYTES = 4 << 20
"""Below these one process is as fast."""
HELPER_MEMORY_BYTES = 3 << 29
"""What a helper has to have, at least: most of it is libraries."""
QUEUE_FILES = 2
"""How many files each helper may be ahead."""


@dataclass(frozen=True)
class FileResult:
    """What came of reading a file. profile: None for an error, and for an archive of ranks (unpacked). written: texts
    that were made of it."""

    profile: Profile | None = None
    written: tuple[Path, ...] = ()
    unpacked: Path | None = None
    error: PerfloomError | None = None


def read_all(request: Request, answers: AnswerWriter, inputs: Sequence[Input]) -> Iterator[FileResult]:
    """Read all files and give what came of each, in their order. Raises OSError, MemoryError."""
    helpers = _helper_count(request, inputs)
    done = 0
    if helpers > 1:
        for found in _read_ahead(request, answers, inputs, helpers):
            yield found
            done += 1
    for number in range(done, len(inputs)):
        yield read_one(request, answers, inputs[number], number, len(inputs))


def _helper_count(request: Request, inputs: Sequence[Input]) -> int:
    if len(inputs) < MIN_FILES or not all(os.path.isfile(one.script or one.path) for one in inputs):
        return 1
    size = 0
    for one in inputs:
        with contextlib.suppress(OSError), open(one.script or one.path, "rb") as file:
            size += os.fstat(file.fileno()).st_size
            if one.script is None and _may_be_perfs(file.read(16)):
                return 1
    if size < MIN_BYTES:
        return 1
    room = request.limits.memory_bytes // 2 // HELPER_MEMORY_BYTES
    return min(MAX_HELPERS, len(os.sched_getaffinity(0)), len(inputs), room)


def _may_be_perfs(head: bytes) -> bool:
    """Whether perf may be needed for a file. It loads what it takes symbols from, and may want all memory there is."""
    return perf_data.sniff(head) or detect_compression(head) is not None


def read_one(request: Request, answers: AnswerWriter, wanted: Input, number: int, count: int) -> FileResult:
    """Read a file in this process. number, count: see `FileReading`. Raises OSError, MemoryError."""
    reading = FileReading(request, answers, wanted, number, count)
    try:
        profile = reading.read()
    except PerfloomError as error:
        return FileResult(error=error)
    return FileResult(profile, tuple(reading.written), reading.unpacked)


def _read_ahead(request: Request, answers: AnswerWriter, inputs: Sequence[Input], count: int) -> Iterator[FileResult]:
    """As `read_all`, by helpers; ends early where one of them cannot read a file."""
    helpers: list[_Helper] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        for _ in range(count):
            helpers.append(_Helper(request, inputs, request.limits.memory_bytes // 2 // count, helpers))
        resource.setrlimit(resource.RLIMIT_AS, (request.limits.memory_bytes // 2, hard))
        asked = 0
        for number in range(len(inputs)):
            while asked < min(len(inputs), number + QUEUE_FILES * count):
                helpers[asked % count].ask(asked)
                asked += 1
            answer = helpers[number % count].answer()
            if answer is None:
                return
            answers.progress((number + 1) / len(inputs), f"Reading: {number + 1:,} of {len(inputs):,} files so far")
            yield answer
    finally:
        for helper in helpers:
            helper.end()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Helper:
    """A process that reads the files it is asked for, and puts what is in them aside."""

    def __init__(
        self, request: Request, inputs: Sequence[Input], memory_bytes: int, others: Sequence["_Helper"]
    ) -> None:
        self._folder = Path(request.scratch)
        asked, self._questions = os.pipe()
        self._answers, answer_fd = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            # From here on nothing may return into what the parent does.
            try:
                for descriptor in (self._questions, self._answers, *(d for one in others for d in one.descriptors)):
                    os.close(descriptor)
                _help(request, inputs, memory_bytes, asked, answer_fd, parent)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(asked)
        os.close(answer_fd)
        self._lines = os.fdopen(self._answers, encoding="utf-8", closefd=False)

    @property
    def descriptors(self) -> tuple[int, int]:
        """Of the parent's ends of its pipes."""
        return self._questions, self._answers

    def ask(self, number: int) -> None:
        """Have it read a file, after those that it was asked for before."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._questions, f"{number}\n".encode())

    def answer(self) -> FileResult | None:
        """What came of the first file of which it has not told yet; None where it could not read it. Raises OSError."""
        line = self._lines.readline()
        # One that has no end was being written when its writer ended.
        answer = json.loads(line) if line.endswith("\n") else {}
        if "error" in answer:
            return FileResult(error=error_from_json(answer["error"]))
        if "errno" in answer:
            raise OSError(*answer["errno"])
        if "file" not in answer:
            return None
        profile = None if answer["file"] is None else _take_profile(Path(answer["file"]))
        path = None if answer["unpacked"] is None else Path(answer["unpacked"])
        return FileResult(profile, tuple(map(Path, answer["written"])), path)

    def end(self) -> None:
        """End it, whatever it is doing."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _help(
    request: Request, inputs: Sequence[Input], memory_bytes: int, asked: int, answer_fd: int, parent: int
) -> None:
    """What a helper does until nothing more is asked."""
    processes.die_with_parent(signal.SIGKILL, parent)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, hard))
    # The parent finds out, and has more memory.
    DeadlockWatchdog(lambda: os._exit(1))
    with open(asked, encoding="ascii") as questions, open(answer_fd, "w", encoding="utf-8", buffering=1) as answers:
        for line in questions:
            number = int(line)
            answers.write(json.dumps(_read_in_helper(request, inputs[number], number, len(inputs))) + "\n")


def _read_in_helper(request: Request, wanted: Input, number: int, count: int) -> dict[str, Any]:
    """The answer to the question after a file."""
    try:
        found = read_one(request, _NullAnswerWriter(), wanted, number, count)
        if found.error is not None:
            return {"error": error_to_json(found.error)}
        path = None
        if found.profile is not None:
            path = Path(request.scratch, f"ahead-{number}")
            _write_profile(found.profile, path)
    except OSError as error:
        return {"errno": [error.errno, error.strerror]}
    except (MemoryError, RuntimeError):
        # Whatever it is, the parent finds out, and has more memory.
        return {}
    unpacked = None if found.unpacked is None else str(found.unpacked)
    return {"file": path and str(path), "written": [str(one) for one in found.written], "unpacked": unpacked}


class _NullAnswerWriter(AnswerWriter):
    """Tells nobody how far reading got."""

    def __init__(self) -> None:
        pass

    def give(self, answer: dict[str, Any]) -> None:
        """Not said."""

    def progress(self, part: float | None, text: str, *, now: bool = False) -> None:
        """Not said."""


def _write_profile(profile: Profile, path: Path) -> None:
    """Write a profile for the parent to take."""
    with open(path, "wb") as file:
        file.write(json.dumps(profile.meta.to_json()).encode() + b"\n")
        for table in profile.tables().values():
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)


def _take_profile(path: Path) -> Profile:
    """The profile that a helper wrote; its file is gone after."""
    with open(path, "rb") as file:
        path.unlink()
        meta = Meta.from_json(json.loads(file.readline()))
        return Profile(meta=meta, **{name: pa.ipc.open_stream(file).read_all() for name in SCHEMAS})
