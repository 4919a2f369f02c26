"""What the format is called, how it is recognized, and what may be lost of it."""

FORMAT = "speedscope"
