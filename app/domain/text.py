"""Text that others wrote (hosts, programs, files), made fit for a message or a table."""


def sanitize_line(text: str) -> str:
    """`text` on one line: of printable characters alone, with single blanks between words."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
