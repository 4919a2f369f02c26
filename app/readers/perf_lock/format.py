"""What the format is called, and what may be lost of it."""

from ...ingest.perf_text.losses import COMMENT_LOSSES

FORMAT = "perf-lock"
NO_LINE = "unrecognized line"
BAD_LOCKS = "locks of which perf did not see all events, so that it cannot tell the wait"
NO_TOTAL = "lock without a total wait time: only the number of waits is known"
NO_EVENT = "line that is no begin and no end of a wait for a lock"
NO_BEGIN = "end of a wait for a lock of which the begin is not in the recording"
NO_END = "wait for a lock that had not ended"
LOSSES = (NO_LINE, BAD_LOCKS, NO_TOTAL, NO_EVENT, NO_BEGIN, NO_END, *COMMENT_LOSSES)
