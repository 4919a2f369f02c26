"""What the format is called, how it is recognized, and what may be lost of it."""

from ...domain.losses import KERNEL_EVENT, NO_MARKER, PACKET, PART_OF_EVENT
from ...ingest.trace.losses import SCHEDULER_LOSSES, TRACE_LOSSES

FORMAT = "perfetto-trace"
BAD_COMPRESSED = "packed packets that cannot be unpacked"
BAD_PACKET = "packet that is damaged: what follows the damage in it is lost"
MISSING_STATE = "packet that needs what was lost before it"
NO_CLOCK = "time of a clock that nothing ties to the others: taken as it is"
BAD_TRACK = "description of a track or of processes that is damaged"
BAD_ARGUMENT = "argument of a track event that is damaged"
NO_VALUE = "counter without a number that can be"
DAMAGED = "event of the kernel that is damaged"
LOST_EVENTS = "bundle of events of the kernel before which some were lost"
SKIPPED = "sample of a CPU that Perfetto did not take whole: it says why it was skipped"
NO_STACK = "sample of a CPU whose call stack is not in the trace"
LOSSES = (
    *(BAD_COMPRESSED, BAD_PACKET, MISSING_STATE, NO_CLOCK, BAD_TRACK, BAD_ARGUMENT, NO_VALUE, DAMAGED, LOST_EVENTS),
    *(SKIPPED, NO_STACK, PART_OF_EVENT, PACKET, KERNEL_EVENT, NO_MARKER),
    *SCHEDULER_LOSSES,
    *TRACE_LOSSES,
)
