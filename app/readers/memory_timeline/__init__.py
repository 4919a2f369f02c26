"""Reader of the output of export_memory_timeline of PyTorch's profiler (torch/profiler/_memory_profiler.py), in its two
forms of JSON: sizes by category at certain times (.json), and single events (.raw.json.gz).

The third form, .html, is an image; the message for it names the other two.
"""

import re
from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

CHUNK_BYTES = 8 << 20
RAW = re.compile(rb"\s*\[\s*(?:\]\s*$|\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\])")
"""The beginning of the form with single events."""
_CURVES = re.compile(rb"\s*\[\s*\[\s*(?:-?\d+\s*+,\s*+)*+(?:-?\d+\s*)?\]\s*,\s*\[\s*[\[\]]")
_TIMES_ONLY = re.compile(rb"\s*\[\s*\[[\d\s,-]{1000,}$")
_PLAIN = b"0123456789-,[] \t\r\n"
_PICTURE = re.compile(rb"<title>GPU Memory Timeline HTML</title>", re.IGNORECASE)
_VIEWER = b"MemoryViz.js"


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a memory timeline, even as an image."""
    start = head[:4096]
    if _PICTURE.search(start) or _VIEWER in start:
        return True
    return any(form.match(head) is not None for form in (RAW, _CURVES, _TIMES_ONLY))


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a timeline: curves by category. `source` names it in messages.

    Raises UnreadableInput for an image, and if it has no times.
    """
    text = b"".join(iter(lambda: stream.read(CHUNK_BYTES), b""))
    if _PICTURE.search(text[:4096]):
        raise UnreadableInput(
            f"{source} is an image of a memory timeline: an HTML page without numbers. Export it as "
            "memory.json.gz, or as memory.raw.json.gz for single events: "
            'prof.export_memory_timeline("memory.raw.json.gz").'
        )
    if _VIEWER in text[:4096]:
        raise UnreadableInput(
            f"{source} is a page that shows a memory snapshot in PyTorch's viewer. Import the snapshot itself, the "
            ".pickle that torch.cuda.memory._dump_snapshot wrote."
        )
    if text.translate(None, _PLAIN):
        raise UnreadableInput(
            f"{source} is not a memory timeline: it contains more than lists of numbers. Export it again."
        )
    # Imported here, because most processes that list formats do not need its libraries.
    from . import tables

    of = tables.build_from_events if RAW.match(text) else tables.build_from_curves
    return of(text, source, getattr(stream, "defect", None))
