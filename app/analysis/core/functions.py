"""Functions: which rows of `functions` are the same function, and which match a pattern.

Rows with the same display name and module are one function. Matching is defined as in pprof (google/pprof,
profile/filter.go): a frame matches if the name of its function, its source file or its module does, anywhere in the
text unless anchored.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array
from ...domain.arrow import functions as pc
from ...domain.errors import NotFound
from ...domain.profile import Profile
from ...domain.tables import FrameKind
from ...domain.text import shorten
from .memo import memoize
from .patterns import compile_pattern, unique_texts

NAMES = ("display",)
NAMES_FILES_MODULES = ("display", "file", "module")
KIND_COUNT = len(FrameKind)
KIND_NAMES = tuple(kind.name.lower() for kind in FrameKind)


@dataclass(frozen=True, eq=False)
class FunctionIndex:
    """canonical: for each row of `functions`, the first row with the same display name and module (int32).

    distinct: whether each row is a different function. names, modules: the distinct texts; name, module: their
    index by row (-1: null, shown as empty text).
    """

    canonical: Array
    distinct: bool
    names: list[str]
    name: Array
    modules: list[str]
    module: Array

    def name_of(self, function: int) -> str:
        return _text(self.names, int(self.name[function]))

    def module_of(self, function: int) -> str:
        return _text(self.modules, int(self.module[function]))

    def names_of(self, functions: Array) -> list[str]:
        """Display names of rows of `functions`."""
        return _texts(self.names, self.name[functions])

    def modules_of(self, functions: Array) -> list[str]:
        """Modules of rows of `functions`."""
        return _texts(self.modules, self.module[functions])

    def keys_of(self, functions: Array) -> list[tuple[str, str]]:
        """(display name, module) of rows of `functions`."""
        return list(zip(self.names_of(functions), self.modules_of(functions), strict=True))


def functions_of(profile: Profile) -> FunctionIndex:
    """The functions of a profile; built once."""

    def build() -> FunctionIndex:
        table = profile.functions
        names, name = unique_texts(table.column("display"))
        modules, module = unique_texts(table.column("module"))
        name, module = _null_is_no_text(names, name), _null_is_no_text(modules, module)
        key = name.astype(np.int64) * (len(modules) + 1) + module
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        canonical = first[inverse].astype(np.int32)
        return FunctionIndex(canonical, len(first) == table.num_rows, names, name, modules, module)

    return memoize(profile, "functions", build, pin=True)


def match_functions(profile: Profile, pattern: str, word: str, columns: tuple[str, ...] = NAMES_FILES_MODULES) -> Array:
    """Which rows of `functions` match, as bools. If one row of a function matches, all of its rows do.

    The result is cached. word: the name of the parameter, for messages. Raises InvalidRequest for an invalid pattern.
    """
    compile_pattern(pattern, word)

    def build() -> Array:
        found = np.zeros(profile.functions.num_rows, bool)
        for name in columns:
            # Arrow has the same library for patterns, and applies it to a whole column.
            matches = pc.match_substring_regex(profile.functions.column(name), pattern)
            found |= pc.fill_null(matches, False).to_numpy()
        canonical = functions_of(profile).canonical
        spoken_for = np.zeros(len(found), bool)
        spoken_for[canonical[found]] = True
        return spoken_for[canonical]

    return memoize(profile, ("matching", pattern, columns), build)


def function_id(profile: Profile, function: int | str) -> Array:
    """The canonical ids of a function given by its row or its display name (then in all modules).

    Raises NotFound.
    """
    functions = functions_of(profile)
    if isinstance(function, int):
        if not 0 <= function < len(functions.canonical):
            raise NotFound(f"This result has no function {function}; open the function again from the hotspots page.")
        return functions.canonical[function : function + 1]
    rows: Array = np.zeros(0, np.int64)
    if function in functions.names:
        rows = np.flatnonzero(functions.name == functions.names.index(function))
    if not len(rows):
        raise NotFound(
            f"This result has no function {shorten(function)!r}; look up its exact name on the hotspots page."
        )
    return np.unique(functions.canonical[rows])


def _text(texts: list[str], code: int) -> str:
    return texts[code] if code >= 0 else ""


def _texts(texts: list[str], codes: Array) -> list[str]:
    # The code of null, -1, is the last place.
    return list(map([*texts, ""].__getitem__, codes.tolist()))


def _null_is_no_text(texts: list[str], codes: Array) -> Array:
    """The codes, with null replaced by that of the empty text if a row has it; else null remains -1."""
    if "" in texts:
        return np.where(codes < 0, texts.index(""), codes)
    return codes


def base_name(module: str) -> str:
    """The last part of a module's path; names such as "[kernel.kallsyms]" unchanged."""
    return module if module.startswith("[") else module.rsplit("/", 1)[-1]
