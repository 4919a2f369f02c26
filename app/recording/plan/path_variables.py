"""Paths that contain variables of the target: `~/runs`, `$SCRATCH/perfloom`, `${TMPDIR}`."""

import re
from collections.abc import Iterator

from ...domain.errors import InvalidRequest
from ..quoting import ShellCode, quote

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLACEHOLDER = re.compile(r"\$(?:\{([^}]*)\}|(\w*))", re.ASCII)


def expand_path(path: str) -> ShellCode:
    """A word of sh that expands to the path with its variables replaced at the target.

    A leading `~` is $HOME. A variable that is unset or empty there ends the shell with a message that names it. Raises
    InvalidRequest for a $ without a variable name.
    """
    return ShellCode("".join(_split_path(path)))


def path_variables(path: str) -> tuple[str, ...]:
    """The variables that `expand_path` replaces. Raises InvalidRequest for a $ without a variable name."""
    return tuple(_name(match) for match in _PLACEHOLDER.finditer(path))


def _split_path(path: str) -> Iterator[str]:
    end = 0
    if path == "~" or path.startswith("~/"):
        yield '"${HOME:?}"'
        end = 1
    for match in _PLACEHOLDER.finditer(path, end):
        if match.start() > end:
            yield quote(path[end : match.start()])
        yield f'"${{{_name(match)}:?}}"'
        end = match.end()
    if end < len(path) or not path:
        yield quote(path[end:])


def _name(found: "re.Match[str]") -> str:
    name: str = found[1] if found[1] is not None else found[2]
    if not VARIABLE.fullmatch(name):
        raise InvalidRequest(f"A $ in “{found.string[:80]}” is not followed by a name. Write $NAME or ${{NAME}}.")
    return name
