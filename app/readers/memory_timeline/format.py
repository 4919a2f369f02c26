"""The name of the format, how it is recognized, and its losses."""

FORMAT = "pytorch-memory-timeline"
BAD_EVENT = "unrecognized event"
BAD_SIZE = "time or size out of range"
LOSSES = (BAD_EVENT, BAD_SIZE)
