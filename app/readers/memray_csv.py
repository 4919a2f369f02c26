"""Reader of the table of allocations that `memray transform csv` writes.

    allocator,num_allocations,size,tid,thread_name,stack_trace
    MALLOC,3,1340,1,0x1,inner;/srv/app.py;58|outer;/srv/app.py;12

A row is a place that allocated, its frames innermost first, by `|`: what was in use at the peak, or what was never
freed (--leaks). Definition: src/memray/reporters/transform.py.
"""

import codecs
import csv
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..domain.builder import IMPOSSIBLE_WEIGHT, ProfileBuilder
from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..domain.tables import FrameKind
from ..ingest.losses import MAX_EXAMPLE_CHARS
from ..ingest.parse_quality import check_parse_quality

FORMAT = "memray"
COLUMNS = ("allocator", "num_allocations", "size", "tid", "thread_name", "stack_trace")
MEMORY, ALLOCATIONS = "memory", "allocations"
MAX_FIELD_BYTES = 64 << 20
MAX_VALUE = 1 << 62
NO_ROW = "unrecognized row"
NO_FRAMES = "row without a stack"
LOSSES = (NO_ROW, NO_FRAMES, IMPOSSIBLE_WEIGHT)

_NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a table of this format."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").startswith(",".join(COLUMNS).encode())


@check_parse_quality("rows of memray", NO_ROW)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a table. `source` names it in messages. Raises UnreadableInput if it has no rows."""
    builder = ProfileBuilder(FORMAT)
    events = builder.intern_event(MEMORY, "bytes"), builder.intern_event(ALLOCATIONS, "count")
    frames: dict[str, int] = {}
    stacks: dict[str, int] = {}
    threads: dict[tuple[str, str], int] = {}
    count = 0
    for number, row in enumerate(_read_rows(stream), 2):
        values = _parse_numbers(row)
        if values is None:
            builder.add_loss(NO_ROW, f"row {number}: {','.join(row)[:MAX_EXAMPLE_CHARS]}")
            continue
        if not row[5]:
            builder.add_loss(NO_FRAMES, f"row {number}: {','.join(row)[:MAX_EXAMPLE_CHARS]}")
        stack = stacks.get(row[5])
        if stack is None:
            stack = stacks[row[5]] = builder.intern_stack(_parse_stack(builder, row[5], frames))
        thread = threads.get((row[3], row[4]))
        if thread is None:
            thread = threads[row[3], row[4]] = _intern_thread(builder, row[3], row[4], len(threads))
        for event, value in zip(events, values, strict=True):
            if value:
                builder.add_sample(0, thread, event, stack, value)
        count += 1
    if not count:
        raise UnreadableInput(f"{source} has no allocations. Record again, or use memray with --leaks.")
    builder.add_run()
    defect = getattr(stream, "defect", None)
    return builder.finish(Meta(FORMAT, complete=defect is None, reasons=(defect,) if defect else ()))


def _read_rows(stream: BinaryIO) -> Iterator[list[str]]:
    """The rows below the header. Longer rows than any stack are cut into invalid ones."""
    csv.field_size_limit(MAX_FIELD_BYTES)
    lines = codecs.getreader("utf-8")(_DecoderStream(stream), "replace")
    rows = csv.reader(line.replace("\0", "") for line in lines)
    next((row for row in rows if row), None)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            yield [str(error)]
            continue
        if row is None:
            return
        if row:
            yield row


class _DecoderStream:
    """A stream with the interface that the standard library's decoder needs."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Read at most this many bytes."""
        return self._stream.read(size if size > 0 else 1 << 20)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _parse_numbers(row: list[str]) -> tuple[int, int] | None:
    """(bytes, allocations) of a row; None if it is invalid."""
    if len(row) != len(COLUMNS) or not all(word.isascii() and word.isdecimal() and len(word) < 20 for word in row[1:3]):
        return None
    count, size = int(row[1]), int(row[2])
    return (size, count) if size < MAX_VALUE and count < MAX_VALUE else None


def _parse_stack(builder: ProfileBuilder, trace: str, frames: dict[str, int]) -> list[int]:
    """The frames, outermost first. A name with a | in it spans several parts."""
    intern_frames: list[int] = []
    before: list[str] = []
    for last in trace.split("|") if trace else ():
        parts = last.rsplit(";", 2)
        if len(parts) < 3 or not _NUMBER.fullmatch(parts[2]):
            before.append(last)
            continue
        piece = "|".join([*before, last])
        before = []
        known = frames.get(piece)
        if known is None:
            name, file, line = piece.rsplit(";", 2)
            python = file.endswith((".py", ".pyx")) or file.startswith("<")
            known = frames[piece] = builder.intern_frame(
                builder.intern_function(name, "", file or None),
                kind=FrameKind.PYTHON if python else FrameKind.USER,
                line=int(line) if 0 < int(line) < 1 << 31 else None,
            )
        intern_frames.append(known)
    if before:
        intern_frames.append(builder.intern_frame(builder.intern_function("|".join(before)), kind=FrameKind.UNKNOWN))
    return intern_frames[::-1]


def _intern_thread(builder: ProfileBuilder, tid: str, name: str, place: int) -> int:
    number = int(tid) if tid.isascii() and tid.isdecimal() and len(tid) < 19 else None
    thread = builder.intern_thread(tid=number, incarnation=0 if number is not None else -1 - place)
    # memray repeats the number, in hexadecimal digits, for a thread without a name.
    builder.set_thread_name(thread, 0, name if name and not re.fullmatch(r"0x[0-9a-f]+", name) else f"thread {tid}")
    return thread
