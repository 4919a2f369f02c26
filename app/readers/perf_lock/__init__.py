"""Reader of perf's output on lock contention: tables (tables.py), and the events themselves (events.py), which
`perf script` prints of a `perf lock record`.

    cont 29823/29834 [001] 59584.132291386: lock:contention_begin: 0xffff8881061864b8 (flags=WRITE)
            ffffffff821ffadf rwsem_down_write_slowpath+0x37f ([kernel.kallsyms])
"""

import re
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.perf_text import script_header
from ...ingest.perf_text.fields import LOCKS
from ...ingest.text_lines import iterate_chunks
from . import contention_tables
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

_BEGIN = re.compile(
    rb"^[^\n\[#]{1,60}\[\d+\][^\n:]{1,40}\.\d{6,9}: +(?:\d+ +)?lock:contention_begin: +0x", re.MULTILINE
)
_OTHER = re.compile(rb"\d\.\d{6,9}: +(?:\d+ +)?(?!lock:contention_)[^\s:]\S*?:(?:\s|$)", re.MULTILINE)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` has only lock contention."""
    return contention_tables.sniff(head) or _has_events(head)


def _has_events(head: bytes) -> bool:
    if b"\0" in head or not _BEGIN.search(head):
        return False
    tracepoint_group = script_header.detect_tracepoint_group(head)
    return tracepoint_group == LOCKS if tracepoint_group is not None else _OTHER.search(head) is None


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a text. `source` names it in messages. Raises UnreadableInput if no thread waited for a lock."""
    # Only one of these modules is needed.
    from .contention_events import LockWaitParser

    reading: contention_tables.LockTableParser | LockWaitParser | None = None
    for number, text in iterate_chunks(stream):
        if reading is None:
            reading = (
                LockWaitParser()
                if _has_events(text[: script_header.HEAD_BYTES])
                else contention_tables.LockTableParser()
            )
        reading.feed(number, text)
    return (reading or contention_tables.LockTableParser()).finish(source, getattr(stream, "defect", None))
