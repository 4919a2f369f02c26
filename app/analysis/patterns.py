"""focus, ignore, hide and search: RE2 patterns over the distinct names of a profile.

RE2 takes time linear in the text whatever the pattern, so no pattern hangs a worker. What matches is defined as in
pprof (google/pprof, profile/filter.go): a frame matches when its function's name, its source file or its module
does, anywhere in the text unless anchored.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import re2

from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from .remember import remembered

Array = np.ndarray[Any, Any]
NAMES = ("display",)
NAMES_FILES_MODULES = ("display", "file", "module")


def compiled(pattern: str, word: str) -> Any:
    """The compiled pattern. Raises InvalidRequest, saying what is wrong; `word` is what the user calls it."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args and error.args[0] else "it does not parse"
    except UnicodeEncodeError:
        why = "it holds characters that are not Unicode"
    raise InvalidRequest(
        f"{word}: {shortened(pattern)!r} is no regular expression as RE2 reads them ({why}). Put a backslash "
        "before a sign that is meant literally; lookahead and backreferences are not offered.",
        word,
    )


def shortened(text: str, limit: int = 80) -> str:
    """`text`, cut for use in a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def functions_matching(
    profile: Profile, pattern: str, word: str, columns: tuple[str, ...] = NAMES_FILES_MODULES
) -> Array:
    """Which rows of `functions` match, as bools. Each distinct text is looked at once and the answer remembered."""
    expression = compiled(pattern, word)

    def build() -> Array:
        found = np.zeros(profile.functions.num_rows, bool)
        for name in columns:
            texts, codes = distinct(profile.functions.column(name))
            # The last entry answers for null, whose code is -1.
            matches = [expression.search(text) is not None for text in texts] + [False]
            found |= np.array(matches, bool)[codes]
        return found

    return remembered(profile, ("matching", pattern, columns), build)


def distinct(column: pa.ChunkedArray) -> tuple[list[str], Array]:
    """The distinct texts of a string column and, for each row, which it is (-1: null)."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
