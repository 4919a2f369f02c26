"""Reads many files on all cores: helper processes, forked from the reader, read a few files ahead.

Each helper gets a share of the memory limit. If a file needs more, the helpers are ended, and the parent reads that
file and the rest one by one, with the whole limit.
"""

import contextlib
import json
import math
import mmap
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from perfloom.domain.errors import PerfloomError, Unavailable
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import SCHEMAS
from perfloom.ingest.compression import detect_compression
from perfloom.ingest.jit.mode import estimate_decompressed_bytes
from perfloom.ingest.perf_records.file_header import read_header
from perfloom.ingest.perf_records.unsupported import UnsupportedRecords
from perfloom.readers import perf_data

from ..base import processes
from .files import FileReading
from .request import AnswerWriter, Input, Request, error_from_json, error_to_json
from .watchdog import DeadlockWatchdog

MAX_HELPERS = 8
MIN_FILES = 8
MIN_BYTES = 4 << 20
"""With fewer files or bytes, one process is as fast."""
MIN_RECORDINGS, MIN_RECORDINGS_BYTES = 2, 64 << 20
"""The same if all files are perf.data, of which one is read by several threads."""
HELPER_MEMORY_BYTES = 3 << 29
"""The minimum memory of a helper. Most of it is libraries."""
RECORDING_FACTOR = 4
"""How many times the size of a perf.data file its reading takes, at most, beyond libraries."""
RECORDING_HELPER_BYTES = 1 << 30
"""The minimum memory of a helper that only reads perf.data. Libraries and the stacks of threads take 0.6 GB."""
QUEUE_FILES = 2
"""How many files each helper may be ahead."""


@dataclass(frozen=True)
class FileResult:
    """The result of reading a file. profile: None after an error, and for an archive of ranks, which is in `unpacked`.
    written: text files that were written."""

    profile: Profile | None = None
    written: tuple[Path, ...] = ()
    unpacked: Path | None = None
    error: PerfloomError | None = None


def read_all(request: Request, answers: AnswerWriter, inputs: Sequence[Input]) -> Iterator[FileResult]:
    """The result of each file, in order. Raises OSError, MemoryError."""
    helpers = count_helpers(request, inputs)
    done = 0
    if helpers > 1:
        for found in _read_ahead(request, answers, inputs, helpers):
            yield found
            done += 1
    total_bytes = _estimate_total_bytes(inputs)
    for number in range(done, len(inputs)):
        yield read_one(request, answers, inputs[number], number, len(inputs), total_bytes)


def _estimate_total_bytes(inputs: Sequence[Input]) -> float:
    return estimate_decompressed_bytes([one.script or one.path for one in inputs])


def count_helpers(request: Request, inputs: Sequence[Input]) -> int:
    """How many helpers to start; none for less than two."""
    if len(inputs) < MIN_RECORDINGS or not all(os.path.isfile(one.script or one.path) for one in inputs):
        return 1
    size = largest = recordings = 0
    for one in inputs:
        with contextlib.suppress(OSError), open(one.script or one.path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if one.script is None:
                head = file.read(16)
                if detect_compression(head) is not None or (perf_data.sniff(head) and request.perf_script):
                    # perf may be needed. It loads binaries to resolve their symbols, and may need all memory.
                    return 1
                if perf_data.sniff(head):
                    recordings += 1
                    length = max(length, _estimate_record_bytes(file))
                    largest = max(largest, length)
            size += length
    needed = RECORDING_HELPER_BYTES + RECORDING_FACTOR * largest
    if recordings == len(inputs):
        if size < MIN_RECORDINGS_BYTES:
            return 1
    else:
        if len(inputs) < MIN_FILES or size < MIN_BYTES:
            return 1
        needed = max(HELPER_MEMORY_BYTES, needed)
    room = request.limits.memory_bytes // 2 // needed
    return min(MAX_HELPERS, len(os.sched_getaffinity(0)), len(inputs), room)


def _estimate_record_bytes(file: BinaryIO) -> int:
    """About how many bytes the records of a perf.data file have when decompressed; 0 if its header does not say it."""
    try:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return read_header(memoryview(mapped), reads_events=False).estimate_record_bytes()
    except (OSError, ValueError, UnsupportedRecords):
        return 0


def _is_recording(input: Input) -> bool:
    """Whether a file is perf.data, which is read by other modules than all other formats."""
    if input.script is not None:
        return False
    with contextlib.suppress(OSError), open(input.path, "rb") as file:
        return perf_data.sniff(file.read(16))
    return False


def read_one(
    request: Request,
    answers: AnswerWriter,
    input: Input,
    number: int,
    count: int,
    total_bytes: float = math.inf,
    *,
    runs_perf: bool = True,
) -> FileResult:
    """Read a file in this process. number, count, total_bytes, runs_perf: see `FileReading`. Raises OSError,
    MemoryError, NeedsPerf."""
    reading = FileReading(request, answers, input, number, count, total_bytes, runs_perf=runs_perf)
    try:
        profile = reading.read()
    except PerfloomError as error:
        return FileResult(error=error)
    return FileResult(profile, tuple(reading.written), reading.unpacked)


def _read_ahead(request: Request, answers: AnswerWriter, inputs: Sequence[Input], count: int) -> Iterator[FileResult]:
    """Like `read_all`, with helpers. Stops before the first file that a helper could not read."""
    helpers: list[_Helper] = []
    if all(_is_recording(one) for one in inputs):
        # Helpers share what is loaded before they are forked.
        from . import record_reading  # noqa: F401
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
    """A process that reads the files it is asked for, and writes their profiles to temporary files."""

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
            # The child must not return into the parent's code.
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
        """The parent's ends of the pipes to the helper."""
        return self._questions, self._answers

    def ask(self, number: int) -> None:
        """Add a file to the helper's queue."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._questions, f"{number}\n".encode())

    def answer(self) -> FileResult | None:
        """The result of the next file of the queue; None if the helper could not read it. Raises OSError."""
        line = self._lines.readline()
        # The helper ended while it wrote an incomplete line.
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
        """Kill the helper."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _help(
    request: Request, inputs: Sequence[Input], memory_bytes: int, asked: int, answer_fd: int, parent: int
) -> None:
    """Read files until the parent closes the pipe."""
    processes.die_with_parent(signal.SIGKILL, parent)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, hard))
    # The parent then reads the file itself, with more memory.
    DeadlockWatchdog(lambda: os._exit(1))
    total_bytes = _estimate_total_bytes(inputs)
    with open(asked, encoding="ascii") as questions, open(answer_fd, "w", encoding="utf-8", buffering=1) as answers:
        for line in questions:
            number = int(line)
            found = _read_in_helper(request, inputs[number], number, len(inputs), total_bytes)
            answers.write(json.dumps(found) + "\n")


def _read_in_helper(request: Request, input: Input, number: int, count: int, total_bytes: float) -> dict[str, Any]:
    """Read a file, and return the answer to the parent."""
    try:
        found = read_one(request, _NullAnswerWriter(), input, number, count, total_bytes, runs_perf=False)
        if isinstance(found.error, Unavailable) and found.error.__cause__ is not None:
            # So that the parent meets it, too: a full disk is not this file's fault.
            return {}
        if found.error is not None:
            return {"error": error_to_json(found.error)}
        path = None
        if found.profile is not None:
            path = Path(request.scratch, f"ahead-{number}")
            _write_profile(found.profile, path)
    except OSError as error:
        return {"errno": [error.errno, error.strerror]}
    except (MemoryError, RuntimeError):
        # The parent reads the file itself, with more memory or by perf, and reports the error if it persists.
        return {}
    unpacked = None if found.unpacked is None else str(found.unpacked)
    return {"file": path and str(path), "written": [str(one) for one in found.written], "unpacked": unpacked}


class _NullAnswerWriter(AnswerWriter):
    """Discards all answers. The parent reports progress."""

    def __init__(self) -> None:
        pass

    def give(self, answer: dict[str, Any]) -> None:
        """Discarded."""

    def progress(self, part: float | None, text: str, *, now: bool = False) -> None:
        """Discarded."""


def _write_profile(profile: Profile, path: Path) -> None:
    """Write a profile to a file, for the parent."""
    with open(path, "wb") as file:
        file.write(json.dumps(profile.meta.to_json()).encode() + b"\n")
        for table in profile.tables().values():
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)


def _take_profile(path: Path) -> Profile:
    """The profile that a helper wrote. Removes the file."""
    with open(path, "rb") as file:
        path.unlink()
        meta = Meta.from_json(json.loads(file.readline()))
        return Profile(meta=meta, **{name: pa.ipc.open_stream(file).read_all() for name in SCHEMAS})
