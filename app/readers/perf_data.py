"""perf's own recording, perf.data: recognized here, and read from the text of perf script.

The content depends on perf's version and on the recorded machine; so perf itself reads it. workers/read/perf_tool.py
runs `perf script` and passes its text to the reader of that text: perf_sched or perf_lock if only their events were
recorded, else perf_script.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, cast

from ..domain.event_names import FIRST_EVENT_FACT
from ..ingest.jit.mode import PERF_DATA_MAGIC
from ..ingest.perf_records.losses import RECORD_LOSSES
from ..ingest.perf_text.script_header import HEAD_BYTES

if TYPE_CHECKING:
    from ..domain.profile import Profile

FORMAT = "perf-data"
LOSSES = RECORD_LOSSES
MAGIC, SWAPPED_MAGIC = PERF_DATA_MAGIC
PIPE_HEADER_BYTES = 16


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is perf.data, written by either byte order or into a pipe."""
    return head.startswith((MAGIC, SWAPPED_MAGIC))


def is_piped(head: bytes) -> bool:
    """Whether it was written by `perf record -o -`: then it has a header of 16 bytes, which contains this size."""
    return int.from_bytes(head[8:16], "little" if head.startswith(MAGIC) else "big") == PIPE_HEADER_BYTES


def read(stream: BinaryIO, source: str = FORMAT) -> "Profile":
    """The profile in the text that `perf script` printed of a perf.data file. Raises UnreadableInput."""
    # Imported here, because a process that only runs perf on a file does not need it.
    from . import perf_lock, perf_sched, perf_script

    peeked = _PeekedStream(stream)
    text = cast(BinaryIO, peeked)
    for sniffed, by in ((perf_sched.sniff, perf_sched.read), (perf_lock.sniff, perf_lock.read)):
        if sniffed(peeked.head):
            profile = by(text, source)
            return replace(profile, meta=replace(profile.meta, format=FORMAT))
    profile = perf_script.read(text, source)
    facts = {name: value for name, value in profile.meta.facts.items() if name != FIRST_EVENT_FACT}
    return replace(profile, meta=replace(profile.meta, format=FORMAT, facts=facts))


class _PeekedStream:
    """A stream whose beginning was already read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = self._buffered = stream.read(HEAD_BYTES)

    @property
    def defect(self) -> str | None:
        """See `compression.PlainStream`."""
        return getattr(self._stream, "defect", None)

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        ahead, self._buffered = self._buffered[:size], self._buffered[size:]
        return ahead + self._stream.read(size - len(ahead)) if len(ahead) < size else ahead
