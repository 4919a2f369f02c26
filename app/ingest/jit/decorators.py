"""Loops over large arrays, compiled by numba; without it, or for small files (see `mode`), the same functions run as
plain Python, which is much slower.

Imported only where something is read, never by the web process: the compiler alone takes a third of a second and
130 MB. The result is cached (see `cache`), else compiled each time.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numpy as np

from .cache import configure_folder
from .mode import is_plain

numba: Any = None
if not is_plain():
    with suppress(ImportError):
        import numba

uint64: Any = np.uint64 if numba is None else numba.uint64
"""The type of unsigned 64-bit numbers in loops."""
Function = TypeVar("Function", bound=Callable[..., Any])

HAS_NUMBA = numba is not None
"""Whether loops are compiled here."""
IS_CACHED = numba is not None and configure_folder(numba)
"""Whether what is compiled is kept."""


def jit(function: Function) -> Function:
    """The function compiled for the types of arrays that it is first called with. It holds no lock of Python's.

    As in C, integers overflow silently and no index is checked.
    """
    return _compile(function)


def jit_bounds_checked(function: Function) -> Function:
    """As `jit`, for what runs what a stranger wrote: every index is checked, IndexError where it is outside."""
    return _compile(function, boundscheck=True)


def jit_no_refcount(function: Function) -> Function:
    """Like `jit`, for functions that allocate no arrays: without reference counts."""
    return _compile(function, _nrt=False)


def jit_inline(function: Function) -> Function:
    """A piece of `jit_no_refcount` functions, which becomes a part of each place that calls it."""
    if numba is None:
        return function
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return cast(Function, numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function))


def _compile(function: Function, **options: Any) -> Function:
    if numba is None:
        return function
    return cast(Function, numba.njit(cache=IS_CACHED, nogil=True, error_model="numpy", **options)(function))
