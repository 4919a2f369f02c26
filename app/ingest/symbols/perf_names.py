"""Names of symbols as perf 6.1 prints them: C++ without types of functions, Rust without hash, OCaml.

perf calls cplus_demangle of libiberty without options (tools/perf/util/symbol-elf.c, demangle_sym): of C++ it prints
the name without result, parameters and qualifiers, and without what compilers append to the mangled name. Names of the
kernel are not mangled. The package demangle prints the same parts; names of D and Swift remain as they are, as in perf.
"""

import re
import time
from typing import Any

PLT = b"@plt"
MAX_MANGLED = 4096
MAX_NAME = 16_384
"""Longer results are not used."""
MAX_DEPTH = 128
SLOW_S = 0.05
MAX_SLOW_S = 2.0
MAX_ALL_S = 60.0
"""CPU time for slow names, and for all: 100,000 names take 20 s. Then the remaining names are not demangled."""
_RUST_LEGACY = re.compile(r"(_ZN[\w$.]+17h[0-9a-f]{16}E)(?:\..*)?")
_RUST_HASH_DIGITS = 5
"""A hash has at least so many digits that differ (libiberty, rust-demangle.c)."""
_MANGLED = re.compile(r"(_Z[\w$]+)([.@].*)?")
_RUST = re.compile(r"(_R[A-Z0-9][\w]*)(?:\..*)?")
_CONSTRUCTORS = re.compile(r"_GLOBAL_[._$]([ID])_(.+)")
_OCAML = re.compile(r"caml[A-Z]")
_OCAML_CODE = re.compile(r"__|\$([0-9a-fA-F]{2})")
_ABBREVIATED_CLASS = re.compile(r"_Z(?:T[hv]\w*?_)?NK?S[absiod][CD]")
_QUALIFIERS = re.compile(r"(?: const| volatile| ?&{1,2})+$")
_LOCAL_OF_METHOD = re.compile(r"(?:const|volatile|&)::")
_PAIRS = {")": "(", ">": "<", "}": "{", "]": "["}
_SPECIAL = ("_ZT", "_ZG")
_TITLES = {"I": "global constructors keyed to ", "D": "global destructors keyed to "}


class PerfNames:
    """Makes names readable. Remembers them, because several objects have the same ones."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}
        self._left_s, self._all_left_s = MAX_SLOW_S, MAX_ALL_S
        self._styles: tuple[Any, Any] | None = None

    def format(self, raw: bytes) -> str:
        """What perf prints for a raw name; the name itself if it is not mangled, invalid or too long."""
        known = self._known.get(raw)
        if known is None:
            known = self._known[raw] = self._format(raw)
        return known

    @staticmethod
    def keep(raw: bytes) -> str:
        """The name of a symbol of the kernel or of a compiler that is not mangled."""
        return raw.decode(errors="backslashreplace")

    def _format(self, raw: bytes) -> str:
        text = self.keep(raw)
        name = text.removesuffix(PLT.decode())
        return (self._demangle(name) or name) + text[len(name) :]

    def _demangle(self, name: str) -> str | None:
        if len(name) > MAX_MANGLED:
            return None
        if _OCAML.match(name):
            return _OCAML_CODE.sub(lambda code: chr(int(code[1], 16)) if code[1] else ".", name[4:])
        kept = _CONSTRUCTORS.fullmatch(name)
        if kept:
            return _TITLES[kept[1]] + (self._demangle(kept[2]) or kept[2])
        if not name.startswith(("_Z", "_R")) or min(self._left_s, self._all_left_s) <= 0:
            return None
        before = time.thread_time()
        text = self._decode(name)
        spent = time.thread_time() - before
        self._all_left_s -= spent
        if spent > SLOW_S:
            self._left_s -= spent
        return text if text and len(text) <= MAX_NAME and text.isprintable() else None

    def _decode(self, name: str) -> str | None:
        import demangle

        if self._styles is None:
            # c++filt writes out what is abbreviated in mangled names ("So" for std::ostream), perf only in the names of
            # constructors and destructors.
            self._styles = demangle.style("gnu", itanium={"expand_std_abbreviations": False}), "gnu"
        limits = demangle.Limits(max_depth=MAX_DEPTH, max_output=MAX_NAME)
        legacy = _RUST_LEGACY.fullmatch(name)
        rust = legacy if legacy and len(set(legacy[1][-17:-1])) >= _RUST_HASH_DIGITS else _RUST.fullmatch(name)
        if rust:
            text = demangle.demangle(rust[1], language="rust", limits=limits)
            return text if text != rust[1] else None
        mangled = _MANGLED.fullmatch(name)
        if not mangled:
            return None
        style = self._styles[_ABBREVIATED_CLASS.match(name) is not None]
        if not name.startswith(_SPECIAL):
            text = demangle.demangle(mangled[1], language="itanium", style=style, limits=limits)
            cut = None if text == mangled[1] else cut_signature(text)
            if cut is not None:
                return cut
        try:
            parts: Any = demangle.signature(mangled[1], language="itanium", style=style, limits=limits)
        except demangle.DemanglingError:
            return None
        is_special = parts.special is not None or name.startswith(_SPECIAL)
        return str(parts.demangled if is_special else parts.qualified_name + parts.decoration)


def cut_signature(text: str) -> str | None:
    """The name of a C++ function or variable without result, parameters and qualifiers; None if the text does not
    show where they are. Ten times faster than taking apart the mangled name."""
    if "operator" in text or " requires " in text or _LOCAL_OF_METHOD.search(text):
        return None
    text = _QUALIFIERS.sub("", text)
    open_at: list[int] = []
    last_space, parameters = -1, len(text)
    for at, sign in enumerate(text):
        if sign in "(<{[":
            open_at.append(at)
        elif sign in _PAIRS:
            if not open_at or text[open_at[-1]] != _PAIRS[sign]:
                return None
            parameters = open_at.pop()
        elif sign == " " and not open_at:
            last_space = at
    # A function may return a pointer to an array: int (*f())[3].
    if open_at or text.endswith("]"):
        return None
    name = text[last_space + 1 : parameters if text.endswith(")") else None]
    return name if name and not name.startswith(("(*", "(&")) and ")(" not in name else None
