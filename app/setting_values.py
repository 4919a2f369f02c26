"""Values of settings: parsed from text, which a person wrote."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .domain.formulas.formula import Formula

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}


def parse_text(value: str) -> str:
    """A text. Raises ValueError with what is expected, as all of these functions do."""
    if any(ord(c) < 32 for c in value):
        raise ValueError("text without control characters")
    return value


def parse_host(value: str) -> str:
    """An address or host name."""
    if not re.fullmatch(r"[A-Za-z0-9._:%\[\]-]+", value):
        raise ValueError("an address or host name, for example 127.0.0.1")
    return value


def parse_hosts(value: str) -> tuple[str, ...]:
    """Host names, separated by commas."""
    return tuple(parse_host(part.strip()) for part in value.split(",") if part.strip())


def parse_site(value: str) -> str:
    """The address of a site, without a slash at its end."""
    match = re.fullmatch(r"(https?://[A-Za-z0-9.\[\]:-]+)((?:/[A-Za-z0-9._~/-]*)?)", value)
    if not match:
        raise ValueError("the address of a site, for example https://ui.perfetto.dev")
    return match[1] + match[2].rstrip("/")


def parse_sites(value: str) -> tuple[str, ...]:
    """Addresses of sites, separated by spaces or commas."""
    try:
        return tuple(parse_site(part) for part in value.replace(",", " ").split())
    except ValueError:
        raise ValueError("addresses separated by spaces, for example https://debuginfod.debian.net") from None


def parse_int(low: int, high: int, example: int) -> Callable[[str], int]:
    """A function that parses a whole number from `low` to `high`. example: for its error."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value) or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}, for example {example}")
        return int(value)

    return parse


def parse_bytes(value: str) -> int:
    """A size in bytes."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) *([A-Za-z]*)", value.strip())
    if not match or match[2].upper() not in _UNITS:
        raise ValueError("a size such as 500MB, 20GB or 1GiB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def parse_flag(value: str) -> bool:
    """1 or 0, or other words for them."""
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if value.lower() not in known:
        raise ValueError("1 or 0")
    return known[value.lower()]


def parse_database(value: str) -> str:
    """The URL of a database, for SQLAlchemy."""
    scheme = value.partition(":")[0]
    if scheme in ("postgres", "postgresql"):
        return "postgresql+psycopg:" + value.partition(":")[2]
    if scheme not in ("sqlite", "postgresql+psycopg"):
        raise ValueError("postgresql://USER:PASSWORD@HOST/NAME, or sqlite:////PATH")
    return value


def parse_broker(value: str) -> str:
    """The URL of a Redis server."""
    if value.partition(":")[0] not in ("redis", "rediss", "redis+socket", "sentinel"):
        raise ValueError("redis://:PASSWORD@HOST:6379/0")
    return value


def parse_token(value: str) -> str:
    """A secret that is long enough."""
    if not re.fullmatch(r"[A-Za-z0-9_.~-]{32,200}", value):
        raise ValueError("at least 32 letters, digits, - or _ (for example from openssl rand -hex 24)")
    return value


def parse_path(value: str) -> Path:
    """An absolute path."""
    if "\0" in value:
        raise ValueError("a path")
    return Path(value).expanduser().absolute()


def parse_patterns(value: str) -> tuple[str, ...]:
    """Regular expressions of RE2, separated by semicolons."""
    # Loading it takes longer than reading all other settings.
    import re2

    options = re2.Options()
    options.log_errors = False
    found = tuple(part.strip() for part in value.split(";") if part.strip())
    for pattern in found:
        try:
            re2.compile(pattern, options)
        except re2.error:
            raise ValueError(
                r"RE2 regular expressions of complete names, separated by semicolons, such as my_spin_\w+;libfast\.so.*"
            ) from None
    return found


def parse_formulas(value: str) -> "tuple[Formula, ...]":
    """The formulas in the file with this path."""
    # Imported here, because few installations have formulas.
    from .domain.formulas.file import MAX_FILE_BYTES, parse_formulas

    try:
        with open(Path(value).expanduser(), "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        text = None
    if text is None or len(content) > MAX_FILE_BYTES:
        raise ValueError(f"the path of a readable TOML file of formulas, at most {MAX_FILE_BYTES:,} bytes")
    return parse_formulas(text)
