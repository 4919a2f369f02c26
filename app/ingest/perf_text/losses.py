"""Why something that perf printed could not be read."""

from ...domain.losses import UNUSED_STACK
from ...domain.rank_state import END_MISSING, THROTTLING
from ..trace.losses import SCHEDULER_LOSSES, UNKNOWN_RUNTIME

LOST_IN_KERNEL = "samples lost while recording"
NO_LINE = "unrecognized line"
NOT_UNDERSTOOD = "scheduler event with unrecognized text"
SAMPLED_SWITCHES = "switches that perf did not record because events were sampled: times are wrong"

COMMENT_LOSSES = (LOST_IN_KERNEL, THROTTLING, END_MISSING)
"""What `callchains.TextComments` reports."""
SCHED_TEXT_LOSSES = (NO_LINE, NOT_UNDERSTOOD, SAMPLED_SWITCHES, UNUSED_STACK, *COMMENT_LOSSES, *SCHEDULER_LOSSES)
"""The losses that `sched_profile` reports in addition to those of traces."""
SCHED_IN_SAMPLES_LOSSES = (SAMPLED_SWITCHES, UNKNOWN_RUNTIME)
"""What `sched_in_samples` reports."""
