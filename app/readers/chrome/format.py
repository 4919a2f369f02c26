"""What the format is called."""

FORMAT = "chrome-trace"
