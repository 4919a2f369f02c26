"""Reasons of losses that several readers report, and the length of their examples."""

UNRECOGNIZED_LINE = "unrecognized line"
UNRECOGNIZED_SCHED_EVENT = "scheduler event with unrecognized text"
MAX_EXAMPLE_CHARS = 160
MAX_SHORT_EXAMPLE_CHARS = 80
"""Of one label or name."""
MAX_LONG_EXAMPLE_CHARS = 200
"""Of a table row."""
