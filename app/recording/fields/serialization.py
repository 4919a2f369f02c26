"""Settings as a file for exchange: job presets and targets, written and read as TOML or JSON.

They contain no secrets: neither a JobSpec nor a Target has any.
"""

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w

from ...domain.errors import InvalidRequest

MAX_BYTES = 1 << 20
_MAX_DEPTH = 8
_ADVICE = "Export one here to see an example."


def to_toml(data: Mapping[str, Any], heading: str = "") -> str:
    """`data` as TOML; null values are left out, because TOML has none. heading: a comment above it."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    return "\n".join([*lines, "", ""] if lines else []) + tomli_w.dumps(_plain(data))


def to_json(data: Mapping[str, Any]) -> str:
    """`data` as JSON, for programs."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_text(text: str | bytes) -> dict[str, Any]:
    """The content of such a file: TOML, or one JSON object. Raises InvalidRequest with the position of an error.

    Its values are those of JSON: texts, numbers, booleans, lists and objects.
    """
    if len(text) > MAX_BYTES:
        raise InvalidRequest(f"The file has {len(text):,} bytes, but settings have a few hundred. {_ADVICE}")
    try:
        content = text if isinstance(text, str) else text.decode("utf-8-sig")
        # JSON and quoted keys allow lone surrogates, which cannot be stored in files and databases.
        content.encode()
    except UnicodeError:
        raise InvalidRequest(f"The file is not UTF-8 text. {_ADVICE}") from None
    content = content.removeprefix("\ufeff")
    try:
        if content.lstrip().startswith("{"):
            data = json.loads(content, parse_constant=_no_number)
        else:
            data = tomllib.loads(content.replace("\r\n", "\n"))
    except RecursionError:
        raise InvalidRequest(f"The file has too many nested brackets. {_ADVICE}") from None
    except ValueError as error:
        raise InvalidRequest(f"The file cannot be read as TOML or JSON: {str(error)[:200]}. {_ADVICE}") from None
    if not isinstance(data, dict):
        raise InvalidRequest(f"The file has no names with values. {_ADVICE}")
    _check(data, "", 0)
    return data


def _plain(value: Any) -> Any:
    """The value with lists for tuples, strings for enum members, and without nulls."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, str) else value


def _check(value: Any, where: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidRequest(f"The file has too many nested brackets, at {where}. {_ADVICE}")
    if isinstance(value, dict):
        for key, each in value.items():
            _check(key, where, depth)
            _check(each, f"{where}.{key}".lstrip(".")[:100], depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, where, depth + 1)
    elif isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InvalidRequest(
                f"The file contains half of a surrogate pair{' at ' + where if where.isascii() else ''}. Correct it."
            )
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) < 2**63:
            raise InvalidRequest(f"The number at {where} is out of range. Correct it.")
    elif value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"The value at {where} is a date or time. Put it in quotes to make it a string.")


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")
