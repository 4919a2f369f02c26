"""Numbers and arguments in the texts of trace events."""

import json
from typing import Any

from ..json_text import parse_json

INT64_LIMIT = 1 << 63
MAX_FLOAT = 1e300
"""Numbers this far from zero are invalid."""


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments in a text; empty if they are malformed."""
    try:
        found = parse_json(text)
    except ValueError:
        try:
            found = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def to_int(value: Any, limit: int = INT64_LIMIT) -> int | None:
    """A whole number between -limit and limit, given as a number or as a text, else None."""
    if isinstance(value, str):
        try:
            value = int(value) if len(value) <= 20 else None
        except ValueError:
            return None
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -limit <= value < limit else None


def to_float(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MAX_FLOAT:
        return None
    return float(value)
