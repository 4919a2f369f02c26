"""Values of form fields as typed: whole numbers, durations, environment variables. For every form alike."""

import re
from collections.abc import Iterable, Mapping

from ...domain.errors import InvalidRequest
from . import words

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *(ms|s|sec|min|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_WALL_TIME = re.compile(r"([0-9]{1,8}(?:\.[0-9]{1,6})?) *(s|sec|min|m|h|d)", re.ASCII)
_CLOCK = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,4}):([0-5]?[0-9])(?::([0-5]?[0-9]))?", re.ASCII)
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


def variables_text(values: Mapping[str, str]) -> str:
    """What `variables` reads. Blanks at the ends of a value stay; only what a line cannot hold is quoted."""
    return "\n".join(f"{name}={_variable_text(value)}" for name, value in values.items())


def _variable_text(value: str) -> str:
    return value if words.to_line(value.strip()) == value.strip() else words.to_line(value)


def number_text(value: float | int | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(value)


def wall_time(text: str) -> int | None:
    """Seconds, None for an empty field; 30 min, 1.5 h, 2 d, 1:30 (hours, minutes), 1:30:00 and 1-12:00 are understood.

    A number alone is not: batch systems take it for minutes, and our other fields for seconds.
    """
    text = text.strip()
    if not text:
        return None
    if match := _WALL_TIME.fullmatch(text):
        return round(float(match.group(1)) * (_UNITS | {"d": 86_400.0})[match.group(2)])
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    raise InvalidRequest(f"“{text[:40]}” is no wall time. Write 30 min, 2 h, or 1:30:00 for hours, minutes, seconds.")


def wall_time_text(seconds: int | None) -> str:
    """What `wall_time` reads, in the largest unit that is exact."""
    if seconds is None:
        return ""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds and seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def lines(text: str) -> tuple[str, ...]:
    """One value a line; blank lines are none."""
    return tuple(filter(None, map(words.from_line, text.split("\n"))))


def lines_text(values: Iterable[str]) -> str:
    """What `lines` reads."""
    return "\n".join(map(words.to_line, values))


def listed(text: str) -> tuple[str, ...]:
    """Entries of a variable such as PATH: one a line, or with colons between as in the variable itself."""
    return tuple(part for line in lines(text) for part in line.split(":") if part)
