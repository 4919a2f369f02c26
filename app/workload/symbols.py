"""Names that perf can see for Python functions, in interpreters that give it none.

perf knows machine code only: every Python function is the interpreter's evaluation loop to it. From 3.12 the
interpreter can call each function through a stub of machine code that bears its name (``-X perf``). This module does
the same for the functions marked `register`, in any interpreter on x86-64: it writes a shared library with one stub for
each, its symbol and its unwind table, and calls the functions through it. Unlike the interpreter's stubs these have
unwind tables, so that stacks recorded with ``--call-graph dwarf`` are whole.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from .stub_library import FRAME_RULES, Stub, shared_library

P = ParamSpec("P")
R = TypeVar("R")

# endbr64; push %rbp; mov %rsp,%rbp; call *%rsi; pop %rbp; ret: calls its second argument with its first.
STUB_CODE = bytes.fromhex("f30f1efa 55 4889e5 ffd6 5d c3".replace(" ", ""))

_symbols: list[str] = []
_stubs: dict[str, Callable[[Callable[[], Any], int | None], Any]] = {}
_call_no_arguments = ctypes.cast(ctypes.pythonapi.PyObject_CallNoArgs, ctypes.c_void_p).value


def is_supported() -> bool:
    """Whether the stubs can run on this machine."""
    return platform.machine() == "x86_64" and sys.maxsize > 2**32


def _interpreter_does() -> bool:
    return hasattr(sys, "is_stack_trampoline_active") and sys.is_stack_trampoline_active()


def register(function: Callable[P, R]) -> Callable[P, R]:
    """Let perf see a function by its name, once `install_stubs` was called; until then it is called as ever."""
    symbol = f"py::{function.__qualname__}:{function.__code__.co_filename}"
    _symbols.append(symbol)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        stub = _stubs.get(symbol)
        if stub is None:
            return function(*args, **kwargs)
        result: R = stub(functools.partial(function, *args, **kwargs), _call_no_arguments)
        return result

    return call


def install_stubs() -> bool:
    """Call every function marked `register` through its stub from now on; whether that can be done here.

    perf reads the names from the library's file after the program has ended, so the file stays, in the user's cache.
    """
    if not is_supported() or _interpreter_does() or not _symbols:
        return False
    try:
        library = ctypes.PyDLL(
            str(_cache_library(shared_library([Stub(symbol, STUB_CODE, FRAME_RULES) for symbol in _symbols])))
        )
    except (OSError, RuntimeError):  # no home, nowhere to write, or a policy that runs nothing written there
        return False
    for symbol in _symbols:
        stub = library[symbol]
        stub.argtypes = [ctypes.py_object, ctypes.c_void_p]
        stub.restype = ctypes.py_object
        _stubs[symbol] = stub
    return True


def _cache_library(image: bytes) -> Path:
    """The library's file in the user's cache, named after its content and written if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perfloom"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = cache / f"names-{hashlib.sha256(image).hexdigest()[:16]}.so"
    if not path.exists() or path.read_bytes() != image:
        being_written = path.with_suffix(f".{os.getpid()}")
        being_written.write_bytes(image)
        being_written.replace(path)
    return path
