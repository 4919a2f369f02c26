"""The name of the format, how it is recognized, and its losses."""

from ...domain.losses import KERNEL_EVENT, NO_MARKER, PACKET, PART_OF_EVENT
from ...ingest.trace.losses import SCHEDULER_LOSSES, TRACE_LOSSES

FORMAT = "perfetto-trace"
BAD_COMPRESSED = "compressed packets that cannot be unpacked"
BAD_PACKET = "damaged packet: its remaining data is lost"
MISSING_STATE = "packet that depends on a lost packet"
NO_CLOCK = "time of a clock without a relation to other clocks: used unchanged"
BAD_TRACK = "damaged description of a track or of processes"
BAD_ARGUMENT = "damaged argument of a track event"
NO_VALUE = "counter without a valid number"
DAMAGED = "damaged kernel event"
LOST_EVENTS = "bundle of kernel events with lost events before it"
SKIPPED = "incomplete CPU sample, with a reason recorded by Perfetto"
NO_STACK = "CPU sample with a call stack that is not in the trace"
LOSSES = (
    *(BAD_COMPRESSED, BAD_PACKET, MISSING_STATE, NO_CLOCK, BAD_TRACK, BAD_ARGUMENT, NO_VALUE, DAMAGED, LOST_EVENTS),
    *(SKIPPED, NO_STACK, PART_OF_EVENT, PACKET, KERNEL_EVENT, NO_MARKER),
    *SCHEDULER_LOSSES,
    *TRACE_LOSSES,
)
