"""What the format is called, how it is recognized, and what may be lost of it."""

NO_LINE = "line that is none of such a trace"
