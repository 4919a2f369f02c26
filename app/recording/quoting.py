"""The one way from a text of the user to a word of POSIX sh. Every script that is made is made with it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..domain.errors import InvalidRequest

# No "~": it is somebody's home. "=" only where it can make no assignment, as `a=b` would before a command.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+|[/.-][A-Za-z0-9_@%+:,./=-]*")
_RESERVED = frozenset(
    {"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "namespace"}
) | {"select", "then", "time", "until", "while"}


@dataclass(frozen=True)
class ShellCode:
    """A piece of sh that Perfloom itself wrote, such as a variable of its own. Never holds anything of the user."""

    text: str


def quote(text: str) -> str:
    """A text as one word of sh that stands for exactly that text. Raises InvalidRequest where no word can."""
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
    """A word as it stands in a script: a user's text quoted, a piece of our own sh as it is."""
    return text.text if isinstance(text, ShellCode) else quote(text)


def join(argv: Iterable[str | ShellCode]) -> str:
    """A command line of sh that runs exactly this argv."""
    return " ".join(shell_word(one) for one in argv)
