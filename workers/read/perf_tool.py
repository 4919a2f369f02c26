"""Converts perf.data to text with `perf script`, in a restricted process.

A perf.data file is untrusted, and perf is a large parser of it. So perf runs under the limits that its parent
(`workers.read.child`) has set for itself, with a minimal environment, in an empty directory, and without anything that
starts further programs or queries the network. The only shared files that it reads are perf's build-id cache. That is
indexed by the content of binaries, so a recording gets its own symbols or none.
"""

import mmap
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

import zstandard

from perfloom.domain.errors import Unavailable, UnreadableInput
from perfloom.domain.rank_state import INCOMPLETE, THROTTLED
from perfloom.ingest.perf_text import script_header
from perfloom.ingest.perf_text.fields import (
    BRANCH_FIELD,
    FIELDS,
    HEADING_EDGE,
    OPTIONS,
    SWITCH_OPTIONS,
    add_tracepoint_field,
)
from perfloom.readers.perf_header import (
    count_throttle_events,
    explain_small_records,
    explain_truncation,
    explain_version_mismatch,
    get_perf_version,
    plan_repair,
)
from perfloom.store.files.disk import disk_errors

from ..base.processes import die_with_parent

REQUIRED_FIELDS = frozenset({"comm", "event"})
"""perf script is not retried without these fields."""
HEADING_BYTES = 16 << 20
PIECE_BYTES = 1 << 20
STDERR_BYTES = 64 << 10
VERSION_S = 10
INSTALL = "Install it (Debian: apt-get install linux-perf, Ubuntu: linux-tools-generic), then try again."

_NO_FIELD = re.compile(r"Cannot print '(\w+)' field")
_NO_OPTION = re.compile(r"unknown option [`'\"]-*([\w-]+)")
_BAD_FIELD = re.compile(r"Invalid field requested|unknown field|invalid -F|Invalid -F", re.IGNORECASE)


@dataclass(frozen=True)
class Attempt:
    """Fields and options for perf script. Older perfs and some recordings lack a few. symbols: the build-id cache."""

    fields: tuple[str, ...] = FIELDS
    options: tuple[str, ...] = OPTIONS
    symbols: str | None = None

    def argv(self, perf: str, perf_data: Path) -> list[str]:
        cache = ("--buildid-dir", self.symbols) if self.symbols else ()
        return [perf, *cache, "script", "-i", str(perf_data), *self.options, "-F", ",".join(self.fields)]

    def adapt(self, begun: bytes) -> "Attempt":
        """The attempt, adapted to the header that perf printed."""
        options = self.options
        if script_header.header_has_switch_records(begun) and not script_header.detect_tracepoint_group(begun):
            options = (*options, *SWITCH_OPTIONS)
        own = (*self.fields, BRANCH_FIELD) if script_header.header_has_branch_stacks(begun) else self.fields
        if not script_header.detect_tracepoint_group(begun) and not script_header.header_has_switches(begun):
            return replace(self, fields=own, options=options)
        fields = add_tracepoint_field(own, stacks=b"|CALLCHAIN" in begun)
        return replace(self, fields=fields, options=options)

    def without(self, complaint: str) -> "Attempt | None":
        """The attempt without the field or option that perf rejected; None if it rejected none."""
        field = _NO_FIELD.search(complaint)
        if field and field[1] in self.fields and field[1] not in REQUIRED_FIELDS:
            return replace(self, fields=tuple(f for f in self.fields if f != field[1]))
        option = _NO_OPTION.search(complaint)
        if option and (named := f"--{option[1].removeprefix('-')}") in self.options:
            return replace(self, options=tuple(o for o in self.options if o != named))
        if _BAD_FIELD.search(complaint) and BRANCH_FIELD in self.fields:
            return replace(self, fields=tuple(f for f in self.fields if f != BRANCH_FIELD))
        if _BAD_FIELD.search(complaint) and "symoff" in self.fields:
            return replace(self, fields=tuple(f for f in self.fields if f != "symoff"))
        if "symbols requested but neither" in complaint and "ip" not in self.fields and "sym" in self.fields:
            return replace(self, fields=tuple(f for f in self.fields if f not in ("sym", "symoff", "dso")))
        return None


class ScriptStream:
    """The output of perf script. If perf did not reach the end of the recording, the last line is a comment for the
    reader that says so. Another comment has the number of throttle events. begun: the beginning of the output."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", begun: bytes, errors: IO[bytes], defect: str | None, throttled: int
    ) -> None:
        self._process = process
        self.begun = self._begun = begun
        self._errors = errors
        self._defect = defect
        self._throttled = throttled
        self._ended = False

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer at the end."""
        assert self._process.stdout is not None
        while len(self._begun) < size and not self._ended:
            data = self._process.stdout.read(size - len(self._begun))
            self._begun += data or self._end()
        data, self._begun = self._begun[:size], self._begun[size:]
        return data

    def _end(self) -> bytes:
        self._ended = True
        status = self._process.wait()
        if status and self._defect is None:
            message = error_message(self._errors, status)
            self._defect = f"perf script did not reach the end of the recording: {message}"
        remarks = {THROTTLED: self._throttled, INCOMPLETE: self._defect}
        return "".join(f"\n# {name} : {value}\n" for name, value in remarks.items() if value).encode()


def find_perf(perf: str | None = None) -> str:
    """The path of perf. Raises Unavailable if it is not installed."""
    found = shutil.which(perf or "perf")
    if found is None:
        raise Unavailable(f"Reading a perf.data file needs perf, which was not found. {INSTALL}")
    return found


def write_script(
    perf: str,
    perf_data: Path,
    out: Path,
    scratch: Path,
    progress: Callable[[int], None],
    symbols: str | None = None,
) -> None:
    """Write the output of `perf script` for `perf_data` to `out`, compressed (.zst).

    The limits on memory, time and file size are those of this process. scratch: an empty directory. progress: called
    with the bytes of text so far. symbols: the build-id cache. Raises UnreadableInput if perf prints no text, and
    Unavailable without perf or with a full disk.
    """
    byte_count = 0
    with open_script(perf, perf_data, scratch, symbols) as stream, disk_errors(out), compressed_file(out) as target:
        while data := stream.read(PIECE_BYTES):
            target.write(data)
            byte_count += len(data)
            progress(byte_count)


@contextmanager
def compressed_file(out: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which is compressed, flushed to disk and created atomically. Raises OSError."""
    temporary = out.with_name(f".{out.name}.part")
    try:
        with open(temporary, "wb") as file:
            with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False) as writer:
                yield writer
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(out)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def open_script(perf: str, perf_data: Path, scratch: Path, symbols: str | None = None) -> Iterator[ScriptStream]:
    """The output of `perf script` as a stream, while perf runs. Raises what `write_script` does."""
    cut = repair_recording(perf_data, scratch)
    with _bytes_of(cut.path if cut else perf_data) as data:
        stops = count_throttle_events(data)
        damage = explain_small_records(data)
    if damage:
        raise UnreadableInput(f"perf cannot read this recording: {damage} Copy it again, or record it again.")
    attempt: Attempt | None = Attempt(symbols=symbols if symbols and os.path.isdir(symbols) else None)
    known = False
    message = ""
    while attempt is not None:
        with tempfile.TemporaryFile(dir=scratch) as errors:
            process = _start(attempt.argv(perf, cut.path if cut else perf_data.absolute()), scratch, errors)
            try:
                heading = _heading(process)
                if heading is not None and not known and (better := attempt.adapt(heading)) != attempt:
                    attempt, known = better, True
                    continue
                if heading is not None:
                    yield ScriptStream(process, heading, errors, cut.defect if cut else None, stops)
                    return
                status = process.wait()
                message = error_message(errors, status)
                attempt = attempt.without(message)
            finally:
                process.kill()
                process.wait()
                if process.stdout:
                    process.stdout.close()
    with _bytes_of(perf_data) as data:
        truncated = explain_truncation(data)
    if truncated:
        raise UnreadableInput(f"perf cannot read this recording: {truncated} Copy it again, or record it again.")
    advice = explain_versions(perf, perf_data) or "Record it again, or read it where it was recorded."
    raise UnreadableInput(f"perf cannot read this recording: {message} {advice}")


def _start(argv: list[str], scratch: Path, errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LC_ALL": "C",
        "PERF_CONFIG": os.devnull,
    }
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            cwd=scratch,
            # A perf that prints nothing does not notice that its pipe has no reader.
            preexec_fn=partial(die_with_parent, signal.SIGKILL, os.getpid()),
        )
    except OSError as error:
        raise Unavailable(f"{argv[0]} cannot be executed: {error.strerror}. {INSTALL}") from None


def _heading(process: "subprocess.Popen[bytes]") -> bytes | None:
    """The output of perf up to and including the first lines after the header; None if perf failed before."""
    assert process.stdout is not None
    heading = b""
    while len(heading) < HEADING_BYTES:
        data = os.read(process.stdout.fileno(), PIECE_BYTES)
        heading += data
        if not data:
            return heading if process.wait() == 0 else None
        if any(line and not line.startswith(b"#") for line in _below_heading(heading).split(b"\n")[:-1]):
            break
    return heading


def _below_heading(below_heading: bytes) -> bytes:
    """The text after the header that `--header` prints. A command line in the header may contain line breaks."""
    if not below_heading.startswith(HEADING_EDGE):
        return below_heading
    return below_heading.partition(b"\n" + HEADING_EDGE)[2]


def error_message(errors: IO[bytes], status: int) -> str:
    """The error message of perf, which ended with `status`, as a sentence."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - STDERR_BYTES))
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines()]
    message = "; ".join(line for line in lines if line and not line.startswith("Usage:"))[:300].rstrip(".")
    how = f"it was ended by signal {-status}" if status < 0 else f"it ended with exit status {status}"
    if status == -signal.SIGXCPU:
        how = "it took more CPU time than PERFLOOM_READ_CPU_SECONDS allows for files of this size"
    return f"{message} ({how})." if message else f"{how}."


@dataclass(frozen=True)
class RepairedRecording:
    """A copy of a truncated recording with a repaired header. defect: what is missing, a sentence."""

    path: Path
    defect: str


def repair_recording(perf_data: Path, scratch: Path) -> RepairedRecording | None:
    """A readable copy of a truncated perf.data file; None if it is complete or cannot be repaired.

    perf rejects a file that is shorter than its header says, and one whose header was never completed.
    """
    with _bytes_of(perf_data) as data:
        plan = plan_repair(data)
    if plan is None:
        return None
    copy = scratch / "cut.perf.data"
    with disk_errors(copy):
        shutil.copyfile(perf_data, copy)
        with open(copy, "r+b") as file:
            file.write(plan.header)
            file.truncate(plan.end)
            file.seek(plan.end)
            file.write(plan.features)
    return RepairedRecording(copy, plan.defect)


@contextmanager
def _bytes_of(perf_data: Path) -> Iterator[memoryview]:
    """The memory-mapped content of a file; nothing if it is empty or larger than the memory limit."""
    with open(perf_data, "rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            yield memoryview(b"")
            return
        with mapped, memoryview(mapped) as view:
            yield view


def explain_versions(perf: str, perf_data: Path) -> str:
    """Advice if the recording was written by another version of perf than the one here: a sentence, or empty."""
    with _bytes_of(perf_data) as data:
        perf_version = get_perf_version(data)
    with suppress(OSError, subprocess.SubprocessError):
        here = subprocess.run([perf, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=False)
        return explain_version_mismatch(perf_version, here.stdout.strip())
    return ""
