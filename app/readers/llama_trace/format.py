"""The name of the format, and its losses."""

from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.trace.losses import TRACE_LOSSES

FORMAT = "llama-trace"
NO_TIME = "line with an invalid time"
NO_BEGIN = "end without a begin"
NO_VALUE = "counter with a value that is not a number"
DROPPED = "event dropped because the tracer had no space"
LOSSES = (UNRECOGNIZED_LINE, NO_TIME, NO_BEGIN, NO_VALUE, DROPPED, *TRACE_LOSSES)
