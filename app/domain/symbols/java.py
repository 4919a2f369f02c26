"""JVM names: binary class names with slashes, descriptors of methods, and classes that the JVM generates."""

import re

PRIMITIVES = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "V": "void",
    "Z": "boolean",
}

PACKAGE_ROOTS = frozenset(
    {
        *("com", "org", "net", "edu", "gov", "dev", "info", "sun", "java", "javax", "jakarta", "jdk"),
        *("scala", "kotlin", "kotlinx", "clojure", "groovy", "akka", "android", "androidx"),
    }
)
"""First parts of the names of packages. Domains of countries are others: they have two letters."""

_TYPE = r"\[*(?:[BCDFIJSZ]|L[^;()\[]+;)"
_CLASS = r"(?:[\w$-]+/)*[\w$-]+"
_METHOD = r"(<?[\w$-]+>?)"
_DESCRIPTOR = rf"(?:\(((?:{_TYPE})*)\)(?:V|{_TYPE})?)?"
# perf-map-agent writes "Ljava/util/HashMap;::get", perf's own agent no "::", and stackcollapse-perf.pl ":" for ";".
_MARKED = re.compile(rf"L({_CLASS})(?:;(?:::|\.)?|:::){_METHOD}{_DESCRIPTOR}")
# perf-map-agent cuts long names.
_CUT = re.compile(rf"L({_CLASS});(?:::|\.)?{_METHOD}\(((?:{_TYPE})*)(?:(\))\[*L?|\[*L?)[^;()\[]*")
# Go names have slashes too (encoding/json.Marshal), and so have files: packages begin with a usual name, and classes
# with a capital letter.
_PLAIN = re.compile(
    rf"((?:[a-z][a-z]|{'|'.join(sorted(PACKAGE_ROOTS))})"
    rf"/(?:[a-z_][\w$-]*/)*[A-Z$][\w$-]*)(?:\.|:\.|:::?){_METHOD}{_DESCRIPTOR}"
)
_FILE = re.compile(r"\.(?:[ch](?:pp|xx)?|cc|css|html|java|js|json|jsx|kt|php|py|rb|rs|scala|so|swift|ts|tsx)$")
_PARAMETER = re.compile(_TYPE)
# The address of a hidden class, and the number in its place up to JDK 8, differ in each run.
_HIDDEN = re.compile(r"(\$\$Lambda(?:\$\d+)?|\$\$\w+|LambdaForm\$\w+)(?:[/.+]0x[0-9a-f]{6,16}|/\d{4,})(?=$|[.;:])")


def format_java(name: str) -> str | None:
    """The name as in Java source: `java.util.HashMap.get`, `com.foo.Bar.baz(int, java.lang.String[])`.

    Names that are inlined into each other remain connected by "->". None if it is no JVM name.
    """
    shown = _HIDDEN.sub(r"\1", name) if "$" in name else name
    methods = [_format_method(part) for part in shown.split("->")]
    if all(methods):
        return "->".join(filter(None, methods))
    return shown if shown != name else None


def _format_method(text: str) -> str | None:
    found = _MARKED.fullmatch(text) or (None if _FILE.search(text) else _PLAIN.fullmatch(text))
    cut = None if found else _CUT.fullmatch(text)
    if not found and not cut:
        return None
    of, method, parameters = (cut or found).groups()[:3]  # type: ignore[union-attr]
    shown = f"{of.replace('/', '.')}.{method}"
    if parameters is None:
        return shown
    types = [_format_type(one) for one in _PARAMETER.findall(parameters)]
    return f"{shown}({', '.join([*types, *(['…'] if cut and not cut[4] else [])])})"


def _format_type(descriptor: str) -> str:
    element = descriptor.lstrip("[")
    shown = PRIMITIVES.get(element) or element[1:-1].replace("/", ".")
    return shown + "[]" * (len(descriptor) - len(element))
