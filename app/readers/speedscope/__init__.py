"""Reader of speedscope files, which py-spy, rbspy, and many converters write. Format: file-format-schema.json."""

import re
from typing import Any, BinaryIO

import orjson

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
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
    try:
        found: Any = orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise UnreadableInput(f"{source} is not complete JSON: {error}. Export it again.") from None
    return build_profile(found, source, getattr(stream, "defect", None))
