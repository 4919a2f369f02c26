"""Rust names in the legacy mangling that were demangled as C++, with the hash and the escapes of identifiers."""

import re

_HASH = re.compile(r"::h[0-9a-f]{16}(?=$|[.@ ])")
_ESCAPE = re.compile(r"\$(LT|GT|RF|BP|LP|RP|C|SP|u[0-9a-f]{2,5})\$")
_GUARD = re.compile(r"(?:(?<=::)|^)_(?=\$)")
_SIGNS = {"LT": "<", "GT": ">", "RF": "&", "BP": "*", "LP": "(", "RP": ")", "C": ",", "SP": "@"}


def clean_rust(name: str) -> str | None:
    """The name without hash and escapes: `core::ptr::drop_in_place<T>`. None if it has neither."""
    hashed = _HASH.search(name)
    if not hashed and not _ESCAPE.search(name):
        return None
    start = hashed.start() if hashed else len(name)
    path, rest = name[:start], name[hashed.end() if hashed else start :]
    if _ESCAPE.search(path) or ".." in path:
        path = _ESCAPE.sub(_unescape, _GUARD.sub("", path).replace("..", "::"))
    return (path + rest) or None


def _unescape(escape: re.Match[str]) -> str:
    word = escape[1]
    if word in _SIGNS:
        return _SIGNS[word]
    sign = chr(int(word[1:], 16))
    return sign if sign.isprintable() else escape[0]
