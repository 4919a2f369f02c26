"""Reader of what austin, the sampler of Python programs, writes: its text, and its binary form MOJO (austin_mojo).

    # austin: 3.7.0
    # mode: wall

    P123;T0:124;/srv/app.py:<module>:31;/srv/app.py:main:25 5133

A line is a stack with its microseconds; in memory mode, with the bytes by which the process grew; in full mode
both, `time,idle,memory`. Definition: README.md of github.com/P403n1x87/austin, src/mojo.h.
"""

import re
from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.losses import ASYNC_TASKS
from ...domain.profile import Profile
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import check_parse_quality
from ...ingest.perf_text.grammar import decode_text, format_example
from ...ingest.text_lines import iterate_blocks
from ...ingest.truncation import LastByteStream, mark_truncation
from .mojo import CUT_OFF, MAGIC, NO_EVENT, UNKNOWN_KEY, MojoParser
from .samples import GC, INVALID, NO_METRIC, NO_VALUE, AustinFrame, SampleCollector

FORMAT = "austin"
MAX_CACHED = 1 << 20
LOSSES = (UNRECOGNIZED_LINE, NO_METRIC, NO_VALUE, NO_EVENT, CUT_OFF, UNKNOWN_KEY, ASYNC_TASKS)

_SAMPLE = re.compile(rb"P(\d{1,18});T(?:(\d{1,18}):)?([^;\s]{1,40})((?:;.*)?) (-?\d{1,18})(?:,([01]),(-?\d{1,18}))?")
_ABOUT = re.compile(rb"# ([\w-]+): ?(.*)")
_MAX_DIGITS = 9


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` comes from austin."""
    if head.startswith(MAGIC):
        return True
    head = head.removeprefix(b"\xef\xbb\xbf")
    if head.startswith(b"# austin: "):
        return True
    lines = [line for line in head.split(b"\n", 20)[:20] if line.strip() and not line.startswith(b"#")]
    complete_lines = lines[:-1] if len(lines) > 1 else lines
    return bool(complete_lines) and all(_is_sample(line.strip()) for line in complete_lines)


def _is_sample(line: bytes) -> bool:
    match = _SAMPLE.fullmatch(line)
    return match is not None and all(
        _split_frame(frame) or frame in (GC, INVALID) for frame in match[4].split(b";")[1:]
    )


@check_parse_quality("austin samples", UNRECOGNIZED_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file. `source` names it in messages. Raises UnreadableInput if it has no samples."""
    ending: LastByteStream | None = None
    data = stream.read(len(MAGIC))
    if data.startswith(MAGIC):
        samples = MojoParser(stream, data).samples
    else:
        stream = ending = LastByteStream(stream)  # type: ignore[assignment]
        samples = _AustinText(stream, data).samples
    if not samples:
        raise UnreadableInput(
            f"{source} has no samples: austin saw no running Python thread. Record again, for longer, and check the "
            "output of austin."
        )
    profile = samples.finish(FORMAT, getattr(stream, "defect", None))
    return profile if ending is None else mark_truncation(profile, ending)


class _AustinText:
    """Reads austin's text."""

    def __init__(self, stream: BinaryIO, data: bytes) -> None:
        self.samples = SampleCollector()
        self._frames: dict[bytes, int] = {}
        self._stacks: dict[bytes, int] = {}
        for lines, first in iterate_blocks(stream, data):
            for number, line in enumerate(lines, first):
                self._parse_line(line, number)

    def _parse_line(self, line: bytes, number: int) -> None:
        line = line.strip()
        if not line:
            return
        if line.startswith(b"#"):
            if about := _ABOUT.fullmatch(line):
                self.samples.add_metadata(decode_text(about[1]), decode_text(about[2]).strip())
            return
        match = _SAMPLE.fullmatch(line)
        if not match:
            self.samples.add_loss(UNRECOGNIZED_LINE, format_example(line, number))
            return
        pid, interpreter, thread, frames, first, idle, memory = match.groups()
        stack = self._stacks.get(frames)
        if stack is None:
            if len(self._stacks) > MAX_CACHED:
                self._stacks.clear()
            stack = self._stacks[frames] = self.samples.intern_stack(self._parse_frames(frames))
        only_memory = self.samples.mode == "memory" and memory is None
        self.samples.add(
            (int(pid), int(interpreter) if interpreter else 0, decode_text(thread)),
            stack,
            time_us=None if only_memory else int(first),
            memory_bytes=int(first) if only_memory else int(memory) if memory is not None else None,
            idle=idle == b"1",
        )

    def _parse_frames(self, frames: bytes) -> list[int]:
        """The frames of a stack. A path with semicolons spans several parts."""
        places: list[int] = []
        before: list[bytes] = []
        for last in frames.split(b";")[1:]:
            if _split_frame(last) is None and last not in (GC, INVALID):
                before.append(last)
                continue
            piece = b";".join([*before, last])
            before = []
            known = self._frames.get(piece)
            if known is None:
                known = self._frames[piece] = self.samples.intern_frame(_parse_frame(piece))
            places.append(known)
        if before:
            places.append(self.samples.intern_frame(AustinFrame(decode_text(b";".join(before)), "", 0)))
        return places


def _split_frame(piece: bytes) -> tuple[bytes, bytes, int] | None:
    """(file, function, line) of a frame; None if it is invalid."""
    parts = piece.rsplit(b":", 2)
    if len(parts) < 3 or not parts[2].isdigit() or len(parts[2]) > _MAX_DIGITS:
        return None
    return parts[0], parts[1], int(parts[2])


def _parse_frame(piece: bytes) -> AustinFrame:
    parts = None if piece in (GC, INVALID) else _split_frame(piece)
    return (
        AustinFrame(decode_text(parts[1]), decode_text(parts[0]), parts[2])
        if parts
        else AustinFrame(decode_text(piece), "", 0)
    )
