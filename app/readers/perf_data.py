"""perf's own recording, perf.data: recognised here, and read by way of perf script's text.

What perf writes depends on its version and on the machine that was recorded; perf itself knows it best. So the shell
side runs `perf script` (workers/perf_tool.py) and hands its text to the reader of that.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from ..domain.profile import Profile

FORMAT = "perf-data"
MAGIC = b"PERFILE2"
SWAPPED_MAGIC = b"2ELIFREP"
PIPE_HEADER_BYTES = 16
EVENT_FACT = "event "
"""How the names of the facts begin that the heading's lines on events become."""


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is perf.data, written by either byte order or into a pipe."""
    return head.startswith((MAGIC, SWAPPED_MAGIC))


def is_piped(head: bytes) -> bool:
    """Whether it was written by `perf record -o -`: then it has a header of 16 bytes, which is its own size."""
    return int.from_bytes(head[8:16], "little" if head.startswith(MAGIC) else "big") == PIPE_HEADER_BYTES


def read(stream: BinaryIO, source: str = FORMAT) -> "Profile":
    """The profile in the text that `perf script` printed of a perf.data file."""
    # Here, as who only has perf print a file does not need it, nor what it imports.
    from . import perf_script

    profile = perf_script.read(stream, source)
    return replace(profile, meta=replace(profile.meta, format=FORMAT, main_event=_first_asked_for(profile)))


def _first_asked_for(profile: "Profile") -> str | None:
    """The event that was named first when recording, of those that occurred: the heading lists them in that order.

    The first sample is no guide: page faults come before the first tick of any clock.
    """
    seen = set(profile.events.column("name").to_pylist())
    asked = (key.removeprefix(EVENT_FACT) for key in profile.meta.facts if key.startswith(EVENT_FACT))
    return next((name for name in asked if name in seen), profile.meta.main_event)
