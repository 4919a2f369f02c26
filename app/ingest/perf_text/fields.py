"""What `perf script` is asked to print of a recording: here and on any host, so that one reader understands it."""

FIELDS = ("comm", "pid", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso")
OPTIONS = ("--ns", "--header", "--no-inline", "--show-lost-events", "--force")
TRACEPOINT_FIELD = "trace"
"""The field with the data of a tracepoint."""
SCHEDULER, LOCKS = "sched:", "lock:"
REQUIRED_EVENTS = {SCHEDULER: "sched:sched_switch", LOCKS: "lock:contention_end"}
"""Groups of tracepoints whose data are read if nothing else is recorded, and a tracepoint that must be present."""
_PLACES = frozenset({"ip", "sym", "symoff", "dso"})


def add_tracepoint_field(fields: tuple[str, ...], stacks: bool) -> tuple[str, ...]:
    """What to ask for of a recording of tracepoints alone of which a reader wants to know what they tell. stacks:
    whether there are call stacks; else all that could be printed is the same place in the kernel, again and again."""
    return (*(field for field in fields if stacks or field not in _PLACES), TRACEPOINT_FIELD)
