"""Demangler: readable names for the symbols of a file."""

from .java import PACKAGE_ROOTS, format_java
from .native import NativeDemangler, is_mangled
from .rust import clean_rust

MAX_NAME = 2_048
"""Longer names remain unchanged. Of 340,000 C++ symbols of Python's scientific packages 0.001 % are longer."""
UNKNOWN_NAMES = frozenset({"[unknown]", "", "??"})
"""What tools print for a function without a name."""


class Demangler:
    """Makes names readable. Remembers those that changed, so that each is demangled once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._native: NativeDemangler | None = None

    def format(self, name: str) -> str:
        """The readable form of a raw symbol; the symbol itself if it is readable, invalid or too long."""
        if not may_be_encoded(name):
            return name
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._decode(name)
        return known

    def _decode(self, name: str) -> str:
        if len(name) > MAX_NAME:
            return name
        if is_mangled(name):
            if self._native is None:
                self._native = NativeDemangler()
            return self._native.demangle(name) or name
        return clean_rust(name) or format_java(name) or name


def may_be_encoded(name: str) -> bool:
    """Whether a name may have a more readable form. Fast: nearly all names of a file have none."""
    if name[:2] in _PREFIXES or "$" in name or "::h" in name:
        return True
    slash = name.find("/")
    if name[:1] == "L" and (slash > 0 or ";" in name):
        return True
    return slash == 2 or (slash > 0 and name[:slash] in PACKAGE_ROOTS)


_PREFIXES = frozenset({"_Z", "_R", "_D", "__"})


def format_symbol(name: str, module: str, demangler: Demangler) -> str:
    """How pages show a raw symbol: demangled. An unknown one is shown by its module, "[libc.so.6]" or "[vdso]"."""
    if name in UNKNOWN_NAMES:
        base = module.rsplit("/", 1)[-1].removeprefix("[").removesuffix("]")
        return f"[{base or 'unknown'}]"
    return demangler.format(name)
