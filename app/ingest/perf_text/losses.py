"""Why something that perf printed could not be read."""

from ...domain.losses import UNUSED_STACK
from ...domain.rank_state import END_MISSING, THROTTLING
from ..losses import UNRECOGNIZED_LINE, UNRECOGNIZED_SCHED_EVENT
from ..trace.losses import SCHEDULER_LOSSES, UNKNOWN_RUNTIME

LOST_IN_KERNEL = "samples lost while recording"
SAMPLED_SWITCHES = "switches that perf did not record because events were sampled: times are wrong"
MISSING_SWITCH = "time of a thread between two switches one of which was not recorded"
LOST_BETWEEN_SWITCHES = "time of a thread between two switches while perf lost records"
UNKNOWN_END = "time of a running thread whose end was not recorded"
CLOCK_WENT_BACK = "time between two switches of a thread where the clock went back"
BAD_BRANCH = "unrecognized entry of a branch stack"
BRANCHES_BEYOND = "branch beyond the 1,048,576 distinct ones that are kept"
RARE_BRANCH = "rare branch of a thread, beyond what is kept"

COMMENT_LOSSES = (LOST_IN_KERNEL, THROTTLING, END_MISSING)
"""What `callchains.TextComments` reports."""
SCHED_TEXT_LOSSES = (
    UNRECOGNIZED_LINE,
    UNRECOGNIZED_SCHED_EVENT,
    SAMPLED_SWITCHES,
    UNUSED_STACK,
    *COMMENT_LOSSES,
    *SCHEDULER_LOSSES,
)
"""The losses that `sched_profile` reports in addition to those of traces."""
SCHED_IN_SAMPLES_LOSSES = (SAMPLED_SWITCHES, UNKNOWN_RUNTIME)
"""What `sched_in_samples` reports."""
SWITCH_RECORD_LOSSES = (MISSING_SWITCH, LOST_BETWEEN_SWITCHES, UNKNOWN_END, CLOCK_WENT_BACK)
"""What `switch_records` reports."""
BRANCH_LOSSES = (BAD_BRANCH, BRANCHES_BEYOND, RARE_BRANCH)
"""What `branch_stacks` and `perf_script.branches` report."""
