"""Reader of speedscope files, which py-spy, rbspy, and many converters write. Format: file-format-schema.json."""

import re
from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...ingest.json_text import parse_json_file
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

MAX_BYTES = 2 << 30
_SCHEMA = re.compile(rb'"\$schema"\s*:\s*"https?://(?:www\.)?speedscope\.app/')
_PARTS = re.compile(rb'"shared"\s*:\s*\{\s*"frames"\s*:')


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a speedscope file."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and bool(_SCHEMA.search(head) or _PARTS.search(head))


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file. `source` names it in messages. Raises UnreadableInput if it has nothing to show."""
    # Compiled code is imported only when a file is read.
    from .profile import build_profile

    text = stream.read(MAX_BYTES)
    if stream.read(1):
        raise UnreadableInput(f"{source} is larger than the limit of speedscope itself. Export a part of it.")
    return build_profile(parse_json_file(text, source, "Export it again."), source, getattr(stream, "defect", None))
