"""Trace events from a stream, by the fastest available method."""

import sys
from typing import BinaryIO

from ..jit.decorators import HAS_NUMBA
from ..trace.events import TraceEvents


def read_events(stream: BinaryIO) -> TraceEvents:
    """The events in a stream of decompressed bytes: scanned, or decoded, which is slow, if loops are not compiled.

    Raises what reading the stream does; its content never raises.
    """
    if HAS_NUMBA and sys.byteorder == "little":
        # It needs the compiler.
        from .parallel_scan import scan_events_parallel

        return scan_events_parallel(stream)
    from .decoder import decode

    return decode(stream)
