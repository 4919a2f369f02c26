"""Texts that users and developers read do not use the words that docs/style.md lists."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest
import re2

from tests.support import paths

ROOT = paths.ROOT
STYLE = ROOT / "docs" / "style.md"
LISTS_FROM_CODE = {"tables.md", "settings.md"}
"""Pages of docs/reference whose rows repeat descriptions that are written in the program."""
VISIBLE_ATTRIBUTES = {"title", "alt", "placeholder", "aria-label", "label", "summary"}
HIDDEN_ELEMENTS = {"script", "style", "code", "pre"}

Text = tuple[str, int, str]
"""(file relative to the checkout, line of its start, text)"""

_FENCE = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_EMPHASIS = re.compile(r"(\*{1,2})(?=\S)[^*]+?(?<=\S)\1")
_TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
_LOSSES = re.compile(r"^\| (?:reason|loss)[^\n]*\n\|[-| ]+\n(?:\|[^\n]*\n?)*", re.MULTILINE)
_FIRST_CELL = re.compile(r"^\|[^|\n]*\|", re.MULTILINE)
_SCRIPT_STRING = re.compile(r"""(["'`])((?:\\.|(?!\1)[^\\\n])*)\1""")
_SCRIPT_COMMENT = re.compile(r"/\*.*?\*/|(?<![:\w\"'`])//[^\n]*", re.DOTALL)
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TEMPLATE_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_HASH_COMMENT = re.compile(r"(?:(?:^|(?<=\s))#[^\n]*\n\s*)*(?:^|(?<=\s))#[^\n]*", re.MULTILINE)


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
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in HIDDEN_ELEMENTS
        self.texts += [(self.getpos()[0], value) for name, value in attrs if name in VISIBLE_ATTRIBUTES and value]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in HIDDEN_ELEMENTS

    def handle_data(self, data: str) -> None:
        if not self._hidden:
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


def names_in(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Expressions whose strings name types or functions: annotations, and `__all__`."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            yield node.returns
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            yield node.value


def scripts() -> Iterator[Text]:
    """Strings of our JavaScript that have a space in them, or are one capitalized word."""
    for path in sorted((ROOT / "static" / "js").rglob("*.js")):
        source = _SCRIPT_COMMENT.sub(blank, path.read_text(encoding="utf-8"))
        for found in _SCRIPT_STRING.finditer(source):
            text = re.sub(r"\$\{[^}]*\}", "…", found[2])
            if " " in text or re.fullmatch("[A-Z][a-z]+…?", text):
                yield str(path.relative_to(ROOT)), source.count("\n", 0, found.start()) + 1, text


def tracked(*patterns: str) -> Iterator[tuple[str, str]]:
    """(name, text) of the files of the checkout that match one of the patterns."""
    for path in sorted({path for pattern in patterns for path in ROOT.glob(pattern)}):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def without_markers(comment: str) -> str:
    """A comment without the signs that begin its lines, so that a phrase is found across lines."""
    return _CODE.sub("…", re.sub(r"(?m)^\s*(?:#+:?|//+|/?\*+)", "", comment))


def comments_of_python(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the comments; those in consecutive lines are one text."""
    block: list[str] = []
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if not block or token.start[0] != start + len(block):
                if block:
                    yield start, "\n".join(block)
                block, start = [], token.start[0]
            block.append(token.string)
    if block:
        yield start, "\n".join(block)


@dataclass
class PythonTexts:
    """Texts of all Python files.

    comments: and docstrings, also those below variables. messages: strings of the program that have a space in them, or
    are one capitalized word. names_of_tests: with spaces.
    """

    comments: list[Text] = field(default_factory=list)
    messages: list[Text] = field(default_factory=list)
    names_of_tests: list[Text] = field(default_factory=list)


@functools.cache
def python_texts() -> PythonTexts:
    """The texts, for which every file is parsed once."""
    texts = PythonTexts()
    folders = ("app", "workers", "tests", "tools", "benchmarks", "docs")
    for name, source in tracked("*.py", *(f"{folder}/**/*.py" for folder in folders)):
        if name.startswith("app/workers/"):  # a link
            continue
        texts.comments += ((name, line, without_markers(text)) for line, text in comments_of_python(source))
        nodes = list(ast.walk(ast.parse(source)))
        unread = {id(node) for part in names_in(nodes) for node in ast.walk(part)}
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                texts.names_of_tests.append((name, node.lineno, node.name.replace("_", " ")))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                unread.add(id(node.value))
                if isinstance(node.value.value, str):
                    texts.comments.append((name, node.lineno, _CODE.sub("…", node.value.value)))
        if name.startswith(("app/", "workers/")):
            texts.messages += (
                (name, node.lineno, node.value)
                for node in nodes
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in unread
                and (" " in node.value or re.fullmatch("[A-Z][a-z]+…?", node.value))
            )
    return texts


def other_comments() -> Iterator[Text]:
    """Comments of scripts, style sheets, templates and configuration."""
    kinds = (
        (
            _SCRIPT_COMMENT,
            ("*.js", "static/js/**/*.js", "app/charts/*.js", "app/exporters/*.js", "tests/js/*.js", "tools/js/*.ts"),
        ),
        (_STYLE_COMMENT, ("static/css/**/*.css", "app/exporters/*.css")),
        (_TEMPLATE_COMMENT, ("templates/**/*.html",)),
        (
            _HASH_COMMENT,
            ("setup.cfg", "pyproject.toml", "Makefile", "Dockerfile", ".ci/run", ".pre-commit-config.yaml"),
        ),
        (
            _HASH_COMMENT,
            (".github/**/*.yml", "app/recording/**/*.sh", "workers/**/*.sh", "docs/systemd/*", "tools/*.txt"),
        ),
    )
    for pattern, files in kinds:
        for name, source in tracked(*files):
            for found in pattern.finditer(source):
                yield name, source.count("\n", 0, found.start()) + 1, without_markers(found[0])


SCOPES: dict[str, Callable[[], Iterable[Text]]] = {
    "documents": documents,
    "lists_from_code": lists_from_code,
    "templates": templates,
    "messages": lambda: python_texts().messages,
    "scripts": scripts,
    "python_comments": lambda: python_texts().comments,
    "names_of_tests": lambda: python_texts().names_of_tests,
    "other_comments": other_comments,
}


def line_of(text: str, found: re.Match[str]) -> str:
    """The line in which a match begins, at most 100 characters."""
    start = text.rfind("\n", 0, found.start()) + 1
    return text[start:].strip().partition("\n")[0][:100]


@functools.cache
def texts_of(scope: str) -> tuple[Text, ...]:
    """The texts of a scope; two tests read them."""
    return tuple(SCOPES[scope]())


def found_in(texts: Iterable[Text]) -> list[str]:
    patterns = [(pattern_of(entry), entry, use) for entry, use in words_to_avoid().items()]
    # Most texts have none of them, which one search shows.
    phrases = (r"\s+".join(map(re.escape, entry.strip('"*').split())) for entry in words_to_avoid())
    any_of_them = re2.compile(rf"(?i)(?:^|\W)(?:{'|'.join(phrases)})")
    return sorted(
        {
            f"{name}:{line + text.count(chr(10), 0, found.start())}: {entry!r}, use {use}: {line_of(text, found)}"
            for name, line, text in texts
            if any_of_them.search(text)
            for pattern, entry, use in patterns
            for found in pattern.finditer(text)
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES)
def test_words_to_avoid_are_not_used(scope: str) -> None:
    found = found_in(texts_of(scope))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "sample"),
    [
        ("documents", "Say what perf, pprof"),
        ("lists_from_code", "Percentages are 0 to 100"),
        ("templates", "Jobs"),
        ("messages", "no such "),
        ("scripts", "Copy name"),
        ("python_comments", "Texts that users and developers read"),
        ("python_comments", "a link"),
        ("names_of_tests", "test words to avoid"),
        ("other_comments", "core tests"),
    ],
)
def test_each_scope_finds_its_texts(scope: str, sample: str) -> None:
    assert any(sample in text for _, _, text in texts_of(scope))


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
