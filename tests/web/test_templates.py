"""Every template compiles, and asks for nothing that its page's dataclass does not have."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from jinja2 import Environment, nodes

import perfloom.web.views
from perfloom.config import Settings
from perfloom.web import errors, security
from perfloom.web.app import create_app
from perfloom.web.rendering import Page, PageShell
from tests.support import paths

ROOT = paths.ROOT
TEMPLATES = sorted(str(path.relative_to(ROOT / "templates")) for path in (ROOT / "templates").rglob("*.html"))


def pages() -> list[type[Page]]:
    modules = [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(perfloom.web.views.__path__, "perfloom.web.views.")
    ]
    assert errors.ErrorPage in Page.__subclasses__() and security.LoginPage in Page.__subclasses__() and modules
    found: list[type[Page]] = []
    waiting = list(Page.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        found.append(kind)
    return sorted(found, key=lambda kind: kind.__module__ + kind.__name__)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    app = create_app(Settings.load(tmp_path_factory.mktemp("templates"), environ={}))
    yield app.jinja_env
    app.extensions["perfloom"].queue.close()
    app.extensions["perfloom"].store.close()


@functools.cache
def tree_of(env: Environment, name: str) -> nodes.Template:
    return env.parse(env.loader.get_source(env, name)[0], name)  # type: ignore[union-attr]


def sources(env: Environment, name: str) -> Iterator[nodes.Template]:
    """The syntax tree of a template, of what it extends and of what it includes."""
    tree = tree_of(env, name)
    yield tree
    for node in tree.find_all((nodes.Extends, nodes.Include)):
        if isinstance(node.template, nodes.Const):
            try:
                env.loader.get_source(env, node.template.value)  # type: ignore[union-attr]
            except Exception:
                assert isinstance(node, nodes.Include) and node.ignore_missing, node.template.value
                continue
            yield from sources(env, node.template.value)


@pytest.mark.parametrize("name", TEMPLATES)
def test_it_compiles(env: Environment, name: str) -> None:
    env.get_template(name)


@pytest.mark.parametrize("kind", pages(), ids=lambda kind: f"{kind.__module__.rsplit('.', 1)[-1]}.{kind.__name__}")
def test_its_page_has_all_it_asks_for(env: Environment, kind: type[Page]) -> None:
    assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert kind.template in TEMPLATES
    has = {"page": kind, "shell": PageShell}
    for tree in sources(env, kind.template):
        for node in tree.find_all(nodes.Getattr):
            owner = has.get(node.node.name) if isinstance(node.node, nodes.Name) else None
            if owner is not None:
                names = {field.name for field in dataclasses.fields(owner)} | set(dir(owner))
                assert node.attr in names, f"{kind.template} asks for {node.node.name}.{node.attr}"


def test_every_template_belongs_to_a_page_or_to_another_template(env: Environment) -> None:
    used = {kind.template for kind in pages()}
    for name in TEMPLATES:
        for tree in sources(env, name):
            for node in tree.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
                if isinstance(node.template, nodes.Const):
                    used.add(node.template.value)
    for path in (ROOT / "app").rglob("*.py"):
        text = path.read_text()
        used |= {name for name in TEMPLATES if f'"{name}"' in text}
    assert set(TEMPLATES) <= used


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_inline_style_or_script(name: str) -> None:
    text = (ROOT / "templates" / name).read_text()
    assert " style=" not in text and "<style" not in text and "javascript:" not in text
    assert "| safe" not in text and "|safe" not in text
