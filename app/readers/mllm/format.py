"""The name of the format, how it is recognized, and its losses."""

from ...ingest.trace.losses import TRACE_LOSSES

FORMAT = "mllm"
INCOMPLETE_ENTRY = "block or operator without a valid time, size or name"
BACKWARDS = "block or operator that ends before it begins: duration set to 0"
DUPLICATE_BLOCK = "block with the number of another block"
UNKNOWN_PART = "unknown part of the file"
LOSSES = (INCOMPLETE_ENTRY, BACKWARDS, DUPLICATE_BLOCK, UNKNOWN_PART, *TRACE_LOSSES)
