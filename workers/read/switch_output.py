"""Joins the files of one `perf record --switch-output` in the reader process, before they are read."""

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from perfloom.domain.errors import PerfloomError, TooLarge
from perfloom.domain.profile import Profile
from perfloom.domain.rank_state import END_MISSING
from perfloom.ingest.compression import open_decompressed
from perfloom.ingest.facts import SWITCH_OUTPUT_FACT
from perfloom.ingest.switch_output_names import group_switch_output
from perfloom.readers.switch_output import RecordingPart, group_parts, join_parts, read_part, read_unfinished_part
from perfloom.store.files.disk import disk_errors

from .files import FileReading
from .record_reading import DAMAGED
from .request import AnswerWriter, Input, Request

COPY_BYTES = 64 << 20


@dataclass(frozen=True)
class JoinedRecording:
    """A recording that was joined. count: of its files. defects: what is missing at their ends, sentences."""

    count: int
    defects: tuple[str, ...]

    def complete(self, profile: Profile) -> Profile:
        """Its profile, which also says what the joined file does not."""
        # Imported here, because it loads pyarrow.
        from perfloom.ingest.truncation import add_loss

        facts = profile.meta.facts | {SWITCH_OUTPUT_FACT: f"{self.count:,}"}
        reasons = tuple(dict.fromkeys((*profile.meta.reasons, *self.defects)))
        profile = replace(
            profile,
            meta=replace(
                profile.meta, facts=facts, reasons=reasons, complete=profile.meta.complete and not self.defects
            ),
        )
        for defect in self.defects:
            profile = add_loss(profile, END_MISSING, defect)
        return profile


@dataclass(frozen=True)
class JoinedRequest:
    """A request in which one file replaces those of a recording. recordings: by index of the input."""

    request: Request
    recordings: dict[int, JoinedRecording]

    def complete(self, number: int, profile: Profile) -> Profile:
        """The profile of an input; of a joined one, see `JoinedRecording.complete`."""
        joined = self.recordings.get(number)
        return profile if joined is None else joined.complete(profile)


@contextmanager
def join_switch_output(request: Request, answers: AnswerWriter) -> Iterator[JoinedRequest]:
    """The request with joined files, which exist until the end of the block. Files whose names are those of one
    recording, but not what they contain, remain. Raises TooLarge, Unavailable, OSError."""
    with ExitStack() as stack:
        joined: dict[int, tuple[Input, JoinedRecording]] = {}
        removed: set[int] = set()
        for prefix, group in group_switch_output([one.name for one in request.inputs]):
            answers.progress(None, f"Joining the {len(group):,} files of {prefix}", now=True)
            with ExitStack() as plain:
                files: list[tuple[int, _OpenPart]] = []
                for at in group:
                    before = files[-1][1].part if files else None
                    if (found := _open(request, answers, at, before, plain)) is not None:
                        files.append((at, found))
                for recording in group_parts([one.part for _, one in files]):
                    if len(recording) > 1:
                        members = [files[number] for number in recording]
                        where = min(at for at, _ in members)
                        joined[where] = _join(request, [one for _, one in members], stack)
                        removed |= {at for at, _ in members} - {where}
        inputs: list[Input] = []
        recordings = {}
        for at, one in enumerate(request.inputs):
            if at in joined:
                one, recordings[len(inputs)] = joined[at]
            if at not in removed:
                inputs.append(one)
        yield JoinedRequest(replace(request, inputs=tuple(inputs)), recordings)


@dataclass(frozen=True)
class _OpenPart:
    """A file of a recording. path: of its decompressed content."""

    input: Input
    path: Path
    part: RecordingPart


def _open(
    request: Request, answers: AnswerWriter, number: int, before: RecordingPart | None, stack: ExitStack
) -> _OpenPart | None:
    """An input; None if it is not to be joined with others, or not readable, which is reported when it is read.
    before: the file before it."""
    one = request.inputs[number]
    try:
        stream = stack.enter_context(open_decompressed(Path(one.path), request.limits.unpacked_bytes))
        path = stack.enter_context(FileReading(request, answers, one).plain_file(stream))
    except TooLarge:
        raise
    except PerfloomError:
        return None
    part = _read_part(path, before)
    return None if part is None else _OpenPart(one, path, part)


def _join(request: Request, files: Sequence[_OpenPart], stack: ExitStack) -> tuple[Input, JoinedRecording]:
    """(the input that replaces these, what is known of it)."""
    first, last = files[0].input, files[-1].input
    defects = tuple(dict.fromkeys(one.part.defect for one in files if one.part.defect))
    about = JoinedRecording(len(files), defects)
    if first.script is not None:
        # It is the text of all.
        return first, about
    path = _write(request, files, stack)
    # When perf ended, and who ran it.
    status = os.stat(last.path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with suppress(OSError):
        os.chown(path, status.st_uid, -1)
    return replace(first, path=str(path)), about


def _read_part(path: Path, before: RecordingPart | None) -> RecordingPart | None:
    try:
        with open(path, "rb") as file:
            is_empty = os.fstat(file.fileno()).st_size == 0
            data = memoryview(b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return read_part(data) or (read_unfinished_part(data, before) if before else None)
    except (OSError, *DAMAGED):
        return None


def _write(request: Request, files: Sequence[_OpenPart], stack: ExitStack) -> Path:
    """The path of a new file with the joined recording. Raises TooLarge, Unavailable."""
    scratch, parts = Path(request.scratch), [one.part for one in files]
    size = sum(part.end - part.start for part in parts)
    disk = os.statvfs(scratch)
    if size > disk.f_bavail * disk.f_frsize - request.limits.free_bytes:
        raise TooLarge(
            f"Not enough disk space to join the {len(parts):,} files of the recording: {size:,} bytes are needed. "
            "Delete results or other files, then try again."
        )
    with disk_errors(scratch):
        file = stack.enter_context(tempfile.NamedTemporaryFile(dir=scratch, suffix=".perf.data"))  # noqa: SIM115
        for piece in join_parts(parts):
            if isinstance(piece, bytes):
                file.write(piece)
                continue
            file.flush()
            with open(files[piece.part].path, "rb") as source:
                at = piece.start
                while at < piece.end:
                    copied = os.sendfile(file.fileno(), source.fileno(), at, min(COPY_BYTES, piece.end - at))
                    if not copied:
                        break
                    at += copied
            file.seek(0, os.SEEK_END)
        file.flush()
    return Path(file.name)
