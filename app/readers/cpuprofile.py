"""Reader of .cpuprofile files of V8: Node and Chrome."""

from __future__ import annotations

import re
from typing import BinaryIO

from ..domain.builder import ProfileBuilder
from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..ingest.json_text import parse_json_file
from ..ingest.v8_profile import V8_LOSSES, V8ProfileParser, add_profiles, find_problems

FORMAT = "cpuprofile"
LOSSES = V8_LOSSES


MAX_BYTES = 2 << 30


_PARTS = (re.compile(rb'"nodes"\s*:\s*\[\s*\{'), re.compile(rb'"callFrame"\s*:\s*\{'))


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a .cpuprofile."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"{") and b'"traceEvents"' not in head and all(part.search(head) for part in _PARTS)


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a .cpuprofile. `source` names it in messages. Raises UnreadableInput."""
    text = stream.read(MAX_BYTES)
    if stream.read(1):
        raise UnreadableInput(
            f"{source} is larger than the limit of 2 GB, which tools that write such files have, too."
        )
    found = parse_json_file(text, source, "Record again.")
    parts = V8ProfileParser()
    if isinstance(found, dict):
        parts.feed({"startTime": found.get("startTime")})
        parts.feed({"cpuProfile": found, "timeDeltas": found.get("timeDeltas"), "endTime": found.get("endTime")})
    finish = parts.finish()
    reasons = find_problems([finish])
    if not finish.time_ns and reasons:
        raise UnreadableInput(f"{source} has no readable samples. {reasons[0]} Record again.")
    if not finish.time_ns:
        raise UnreadableInput(f"{source} has no samples. Record for longer, while the program is busy.")
    builder = ProfileBuilder(FORMAT)
    builder.add_run()
    zero, end = finish.span()
    add_profiles([finish], builder, zero)
    defect = getattr(stream, "defect", None)
    reasons = ((defect,) if defect else ()) + reasons
    return builder.finish(Meta(FORMAT, duration_ns=end - zero, complete=not reasons, reasons=reasons))
