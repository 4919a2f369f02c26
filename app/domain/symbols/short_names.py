"""Short names of functions, for labels: without parameters, types of templates, and most of the path.

`std::vector<int, std::allocator<int> >::push_back(int const&)` becomes `vector<…>::push_back`, Rust's
`<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop` becomes `<Vec<…> as Drop>::drop`, and Java's
`java.util.HashMap.get` becomes `HashMap.get`. Different functions may share a short name; pages also show the full one.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

MAX_CHARACTERS = 4_000
"""Longer names are not shortened."""
_OMITTED = "<…>"
_ANONYMOUS = re.compile(
    r"(?:\(anonymous(?: namespace| class)?\)|\{anonymous\}|<unnamed>|_GLOBAL__N_[\w.]*)::|\[abi:\w+\]"
)
_SPECIAL = re.compile(
    r"(?:(?:non-virtual |virtual |covariant return )?thunk to|(?:construction )?vtable for|VTT for|"
    r"typeinfo (?:name )?for|guard variable for|TLS (?:init|wrapper) function for|reference temporary(?: #\d+)? for) "
)
_OPERATOR = re.compile(
    r"operator(?!\w)(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|\"\"\s*\w+|[-+*/%^&|~!=<>,]{1,2}"
    r"| (?:new|delete)(?:\[\])?| [^()]+)?"
)
_QUALIFIERS = re.compile(r"(?: (?:const|volatile|noexcept))*(?: ?&{1,2})?")
_SUFFIX = re.compile(r"(?: \[clone [^\]]*\])+|\.[a-z][\w.]*|@\w+")
_JAVA_TYPE = re.compile(r"\[*(?:[BCDFIJSZV]|L[\w/$]+;)")
_CLONE = re.compile(r"\.(?:cold|part|constprop|isra|llvm|lto_priv)\b[\w.]*$|@plt$")
_JAVA = re.compile(r"(?:[a-z_][\w$]*[./])+([A-Z][\w$]*(?:\.[\w$<>]+)+)")
_JAVA_CLASS = re.compile(r"(?:[a-z_][\w$]*\.)+([A-Z][\w$]*)")
_OPENING, _CLOSING = "<([{", ">)]}"


def shorten_symbol(name: str) -> str:
    """The short name of a C++, Rust or Java function. Any other name is returned as it is."""
    if len(name) > MAX_CHARACTERS:
        return name
    if "->" in name and (methods := name.split("->"))[0].count("(") == methods[0].count(")"):
        # Java methods that are inlined into each other; in C++ an operator or a type is before the arrow.
        short = [shorten_symbol(method) for method in methods]
        if all(map(str.__ne__, short, methods)):
            return "->".join(short)
    if "::" not in name and "(" not in name and "<" not in name:
        return name if "." not in name else _shorten_java(name)
    return _shorten(name)


def shorten_distinct(names: Iterable[str]) -> Callable[[str], str]:
    """Like `shorten_symbol` for the names of one table: names that would look the same are not shortened."""
    short = {name: shorten_symbol(name) for name in dict.fromkeys(names)}
    uses = Counter(short.values())
    return lambda name: found if uses[found := short.get(name, name)] == 1 else name


@lru_cache(maxsize=16_384)
def _shorten(name: str) -> str:
    text = _ANONYMOUS.sub("", name)
    special = _SPECIAL.match(text)
    prefix = special[0] if special else ""
    parsed = _parse(text[len(prefix) :])
    if parsed is None:
        return name
    parts, suffix = parsed
    kept = 2
    while kept < len(parts) and parts[-kept].startswith("{"):
        # What contains a lambda or closure distinguishes it.
        kept += 1
    if len(parts) == 1:
        return prefix + _shorten_java(parts[0]) + suffix
    return prefix + "::".join(_JAVA_CLASS.sub(r"\1", part) for part in parts[-kept:]) + suffix


def _shorten_java(name: str) -> str:
    found = _JAVA.fullmatch(name)
    return found[1] if found else name


def _parse(text: str, *, is_inner: bool = False) -> tuple[list[str], str] | None:
    """(the parts of a qualified name, without types and parameters; the suffix of a clone), None if it is none.

    is_inner: a type of a name.
    """
    parts, part, place = [], "", 0
    while place < len(text):
        sign = text[place]
        if text.startswith("::", place):
            # A name may begin with the global namespace.
            if part:
                parts.append(part)
            part, place = "", place + 2
        elif sign == "o" and not _is_word(text[place - 1 : place]) and (operator := _OPERATOR.match(text, place)):
            part += operator[0].rstrip()
            place = operator.end()
            # Written with a space: `operator<< <char>`.
            place += text.startswith(" <", place)
        elif sign in _OPENING:
            end = _find_closing(text, place)
            if end is None:
                return None
            inside = text[place:end]
            if sign == "(":
                if not part or not (_is_word(part[-1]) or part.endswith((">", "}")) or "operator" in part):
                    return None
                end = _QUALIFIERS.match(text, end).end()  # type: ignore[union-attr]
                if not text.startswith("::", end):
                    suffix = "" if _JAVA_TYPE.fullmatch(text, end) else text[end:]
                    complete = not suffix or _SUFFIX.fullmatch(suffix)
                    return ([*parts, part], suffix) if complete else None
            elif sign == "<" and part.endswith("."):
                # Of Python and Java: `f.<locals>.g`, `Foo.<init>`.
                part += inside
            elif sign == "<":
                part += _OMITTED if part or is_inner else _shorten_types(inside)
            else:
                part += inside
            place = end
        elif sign in _CLOSING:
            return None
        elif sign == " ":
            # Before it is the type that a template returns.
            parts, part, place = [], "", place + 1
        else:
            part += sign
            place += 1
    if not part:
        return None
    suffix = ""
    if not parts and not part.endswith("…>"):
        return [part], ""
    if (found := _CLONE.search(part)) is not None:
        part, suffix = part[: found.start()], found[0]
    return [*parts, part], suffix


def _shorten_types(inside: str) -> str:
    """`<…>` at the beginning of a name: types of Rust, or a name such as `<module>`."""
    content = inside[1:-1]
    for start, separator in (("impl ", " for "), ("", " as ")):
        words = _split(content.removeprefix(start), separator)
        if content.startswith(start) and len(words) == 2:
            return f"<{start}{separator.join(map(_shorten_type, words))}>"
    return inside


def _shorten_type(text: str) -> str:
    parsed = _parse(text, is_inner=True)
    return parsed[0][-1] + parsed[1] if parsed else text


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators outside of brackets."""
    parts, start, depth, place = [], 0, 0, 0
    while place < len(text):
        if text[place] in _OPENING:
            depth += 1
        elif text[place] in _CLOSING and text[place - 1 : place] != "-":
            depth -= 1
        elif depth == 0 and text.startswith(separator, place):
            parts.append(text[start:place])
            start = place = place + len(separator)
            continue
        place += 1
    return [*parts, text[start:]]


def _find_closing(text: str, start: int) -> int | None:
    """The end of the brackets that open at `start`; None if they do not close. `->` closes nothing."""
    open_brackets: list[str] = []
    for place in range(start, len(text)):
        sign = text[place]
        if sign in _OPENING:
            open_brackets.append(sign)
        elif sign in _CLOSING and not (sign == ">" and text[place - 1] == "-"):
            if _OPENING[_CLOSING.index(sign)] != open_brackets.pop():
                return None
            if not open_brackets:
                return place + 1
    return None


def _is_word(sign: str) -> bool:
    return sign.isalnum() or sign in ("_", "$", "~") if sign else False
