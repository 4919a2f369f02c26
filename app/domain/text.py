"""Text that others wrote (hosts, programs, files), made fit for a message or a table."""

MESSAGE_CHARACTERS = 80
"""How much of a name a message quotes."""


def shorten(text: str, limit: int = MESSAGE_CHARACTERS) -> str:
    """`text`, its end replaced by "…" if it has more than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shorten_middle(text: str, limit: int) -> str:
    """`text`, its middle replaced by "…" if it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit // 2
    return f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"


def sanitize_line(text: str) -> str:
    """`text` on one line: of printable characters alone, with single blanks between words."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def encodable(text: str) -> str:
    """`text` with "?" for each half of a surrogate pair, which no file and no answer can hold."""
    return text.encode("utf-8", "replace").decode()
