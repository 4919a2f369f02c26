"""The fields that `perf script` prints of a recording: on this and any host, for one reader."""

FIELDS = ("comm", "pid", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso")
OPTIONS = ("--ns", "--header", "--no-inline", "--show-lost-events", "--force")
SWITCH_OPTIONS = ("--show-switch-events", "--show-task-events")
"""The options that print when threads left a CPU, returned and ended, for a recording with these records."""
BRANCH_FIELD = "brstacksym"
"""The field with the branch stack of a sample."""
TRACEPOINT_FIELD = "trace"
"""The field with the data of a tracepoint."""
SCHEDULER, LOCKS = "sched:", "lock:"
REQUIRED_EVENTS = {SCHEDULER: "sched:sched_switch", LOCKS: "lock:contention_end"}
"""Groups of tracepoints whose fields are read if nothing else is recorded, and a tracepoint that must be present."""
HEADING_EDGE = b"# ========\n"
"""The first and the last line of the header that `--header` prints."""
_PLACES = frozenset({"ip", "sym", "symoff", "dso"})


def add_tracepoint_field(fields: tuple[str, ...], stacks: bool) -> tuple[str, ...]:
    """The fields of a recording of only tracepoints, for a reader of their fields. stacks: whether there are call
    stacks; without them, the symbol would always be the same kernel function."""
    return (*(field for field in fields if stacks or field not in _PLACES), TRACEPOINT_FIELD)
