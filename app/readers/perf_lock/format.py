"""The name of the format, and its losses."""

from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.perf_text.losses import COMMENT_LOSSES

FORMAT = "perf-lock"
BAD_LOCKS = "locks without complete events in perf, so that the wait is unknown"
NO_TOTAL = "lock without a total wait time: only the number of waits is known"
NO_EVENT = "line that is neither a begin nor an end of a lock wait"
NO_BEGIN = "end of a lock wait without a begin in the recording"
NO_END = "lock wait that had not ended"
LOSSES = (UNRECOGNIZED_LINE, BAD_LOCKS, NO_TOTAL, NO_EVENT, NO_BEGIN, NO_END, *COMMENT_LOSSES)
