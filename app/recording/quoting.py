"""Quotes text for POSIX sh. All generated scripts use it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..domain.errors import InvalidRequest

# No "~", which expands to a home directory. "=" only where it cannot form an assignment, as `a=b` before a command.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+|[/.-][A-Za-z0-9_@%+:,./=-]*")
_RESERVED = frozenset(
    {"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "namespace"}
) | {"select", "then", "time", "until", "while"}


@dataclass(frozen=True)
class ShellCode:
    """Shell code written by Perfloom, such as a reference to a variable. Never contains user input."""

    text: str


def quote(text: str) -> str:
    """A text as one word of sh that expands to exactly that text. Raises InvalidRequest for a null byte."""
    if "\0" in text:
        raise InvalidRequest("A value contains a zero byte, which a command line cannot contain. Remove it.")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidRequest("A value contains a character that cannot be encoded as UTF-8. Remove it.") from None
    if _PLAIN.fullmatch(text) and text not in _RESERVED:
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def shell_word(text: str | ShellCode) -> str:
    """A word for a script: a string is quoted, shell code is used unchanged."""
    return text.text if isinstance(text, ShellCode) else quote(text)


def join(argv: Iterable[str | ShellCode]) -> str:
    """A command line for sh that runs exactly this argv."""
    return " ".join(shell_word(one) for one in argv)
