"""docs/glossary.md names code that exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROW = re.compile(r"\| (?P<term>[^|]+) \| (?P<definition>[^|]+) \| (?P<source>[^|]+) \| (?P<code>[^|]+) \|")


def _defined(root: Path) -> set[str]:
    """Dotted names of modules, classes, functions and variables, with a dot before each: `.app.domain.meta.Meta`.

    A package has also what its `__init__.py` brings.
    """
    found = set()
    for folder in ("app", "workers"):
        for path in (root / folder).rglob("*.py"):
            module = f".{str(path.relative_to(root).with_suffix('')).replace('/', '.')}".removesuffix(".__init__")
            found |= {module, *_names_in(ast.parse(path.read_bytes()), module)}
    return found


def _names_in(tree: ast.AST, place: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{place}.{node.name}"
            yield from _names_in(node, f"{place}.{node.name}")
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{place}.{alias.asname or alias.name}" for alias in node.names)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield f"{place}.{node.id}"
            yield from _names_in(node, place)


@pytest.mark.slow
def test_terms_have_a_definition_a_source_and_code(root: Path) -> None:
    lines = (root / "docs/glossary.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("| ")][1:]
    rows = [ROW.fullmatch(line) for line in table]
    assert len(rows) > 100 and all(rows), [line for line, row in zip(table, rows, strict=True) if row is None]
    terms = [row["term"].lower() for row in rows if row is not None]
    assert terms == sorted(set(terms))
    defined = _defined(root)
    for row in rows:
        assert row is not None
        for name in re.findall(r"`(\w[\w.]*)(?:\(\))?`", row["code"]):
            # What has an extension is a file, what has none a column or a key.
            is_file_or_key = "." not in name or name.endswith((".html", ".js", ".json"))
            assert is_file_or_key or any(one.endswith(f".{name}") for one in defined), name
