"""Loops over large arrays, compiled by numba; without it the same functions run as plain Python, much slower.

Imported only where something is read, never by the web process: the compiler alone takes a third of a second and
130 MB. What is compiled is kept (see `cache`), else made each time.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from .cache import use_folder

numba: Any
try:
    import numba
except ImportError:
    numba = None

Function = TypeVar("Function", bound=Callable[..., Any])

COMPILED = numba is not None
"""Whether loops are compiled here."""
KEPT = numba is not None and use_folder(numba)
"""Whether what is compiled is kept."""


def compiled(function: Function) -> Function:
    """The function compiled for the types of arrays that it is first called with. It holds no lock of Python's.

    As in C, integers overflow silently and no index is checked.
    """
    return _compiled(function)


def compiled_with_checks(function: Function) -> Function:
    """As `compiled`, for what runs what a stranger wrote: every index is checked, IndexError where it is outside."""
    return _compiled(function, boundscheck=True)


def lean(function: Function) -> Function:
    """As `compiled`, for what makes no arrays: nothing counts who holds them."""
    return _compiled(function, _nrt=False)


def inlined(function: Function) -> Function:
    """A piece of `lean` functions, which becomes a part of each place that calls it."""
    if numba is None:
        return function
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return cast(Function, numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function))


def _compiled(function: Function, **options: Any) -> Function:
    if numba is None:
        return function
    return cast(Function, numba.njit(cache=KEPT, nogil=True, error_model="numpy", **options)(function))
