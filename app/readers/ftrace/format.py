"""The name of the format, how it is recognized, and its losses."""

import re

from ...ingest.losses import UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT
from ...ingest.trace.losses import SCHEDULER_LOSSES, TRACE_LOSSES

FORMAT = "ftrace"
LINE = re.compile(
    rb" *+(?!:-1 )(.{0,40}?)-(\d{1,10}) ++(?:\( *+(\d+|-+)\) ++)?\[(\d{1,5})\] ++(?:([^\s\d:]\S{3,7}) +)?"
    rb"(\d{1,12})\.(\d{1,9}): +(.*)"
)
"""Task, thread, process, CPU, flags, seconds, their fraction, and the event. perf writes :-1 for a thread that has
ended."""
GRAPH = re.compile(
    rb" *+(?:(\d{1,12})\.(\d{1,9}) ++\| ++)?(\d{1,5})\) ++(?:(.{0,40}?)-(\d{1,10}) ++\| ++)?(?:[^|\s]{1,5} ++\| ++)?"
    rb"(?:[+!#*@$]? *+([\d.]+) us ++)?\| ( *)(.*)"
)
"""Time, CPU, task, thread, duration, indent, and the call, of a line of the tracer of calls."""
LOST = "events lost while the kernel traced"
OVERWRITTEN = "events overwritten by the kernel before they were read"
UNMATCHED_RETURN = "end of a call without a begin in the trace"
LOSSES = (
    *(UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT, LOST, OVERWRITTEN, UNMATCHED_RETURN),
    *SCHEDULER_LOSSES,
    *TRACE_LOSSES,
)
