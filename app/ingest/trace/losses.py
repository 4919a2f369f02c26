"""Why trace events could not be read: the reasons of all readers of traces."""

from ...domain.losses import NO_LAUNCH, UNKNOWN_PHASE
from .events import MAX_DEPTH

CUT_OFF = "missing end of the file"
NO_TIME = "event without a time"
IMPOSSIBLE_TIME = "event with an impossible time or duration"
NEGATIVE = "slice that ends before it begins: duration set to 0"
NO_DURATION = "slice without a duration: duration set to 0"
UNMATCHED_END = "slice end without a matching begin"
TOO_DEEP = f"slice nested more than {MAX_DEPTH} deep: its time counts for the slices around it"
TWO_ARGUMENTS = "slice whose end also has arguments, which are ignored"
NEVER_ENDED = "slice that never ended: assumed to end with the slice around it"
NO_NUMBER = "counter without a number"
NO_FLOW_ID = "flow without an id"
UNMATCHED_FLOW = "flow with only one end"
NO_SLICE = "flow that does not start or end at a slice"
NO_BYTES = "[memory] event without a number of bytes"
NO_FREE = "memory freed without an event"
NO_ALLOCATION = "memory allocated without an event"
NO_PHASE = "event without a phase"
LOST_SWITCHES = "switch away from a thread that did not run there: earlier switches were lost"
UNKNOWN_RUNTIME = "time of a thread without a record of when or how long it ran, as only some threads were recorded"
UNRECORDED_FREE = "block freed without a record; assumed to end with the recording"
LOST_FREE = "block allocated again without being freed; assumed to end there"
LOST_ALLOCATION = "block freed again without being allocated; assumed to begin there"

TRACE_LOSSES = (
    *(NO_TIME, IMPOSSIBLE_TIME, NEGATIVE, NO_DURATION, UNMATCHED_END, TOO_DEEP, TWO_ARGUMENTS, NEVER_ENDED),
    *(NO_NUMBER, NO_FLOW_ID, UNMATCHED_FLOW, NO_SLICE, NO_BYTES, NO_FREE, NO_ALLOCATION),
    *(NO_PHASE, UNKNOWN_PHASE, NO_LAUNCH),
)
"""What `profile.build_profile` reports."""
SCHEDULER_LOSSES = (LOST_SWITCHES, UNKNOWN_RUNTIME)
"""What `scheduler` reports."""
ALLOCATOR_LOSSES = (UNRECORDED_FREE, LOST_FREE, LOST_ALLOCATION)
"""What `allocator` reports."""
