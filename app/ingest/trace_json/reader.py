"""Trace events from a stream, the fastest way there is here."""

import sys
from typing import BinaryIO

from ..jit.decorators import HAS_NUMBA
from ..trace.events import TraceEvents


def read_events(stream: BinaryIO) -> TraceEvents:
    """The events in a stream of unpacked bytes: scanned, or where loops are not compiled, decoded, which takes long.

    Raises what reading the stream does, nothing for what is in it.
    """
    if HAS_NUMBA and sys.byteorder == "little":
        # Needs the compiler.
        from .parallel_scan import scan_events_parallel

        return scan_events_parallel(stream)
    from .decoder import decode

    return decode(stream)
