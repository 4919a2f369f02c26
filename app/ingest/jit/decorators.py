"""Loops over large arrays, compiled by numba. Without numba, or for small files (see `mode`), the same functions run as
plain Python, which is much slower.

Imported only for reading, never by the web process: the compiler alone takes a third of a second and 130 MB. Compiled
loops are cached (see `cache`), else compiled each time.
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
"""Whether loops are compiled in this process."""
IS_CACHED = numba is not None and configure_folder(numba)
"""Whether compiled loops are cached."""


def jit(function: Function) -> Function:
    """The function, compiled for the array types of its first call. It releases the interpreter lock.

    As in C, integers overflow silently and no index is checked.
    """
    return _compile(function)


def jit_bounds_checked(function: Function) -> Function:
    """Like `jit`, for functions that execute untrusted input: every index is checked, IndexError if it is out of
    range."""
    return _compile(function, boundscheck=True)


def jit_no_refcount(function: Function) -> Function:
    """Like `jit`, for functions that allocate no arrays: without reference counts."""
    return _compile(function, _nrt=False)


def jit_inline(function: Function) -> Function:
    """A part of `jit_no_refcount` functions, inlined into each caller."""
    if numba is None:
        return function
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    return cast(Function, numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function))


def _compile(function: Function, **options: Any) -> Function:
    if numba is None:
        return function
    return cast(Function, numba.njit(cache=IS_CACHED, nogil=True, error_model="numpy", **options)(function))
