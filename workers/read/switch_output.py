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
            files: list[tuple[int, RecordingPart]] = []
            for at in group:
                before = files[-1][1] if files else None
                if (part := _find_part(request, answers, request.inputs[at], before)) is not None:
                    files.append((at, part))
            for recording in group_parts([part for _, part in files]):
                members = dict(files[number] for number in recording)
                # Of files that were read as ranks, each has its own text.
                texts = sum(request.inputs[at].script is not None for at in members)
                if len(members) > 1 and texts < 2:
                    where = min(members)
                    joined[where] = _join(request, answers, members, stack)
                    removed |= members.keys() - {where}
        inputs: list[Input] = []
        recordings = {}
        for at, one in enumerate(request.inputs):
            if at in joined:
                one, recordings[len(inputs)] = joined[at]
            if at not in removed:
                inputs.append(one)
        yield JoinedRequest(replace(request, inputs=tuple(inputs)), recordings)


@contextmanager
def _open(request: Request, answers: AnswerWriter, one: Input) -> Iterator[Path]:
    """A file with the decompressed content of an input. Raises PerfloomError."""
    with (
        open_decompressed(Path(one.path), request.limits.unpacked_bytes) as stream,
        FileReading(request, answers, one).plain_file(stream) as path,
    ):
        yield path


def _find_part(
    request: Request, answers: AnswerWriter, one: Input, before: RecordingPart | None
) -> RecordingPart | None:
    """What an input contains; None if it is not to be joined with others, or not readable, which is reported when it is
    read. before: the file before it."""
    try:
        with _open(request, answers, one) as path:
            return _read_part(path, before)
    except TooLarge:
        raise
    except PerfloomError:
        return None


def _join(
    request: Request, answers: AnswerWriter, members: dict[int, RecordingPart], stack: ExitStack
) -> tuple[Input, JoinedRecording]:
    """(the input that replaces these, what is known of it). members: by the index of their input, in the order of
    time."""
    files = [request.inputs[at] for at in members]
    first, last = files[0], files[-1]
    defects = tuple(dict.fromkeys(part.defect for part in members.values() if part.defect))
    about = JoinedRecording(len(files), defects)
    if first.script is not None:
        # It is the text of all.
        return first, about
    path = _write(request, answers, files, tuple(members.values()), stack)
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


def _write(
    request: Request, answers: AnswerWriter, files: Sequence[Input], parts: Sequence[RecordingPart], stack: ExitStack
) -> Path:
    """The path of a new file with the joined recording. Compressed files are decompressed again, so that only one of
    them is open and takes space. Raises TooLarge, Unavailable."""
    scratch = Path(request.scratch)
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
            with _open(request, answers, files[piece.part]) as plain, open(plain, "rb") as source:
                at = piece.start
                while at < piece.end:
                    copied = os.sendfile(file.fileno(), source.fileno(), at, min(COPY_BYTES, piece.end - at))
                    if not copied:
                        break
                    at += copied
            file.seek(0, os.SEEK_END)
        file.flush()
    return Path(file.name)
