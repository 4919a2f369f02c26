"""Reader of callgrind files, which cachegrind, Xdebug, pyprof2calltree and others write too, and KCachegrind opens.

Format: valgrind.org/docs/manual/cl-format.html. It has the self cost of each function and the inclusive cost of its
calls. Call stacks are estimated from these (see tree.py); self costs are exact.
"""

import re
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import check_parse_quality
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

CHUNK_BYTES = 8 << 20

_FIRST = re.compile(rb"\s*# callgrind format\b")
_EVENTS = re.compile(rb"^events:[ \t]*\S+", re.MULTILINE)
_HEADER = re.compile(rb"^(?:version: ?[01]\b|creator: |cmd: |positions:|desc: |part: |pid: |event: )", re.MULTILINE)
_BODY = re.compile(rb"^(?:fl|fn|ob)=", re.MULTILINE)
_JSON = (b"{", b"[")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` comes from callgrind or cachegrind."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if _FIRST.match(head):
        return True
    if b"\0" in head or head.lstrip()[:1] in _JSON:
        return False
    events = _EVENTS.search(head)
    return events is not None and bool(_HEADER.search(head) or _BODY.search(head, events.end()))


@check_parse_quality("lines of callgrind", UNRECOGNIZED_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file. `source` names it in messages. Raises UnreadableInput if it has no cost."""
    # Compiled code is imported only when a file is read.
    from .assembly import build_profile
    from .lines import CallgrindParser

    parser = CallgrindParser()
    while data := stream.read(CHUNK_BYTES):
        parser.absorb(data)
    parser.finish()
    return build_profile(parser, source, getattr(stream, "defect", None))
