"""Loops over large arrays, compiled by numba. Without numba, or for small files (see `mode`), the same functions run as
plain Python, which is much slower.

Imported only for reading, never by the web process. What was compiled before is in a file (see `cache`), from which it
is called without the compiler; else it is compiled in this process.
"""

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from . import cache
from .library import CompiledFunction, LoopLibrary, write_library
from .mode import is_plain
from .readiness import load_loops

if TYPE_CHECKING:
    from .compiler import LoopCompiler
    from .native import NativeFunction

uint64: Any = np.uint64
"""The type of unsigned 64-bit numbers in loops."""
Function = TypeVar("Function", bound=Callable[..., Any])


class Loop:
    """A function that is compiled for the types of its arguments, when it is first called with them.

    plain: the function in Python. options: of numba.njit. error: what the compiled function raises.
    """

    def __init__(self, plain: Callable[..., Any], error: type[Exception], **options: Any) -> None:
        functools.update_wrapper(self, plain)
        self.plain, self._error, self._options = plain, error, options
        self._native: dict[str, NativeFunction] = {}
        self._compiler: LoopCompiler | None = None

    def __call__(self, *arguments: Any) -> Any:
        key = ",".join(map(_describe_argument, arguments))
        native = self._native.get(key)
        if native is None:
            native = self._load(key) or self._compile(key, arguments)
            self._native[key] = native
        return native(arguments)

    @property
    def name(self) -> str:
        """Its name with that of its module."""
        return f"{self.plain.__module__}.{self.plain.__qualname__}"

    def resolve_for_compiler(self) -> Any:
        """The function that numba calls in compiled ones."""
        from .compiler import LoopCompiler

        if self._compiler is None:
            self._compiler = LoopCompiler(cast(Any, self.plain), **self._options)
        return self._compiler.dispatcher

    def _load(self, key: str) -> "NativeFunction | None":
        function = _loaded.functions.get((self.name, key)) if _loaded else None
        if function is None or _loaded is None:
            return None
        return _loaded.code.bind(function.symbol, function.word_count, function.result, self._error)

    def _compile(self, key: str, arguments: tuple[Any, ...]) -> "NativeFunction":
        from . import compiler

        with compiler.LOCK:
            if key in self._native:
                return self._native[key]
            self.resolve_for_compiler()
            assert self._compiler is not None
            loop = self._compiler.compile(arguments)
            _new_functions.append(
                (CompiledFunction(self.name, key, loop.symbol, loop.word_count, loop.result), loop.assembly)
            )
            code = compiler.make_code([loop.assembly]).load()
            # Before other threads that wait for the lock look for it.
            native = self._native[key] = code.bind(loop.symbol, loop.word_count, loop.result, self._error)
            return native


class Intrinsic:
    """A function of machine instructions. plain: the same in Python. compiled: the module with numba's function."""

    def __init__(self, plain: Callable[..., Any], compiled: str) -> None:
        functools.update_wrapper(self, plain)
        self.plain, self._compiled = plain, compiled

    def __call__(self, *arguments: Any) -> Any:
        return self.plain(*arguments)

    def resolve_for_compiler(self) -> Any:
        """The function that numba calls in compiled ones."""
        import importlib

        return getattr(importlib.import_module(self._compiled), self.plain.__name__)


_new_functions: list[tuple[CompiledFunction, str]] = []
"""What this process compiled, with its assembly."""
_has_numba = False
IS_CACHED = not is_plain() and cache.prepare_folder()
"""Whether compiled loops are cached."""
_loaded = load_loops()
if not is_plain():
    # numba raises OSError where memory that a process has written cannot be executed.
    with suppress(ImportError, OSError):
        from .native import describe_argument as _describe_argument

        if _loaded is None:
            from . import compiler  # noqa: F401
        _has_numba = True
HAS_NUMBA = _has_numba
"""Whether loops are machine code in this process, not plain Python."""


def write_new_functions() -> None:
    """Write what this process compiled to the file of compiled loops, unless it has others from there. Raises
    OSError."""
    from .compiler import make_code

    if _loaded is not None:
        return
    # A number of Python and one of numpy may have the same type in compiled code.
    assemblies = {function.symbol: assembly for function, assembly in _new_functions}
    functions = tuple(function for function, _ in _new_functions)
    write_library(cache.get_library_path(), LoopLibrary(functions, make_code(assemblies.values())))


def jit(function: Function) -> Function:
    """The function, compiled for the types of its first arguments. It releases the interpreter lock.

    As in C, integers overflow silently and no index is checked.
    """
    return _make_loop(function)


def jit_bounds_checked(function: Function) -> Function:
    """Like `jit`, for functions that execute untrusted input: every index is checked, IndexError if it is out of
    range."""
    return _make_loop(function, IndexError, boundscheck=True)


def jit_no_refcount(function: Function) -> Function:
    """Like `jit`, for functions that allocate no arrays: without reference counts."""
    return _make_loop(function, _nrt=False)


def jit_inline(function: Function) -> Function:
    """A part of `jit_no_refcount` functions, inlined into each caller."""
    return _make_loop(function, _nrt=False, forceinline=True)


def jit_intrinsic(plain: Function, compiled: str) -> Function:
    """A function for which compiled loops have the one of the same name in the module `compiled`."""
    return cast(Function, Intrinsic(plain, compiled)) if HAS_NUMBA else plain


def _make_loop(function: Function, error: type[Exception] = MemoryError, **options: Any) -> Function:
    return cast(Function, Loop(function, error, **options)) if HAS_NUMBA else function
