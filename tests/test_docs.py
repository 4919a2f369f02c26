"""What the documentation names exists: links, images, commands, options, settings, tables, addresses, keys."""

from __future__ import annotations

import importlib.util
import re
import shlex
import struct
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from types import ModuleType

import click
import pytest
from flask import Flask

from perfloom.analysis.tables import TABLES
from perfloom.cli.group import cli
from perfloom.config import SETTINGS, Settings
from perfloom.exporters import EXPORTERS, find_exporter_for_file
from perfloom.readers import READERS
from perfloom.recording.recorders import torch_inject
from perfloom.secret_settings import SECRETS
from perfloom.store.files import columns
from perfloom.web.app import create_app
from perfloom.web.views.results import flame_controls
from tests.support import paths
from tests.support.formats import is_listed
from tests.support.profiles import profile_of

ROOT = paths.ROOT
DOCS = ROOT / "docs"
WORD = re.compile(r"\bPERFLOOM_[A-Z_]+\b")
ROOT_PAGES = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
PAGES = sorted([*ROOT_PAGES, *DOCS.rglob("*.md")])
WIDTH_PX, MAX_BYTES = 1280, 150_000
TOKEN = "a-token-of-the-tests-0123456789-abc"

_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[(?:[^\]\[]|!\[[^\]]*\]\([^)]*\))*\]\(([^)\s]+)\)")

by_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


def read_page(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def read_prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", read_page(page))


def find_anchors(page: Path) -> set[str]:
    """The anchors that a Git host derives from a page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", read_prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def find_links(page: Path) -> Iterator[tuple[bool, str]]:
    """(whether it is an image, target) of each link of a page."""
    for picture, target in _LINK.findall(re.sub(r"`[^`\n]*`", "", read_prose(page))):
        yield picture == "!", target


def load_script(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@by_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = "\n".join([*_FENCE.findall(read_page(page)), *re.findall(r"`([^`\n]+)`", read_prose(page))])
    named = set(re.findall(r"^make ([a-z][a-z-]*)", code, re.MULTILINE))
    assert named <= targets, f"{page.name} names {sorted(named - targets)}"


def test_readme_names_the_test_commands() -> None:
    assert {"make quick", "make test", "make test-all"} <= set(
        re.findall(r"`(make [a-z-]+)`", read_page(ROOT / "README.md"))
    )
    assert re.search(r"^make test-all\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


@by_page
def test_links_have_targets(page: Path) -> None:
    for _, target in find_links(page):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.is_relative_to(ROOT) and there.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in find_anchors(there), f"{page.name} links to {target}: there is no such heading"


def test_pages_are_reachable_from_the_readme() -> None:
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = (target.partition("#")[0] for _, target in find_links(page) if "://" not in target)
        left += [there for there in ((page.parent / t).resolve() for t in targets if t) if there.suffix == ".md"]
    assert sorted(set(PAGES) - reached) == []


def test_images_are_used_and_small() -> None:
    shown = {(page.parent / target).resolve() for page in PAGES for picture, target in find_links(page) if picture}
    there = set((DOCS / "images").glob("*"))
    assert there == {path for path in shown if path.is_relative_to(DOCS / "images")}
    for path in there:
        head = path.read_bytes()[:24]
        if path.suffix == ".svg":
            assert head.startswith(b"<svg") and path.stem.startswith("performance-"), path
            continue
        assert head.startswith(b"\x89PNG"), path
        width, _ = struct.unpack(">II", head[16:24])
        assert width == WIDTH_PX, path
        assert path.stat().st_size < MAX_BYTES, path


def test_images_are_made_by_the_script() -> None:
    assert {path.stem for path in (DOCS / "images").glob("*.png")} == set(load_script("screenshots").PICTURES)


# ---- commands --------------------------------------------------------------------------------------------


def find_commands(page: Path) -> Iterator[list[str]]:
    """The words of each `perfloom …` in the code blocks of a page."""
    for block in _FENCE.findall(read_page(page)):
        for line in block.replace("\\\n", " ").splitlines():
            yield from split_pipeline(line)


def split_pipeline(line: str) -> Iterator[list[str]]:
    """The words behind `perfloom` of each command of a shell line."""
    inner = re.search(r"\$\((perfloom [^()]*(?:\"[^\"]*\")?[^()]*)\)", line)
    line = inner[1] if inner else line
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    for word in [*words, "|"]:
        if set(word) <= set("|&;<>"):
            name = Path(command[0]).name if command else ""
            if name == "perfloom" and command[1:]:
                yield command[1:]
            command = []
        else:
            command.append(word)


def test_command_words_are_found() -> None:
    """The next test relies on it."""
    assert list(split_pipeline("perf script | perfloom report - hotspots | head > x  # so")) == [
        ["report", "-", "hotspots"]
    ]
    assert list(split_pipeline("id=$(perfloom record -- ./solver)")) == [["record", "--", "./solver"]]
    assert [words[-1] for words in split_pipeline('perfloom record -- python3 -c "sum(i for i in x)"')] == [
        "sum(i for i in x)"
    ]
    assert list(split_pipeline("ssh -L 8000:127.0.0.1:8000 node7")) == []
    assert sum(1 for page in PAGES for _ in find_commands(page)) > 50


def parse_command(words: list[str]) -> tuple[click.Command, click.Context]:
    """How the real command line parses these words; nothing is run. Raises click.UsageError."""
    parent = click.Context(cli, info_name="perfloom")
    name, command, rest = cli.resolve_command(parent, list(words))
    assert command is not None and name is not None
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        parent = click.Context(command, info_name=name, parent=parent)
        name, found, rest = command.resolve_command(parent, rest)
        assert found is not None and name is not None
        command = found
    return command, command.make_context(name, rest, parent=parent)


@by_page
def test_command_lines_are_valid(page: Path) -> None:
    for words in find_commands(page):
        try:
            command, context = parse_command(words)
        except click.UsageError as error:
            pytest.fail(f"perfloom {shlex.join(words)}: {error.format_message()}")
        if command.name == "report":
            assert context.params["arguments"][-1] in TABLES, words
            assert len(context.params["arguments"]) > 1, words
        if command.name == "convert":
            assert context.params["to"] in EXPORTERS or find_exporter_for_file(context.params["output"]), words


def test_invalid_command_lines_are_detected() -> None:
    for words in (["report", "x", "hotspots", "--nonsense"], ["nonsense"], ["convert"], ["diff", "one"]):
        with pytest.raises(click.UsageError):
            parse_command(words)


@by_page
def test_commands_in_text_exist(page: Path) -> None:
    for code in re.findall(r"`perfloom ([^`]+)`", read_prose(page)):
        words = code.split()
        if not re.fullmatch("[a-z]+", words[0]):
            continue
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, f"{page.name}: perfloom {code}"
        if isinstance(command, click.Group) and len(words) > 1 and words[1] in command.commands:
            command = command.commands[words[1]]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for option in (word for word in words[1:] if word.startswith("--") and word != "--"):
            if words.index(option) > (words.index("--") if "--" in words else len(words)):
                continue
            assert option in known, f"{page.name}: perfloom {code}"


def test_options_are_documented() -> None:
    page = read_page(DOCS / "how-to" / "command-line.md")
    shared = set(re.findall(r"--[a-z-]+", page.split("## serve")[0])) | set(
        re.findall(r"--[a-z-]+", page.split("## Filters")[1])
    )
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert command is not None and section is not None, f"command-line.md has no section on {name}"
        told = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", section[1])) | shared
        if name == "record":
            assert "reference/job-fields.md" in section[1]
            told |= set(re.findall(r"(?<=`)--?[a-zA-Z][a-z-]*", read_page(DOCS / "reference" / "job-fields.md")))
        below = command.commands.values() if isinstance(command, click.Group) else ()
        for parameter in [each for one in (command, *below) for each in one.params]:
            if isinstance(parameter, click.Option):
                missing = [option for option in parameter.opts if option not in told]
                assert not missing, f"command-line.md, {name}: {missing} is not told"


# ---- settings, tables, formats, addresses, keys ----------------------------------------------------------


@by_page
def test_named_settings_exist(page: Path) -> None:
    known = {setting.variable for setting in SETTINGS} | {f"{name}_FILE" for name in SECRETS}
    # Variables that the PyTorch recorder sets are not settings of Perfloom.
    known |= {torch_inject.PREFIX + word for word in ("OUT", "STEPS", "SECONDS", "TAKEN", *torch_inject.OPTIONS)}
    # Neither are those of the C tracer.
    known |= {word for path in (ROOT / "static/tracers").iterdir() for word in WORD.findall(read_page(path))}
    assert set(WORD.findall(read_page(page))) - known == set()


def test_generated_pages_are_current() -> None:
    made = load_script("generate")
    assert read_page(made.PAGE) == made.tables_page(), "run: python docs/generate.py"
    assert read_page(made.JOB_PAGE) == made.job_fields_page(), "run: python docs/generate.py"
    assert read_page(made.TARGET_PAGE) == made.target_fields_page(), "run: python docs/generate.py"
    assert read_page(made.WAITING_PAGE) == made.waiting_page(), "run: python docs/generate.py"
    assert read_page(made.FORMULA_PAGE) == made.formula_page(), "run: python docs/generate.py"
    assert read_page(made.TOPDOWN_PAGE) == made.topdown_page(), "run: python docs/generate.py"


def test_formats_have_a_page_and_an_index_entry() -> None:
    index = read_page(DOCS / "index.md")
    for name in (*READERS, *EXPORTERS):
        assert (DOCS / "formats" / f"{name}.md").exists(), name
        assert f"(formats/{name}.md)" in index, name


def find_documented_losses(name: str) -> list[str]:
    """The reasons in the table of a format's page."""
    table = re.search(
        r"^\| reason \|[^\n]*\n\|[-| ]+\n((?:\|[^\n]*\n)*)", read_page(DOCS / "formats" / f"{name}.md"), re.M
    )
    return [row.split(" | ")[0].removeprefix("| ") for row in table[1].splitlines()] if table else []


def find_loss_pages(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """A format's page, and the pages to which it links for more losses."""
    seen |= {name}
    for other in re.findall(r"\((\S+)\.md#losses\)", read_page(DOCS / "formats" / f"{name}.md")):
        seen = seen if other in seen else find_loss_pages(other, seen)
    return seen


@pytest.mark.parametrize("name", READERS)
def test_losses_are_documented(name: str) -> None:
    reasons = READERS[name].losses
    own = find_documented_losses(name)
    assert [row for row in own if not is_listed(row, reasons)] == [], "the reader does not report these"
    rows = [row for page in sorted(find_loss_pages(name)) for row in find_documented_losses(page)]
    assert [reason for reason in reasons if not any(is_listed(row, (reason,)) for row in rows)] == []


def test_flame_graph_choices_and_actions_are_documented() -> None:
    page = read_page(DOCS / "how-to" / "flame-graph.md")
    choices = {
        *flame_controls.ORDER_LABELS.values(),
        *flame_controls.GROUP_LABELS.values(),
        *flame_controls.COLOR_LABELS.values(),
    }
    assert {choice for choice in choices if choice not in page} == set()
    source = (ROOT / "static" / "js" / "charts" / "flamegraph" / "actions.js").read_text(encoding="utf-8")
    actions = [action for _, action in re.findall(r"""text: (["'])(.+?)\1""", source)]
    assert len(actions) > 8
    assert {action for action in actions if action.replace("'", "’") not in page.replace("'", "’")} == set()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    settings = Settings.load(tmp_path / "data", environ={}, runtime=tmp_path / "run", token=TOKEN)
    made = create_app(settings)
    yield made
    made.extensions["perfloom"].queue.close()
    made.extensions["perfloom"].store.close()


def test_api_addresses_are_documented(app: Flask) -> None:
    page = read_page(DOCS / "reference" / "http.md")
    promised = set(re.findall(r"`(GET|POST|DELETE|PUT|PATCH) (/api/[^`? ]*)", page))
    real = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert promised == real


def test_documented_pages_exist(app: Flask) -> None:
    page = read_page(DOCS / "reference" / "http.md")
    section = page.split("## Pages")[1].split("\n## ")[0]
    told = {
        path.partition("?")[0]
        for line in section.splitlines()
        if line.startswith("| `")
        for path in re.findall(r"`(/[^`]*)`", line.split("|")[1])
    }
    real = {re.sub(r"<[^<>]+:", "<", rule.rule) for rule in app.url_map.iter_rules()}
    assert told - real == set()
    results = {rule for rule in real if rule.startswith(("/results", "/compare", "/jobs/<"))}
    forms = {"/results/<id>/edit", "/results/<id>/delete"}
    forms |= {f"/jobs/<id>/{word}" for word in ("cancel", "credentials", "delete", "retry", "live", "series/cancel")}
    assert results - told - forms == set()


def test_shortcuts_are_documented(app: Flask) -> None:
    told = {
        tuple(re.findall(r"`([^`]+)`", alternative))
        for row in re.findall(r"^\| ([^|]+) \|", read_page(DOCS / "reference" / "keys.md"), re.MULTILINE)
        for alternative in row.split(", ")
    }
    arrows = set("←→↑↓")
    assert arrows <= {key for keys in told for key in keys}
    client = app.test_client()
    client.get("/", query_string={"token": TOKEN})
    store = app.extensions["perfloom"].store
    staged = store.results.stage("keys00000000")
    columns.write(profile_of([("main;work", 3)]), staged)
    store.results.publish("keys00000000", staged, name="keys")
    pages = (
        "/",
        "/jobs/new",
        "/results/keys00000000/flamegraph",
        "/results/keys00000000/timeline",
        "/compare?base=keys00000000&other=keys00000000",
    )
    for address in pages:
        dialog = client.get(address).text.partition('<dialog id="keys"')[2].partition("</dialog>")[0]
        terms = re.findall(r"<dt>(.*?)</dt>", dialog)
        assert terms, address
        for term in terms:
            keys = tuple(unescape(key) for key in re.findall(r"<kbd>(.*?)</kbd>", term))
            assert keys in told or set(keys) == arrows, f"keys.md does not tell of {keys} on {address}"
