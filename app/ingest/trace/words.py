"""Numbers and arguments in the texts of trace events."""

import json
from typing import Any

import orjson

INT64 = 1 << 63
MOST = 1e300
"""Numbers as far from zero are none."""


def parsed(text: str) -> dict[str, Any]:
    """The arguments in a text; empty where they cannot be understood."""
    try:
        found = orjson.loads(text)
    except ValueError:
        try:
            found = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def whole(value: Any, limit: int = INT64) -> int | None:
    """A whole number between -limit and limit, as a number or as a text, else None."""
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


def real(value: Any) -> float | None:
    """A number that is one, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MOST:
        return None
    return float(value)
