"""What `perf script` is asked to print of a recording: here and on any host, so that one reader understands it."""

FIELDS = ("comm", "pid", "tid", "cpu", "time", "period", "event", "ip", "sym", "symoff", "dso")
OPTIONS = ("--ns", "--header", "--no-inline", "--show-lost-events", "--force")
