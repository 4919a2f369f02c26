"""Loops over large arrays, compiled by numba; without it the same functions run as plain Python, much slower.

Imported only where something is read, never by the web process: the compiler alone takes a third of a second and
130 MB. What is compiled is kept beside the source, else in the user's cache (NUMBA_CACHE_DIR), else made each time.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

numba: Any
try:
    import numba
except ImportError:
    numba = None

Function = TypeVar("Function", bound=Callable[..., Any])

COMPILED = numba is not None
"""Whether loops are compiled here."""


def compiled(function: Function) -> Function:
    """The function compiled for the types of arrays that it is first called with. It holds no lock of Python's.

    As in C, integers overflow silently and no index is checked.
    """
    return _compiled(function, False)


def compiled_with_checks(function: Function) -> Function:
    """As `compiled`, for what runs what a stranger wrote: every index is checked, IndexError where it is outside."""
    return _compiled(function, True)


def _compiled(function: Function, checks: bool) -> Function:
    if numba is None:
        return function
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": checks}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        # There is no folder in which to keep it.
        return cast(Function, numba.njit(**options)(function))
