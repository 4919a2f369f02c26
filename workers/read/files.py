"""Reads one file: decompresses it, detects its format, converts it with perf or ncu if necessary, reports progress."""

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from perfloom.domain.errors import TooLarge, Unavailable, UnreadableInput
from perfloom.domain.units import format_bytes
from perfloom.ingest.compression import DecompressedStream, open_decompressed
from perfloom.ingest.jit import cache as compiled_cache
from perfloom.ingest.jit import mode as jit_mode
from perfloom.ingest.perf_text.fields import SCHEDULER
from perfloom.readers import perf_data
from perfloom.store.files.disk import disk_errors

from .rank_folders import PACKED_TEXT, SYMBOLS
from .request import AnswerWriter, Input, Request, script_name, symbols_name

if TYPE_CHECKING:
    from perfloom.domain.profile import Profile
    from perfloom.readers import Reader

ReaderFunction = Callable[[BinaryIO, str], "Profile"]
LINES_BYTES = 1 << 16


class NeedsPerf(RuntimeError):
    """Only perf can read a file, and this process must not run it."""


class ProgressStream:
    """A stream that reports what was read from it, and writes that to a second file if one is given."""

    def __init__(self, stream: Any, report: Callable[[int], None], copy: IO[bytes] | None = None) -> None:
        self._stream = stream
        self._tell = report
        self._copy = copy
        self._taken = 0
        self._ahead = b""

    @property
    def defect(self) -> str | None:
        """See `DecompressedStream`."""
        return getattr(self._stream, "defect", None)

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        if self._copy is not None:
            self._copy.write(data)
        self._taken += len(data)
        self._tell(self._taken)
        return data

    def readinto(self, buffer: memoryview) -> int:
        """Like `read`, into a buffer."""
        count: int = self._stream.readinto(buffer)
        if self._copy is not None:
            self._copy.write(buffer[:count])
        self._taken += count
        self._tell(self._taken)
        return count

    def readline(self, limit: int) -> bytes:
        """The next line with its line break, or `limit` bytes of it. For readers that use no other method."""
        while b"\n" not in self._ahead[:limit] and len(self._ahead) < limit and (data := self.read(LINES_BYTES)):
            self._ahead += data
        end = self._ahead.find(b"\n", 0, limit) + 1 or limit
        line, self._ahead = self._ahead[:end], self._ahead[end:]
        return line


def read_texts(request: Request, answers: AnswerWriter) -> tuple[Path, ...]:
    """Convert the perf.data files of the request to text files. Returns these. Raises PerfloomError, OSError."""
    written: list[Path] = []
    for number, input in enumerate(request.inputs):
        reading = FileReading(request, answers, input, number, len(request.inputs))
        reading.read_text()
        written += reading.written
    return tuple(written)


class FileReading:
    """Reads one file."""

    def __init__(
        self,
        request: Request,
        answers: AnswerWriter,
        input: Input,
        number: int = 0,
        count: int = 1,
        total_bytes: float = math.inf,
        *,
        runs_perf: bool = True,
    ) -> None:
        """number, count: the file's index and the number of files, for progress. total_bytes: about how many bytes all
        these files have when decompressed, infinite if unknown. runs_perf: whether perf may be run; else NeedsPerf is
        raised for what only perf can read."""
        self.request = request
        self.answers = answers
        self.input = input
        self.number = number
        self.count = count
        self.total_bytes = total_bytes
        self.runs_perf = runs_perf
        self.of = f" ({number + 1:,} of {count:,})" if count > 1 else ""
        self.written: list[Path] = []
        self.unpacked: Path | None = None

    def read_text(self) -> None:
        """Convert the file to text with perf script, if it is a perf.data file."""
        with open_decompressed(Path(self.input.path), self.request.limits.unpacked_bytes) as stream:
            if perf_data.sniff(stream.peek(len(perf_data.MAGIC))):
                with self.plain_file(stream) as path:
                    self._by_perf(None, path)

    def read(self) -> "Profile | None":
        """The profile in the file; None for an archive of ranks, whose directory is then `unpacked`."""
        # Imported here because they load pyarrow, which `read_text` does not need.
        from perfloom.readers import HEAD_BYTES, detect_format

        from . import rank_archive

        limit = self.request.limits.unpacked_bytes
        if self.input.script is not None:
            from perfloom.ingest.perf_text import script_header

            with open_decompressed(Path(self.input.script), limit) as text:
                if script_header.detect_tracepoint_group(text.peek(script_header.HEAD_BYTES)) == SCHEDULER:
                    self._prepare()
                return self._profile(perf_data.read, text)
        with open_decompressed(sys.stdin.buffer if self.input.path == "-" else Path(self.input.path), limit) as stream:
            head = stream.peek(HEAD_BYTES)
            if not head and stream.defect:
                raise UnreadableInput(f"{self.input.name} cannot be decompressed. {stream.defect} Copy it again.")
            if rank_archive.sniff(head):
                self.unpacked = Path(self.request.scratch, "ranks")
                rank_archive.unpack(stream, self.unpacked, self._room(), self.input.name)
                return None
            reader = detect_format(head, self.input.name)
            if reader.needs_perf:
                with self.plain_file(stream) as path:
                    by_perf = self._by_perf if self.request.perf_script else self._by_records
                    return by_perf(reader.read, path)
            if reader.accepts_ncu_output:
                from . import ncu_tool

                if (ncu := ncu_tool.find_ncu()) is not None:
                    with self.plain_file(stream) as path:
                        return self._by_ncu(reader.read, ncu, path)
            if reader.uses_jit and not self._uses_plain_loops(reader.plain_bytes, stream):
                self._prepare()
            return self._profile(self._with_time_unit(reader), stream)

    def _with_time_unit(self, reader: "Reader") -> ReaderFunction:
        """The read function for the requested time unit. Raises UnreadableInput if the format specifies its unit."""
        clock = self.request.clock
        if not clock:
            return reader.read
        by_clock = reader.read_with_time_unit
        if by_clock is None:
            raise UnreadableInput(f"{self.input.name} is {reader.label}, which has a time unit. Do not set the clock.")
        return lambda stream, name: by_clock(stream, name, clock)

    def _uses_plain_loops(self, plain_bytes: int, stream: DecompressedStream) -> bool:
        """Use plain Python loops if they read the file before compiled ones are loaded. Returns whether it does."""
        if jit_mode.has_loops():
            return jit_mode.is_plain()

        def is_within(limit: int) -> bool:
            # Of several files, a later one may be large.
            return (self.count == 1 or self.total_bytes <= limit) and len(stream.peek(limit + 1)) <= limit

        # Looking for compiled loops takes longer than reading a small file.
        if not is_within(plain_bytes) and (
            compiled_cache.is_ready() or not is_within(jit_mode.COLD_FACTOR * plain_bytes)
        ):
            return False
        jit_mode.use_plain_loops()
        return True

    def _prepare(self) -> None:
        """Compile all loops once, not only those for this recording, and report that this takes long."""
        if compiled_cache.is_ready():
            return
        from perfloom.ingest.jit.decorators import IS_CACHED
        from perfloom.readers.warmup import compile_all

        self.answers.progress(
            None, "Compiling the reader, only once" if IS_CACHED else "Compiling the reader", now=True
        )
        if IS_CACHED:
            compile_all()

    def _profile(self, reader_function: ReaderFunction, stream: DecompressedStream) -> "Profile":
        size = _size(self.input.script or self.input.path)

        def report(byte_count: int) -> None:
            part = min(1.0, stream.read_bytes / size) if size else None if self.count == 1 else 0.0
            progress = None if part is None else (self.number + part) / self.count
            self.answers.progress(progress, f"Reading{self.of}: {format_bytes(byte_count)} so far")

        return reader_function(cast(BinaryIO, ProgressStream(stream, report)), self.input.name)

    @contextmanager
    def plain_file(self, stream: DecompressedStream) -> Iterator[Path]:
        """A file with the content of the stream, because perf needs a file in which it can seek."""
        if stream.packed is None and self.input.path != "-":
            yield Path(self.input.path)
            return
        room = self._room()
        with tempfile.NamedTemporaryFile(dir=self.request.scratch, suffix=".perf.data") as file:
            with disk_errors(Path(self.request.scratch)):
                while data := stream.read(8 << 20):
                    if stream.unpacked_bytes > room:
                        raise TooLarge(
                            f"Not enough disk space to decompress {self.input.name}: more than "
                            f"{max(0, room):,} bytes are needed. Delete results or other files, then try again."
                        )
                    file.write(data)
                    self.answers.progress(None, f"Decompressing{self.of}: {format_bytes(stream.unpacked_bytes)} so far")
                file.flush()
            yield Path(file.name)

    def _room(self) -> int:
        """How many bytes temporary files may take."""
        disk = os.statvfs(self.request.scratch)
        return disk.f_bavail * disk.f_frsize - self.request.limits.free_bytes

    def _by_records(self, read: ReaderFunction, path: Path) -> "Profile":
        """Read the file from its records, and store the symbols; if it has something that only perf reads, by perf."""
        from dataclasses import replace

        from perfloom.ingest.facts import PERF_SCRIPT_FACT
        from perfloom.ingest.perf_records.unsupported import UnsupportedRecords

        from .record_reading import read_records

        self._report_symbols(0)
        stored = None if self.input.symbols is None else Path(self.input.symbols)
        out = self._make_path(symbols_name(self._name_of_text()), SYMBOLS)
        try:
            limit = self.request.limits.unpacked_bytes
            profile = read_records(path, stored, out, self.request.buildid_dir, limit, self.request.symbols)
        except UnsupportedRecords as unsupported:
            by_perf = self._by_perf(read, path)
            assert by_perf is not None
            facts = by_perf.meta.facts | {PERF_SCRIPT_FACT: unsupported.reason}
            return replace(by_perf, meta=replace(by_perf.meta, facts=facts))
        self.written += [out] if stored is None else []
        return profile

    def _make_path(self, name: str, of_rank: str) -> Path:
        """Where a file is written. of_rank: its name in the directory of a rank."""
        if self.input.folder is None:
            return Path(self.request.text, name)
        folder = Path(self.request.text, self.input.folder)
        with disk_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / of_rank

    def _name_of_text(self) -> str:
        """The name of the file, for files that are written from it: different for each."""
        alike = sum(one.name == self.input.name for one in self.request.inputs) > 1
        return f"{self.number + 1}-{self.input.name}" if alike else self.input.name

    def _by_perf(self, read: ReaderFunction | None, path: Path) -> "Profile | None":
        """Convert the file to text with perf script, store the text, and read it with `read` unless that is None."""
        if not self.runs_perf:
            raise NeedsPerf(self.input.name)
        # Imported here, because most files need no other program.
        from perfloom.ingest.perf_text import script_header

        from . import perf_tool

        perf = perf_tool.find_perf(self.request.perf)
        out = self._make_path(script_name(self._name_of_text()), PACKED_TEXT)
        symbols = self.request.buildid_dir
        self._report_symbols(0)
        with tempfile.TemporaryDirectory(dir=self.request.scratch) as scratch:
            if read is None:
                perf_tool.write_script(perf, path, out, Path(scratch), self._report_symbols, symbols)
                profile = None
            else:
                with (
                    perf_tool.open_script(perf, path, Path(scratch), symbols) as stream,
                    disk_errors(out),
                    perf_tool.compressed_file(out) as copy,
                ):
                    if script_header.detect_tracepoint_group(stream.begun) == SCHEDULER:
                        self._prepare()
                    profile = read(cast(BinaryIO, ProgressStream(stream, self._report_symbols, copy)), self.input.name)
        self.written.append(out)
        return profile

    def _by_ncu(self, reader_function: ReaderFunction, ncu: str, path: Path) -> "Profile":
        """Convert the report to text with ncu and read that; read the report itself if ncu cannot."""
        from . import ncu_tool

        def report(byte_count: int) -> None:
            self.answers.progress(None, f"Converting the report with ncu{self.of}: {format_bytes(byte_count)} so far")

        report(0)
        with tempfile.TemporaryDirectory(dir=self.request.scratch) as scratch:
            report_stream = ncu_tool.ReportStream(ncu, path.absolute(), Path(scratch))
            try:
                return reader_function(cast(BinaryIO, ProgressStream(report_stream, report)), self.input.name)
            except (UnreadableInput, Unavailable):
                with open_decompressed(path, self.request.limits.unpacked_bytes) as stream:
                    return self._profile(reader_function, stream)

    def _report_symbols(self, byte_count: int) -> None:
        self.answers.progress(None, f"Resolving symbols{self.of}: {format_bytes(byte_count)} of text so far")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
