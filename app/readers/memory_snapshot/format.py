"""The name of the format, how it is recognized, and its losses."""

from ...ingest.trace.losses import ALLOCATOR_LOSSES

FORMAT = "pytorch-memory-snapshot"
UNKNOWN_ACTION = "event with an unknown action"
NO_ADDRESS = "event without a valid address or size"
BAD_BLOCK = "block or segment without a valid address or size"
NO_TIME = "event without a time (PyTorch before 2.1); events are placed one microsecond apart, in their order"
TIME_OF_BEFORE = "event without a time; it gets the time of the previous one"
TWICE = "list referenced from two places; the second is not read"
MAX_FRAMES = 10_000
TOO_DEEP = f"call stack of more than {MAX_FRAMES} frames; only the innermost were read"
ANNOTATIONS = "annotation of the program (record_function), which is not read"
LOSSES = (
    *(UNKNOWN_ACTION, NO_ADDRESS, BAD_BLOCK, NO_TIME, TIME_OF_BEFORE, TWICE, TOO_DEEP, ANNOTATIONS),
    *ALLOCATOR_LOSSES,
)
