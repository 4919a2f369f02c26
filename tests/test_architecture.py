"""Style, types and the direction of imports hold for the whole checkout."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import paths
from tests.support.marks import SLOW

ROOT = paths.ROOT
BIN = Path(sys.executable).parent
CORE = ("domain", "ingest", "readers", "recording", "analysis", "charts", "exporters")
TABLES = ("numpy", "pyarrow", "pandas", "numba")
# Modules with which processes and commands of ours begin -> what takes long to import, and is not needed there.
WITHOUT = (
    (
        "store.facade workers.job_client workers.serve.server",
        (*TABLES, "pydantic", "celery", "flask", "alembic", "asyncssh"),
    ),
    ("workers.celery_app", (*TABLES, "pydantic", "flask", "alembic")),
    ("cli.files workers.serve.web_server workers.read.files", (*TABLES, "pydantic", "flask", "celery", "sqlalchemy")),
    ("workers.read.columns", ("pandas", "sqlalchemy", "celery")),
    ("web.app", ("numba", "asyncssh", "alembic")),
)
STARTS_A_PROGRAM = re.compile(r"(system|popen|fork(pty)?|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)$")
MAX_FILE_LINES = 500
MAX_MODULES = 25


def check(*argv: str | Path) -> None:
    """Run a checker; what it says is the failure."""
    done = subprocess.run([str(word) for word in argv], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{argv[0]}:\n{done.stdout}{done.stderr}"


def test_ruff_check() -> None:
    check(BIN / "ruff", "check", "--output-format=concise", ".")


def test_ruff_format() -> None:
    check(BIN / "ruff", "format", "--check", ".")


@SLOW  # `make lint` runs it too
@pytest.mark.timeout(600)  # a minute of computing, beside other tests
def test_types() -> None:
    # What nobody asks for again needs not be kept.
    check(BIN / "mypy", *(["--no-incremental"] if os.environ.get("CI") else []))


def test_imports_go_one_way() -> None:
    cache = ROOT / ".cache" / "import-linter"
    check(BIN / "lint-imports", "--config", "setup.cfg", "--no-logo", "--cache-dir", cache)


def test_who_begins_does_not_wait_for_what_is_not_needed() -> None:
    code = """
import importlib, json, os, sys
for modules, without in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        for module in modules.split():
            importlib.import_module(f"perfloom.{module}")
        for name in {*without} & {*sys.modules}:
            print(modules, "import", name, flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{modules} cannot be imported")
"""
    done = subprocess.run([sys.executable, "-c", code, json.dumps(WITHOUT)], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def contract(name: str, key: str) -> set[str]:
    """The modules that a contract in setup.cfg names, without the package's own name."""
    parser = configparser.RawConfigParser()
    parser.read(ROOT / "setup.cfg")
    words = re.findall(r"[\w.]+", parser[f"importlinter:contract:{name}"][key])
    return {word.removeprefix("perfloom.") for word in words}


def test_the_contracts_know_every_module() -> None:
    """A new folder or file of the package gets its place in the order when it is made."""
    here = {path.stem for path in (ROOT / "app").glob("*.py")} - {"__init__"}
    here |= {path.parent.name for path in (ROOT / "app").glob("*/__init__.py")}
    placed = contract("layers", "layers") | contract("alone", "source_modules")
    assert here <= placed, f"setup.cfg places these nowhere: {sorted(here - placed)}"
    assert placed <= here, f"setup.cfg places what is not there: {sorted(placed - here)}"
    assert contract("core", "source_modules") == set(CORE)


def test_the_contracts_know_every_reader() -> None:
    """Who adds a format adds it to both contracts about readers."""
    name = "perfloom.readers.formats"
    known = modules()
    registered = {one.removeprefix("perfloom.") for one in imported(name, known[name], known)}
    registered = {one for one in registered if one.startswith("readers.")} - {"readers.unsupported"}
    assert contract("capabilities", "forbidden_modules") == registered
    # It has perf print the file, and leaves what that is to the reader of perf's text.
    assert contract("readers", "modules") == registered - {"readers.perf_data"}


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for top, name in (("app", "perfloom"), ("workers", "perfloom.workers")):
        for path in (ROOT / top).rglob("*.py"):
            words = path.relative_to(ROOT / top).with_suffix("").parts
            if top == "app" and words[0] in ("workers", "static", "templates"):
                continue
            found[".".join((name, *words)).removesuffix(".__init__")] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports, anywhere in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            base = ".".join(filter(None, (above, node.module))) if node.level else node.module or ""
            found |= {one if (one := f"{base}.{alias.name}") in known else base for alias in node.names}
    return found & known.keys() - {name}


def test_no_import_goes_around_in_a_circle() -> None:
    known = modules()
    needs = {name: imported(name, path, known) for name, path in known.items()}
    # What imports nothing that is left cannot be part of a circle.
    while free := {name for name, others in needs.items() if not others & needs.keys()}:
        needs = {name: others for name, others in needs.items() if name not in free}
    assert not needs, "in a circle, or import one: " + ", ".join(sorted(needs))


def test_packages_have_no_import_cycle() -> None:
    """Also not over several packages. Outside of workers, imports between a package and its subpackages are ignored."""
    known = modules()
    packages = {name: name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in known.items()}
    needs: dict[str, set[str]] = {package: set() for package in packages.values()}
    for name, path in known.items():
        own = packages[name]
        others = {packages[other] for other in imported(name, path, known)} - {own}
        needs[own] |= {other for other in others if own.startswith("perfloom.workers") or not is_nested(own, other)}
    while free := {name for name, others in needs.items() if not others & needs.keys()}:
        needs = {name: others for name, others in needs.items() if name not in free}
    assert not needs, "in a cycle, or import one: " + ", ".join(sorted(needs))


def is_nested(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def test_a_class_name_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_package_is_too_large() -> None:
    many = Counter(path.parent for path in (*modules().values(), *(ROOT / "tests").rglob("*.py")))
    assert {str(folder): number for folder, number in many.items() if number > MAX_MODULES} == {}


@pytest.mark.parametrize("package", CORE)
def test_the_core_starts_no_program(package: str) -> None:
    """The import contract cannot see os.system and its kin, since `os` itself is allowed."""
    for path in sorted((ROOT / "app" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert not STARTS_A_PROGRAM.match(node.attr), f"{path}:{node.lineno}: os.{node.attr}"
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                for alias in node.names:
                    assert not STARTS_A_PROGRAM.match(alias.name), f"{path}:{node.lineno}: os.{alias.name}"


def test_types_of_arrays_stand_once() -> None:
    """Annotations use the names of domain/arrays.py; ndarray alone is for isinstance."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("app", "workers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if re.search(r"\bndarray\[|\bNDArray\b", path.read_text())
    ]
    assert found == ["app/domain/arrays.py"]


def test_no_file_is_too_long_to_read() -> None:
    kinds = [("app", "*.py"), ("workers", "*.py"), ("tests", "*.py"), ("tools", "*.py")]
    kinds += [("static", "*.js"), ("static", "*.css"), ("templates", "*.html"), ("benchmarks", "*.py")]
    paths = {path.resolve() for folder, kind in kinds for path in (ROOT / folder).rglob(kind)}
    long = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in paths}
    assert not {name: lines for name, lines in long.items() if lines > MAX_FILE_LINES}
