"""Text for messages and tables: untrusted text (of hosts, programs, files), and names of signals."""

import signal

MESSAGE_CHARACTERS = 80
"""The maximum length of a quoted name in a message."""


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
    """`text` on one line: only printable characters, with single spaces between words."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def encodable(text: str) -> str:
    """`text` with "?" for each half of a surrogate pair, which no file and no answer can hold."""
    return text.encode("utf-8", "replace").decode()


def signal_name(number: int) -> str:
    """The number of a signal and, if it has one, its name."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
