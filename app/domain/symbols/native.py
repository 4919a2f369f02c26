"""Mangled names of C++ (Itanium ABI), Rust, D and Swift.

The package demangle prints names of C++ as c++filt does, and limits depth and length. The package multi-demangle tries
alternatives for each level of nesting of an invalid name: 233 characters take a minute.
"""

import re
import time

MAX_DISPLAY = 4_096
"""Names whose readable form is longer remain unchanged."""
MAX_DEPTH = 128
"""Of nested types. Types that compilers write rarely pass 20."""
SLOW_S = 0.01
"""A usual name takes 50 µs. Names that take longer than this are slow."""
MAX_SLOW_S = 2.0
"""CPU time for slow names. Then the remaining names of a file are not demangled."""

_MANGLED = re.compile(r"__?(?:Z|R\d*[BCIMNXY])|_D\d|_?\$[sS]\w")
_LANGUAGES = {"_D": "d", "_$": "swift", "$s": "swift", "$S": "swift"}
"""By the beginning of a name, in addition to those of C++ and Rust."""
_LEGACY_HASH = re.compile(r"17h[0-9a-f]{16}E")
_SUFFIXES = r"((?:\.[\w$]+)*)((?:@[\w$.@-]*)?)"
_WHOLE = re.compile(rf"([\w$]+){_SUFFIXES}")
_WHOLE_LEGACY = re.compile(rf"([\w$.]+17h[0-9a-f]{{16}}E){_SUFFIXES}")
_CLONE = re.compile(r"\.(?:[^.\d][^.]*(?:\.\d+)*|[^.]+)")


def is_mangled(name: str) -> bool:
    """Whether a name begins like a mangled one."""
    return _MANGLED.match(name) is not None


class NativeDemangler:
    """Loads the package. After too much time for slow names, no name is demangled."""

    def __init__(self) -> None:
        from demangle import Limits, demangle

        self._package = demangle
        self._limits = Limits(max_depth=MAX_DEPTH, max_output=MAX_DISPLAY)
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
        is_rust = legacy is not None or symbol[1] == "R"
        language = "rust" if is_rust else _LANGUAGES.get(symbol[:2], "itanium")
        style = "gnu" if language == "itanium" else None
        text = self._package(symbol, language=language, style=style, limits=self._limits)
        return None if text == symbol else text + "".join(f" [clone {one}]" for one in _CLONE.findall(clones)) + version
