"""The words that docs/style.md tells to avoid are not in text that users read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest

from tests.support import paths

ROOT = paths.ROOT
STYLE = ROOT / "docs" / "style.md"
LISTS_FROM_CODE = {"tables.md", "settings.md"}
"""Pages of docs/reference whose rows repeat descriptions that are written in the program."""
VISIBLE_ATTRIBUTES = {"title", "alt", "placeholder", "aria-label", "label", "summary"}
UNSEEN_ELEMENTS = {"script", "style", "code", "pre"}

Text = tuple[str, int, str]
"""(file relative to the checkout, line, text)"""

_FENCE = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_EMPHASIS = re.compile(r"(\*{1,2})(?=\S)[^*]+?(?<=\S)\1")
_TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
_LOSSES = re.compile(r"^\| (?:reason|loss)[^\n]*\n\|[-| ]+\n(?:\|[^\n]*\n?)*", re.MULTILINE)
_FIRST_CELL = re.compile(r"^\|[^|\n]*\|", re.MULTILINE)
_SCRIPT_STRING = re.compile(r"""(["'`])((?:\\.|(?!\1)[^\\\n])*)\1""")
_SCRIPT_COMMENT = re.compile(r"/\*.*?\*/|(?<![:\w\"'`])//[^\n]*", re.DOTALL)


def words_to_avoid() -> dict[str, str]:
    """What the table of docs/style.md says: avoid → use."""
    section = STYLE.read_text(encoding="utf-8").split("\n## Words to avoid\n")[1]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert rows[0] == ("avoid", "use")
    return dict(rows[1:])


def pattern_of(entry: str) -> re.Pattern[str]:
    """How an entry of the table is searched for."""
    plain = entry.strip('"').removesuffix("*")
    words = r"\s+".join(re.escape(word) for word in plain.split())
    if entry.startswith('"'):
        return re.compile(rf"\A\s*{words}\s*\Z")
    ending = r"\w*" if entry.endswith("*") else ""
    return re.compile(rf"(?<!\w){words}{ending}(?!\w)", re.IGNORECASE)


def blank(match: re.Match[str]) -> str:
    """As many line breaks as what is cut out, so that line numbers stay."""
    return "\n" * match[0].count("\n") or "…"


def texts_of_page(path: Path) -> Iterator[Text]:
    """The sentences of a page of Markdown, line by line, without code, labels and reasons of losses."""
    text = path.read_text(encoding="utf-8")
    if path == STYLE:
        text = text.partition("\n## Before and after\n")[0]
    text = _LOSSES.sub(lambda table: _FIRST_CELL.sub("| … |", table[0]), _COMMENT.sub(blank, _FENCE.sub(blank, text)))
    for cut in (_CODE, _EMPHASIS, _TARGET):
        text = cut.sub(blank, text)
    name = str(path.relative_to(ROOT))
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        yield name, number, line
        if line and number < len(lines):  # what is broken at the end of a line
            yield name, number, f"{line.split()[-1]} {' '.join(lines[number].split()[:2])}"


def documents() -> Iterator[Text]:
    pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
    for path in sorted(pages):
        if path.parent.name != "reference" or path.name not in LISTS_FROM_CODE:
            yield from texts_of_page(path)


def lists_from_code() -> Iterator[Text]:
    for name in sorted(LISTS_FROM_CODE):
        yield from texts_of_page(ROOT / "docs" / "reference" / name)


class VisibleText(HTMLParser):
    """Text and visible attributes of a page of HTML, with their lines."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[int, str]] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in UNSEEN_ELEMENTS
        self.texts += [(self.getpos()[0], value) for name, value in attrs if name in VISIBLE_ATTRIBUTES and value]

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in UNSEEN_ELEMENTS

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.texts.append((self.getpos()[0], data))


def templates() -> Iterator[Text]:
    """Text of templates, and the strings in their expressions."""
    lexer = jinja2.Environment(autoescape=True)
    for path in sorted((ROOT / "templates").rglob("*.html")):
        name, source, html = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"), ""
        for line, kind, value in lexer.lex(source):
            if kind == "string" and (" " in value or value[1:2].isupper()):
                yield name, line, value[1:-1]
            html += (
                value if kind == "data" else blank(re.match(r"(?s).*", value) or pytest.fail(value)).replace("…", " ")
            )
        parser = VisibleText()
        parser.feed(html)
        parser.close()
        yield from ((name, line, text) for line, text in parser.texts)


def names_in(tree: ast.Module) -> Iterator[ast.expr]:
    """Expressions whose strings name types or functions: annotations, and `__all__`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            yield node.returns
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            yield node.value


def messages() -> Iterator[Text]:
    """Every string of the program that has a space in it, or is one capitalized word; no docstrings, no names of types."""
    for path in sorted([*(ROOT / "app").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        expressions = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
        unread = {id(value) for value in expressions if isinstance(value, ast.Constant)}
        unread |= {id(node) for part in names_in(tree) for node in ast.walk(part)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in unread:
                continue
            if " " in node.value or re.fullmatch("[A-Z][a-z]+…?", node.value):
                yield str(path.relative_to(ROOT)), node.lineno, node.value


def scripts() -> Iterator[Text]:
    """Strings of our JavaScript that have a space in them, or are one capitalized word."""
    for path in sorted((ROOT / "static" / "js").rglob("*.js")):
        source = _SCRIPT_COMMENT.sub(blank, path.read_text(encoding="utf-8"))
        for found in _SCRIPT_STRING.finditer(source):
            text = re.sub(r"\$\{[^}]*\}", "…", found[2])
            if " " in text or re.fullmatch("[A-Z][a-z]+…?", text):
                yield str(path.relative_to(ROOT)), source.count("\n", 0, found.start()) + 1, text


SCOPES: dict[str, Callable[[], Iterator[Text]]] = {
    "documents": documents,
    "lists_from_code": lists_from_code,
    "templates": templates,
    "messages": messages,
    "scripts": scripts,
}


def found_in(texts: Iterator[Text]) -> list[str]:
    patterns = [(pattern_of(entry), entry, use) for entry, use in words_to_avoid().items()]
    return sorted(
        {
            f"{name}:{line}: {entry!r}, use {use}: {text.strip()[:100]}"
            for name, line, text in texts
            for pattern, entry, use in patterns
            if pattern.search(text)
        }
    )


@pytest.mark.parametrize("scope", SCOPES)
def test_words_to_avoid_are_not_used(scope: str) -> None:
    found = found_in(SCOPES[scope]())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("scope", "sample"),
    [
        ("documents", "Say what perf, pprof"),
        ("lists_from_code", "Percentages are 0 to 100"),
        ("templates", "Jobs"),
        ("messages", "no such "),
        ("scripts", "Copy name"),
    ],
)
def test_each_scope_finds_its_texts(scope: str, sample: str) -> None:
    assert any(sample in text for _, _, text in SCOPES[scope]())


def test_words_are_found_as_the_table_says() -> None:
    def found(text: str) -> list[str]:
        return [entry for entry in words_to_avoid() if pattern_of(entry).search(text)]

    assert found("Colours differ") == ["colour*"]
    assert found("A directory of  its\nown") == ["of its own"]
    assert found("Keys") == ['"Keys"'] and found("SSH Keys") == []
    assert found("retold, rationale, broad, strings") == []


def test_code_labels_and_reasons_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "A `colour`, *flavour…* or **behaviour**, 2 * 3\n\n```\ntold\n```\n\n| reason | means |\n|---|---|\n"
        "| told | a road |\n",
        encoding="utf-8",
    )
    assert [line.split(", use")[0] for line in found_in(texts_of_page(page))] == ["page.md:9: 'road'"]
