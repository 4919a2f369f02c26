"""What the format is called, how it is recognized, and what may be lost of it."""

from ...ingest.trace.losses import ALLOCATOR_LOSSES

FORMAT = "pytorch-memory-snapshot"
UNKNOWN_ACTION = "event with an action that is not known"
NO_ADDRESS = "event without an address or a size that can be right"
BAD_BLOCK = "block or segment without an address or a size that can be right"
NO_TIME = "event without a time (PyTorch before 2.1); events stand one microsecond apart, in their order"
TIME_OF_BEFORE = "event without a time; it has that of the one before it"
TWICE = "list that the file holds in two places; the second is not read"
MOST_FRAMES = 10_000
TOO_DEEP = f"call stack of more than {MOST_FRAMES} frames; the innermost were read"
ANNOTATIONS = "annotation of the program's (record_function); they are not read"
LOSSES = (
    *(UNKNOWN_ACTION, NO_ADDRESS, BAD_BLOCK, NO_TIME, TIME_OF_BEFORE, TWICE, TOO_DEEP, ANNOTATIONS),
    *ALLOCATOR_LOSSES,
)
