"""Reader of what perf tells of waits for locks: tables (tables.py), and the events themselves (events.py), which
`perf script` prints of a `perf lock record`.

    cont 29823/29834 [001] 59584.132291386: lock:contention_begin: 0xffff8881061864b8 (flags=WRITE)
            ffffffff821ffadf rwsem_down_write_slowpath+0x37f ([kernel.kallsyms])
"""

import re
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.perf_text import heading
from ...ingest.perf_text.fields import LOCKS
from ...ingest.text_lines import numbered_pieces
from . import tables

FORMAT = tables.FORMAT
_BEGIN = re.compile(
    rb"^[^\n\[#]{1,60}\[\d+\][^\n:]{1,40}\.\d{6,9}: +(?:\d+ +)?lock:contention_begin: +0x", re.MULTILINE
)
_OTHER = re.compile(rb"\d\.\d{6,9}: +(?:\d+ +)?(?!lock:contention_)[^\s:]\S*?:(?:\s|$)", re.MULTILINE)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` tells of waits for locks, and nothing else."""
    return tables.sniff(head) or _tells_events(head)


def _tells_events(head: bytes) -> bool:
    if b"\0" in head or not _BEGIN.search(head):
        return False
    headed = heading.told_by(head)
    return headed == LOCKS if headed is not None else _OTHER.search(head) is None


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a text. `source` names it in messages. Raises UnreadableInput where no lock was waited for."""
    # Of these only one is needed.
    from .events import Waits

    reading: tables.Table | Waits | None = None
    for number, text in numbered_pieces(stream):
        if reading is None:
            reading = Waits() if _tells_events(text[: heading.HEAD_BYTES]) else tables.Table()
        reading.take(number, text)
    return (reading or tables.Table()).finish(source, getattr(stream, "defect", None))
