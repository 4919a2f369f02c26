"""Short labels of functions of C++, Rust and the JVM, for places without room for the full name.

`std::vector<int, std::allocator<int> >::push_back(int const&)` becomes `vector<…>::push_back`, `java.util.HashMap.get`
becomes `HashMap.get`. Names of other languages are unchanged. Different functions may share a label.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from ..text import shorten_middle

MAX_CHARACTERS = 4_096
"""Longer names are unchanged."""
MAX_LAMBDA_CHARACTERS = 24
"""Longer parameters of a lambda are omitted."""
ELIDED = "<…>"

# Longer operators first.
_OPERATOR = (
    r"\boperator(?:\(\)|\[\]|<=>|<<=|>>=|->\*|->|<<(?!<)|<<(?=<)|>>|<=|>=|&&|\|\||\+\+|--|[-+*/%^&|!=]=|[-+*/%^&|~!=<>,]"
    r"|\"\" ?\w+| (?:new|delete)(?:\[\])?(?!\w)| co_await(?!\w))"
)
_TOKEN = re.compile(rf"{_OPERATOR}|->|::|[<>(){{}}\[\]\s]|[^<>(){{}}\[\]\s:-]+|.", re.DOTALL)
_PREFIX = re.compile(
    r"(?:(?:non-)?virtual thunk to|(?:vtable|VTT|typeinfo(?: name)?|guard variable) for|\[[a-z]+\]) ", re.ASCII
)
_PLAIN = re.compile(r"[\w$~*&.'@]+|operator.*", re.DOTALL)
_QUALIFIERS = frozenset({"const", "volatile", "&", "&&", "noexcept"})
_ANONYMOUS = re.compile(r"\(anonymous (?:namespace|class|struct|union|enum)\)|\(unnamed\)")
_TYPES = re.compile(r"\((?:(?=[A-Za-z_:.{(<&*\[…'])[^\"/=;@]*)?\)")
_PATHS = re.compile(r"(?<![\w$])(?:[\w$]+::)+(?=[\w$<\[])")
_CLONES = re.compile(r"(?: \[clone [^\]]*\])+$")
# Its number is a hash.
_LLVM_CLONE = re.compile(r" \[clone \.llvm\.\d+\]")
_CLOSING = {"<": ">", "(": ")", "{": "}", "[": "]"}
_JVM = re.compile(
    r"(?:[\w.$\[\]]+ )?(?:[a-z_]\w*\.)+([A-Z][\w$]*)\.([\w$]+|<(?:cl)?init>)(?:\([\w.$\[\], …]*\))?", re.ASCII
)
_JVM_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+([A-Z][\w$]*)(?=::)", re.ASCII)
_FILE = re.compile(r"py|pyx|js|ts|c|cc|cpp|cu|h|hpp|rs|go|rb|pl|pm|php|java|kt|scala|cs|so|o|a|exe|dll|jar|sh|txt")


def shorten_symbol(name: str) -> str:
    """The label of a demangled function, for C++, Rust and the JVM: without return type, parameters, and namespace or
    package except the last, with `<…>` instead of template and generic arguments. Other names are unchanged.

    Closures and lambdas keep the function around them: `main::{lambda(int)#1}::operator()`.
    """
    if len(name) > MAX_CHARACTERS:
        return name
    if "::" not in name and "(" not in name and "<" not in name:
        return "->".join(map(_shorten_jvm, name.split("->"))) if name.count(".") > 1 else name
    if "::" not in name:
        # Methods that are inlined into each other are connected.
        methods = name.split("->")
        jvm = [*map(_shorten_jvm, methods)]
        if all(map(str.__ne__, jvm, methods)):
            return "->".join(jvm)
    prefix = _PREFIX.match(name)
    start = prefix.end() if prefix else 0
    found = _CLONES.search(name) if name.endswith("]") else None
    clones = found[0] if found else ""
    label = _shorten_native(name[start : len(name) - len(clones)])
    if label is None:
        return name
    # The JVM writes `java.util.HashMap::resize`.
    short = name[:start] + _JVM_CLASS.sub(r"\1", label) + _LLVM_CLONE.sub("", clones)
    return short if len(short) < len(name) else name


def shorten_distinct(names: Iterable[str]) -> Callable[[str], str]:
    """Like `shorten_symbol` for the names of one table: names that would look the same are not shortened."""
    short = {name: shorten_symbol(name) for name in dict.fromkeys(names)}
    uses = Counter(short.values())
    return lambda name: found if uses[found := short.get(name, name)] == 1 else name


def list_short_names(names: Iterable[str], longest: int) -> list[str]:
    """The short names, "" where they are the names; empty if all are. Longer ones lose their middle."""
    short = ["" if (found := shorten_symbol(name)) == name else shorten_middle(found, longest) for name in names]
    return short if any(short) else []


def _shorten_jvm(name: str) -> str:
    found = _JVM.fullmatch(name)
    return f"{found[1]}.{found[2]}" if found and not _FILE.fullmatch(found[2]) else name


@dataclass
class _Label:
    """What is read of a name. parts: between "::". part: the current one. ended: whether its parameters were read.
    copies: the suffixes of clones. returned: whether a return type was read."""

    parts: list[str] = field(default_factory=list)
    part: str = ""
    ended: bool = False
    copies: str = ""
    returned: bool = False


# A payload of a flame graph that is too large is built again with fewer frames.
@lru_cache(maxsize=16_384)
def _shorten_native(name: str) -> str | None:
    """The label of a function of C++ or Rust; None for any other name."""
    tokens = _TOKEN.findall(name)
    ends = _match_brackets(tokens)
    label = _Label()
    place = 0
    while place < len(tokens):
        end = ends.get(place, place)
        group = "".join(tokens[place : end + 1])
        if group == "operator" and end + 1 < len(tokens) and tokens[end + 1] == " ":
            # A conversion: the type continues up to the parameters.
            until = end + 2
            while until < len(tokens) and tokens[until] != "(":
                until = ends.get(until, until) + 1
            converted = re.sub(r"\[abi:\w*\]", "", "".join(tokens[end + 2 : until]))
            label.part += "operator " + _shorten_type(converted).strip()
            place = until
            continue
        if group == "decltype" and not label.part:
            # A return type: `decltype (auto)`.
            opening = end + 1 + (tokens[end + 1 : end + 2] == [" "])
            end = ends.get(opening, end)
        if not _add(label, group):
            return None
        place = end + 1
    # `<module>` is a name of Python.
    return None if len(label.parts) == 0 and name.startswith("<") else _join(label)


def _add(label: _Label, group: str) -> bool:
    """Add a token, or a pair of brackets with what is inside. Returns whether the name can still be one of C++ or
    Rust."""
    first = group[0]
    if group == "::":
        return _end_part(label)
    if group.isspace():
        return _add_space(label)
    if label.ended:
        return _add_after_parameters(label, group)
    if len(group) == 1 and first in _CLOSING:
        return False
    if first == "<":
        return _add_arguments(label, group)
    if first == "(":
        if not label.part:
            label.part = "\0" if _ANONYMOUS.fullmatch(group) else ""
            return bool(label.part)
        if label.part.startswith("'lambda"):
            label.part += group if len(group) <= MAX_LAMBDA_CHARACTERS else "(…)"
            return True
        label.ended = True
        return _TYPES.fullmatch(group) is not None
    if first == "{":
        label.part += _shorten_braces(group)
        return True
    if first == "[":
        return bool(label.part) and group.startswith("[abi:")
    label.part += group
    return _PLAIN.fullmatch(group) is not None


def _end_part(label: _Label) -> bool:
    if not label.part:
        return False
    label.parts.append(label.part)
    label.part, label.ended = "", False
    return True


def _add_space(label: _Label) -> bool:
    if label.ended or re.fullmatch(r"operator\W+", label.part):
        # After parameters: qualifiers. `operator< <int>`: not a return type.
        return True
    if not label.part:
        return False
    label.parts, label.part, label.returned = [], "", True
    return True


def _add_after_parameters(label: _Label, group: str) -> bool:
    if group.startswith("[clone "):
        label.copies += f" {group}"
        return True
    if group.startswith(("@", ".")):
        label.copies += group
        return True
    return group in _QUALIFIERS or group.startswith(("[abi:", "[with "))


def _add_arguments(label: _Label, group: str) -> bool:
    """Add arguments of templates or generics, or a type of Rust in angle brackets: `<T as Trait>`."""
    if label.part:
        if label.part[-1] in "\0.-":
            return False
        label.part += f" {ELIDED}" if label.part.endswith("<") else ELIDED
        return True
    inside = group[1:-1]
    shortened = _shorten_type(inside)
    if " as " in shortened or shortened.startswith("impl "):
        label.part = f"<{shortened}>"
    elif label.parts:
        # Rust: `align_of::<f64>`.
        label.part, label.parts = f"{label.parts[-1]}::{ELIDED}", label.parts[:-1]
    else:
        label.part = shortened if re.fullmatch(r"[\w$<>…]+", shortened) else f"<{shortened}>"
    return True


def _shorten_type(text: str) -> str:
    """A type without paths, with its arguments elided. Of `<T as Trait>::Type`, `Type`."""
    kept: list[str] = []
    depth = 0
    qualified = False
    tokens = _TOKEN.findall(text)
    for token in tokens:
        if token == "<":
            depth += 1
            kept += [ELIDED] if depth == 1 and kept and re.fullmatch(r"[\w$]+|::", kept[-1]) else []
            if depth == 1 and kept[-1:] != [ELIDED]:
                if kept not in ([], ["&"]):
                    return _PATHS.sub("", text)
                qualified = True
        elif token == ">" and depth:
            depth -= 1
        elif qualified and not depth:
            if token != "::":
                return _PATHS.sub("", text)
            qualified = False
        elif not depth:
            kept.append(token)
    return _PATHS.sub("", "".join(kept))


def _shorten_braces(group: str) -> str:
    lambda_ = re.fullmatch(r"\{lambda\((.*)\)(#\d+)\}", group, re.DOTALL)
    if lambda_ and len(lambda_[1]) > MAX_LAMBDA_CHARACTERS:
        return f"{{lambda(…){lambda_[2]}}}"
    return group


def _join(label: _Label) -> str | None:
    parts = [part for part in [*label.parts, label.part] if part != "\0"]
    if not label.part or not parts:
        return None
    # Only templates have return types in C++, and stackcollapse-perf.pl omits parameters.
    if label.returned and not label.ended and (len(parts) == 1 or not label.part.endswith(ELIDED)):
        return None
    if "." in label.part and len(parts) == 1:
        return None
    # Closures and lambdas have no names: what contains them distinguishes them. The last two named parts remain; before
    # a closure, the function, and its type if it has one.
    named = [place for place, part in enumerate(parts) if not part.startswith(("{", "'", "$"))]
    start = named[-2] if len(named) > 1 else 0
    if len(named) > 1 and named[-1] < len(parts) - 1 and not (parts[start][0] == "<" or parts[start][0].isupper()):
        start = named[-1]
    return "::".join(parts[start:]) + label.copies


def _match_brackets(tokens: list[str]) -> dict[int, int]:
    """The index of the closing bracket of each opening one that has it."""
    ends: dict[int, int] = {}
    open_: list[int] = []
    for place, token in enumerate(tokens):
        if token in _CLOSING:
            open_.append(place)
        elif token == ">":
            # In an expression, as in `A<(1 > 0)>`, it compares.
            if open_ and tokens[open_[-1]] == "<":
                ends[open_.pop()] = place
        elif token in (")", "}", "]"):
            # In an expression, "<" has no end.
            while open_ and tokens[open_[-1]] == "<" and _CLOSING["<"] != token:
                open_.pop()
            if open_ and _CLOSING[tokens[open_[-1]]] == token:
                ends[open_.pop()] = place
    return ends
