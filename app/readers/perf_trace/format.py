"""The name of the format, how it is recognized, and its losses."""

import re

from ...domain.losses import STACK_OF_CALL
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.trace.losses import TRACE_LOSSES

FORMAT = "perf-trace"
LINE = re.compile(
    rb" *(?:\?|(\d{1,15})\.(\d{3})) \( *+(?:(\d{1,12})\.(\d{3}) ms)? *+\): ++(?:(\S.{0,30}?)/(\d{1,10}) +)?(\S.*)"
)
"""Milliseconds and their fraction, those of the duration, task, thread, and the call."""
SUMMARY = re.compile(rb" (\S.{0,30}?) \((\d{1,10})\), (\d+) events, [\d.]+%.*")
NO_BEGIN = "end of a system call without a start or a duration"
NO_END = "ended system call without a duration: duration set to 0"
LOST = "events lost according to perf trace"
LOSSES = (UNRECOGNIZED_LINE, NO_BEGIN, NO_END, LOST, STACK_OF_CALL, *TRACE_LOSSES)
