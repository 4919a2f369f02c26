"""Rules that give functions of two builds of a program the same name: what compilers and runtimes number is left out.

A rule applies to display names, which are demangled, and to modules. Rules are applied in the order of `NAME_RULES`.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from posixpath import basename

_NUMBERED = frozenset(("isra", "constprop", "part", "cold", "lto_priv", "localalias", "llvm", "clone", "specialized"))
_CLONE = " [clone "
_LAMBDAS = (
    (re.compile(r"\{(lambda\([^{}]*\)|unnamed type|closure|shim)#\d+\}"), r"{\1}"),
    (re.compile(r"'(lambda|unnamed)\d+'"), r"'\1'"),
    (re.compile(r"\$_\d+"), "$_"),
    # Go numbers the function literals of a function, whose name has a package.
    (re.compile(r"(?<=[\w)])(\.[\w()*]+)\.func\d+(?:\.\d+)*(?=$|\.func|[-.]fm$)"), r"\1.func"),
)
_HASHES = (
    (re.compile(r"::h[0-9a-f]{16}(?=$| \[)"), ""),
    # The crate of Rust's v0 names.
    (re.compile(r"(?<=\w)\[[0-9a-f]{6,16}\](?=::)"), ""),
)
_ADDRESSES = ((re.compile(r"\b0x[0-9a-fA-F]{4,16}\b"), "0x…"),)
_GENERATED = (
    (re.compile(r"\$\$Lambda(?:\$\d+)?(?:[/+.](?:0x)?[0-9a-f]+)?"), "$$Lambda"),
    (re.compile(r"(LambdaForm\$\w+)[/+.](?:0x)?[0-9a-f]+"), r"\1"),
    (re.compile(r"(\$Proxy|Generated(?:Method|Constructor|SerializationConstructor)Accessor)\d+"), r"\1"),
    (re.compile(r"(\$\$(?:FastClass|EnhancerBy)\w{0,80}\$\$)[0-9a-f]+"), r"\1"),
    (re.compile(r"(<ipython-input-)\d+-[0-9a-f]+(>)"), r"\1\2"),
)
_GENERATED_MODULES = (
    (re.compile(r"(?:^|(?<=/))perf-\d+\.map$"), "perf.map"),
    (re.compile(r"(?:^|(?<=/))jitted-\d+-\d+\.so$"), "jitted.so"),
)
_VERSIONS = ((re.compile(r"(?:-\d[\w.]*)?\.so(?:\.\d+)*$"), ".so"),)
_BRACKETS = re.compile(r"operator(?:<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|\(\))|->|[<>()]")
_QUALIFIERS = re.compile(r"(?: ?(?:const|volatile|noexcept|&&?)|\[abi:\w+\])*(?: \[clone [^\]]*\])*")
_SPECIAL = frozenset(
    ("init", "clinit", "module", "lambda", "listcomp", "genexpr", "dictcomp", "setcomp", "string", "stdin", "locals")
)
"""Names in angle brackets of the JVM and Python."""
MAX_CHARACTERS = 20_000
"""Longer names remain."""


@dataclass(frozen=True)
class NameRule:
    """title, description: for people. of_names, of_modules: what is replaced."""

    title: str
    description: str
    of_names: Callable[[str], str] | None = None
    of_modules: Callable[[str], str] | None = None


def _replace(patterns: tuple[tuple[re.Pattern[str], str], ...]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        for pattern, replacement in patterns:
            text = pattern.sub(replacement, text)
        return text

    return apply


def drop_clone_suffixes(name: str) -> str:
    """A name without the suffixes that compilers give to parts and copies of a function."""
    while name.endswith("]"):
        start = name.rfind(_CLONE)
        if start <= 0 or "]" in name[start:-1]:
            break
        name = name[:start]
    parts = name.split(".")
    while len(parts) > 1:
        end = len(parts)
        while end and parts[end - 1].isdecimal():
            end -= 1
        is_numbered = end < len(parts)
        # Without a number, other words than cold may be those of a method.
        if end < 2 or not (parts[end - 1] in _NUMBERED if is_numbered else parts[end - 1] == "cold"):
            break
        del parts[end - 1 :]
    return ".".join(parts) or name


def drop_template_arguments(name: str) -> str:
    """A name of C++ or Rust without what is in angle brackets, except at the beginning."""
    parts, depth, parentheses, start = [], 0, 0, 0
    for found in _BRACKETS.finditer(name):
        sign, at = found[0], found.start()
        if depth and sign in "()":
            # A comparison or a type of a function: what is in parentheses is all of one argument.
            parentheses = max(0, parentheses + (1 if sign == "(" else -1))
        elif parentheses:
            continue
        elif sign == "<" and (depth or (_follows_word(name, at) and not _is_special(name, at))):
            if not depth:
                parts.append(name[start:at])
            depth += 1
        elif sign == ">" and depth:
            depth -= 1
            start = found.end()
    # Brackets that do not match are no arguments.
    return "".join((*parts, name[start:])).replace("::::", "::") if not depth else name


def _follows_word(name: str, at: int) -> bool:
    return at > 0 and (name[at - 1].isalnum() or name[at - 1] in "_:")


def _is_special(name: str, at: int) -> bool:
    return name[at + 1 : at + 12].partition(">")[0] in _SPECIAL


def drop_argument_types(name: str) -> str:
    """A name of C++ without the types of its arguments, and what follows them."""
    depth, opening, last = 0, -1, (-1, -1)
    for found in _BRACKETS.finditer(name):
        if found[0] in "(<":
            if not depth and found[0] == "(":
                opening = found.start()
            depth += 1
        elif found[0] in ")>" and depth:
            depth -= 1
            if not depth and found[0] == ")" and opening > 0:
                last = (opening, found.end())
    start, end = last
    # In Go and Objective-C, other parts of a name are in parentheses.
    if depth or start < 0 or name[start - 1] in " .[" or name.startswith(("-[", "+[")):
        return name
    rest = _QUALIFIERS.fullmatch(name, end)
    if rest is None:
        return name
    clone = name.find(_CLONE, end)
    return name[:start] + (name[clone:] if clone >= 0 else "")


NAME_RULES: dict[str, NameRule] = {
    "clones": NameRule(
        "Clones", "parts and copies by compilers: .cold, .isra.0, .constprop.0, .llvm.123", drop_clone_suffixes
    ),
    "lambdas": NameRule("Numbers of lambdas", "{lambda(int)#2}, {closure#0}, $_3, .func1", _replace(_LAMBDAS)),
    "hashes": NameRule("Hashes of Rust", "::h0123456789abcdef, core[0123456789abcdef]", _replace(_HASHES)),
    "addresses": NameRule("Addresses", "0x7f12ab34", _replace(_ADDRESSES)),
    "generated": NameRule(
        "Generated code",
        "$$Lambda$12/0x…, $Proxy3, perf-123.map, jitted-123-4.so",
        _replace(_GENERATED),
        _replace(_GENERATED_MODULES),
    ),
    "templates": NameRule("Template arguments", "vector<int>::push_back", drop_template_arguments),
    "arguments": NameRule(
        "Argument types", "run(int): overloads become one; newer versions of perf print them", drop_argument_types
    ),
    "versions": NameRule("Versions of libraries", "libc-2.31.so, libstdc++.so.6.0.33", None, _replace(_VERSIONS)),
    "directories": NameRule(
        "Directories", "of modules: /opt/v1/bin/solver", None, lambda module: basename(module) or module
    ),
    "modules": NameRule("Modules", "functions of the same name in any module are one", None, lambda module: ""),
}
"""By the word in addresses and commands."""
COMPILER_RULES = ("clones", "lambdas", "hashes", "addresses", "generated", "versions", "directories")
"""What two builds of the same source differ in."""


def rename_function(name: str, rules: Collection[str]) -> str:
    """A display name under these rules. A name of which nothing would remain stays."""
    found = name
    for word, rule in NAME_RULES.items():
        if word in rules and rule.of_names is not None and len(found) <= MAX_CHARACTERS:
            found = rule.of_names(found)
    return found.strip() or name


def rename_module(module: str, rules: Collection[str]) -> str:
    """A module under these rules."""
    for word, rule in NAME_RULES.items():
        if word in rules and rule.of_modules is not None:
            module = rule.of_modules(module)
    return module
