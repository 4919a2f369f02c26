"""Parameters in the address of a page."""

from collections.abc import Iterable

from flask import request

from ..domain.selection import check_choice


def parse_choice(word: str, choices: Iterable[str], default: str = "") -> str:
    """The value of a parameter, one of `choices`; `default` if it is absent or empty. Raises InvalidRequest."""
    value = request.args.get(word) or default
    return value if value == default else check_choice(word, value, choices)
