"""What the format is called, and what may be lost of it."""

FORMAT = "llama-trace"
NO_LINE = "unrecognized line"
NO_TIME = "line with an invalid time"
