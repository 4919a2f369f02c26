"""Values of form fields as typed: whole numbers, durations, environment variables. For every form alike."""

import re

from ..domain.errors import InvalidRequest
from . import words

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *(ms|s|sec|min|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_VARIABLE = re.compile(r"(?:export[ \t]+)?([^=\s]+)=(.*)", re.ASCII | re.DOTALL)


def whole(text: str) -> int | None:
    """A whole number, None for an empty field."""
    text = text.strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InvalidRequest(f"“{text[:40]}” is no whole number. Write digits alone, as in 1000.")
    return int(text)


def duration(text: str) -> float | None:
    """Seconds, None for an empty field; 90, 1.5 s, 500 ms, 2 min and 1 h are understood."""
    text = text.strip()
    if not text:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"“{text[:40]}” is no duration. Write seconds, or a number with ms, s, min or h.")
    return float(match.group(1)) * _UNITS[match.group(2) or "s"]


def variables(text: str) -> dict[str, str]:
    """Variables from lines NAME=value. A value is not shown in a message: it may be a secret."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _VARIABLE.fullmatch(line.lstrip())
        if match is None:
            raise InvalidRequest(f"Line {number} is not of the form NAME=value. Write one variable a line.")
        name, value = match.groups()
        if name in found:
            raise InvalidRequest(f"Line {number} sets {name[:60]} a second time. Keep one of the two.")
        try:
            found[name] = words.from_line(value) if value.startswith("$'") else value
        except InvalidRequest:
            raise InvalidRequest(f"Line {number} opens $'… and does not end with the closing quote. Add it.") from None
    return found


def variable_text(value: str) -> str:
    """Blanks at the ends of a value stand as they are; only what a line cannot hold is quoted."""
    return value if words.to_line(value.strip()) == value.strip() else words.to_line(value)


def number_text(value: float | int | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(value)
