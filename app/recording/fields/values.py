"""Parsing and formatting of form values: integers, durations, environment variables. Shared by all forms."""

import re
from collections.abc import Iterable, Mapping

from ...domain.errors import InvalidRequest
from . import command_line

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *(ms|s|sec|min|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_WALL_TIME = re.compile(r"([0-9]{1,8}(?:\.[0-9]{1,6})?) *(s|sec|min|m|h|d)", re.ASCII)
_CLOCK = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,4}):([0-5]?[0-9])(?::([0-5]?[0-9]))?", re.ASCII)
_VARIABLE = re.compile(r"(?:export[ \t]+)?([^=\s]+)=(.*)", re.ASCII | re.DOTALL)


def parse_int(text: str) -> int | None:
    """An integer, None for an empty field."""
    text = text.strip()
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise InvalidRequest(f"“{text[:40]}” is not a whole number. Write only digits, as in 1000.")
    return int(text)


def parse_duration(text: str) -> float | None:
    """Seconds, None for an empty field. Accepts 90, 1.5 s, 500 ms, 2 min and 1 h."""
    text = text.strip()
    if not text:
        return None
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"“{text[:40]}” is not a duration. Write seconds, or a number with ms, s, min or h.")
    return float(match.group(1)) * _UNITS[match.group(2) or "s"]


def parse_variables(text: str) -> dict[str, str]:
    """Variables from lines NAME=value. Messages do not contain values, which may be secret."""
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _VARIABLE.fullmatch(line.lstrip())
        if match is None:
            raise InvalidRequest(f"Line {number} is not of the form NAME=value. Write one variable per line.")
        name, value = match.groups()
        if name in variables:
            raise InvalidRequest(f"Line {number} sets {name[:60]} a second time. Remove one of the two.")
        try:
            variables[name] = command_line.parse_value(value) if value.startswith("$'") else value
        except InvalidRequest:
            raise InvalidRequest(f"Line {number} opens $'… but does not end with the closing quote. Add it.") from None
    return variables


def format_variables(values: Mapping[str, str]) -> str:
    """The inverse of `parse_variables`. Blanks at the ends of a value are kept; only line breaks and the like are
    quoted."""
    return "\n".join(f"{name}={_variable_text(value)}" for name, value in values.items())


def _variable_text(value: str) -> str:
    plain = value.strip(" \t")
    return value if command_line.format_value(plain) == plain else command_line.format_value(value)


def format_number(value: float | int | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(value)


def parse_wall_time(text: str) -> int | None:
    """Seconds, None for an empty field. Accepts 30 min, 1.5 h, 2 d, 1:30 (hours, minutes), 1:30:00 and 1-12:00.

    Rejects a number without a unit: batch systems interpret it as minutes, and Perfloom's other fields as seconds.
    """
    text = text.strip()
    if not text:
        return None
    if match := _WALL_TIME.fullmatch(text):
        return round(float(match.group(1)) * (_UNITS | {"d": 86_400.0})[match.group(2)])
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    raise InvalidRequest(
        f"“{text[:40]}” is not a wall time. Write 30 min, 2 h, or 1:30:00 for hours, minutes, seconds."
    )


def format_wall_time(seconds: int | None) -> str:
    """The inverse of `parse_wall_time`, in the largest exact unit."""
    if seconds is None:
        return ""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds and seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def parse_lines(text: str) -> tuple[str, ...]:
    """One value per line; blank lines are skipped."""
    return tuple(filter(None, map(command_line.parse_value, text.split("\n"))))


def format_lines(values: Iterable[str]) -> str:
    """The inverse of `parse_lines`."""
    return "\n".join(map(command_line.format_value, values))


def parse_path_list(text: str) -> tuple[str, ...]:
    """Entries of a variable such as PATH: one per line, or separated by colons as in the variable."""
    return tuple(part for line in parse_lines(text) for part in line.split(":") if part)
