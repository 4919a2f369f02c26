"""What the format is called, and what may be lost of it."""

FORMAT = "llama-trace"
NO_LINE = "line that is none of such a trace"
NO_TIME = "line with a time that cannot be"
