"""What the format is called, how it is recognized, and what may be lost of it."""

from ...ingest.trace.losses import TRACE_LOSSES

FORMAT = "mllm"
INCOMPLETE_ENTRY = "block or operator without a time, a size or a name that can be"
BACKWARDS = "block or operator that ends before it begins: counted as if it took no time"
DUPLICATE_BLOCK = "block with the number of another"
UNKNOWN_PART = "part of the file that is not known"
LOSSES = (INCOMPLETE_ENTRY, BACKWARDS, DUPLICATE_BLOCK, UNKNOWN_PART, *TRACE_LOSSES)
