"""Reader of the output of `py-spy record --format raw`: collapsed stacks whose elements are labeled.

    process 40:"python app.py";thread (41): worker;run (threading.py:982);work (app.py:17) 31

With --subprocesses there is a process, preceded by its ancestors; with --threads a thread. A frame is a
function, its file and the line that ran, or with --native a function of a library. Weights count samples.
"""

import os.path
import re
from collections.abc import Iterator
from typing import BinaryIO

from ...domain.builder import IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_WEIGHT, ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import check_parse_quality
from ...ingest.perf_text.grammar import decode_text, format_example
from ...ingest.text_lines import MAX_WEIGHT, is_binary, iterate_blocks

FORMAT = "py-spy"
NO_FRAMES = "stack without a frame: counted in totals, but not in flame graphs"
LOSSES = (UNRECOGNIZED_LINE, IMPOSSIBLE_STACK_WEIGHT, NO_FRAMES, IMPOSSIBLE_WEIGHT)
MAX_COMMAND_BYTES = 1 << 16
MAX_FRAME_BYTES = 1 << 12

_LINE = re.compile(rb"(.*?) ?(?<![^ ])(\d+)\s*", re.DOTALL)
_PROCESS = re.compile(rb'process (\d{1,18}):"(.*?)"(?=;|$)', re.DOTALL)
_THREAD = re.compile(rb"thread \((\d{1,18}|0x[0-9A-Fa-f]{1,16})\)(?:: ([^;]*))?")
_FRAME = re.compile(rb"(.+) \(([^;]*?)(?::(\d{1,9}))?\)")
_PYTHON = re.compile(rb"[^;]+ \((?:[^;:]+\.pyx?|<[^;:]+>)(?::\d+)?\)")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` comes from py-spy: all elements have its form, and one is of Python."""
    if is_binary(head):
        return False
    lines = [line for line, _ in _join_lines(enumerate(head.split(b"\n")[:200], 1))]
    lines = [line for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]
    python = False
    for line in lines[:100]:
        match = _LINE.fullmatch(line)
        if not match:
            return False
        stack = _parse_thread(_parse_processes(match[1])[0])[0]
        frames = stack.split(b";") if stack else []
        if not all(len(frame) < MAX_FRAME_BYTES and _FRAME.fullmatch(frame) for frame in frames):
            return False
        python = python or any(_PYTHON.fullmatch(frame) for frame in frames)
    return python


def _join_lines(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[bytes, int]]:
    """Lines, each with its number; lines of a process command that contains line breaks are joined."""
    before, first = b"", 0
    for number, line in lines:
        whole, first = before + line, first or number
        if whole.startswith(b"process ") and len(whole) < MAX_COMMAND_BYTES and _open(whole):
            before = whole + b"\n"
            continue
        yield whole, first
        before, first = b"", 0
    if before:
        yield before.rstrip(b"\n"), first


def _open(line: bytes) -> bool:
    """Whether the last command of a process is still open."""
    rest = _parse_processes(line)[0]
    return rest.startswith(b"process ") and not _LINE.fullmatch(rest)


def _parse_processes(line: bytes) -> tuple[bytes, re.Match[bytes] | None]:
    """The text after the processes at the beginning, and the innermost of them."""
    last = None
    while match := _PROCESS.match(line):
        line, last = line[match.end() + 1 :], match
    return line, last


def _parse_thread(line: bytes) -> tuple[bytes, re.Match[bytes] | None]:
    first, _, rest = line.partition(b";")
    match = _THREAD.fullmatch(first)
    return (rest, match) if match else (line, None)


@check_parse_quality("py-spy stacks", UNRECOGNIZED_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file. `source` names it in messages. Raises UnreadableInput if it has no samples."""
    builder = ProfileBuilder(FORMAT)
    event = builder.intern_event("samples", "count")
    frames: dict[bytes, int] = {}
    threads: dict[tuple[bytes, bytes], int] = {}
    names: dict[int, str] = {}
    count = 0
    for line, number in _join_lines(_number_lines(stream)):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if not match or len(match[2]) > 19 or int(match[2]) >= MAX_WEIGHT:
            builder.add_loss(IMPOSSIBLE_STACK_WEIGHT if match else UNRECOGNIZED_LINE, format_example(line, number))
            continue
        stack, process = _parse_processes(match[1])
        stack, thread = _parse_thread(stack)
        key = (process[0] if process else b"", thread[0] if thread else b"")
        row = threads.get(key)
        if row is None:
            row = threads[key] = _intern_thread(builder, process, thread)
            # A thread has no name yet while it starts.
            if thread and (thread[2] or row not in names):
                names[row] = decode_text(thread[2] or b"").strip() or f"thread {decode_text(thread[1])}"
        places = []
        for piece in stack.split(b";") if stack else ():
            place = frames.get(piece)
            if place is None:
                place = frames[piece] = _intern_frame(builder, piece)
            places.append(place)
        if not places:
            builder.add_loss(NO_FRAMES, format_example(line, number))
        builder.add_sample(0, row, event, builder.intern_stack(places), int(match[2]))
        count += 1
    if not count:
        raise UnreadableInput(f"{source} has no samples: py-spy saw no running thread. Record again, for longer.")
    for row, name in names.items():
        builder.set_thread_name(row, 0, name)
    builder.add_run()
    defect = getattr(stream, "defect", None)
    return builder.finish(Meta(FORMAT, complete=defect is None, reasons=(defect,) if defect else ()))


def _number_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for lines, first in iterate_blocks(stream):
        yield from enumerate(lines, first)


def _intern_thread(builder: ProfileBuilder, process: re.Match[bytes] | None, thread: re.Match[bytes] | None) -> int:
    # If the system's thread id is unknown, this is Python's thread id, in hexadecimal.
    tid = int(thread[1], 16 if thread[1].startswith(b"0x") else 10) if thread else None
    known = tid is not None and tid < 1 << 63
    row = builder.intern_thread(
        pid=int(process[1]) if process else None,
        tid=tid if known else None,
        incarnation=0 if known or not thread else -1 - int(thread[1], 16),
    )
    if process:
        words = decode_text(process[2]).split()
        builder.set_process_name(row, os.path.basename(words[0]) if words else f"process {decode_text(process[1])}")
    return row


def _intern_frame(builder: ProfileBuilder, piece: bytes) -> int:
    match = _FRAME.fullmatch(piece) if len(piece) < MAX_FRAME_BYTES else None
    if not match:
        name = decode_text(piece)
        return builder.intern_frame(builder.intern_function(name), kind=FrameKind.USER if name else FrameKind.UNKNOWN)
    name, place = decode_text(match[1]), decode_text(match[2])
    line = int(match[3]) if match[3] and 0 < int(match[3]) < 1 << 31 else None
    if _PYTHON.fullmatch(piece):
        return builder.intern_frame(builder.intern_function(name, "", place), kind=FrameKind.PYTHON, line=line)
    if line is not None:
        return builder.intern_frame(builder.intern_function(name, "", place), line=line)
    kind = FrameKind.UNKNOWN if re.fullmatch(r"0x[0-9a-f]+", name) else FrameKind.USER
    return builder.intern_frame(builder.intern_function(name, place), kind=kind)
