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


def require_id(text: str, what: str) -> str:
    """`text` where it has the form of an id, so that it may stand in a path. Raises NotFound."""
    if not is_id(text):
        raise NotFound(f"There is no {what} {text[:40]!r}; look at the list for its id.")
    return text
