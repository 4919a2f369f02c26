"""Ids of jobs and results: 12 characters of [a-z0-9]."""

import re
import secrets
import string

from ..domain.errors import NotFound

ALPHABET = string.digits + string.ascii_lowercase
ID = re.compile(r"[a-z0-9]{12}")


def new_id() -> str:
    """A new id, at random: 62 bits."""
    return "".join(secrets.choice(ALPHABET) for _ in range(12))


def is_id(text: str) -> bool:
    """Whether `text` has the form of an id."""
    return ID.fullmatch(text) is not None


def not_found(what: str, id: str) -> NotFound:
    """The error for an unknown id. what: "job" or "result"."""
    return NotFound(f"No {what} {id[:40]!r}; it was deleted, or never existed.")


def require_id(text: str, what: str) -> str:
    """`text` if it has the form of an id, so that it is safe in a path. Raises NotFound."""
    if not is_id(text):
        raise NotFound(f"No {what} {text[:40]!r}; find its id in the list.")
    return text
