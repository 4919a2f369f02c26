"""Why something of trace events could not be read: the reasons of all readers that trace."""

from ...domain.losses import NO_LAUNCH, UNKNOWN_PHASE
from .events import MAX_DEPTH

NO_TIME = "event without a time"
IMPOSSIBLE_TIME = "event at a time, or for a time, that cannot be"
NEGATIVE = "slice that ends before it begins: counted as if it took no time"
NO_DURATION = "slice without a duration: counted as if it took no time"
UNMATCHED_END = "end of a slice that never began, or not under that name"
TOO_DEEP = f"slice nested more than {MAX_DEPTH} deep: its time is that of those around it"
TWO_ARGUMENTS = "slice whose end has arguments too, which are left out"
NEVER_ENDED = "slice that never ended: counted up to the end of the one around it"
NO_NUMBER = "counter without a number"
NO_FLOW_ID = "flow without an id"
UNMATCHED_FLOW = "flow with only one end"
NO_SLICE = "flow that does not start and end at slices"
NO_BYTES = "[memory] event that does not say how many bytes"
NO_FREE = "memory that must have been freed, without an event that says so"
NO_ALLOCATION = "memory that must have been allocated, without an event that says so"
NO_PHASE = "event that does not say what it is"
LOST_SWITCHES = "switch away from a thread that did not run there: switches before it were lost"
UNKNOWN_RUNTIME = (
    "time of a thread of which nothing tells since when or how long it ran, as only some threads were recorded"
)
UNRECORDED_FREE = "block that was freed without a record; it is taken to end with the recording"
LOST_FREE = "block that was allocated again without being freed; it is taken to end there"
LOST_ALLOCATION = "block that was freed again without being allocated; it is taken to begin there"

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
