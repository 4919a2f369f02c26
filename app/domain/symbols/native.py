"""Mangled names of C++ (Itanium ABI) and Rust.

C++ is demangled by __cxa_demangle of libstdc++, as in c++filt. It has no limit, so names that may become very long are
left to the package multi-demangle, which stops at 4,096 characters but prints some names of C++ differently. It also
demangles Rust.
"""

import ctypes
import re
import time
from collections.abc import Callable

from .expansion import estimate_length

MAX_DISPLAY = 4_096
"""Names whose readable form is longer remain unchanged."""
MAX_ESTIMATE = 300_000
"""Names with a longer estimate are not given to libstdc++: 1 % of the C++ symbols of Python's scientific packages."""
SLOW_S = 0.001
"""A usual name takes 10 µs. Names that take longer than this are slow."""
MAX_SLOW_S = 2.0
"""CPU time for slow names. Then the remaining names of a file are not demangled."""

_MANGLED = re.compile(r"__?(?:Z|R\d*[BCIMNXY])")
_LEGACY_HASH = re.compile(r"17h[0-9a-f]{16}E")
_SUFFIXES = r"((?:\.[\w$]+)*)((?:@[\w$.@-]*)?)"
_WHOLE = re.compile(rf"([\w$]+){_SUFFIXES}")
_WHOLE_LEGACY = re.compile(rf"([\w$.]+17h[0-9a-f]{{16}}E){_SUFFIXES}")
_CLONE = re.compile(r"\.(?:[^.\d][^.]*(?:\.\d+)*|[^.]+)")


def is_mangled(name: str) -> bool:
    """Whether a name begins like a mangled one."""
    return _MANGLED.match(name) is not None


class NativeDemangler:
    """Loads the libraries. Without them, and after too much time for slow names, no name is demangled."""

    def __init__(self) -> None:
        self._package = _load_package()
        self._cxa = _load_libstdcxx()
        self._left_s = MAX_SLOW_S

    def demangle(self, name: str) -> str | None:
        """The readable form of a mangled name. Suffixes of compilers follow as "[clone .cold]".

        None if the name is invalid, or the result is too long or not printable.
        """
        if self._left_s <= 0:
            return None
        before = time.thread_time()
        text = self._demangle_with_suffix(name)
        spent = time.thread_time() - before
        if spent > SLOW_S:
            self._left_s -= spent
        return text if text and len(text) <= MAX_DISPLAY and text.isprintable() else None

    def _demangle_with_suffix(self, name: str) -> str | None:
        if name.startswith("__"):  # as in files of macOS
            name = name[1:]
        # Identifiers of Rust's legacy names have dots.
        legacy = _WHOLE_LEGACY.fullmatch(name) if _LEGACY_HASH.search(name) else None
        parts = legacy or _WHOLE.fullmatch(name)
        if not parts:
            return None
        symbol, clones, version = parts.groups()
        text = self._package(symbol, "rust") if legacy or symbol[1] == "R" else None
        if text is None and symbol[1] == "Z":
            text = self._demangle_cpp(symbol)
        return None if text is None else text + "".join(f" [clone {one}]" for one in _CLONE.findall(clones)) + version

    def _demangle_cpp(self, symbol: str) -> str | None:
        if self._cxa and estimate_length(symbol, MAX_ESTIMATE) <= MAX_ESTIMATE:
            # An old libstdc++ does not know the newest types.
            return self._cxa(symbol) or self._package(symbol, "cpp")
        return self._package(symbol, "cpp")


def _load_package() -> Callable[[str, str], str | None]:
    try:
        from multi_demangle import demangle_symbol
    except ImportError:
        return lambda symbol, language: None

    def demangle(symbol: str, language: str) -> str | None:
        try:
            text = demangle_symbol(symbol, language=language)
        except Exception:
            return None
        except BaseException as error:
            # A failed assertion of Rust code. Its class cannot be imported, and is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            return None
        return None if text == symbol else text

    return demangle


def _load_libstdcxx() -> Callable[[str], str | None] | None:
    try:
        cxa_demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    cxa_demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    cxa_demangle.restype = ctypes.c_void_p
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None

    def demangle(symbol: str) -> str | None:
        text = cxa_demangle(symbol.encode(), None, None, None)
        if not text:
            return None
        try:
            return ctypes.string_at(text).decode("utf-8", "replace")
        finally:
            free(text)

    return demangle
