"""What the format is called, how it is recognized, and what may be lost of it."""

from ...ingest.trace.losses import TRACE_LOSSES

FORMAT = "speedscope"
NO_PROFILE = "profile of a sort that is not known"
NO_FRAME = "frame without a name, or with a number that no frame has"
NO_WEIGHT = "sample without a weight that can be"
NO_TIME = "event without a time that can be"
UNMATCHED_END = "end of a frame that is not open"
NEVER_ENDED = "frame that was never closed: it ends with its profile"
BACKWARDS = "event with a value below the one before it"
LOSSES = (
    *(NO_PROFILE, NO_FRAME, NO_WEIGHT, NO_TIME, UNMATCHED_END, NEVER_ENDED, BACKWARDS),
    *TRACE_LOSSES,
)
