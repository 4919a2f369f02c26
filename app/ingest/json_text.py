"""Parses JSON and distinguishes the causes of errors: orjson raises the same exception for all of them."""

from typing import Any

import orjson

from ..domain.errors import UnreadableInput
from .compression import BYTE_ORDER_MARK

_OUT_OF_MEMORY = "Not enough memory"
_TOO_DEEP = "depth limit exceeded"


class NestedTooDeeply(ValueError):
    """The JSON is nested more deeply than the parser supports."""


def parse_json(text: bytes | str) -> Any:
    """The value in a text. Raises ValueError if it is not JSON, NestedTooDeeply, and MemoryError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if _OUT_OF_MEMORY in error.msg:
            raise MemoryError(error.msg) from None
        if _TOO_DEEP in error.msg:
            raise NestedTooDeeply(str(error)) from None
        raise
    except SystemError as error:
        # orjson returned a value although Python had raised an error.
        if isinstance(error.__cause__, MemoryError):
            raise MemoryError from None
        raise


def parse_json_file(text: bytes, source: str, remedy: str) -> Any:
    """The value in a file. source: its name in messages. remedy: a sentence that says what to do if it is damaged.
    Raises UnreadableInput and MemoryError."""
    try:
        return parse_json(text.removeprefix(BYTE_ORDER_MARK))
    except NestedTooDeeply as error:
        raise UnreadableInput(
            f"{source} is nested too deeply to be read: {error}. Export it with a shallower structure."
        ) from None
    except ValueError as error:
        raise UnreadableInput(f"{source} is not complete JSON: {error}. {remedy}") from None
