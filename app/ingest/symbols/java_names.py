"""Names of Java methods as perf prints them: those of the Java Virtual Machine (JVM specification, section 4.3) in the
form of the language, without the type of the result."""

from ...domain.symbols.java import PRIMITIVES

_MAX_DIMENSIONS = 255


def format_java_name(name: str) -> str | None:
    """The method that a name such as "Ljava/lang/Object;equals(Ljava/lang/Object;)Z" means; None for other names."""
    if not name.startswith("L"):
        return None
    owner, semicolon, rest = name[1:].partition(";")
    method, parenthesis, rest = rest.partition("(")
    arguments, closing, result = rest.partition(")")
    if not (owner and semicolon and method and parenthesis and closing):
        return None
    types = _list_types(arguments)
    if types is None or len(_list_types(result) or ()) != 1:
        return None
    return f"{owner.replace('/', '.')}.{method}({', '.join(types)})"


def _list_types(text: str) -> list[str] | None:
    """The types of a descriptor; None if it is none."""
    found, at = [], 0
    while at < len(text):
        begin = at
        while at < len(text) and text[at] == "[":
            at += 1
        dimensions = at - begin
        if at == len(text) or dimensions > _MAX_DIMENSIONS:
            return None
        if text[at] == "L":
            end = text.find(";", at)
            if end < 0:
                return None
            name, at = text[at + 1 : end].replace("/", "."), end + 1
        elif text[at] in PRIMITIVES:
            name, at = PRIMITIVES[text[at]], at + 1
        else:
            return None
        found.append(name + "[]" * dimensions)
    return found
