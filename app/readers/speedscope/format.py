"""The name of the format, how it is recognized, and its losses."""

from ...ingest.trace.losses import TRACE_LOSSES

FORMAT = "speedscope"
NO_PROFILE = "profile of an unknown type"
NO_FRAME = "frame without a name, or index of a missing frame"
NO_WEIGHT = "sample without a valid weight"
NO_TIME = "event without a valid time"
UNMATCHED_END = "end of a frame that is not open"
NEVER_ENDED = "frame that was never closed: assumed to end with its profile"
BACKWARDS = "event with a value below that of the previous event"
LOSSES = (
    *(NO_PROFILE, NO_FRAME, NO_WEIGHT, NO_TIME, UNMATCHED_END, NEVER_ENDED, BACKWARDS),
    *TRACE_LOSSES,
)
