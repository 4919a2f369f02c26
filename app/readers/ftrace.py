"""Reader of the text of the kernel's tracer: /sys/kernel/tracing/trace, and what `trace-cmd report` prints.

    #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
                bash-1977    [000] d..2. 17284.993652: sched_switch: prev_comm=bash prev_pid=1977 …
                bash-1977    [000] ....1 17284.993700: tracing_mark_write: B|1977|my work

and of its tracer of calls:

     0)   0.382 us    |      kmem_cache_free();
     0)               |      do_sys_open() {
     0)   2.861 us    |      }
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from ..domain.profile import Profile

FORMAT = "ftrace"
CHUNK_BYTES = 8 << 20
LONGEST_BYTES = 1 << 20
HEADER = b"# tracer: "
LINE = re.compile(
    rb" *(.{0,40}?)-(\d{1,10}) +(?:\( *(\d+|-+)\) +)?\[(\d{1,5})\] +(?:([^\s\d:]\S{3,7}) +)?"
    rb"(\d{1,12})\.(\d{1,9}): +(.*)"
)
"""Task, thread, process, CPU, flags, seconds, their fraction, and what happened."""
GRAPH = re.compile(
    rb" *(?:(\d{1,12})\.(\d{1,9}) +\| +)?(\d{1,5})\) +(?:(.{0,40}?)-(\d{1,10}) +\| +)?(?:[^|\s]{0,5} +\| +)?"
    rb"(?:[+!#*@$]? *([\d.]+) us +)?\| ( *)(.*?)\s*"
)
"""Time, CPU, task, thread, duration, indent, and the call, of a line of the tracer of calls."""


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is such a trace."""
    if b"\0" in head:
        return False
    lines = head.split(b"\n")[:500]
    if any(line.startswith(HEADER) for line in lines[:50]):
        return True
    good = sum(LINE.fullmatch(line.rstrip()) is not None for line in lines)
    return good > 0 and 2 * good >= sum(bool(line.strip()) for line in lines[1:]) - 20


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput where nothing is traced in it."""
    # What is compiled is loaded where something is read, and nowhere else.
    from .ftrace_assembly import Collected, assembled

    found = Collected()
    for number, text in numbered_pieces(stream):
        found.take(number, text)
    return assembled(found, source, getattr(stream, "defect", None))


def numbered_pieces(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Whole lines in large pieces, each with the number of its first. One beyond all measure is cut."""
    rest, number = b"", 1
    while data := stream.read(CHUNK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if not end:
            rest = data if len(data) < LONGEST_BYTES else data[:LONGEST_BYTES]
            continue
        rest = data[end:]
        piece = data[: end - 1]
        yield number, piece.replace(b"\r", b"") if b"\r" in piece else piece
        number += piece.count(b"\n") + 1
    if rest:
        yield number, rest.rstrip(b"\r")
