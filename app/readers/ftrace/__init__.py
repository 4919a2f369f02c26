"""Reader of the text of the kernel's tracer: /sys/kernel/tracing/trace, and what `trace-cmd report` prints.

    #           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
                bash-1977    [000] d..2. 17284.993652: sched_switch: prev_comm=bash prev_pid=1977 …
                bash-1977    [000] ....1 17284.993700: tracing_mark_write: B|1977|my work

and of its tracer of calls:

     0)   0.382 us    |      kmem_cache_free();
     0)               |      do_sys_open() {
     0)   2.861 us    |      }

A page that systrace of Android wrote has it between the parts that show it.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from ...domain.profile import Profile
from ..grammar_share import judged

FORMAT = "ftrace"
CHUNK_BYTES = 8 << 20
LONGEST_BYTES = 1 << 20
HEADER = b"# tracer: "
LINE = re.compile(
    rb" *+(?!:-1 )(.{0,40}?)-(\d{1,10}) ++(?:\( *+(\d+|-+)\) ++)?\[(\d{1,5})\] ++(?:([^\s\d:]\S{3,7}) +)?"
    rb"(\d{1,12})\.(\d{1,9}): +(.*)"
)
"""Task, thread, process, CPU, flags, seconds, their fraction, and what happened. perf writes :-1 of what has ended."""
GRAPH = re.compile(
    rb" *+(?:(\d{1,12})\.(\d{1,9}) ++\| ++)?(\d{1,5})\) ++(?:(.{0,40}?)-(\d{1,10}) ++\| ++)?(?:[^|\s]{1,5} ++\| ++)?"
    rb"(?:[+!#*@$]? *+([\d.]+) us ++)?\| ( *)(.*)"
)
"""Time, CPU, task, thread, duration, indent, and the call, of a line of the tracer of calls."""
_PAGE = re.compile(
    rb"\s*<!doctype html>.{0,2000}?<title>[^<]{0,40}\b(?:system trace|systrace)\b", re.DOTALL | re.IGNORECASE
)
_BEGIN, _END = re.compile(rb'<script class="trace-data"[^>]*>'), re.compile(rb"</script>")
NO_LINE = "line that is none of such a trace"


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is such a trace."""
    if b"\0" in head:
        return False
    if _PAGE.match(head):
        return True
    lines = head.split(b"\n")[:500]
    if any(line.startswith(HEADER) for line in lines[:50]):
        return True
    good = sum(LINE.fullmatch(line.rstrip()) is not None for line in lines)
    return good > 0 and 2 * good >= sum(bool(line.strip()) for line in lines[1:]) - 20


@judged("lines of ftrace", NO_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput where nothing is traced in it."""
    # What is compiled is loaded where something is read, and nowhere else.
    from .assembly import Collected, assembled

    found = Collected()
    inside = None
    for number, text in numbered_pieces(stream):
        if inside is None:
            inside = not _PAGE.match(text)
            page = not inside
        if page:
            text, inside = _told_in(text, inside)
        found.take(number, text)
    return assembled(found, source, getattr(stream, "defect", None))


def _told_in(page: bytes, inside: bool) -> tuple[bytes, bool]:
    """Only what stands in parts of a page that are the trace, in as many lines. inside: whether the piece begins there
    (returned: whether it ends there)."""
    parts = []
    while page:
        edge = _END.search(page) if inside else _BEGIN.search(page)
        piece, page = (page[: edge.start()], page[edge.end() :]) if edge else (page, b"")
        parts.append(piece if inside else b"\n" * piece.count(b"\n"))
        inside = inside if edge is None else not inside
    return b"".join(parts), inside


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
