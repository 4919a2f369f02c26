"""docs/glossary.md names code that exists."""

import ast
import re
from pathlib import Path

ROW = re.compile(r"\| (?P<term>[^|]+) \| (?P<definition>[^|]+) \| (?P<source>[^|]+) \| (?P<code>[^|]+) \|")


def _defined(root: Path) -> set[str]:
    """Names of modules, classes, functions and variables of the package, each by itself."""
    found = set()
    for folder in ("app", "workers"):
        for path in (root / folder).rglob("*.py"):
            found |= {path.stem, path.parent.name}
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    found.add(node.name)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
    return found


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
            assert "." not in name or name.endswith((".html", ".js", ".json")) or name.rpartition(".")[2] in defined, (
                name
            )
