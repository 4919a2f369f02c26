"""What the format is called, how it is recognized, and what may be lost of it."""

FORMAT = "pytorch-memory-timeline"
BAD_EVENT = "unrecognized event"
BAD_SIZE = "time or size out of range"
LOSSES = (BAD_EVENT, BAD_SIZE)
