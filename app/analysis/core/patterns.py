"""Patterns that users type, and the distinct texts they are matched against.

RE2 takes linear time for every pattern, so no pattern can block a worker.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import re2

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.tables import FEW_ROWS
from ...domain.text import shorten


def compile_pattern(pattern: str, word: str) -> Any:
    """The compiled pattern. Raises InvalidRequest with the reason; `word`: the name of the parameter."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args and error.args[0] else "syntax error"
    except UnicodeEncodeError:
        why = "it contains characters that are not Unicode"
    raise InvalidRequest(
        f"{word}: {shorten(pattern)!r} is not a valid RE2 regular expression ({why}). Put a backslash "
        "before special characters to match them literally. Lookahead and backreferences are not supported.",
        word,
    )


def exact_pattern(text: str) -> str:
    """The pattern that only `text` matches."""
    return f"^{re2.escape(text)}$"


def search_pattern(pattern: str) -> tuple[str, bool]:
    """`pattern`, and whether it is searched for literally, because it is not a regular expression, such as
    `operator()(`."""
    try:
        compile_pattern(pattern, "search")
    except InvalidRequest:
        return re2.escape(pattern), True
    return pattern, False


def unique_texts(column: pa.ChunkedArray) -> tuple[list[str], Array]:
    """The distinct texts of a string column in the order of their first rows and, for each row, its index among them
    (int32, -1: null)."""
    if len(column) <= FEW_ROWS:
        indices: dict[str, int] = {}
        index = [-1 if text is None else indices.setdefault(text, len(indices)) for text in column.to_pylist()]
        return list(indices), np.array(index, np.int32)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
