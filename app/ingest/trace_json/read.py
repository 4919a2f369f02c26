"""Trace events from a stream, the fastest way there is here."""

import sys
from typing import BinaryIO

from ..loops.compiled import COMPILED
from ..trace.events import TraceEvents


def read_events(stream: BinaryIO) -> TraceEvents:
    """The events in a stream of unpacked bytes: scanned, or where loops are not compiled, decoded, which takes long.

    Raises what reading the stream does, nothing for what is in it.
    """
    if COMPILED and sys.byteorder == "little":
        # Needs the compiler.
        from .scan import scanned

        return scanned(stream)
    from .decode import decode

    return decode(stream)
