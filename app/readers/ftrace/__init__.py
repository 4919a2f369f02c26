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
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import check_parse_quality
from ...ingest.text_lines import iterate_chunks
from .format import FORMAT, LINE, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

HEADER = b"# tracer: "
_PAGE = re.compile(
    rb"\s*<!doctype html>.{0,2000}?<title>[^<]{0,40}\b(?:system trace|systrace)\b", re.DOTALL | re.IGNORECASE
)
_BEGIN, _END = re.compile(rb'<script class="trace-data"[^>]*>'), re.compile(rb"</script>")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a trace of this format."""
    if b"\0" in head:
        return False
    if _PAGE.match(head):
        return True
    lines = head.split(b"\n")[:500]
    if any(line.startswith(HEADER) for line in lines[:50]):
        return True
    good = sum(LINE.fullmatch(line.rstrip()) is not None for line in lines)
    return good > 0 and 2 * good >= sum(bool(line.strip()) for line in lines[1:]) - 20


@check_parse_quality("lines of ftrace", UNRECOGNIZED_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput if it has no events."""
    # Compiled code is imported only when a file is read.
    from .profile import FtraceParser, build_profile

    ftrace_parser = FtraceParser()
    inside = None
    for number, text in iterate_chunks(stream):
        if inside is None:
            inside = not _PAGE.match(text)
            page = not inside
        if page:
            text, inside = _trace_text_of_page(text, inside)
        ftrace_parser.feed(number, text)
    return build_profile(ftrace_parser, source, getattr(stream, "defect", None))


def _trace_text_of_page(page: bytes, inside: bool) -> tuple[bytes, bool]:
    """Only the parts of an HTML page that contain the trace, with the same number of lines. inside: whether the chunk
    begins in such a part (returned: whether it ends in one)."""
    parts = []
    while page:
        edge = _END.search(page) if inside else _BEGIN.search(page)
        piece, page = (page[: edge.start()], page[edge.end() :]) if edge else (page, b"")
        parts.append(piece if inside else b"\n" * piece.count(b"\n"))
        inside = inside if edge is None else not inside
    return b"".join(parts), inside
