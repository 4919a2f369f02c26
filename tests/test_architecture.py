"""The architecture of docs/architecture.md: layers, no import cycles, small modules; also ruff and mypy."""

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

from perfloom.readers import READERS
from tests.support import paths
from tests.support.marks import SLOW

ROOT = paths.ROOT
BIN = Path(sys.executable).parent
CORE = ("domain", "ingest", "readers", "recording", "analysis", "charts", "exporters")
TABLE_LIBRARIES = ("numpy", "pyarrow", "pandas", "numba")
# (modules that a process or command imports at its start, libraries that take long to import and are not needed there)
FORBIDDEN_AT_START = (
    (
        "store.facade workers.job_client workers.serve.server",
        (*TABLE_LIBRARIES, "pydantic", "celery", "flask", "alembic", "asyncssh"),
    ),
    ("workers.celery_app", (*TABLE_LIBRARIES, "pydantic", "flask", "alembic")),
    (
        "cli.files workers.serve.web_server workers.read.files",
        (*TABLE_LIBRARIES, "pydantic", "flask", "celery", "sqlalchemy"),
    ),
    (
        "workers.read.columns readers.formats store.description",
        ("pandas", "pyarrow.compute", "sqlalchemy", "celery", "perfloom.readers.perf_script"),
    ),
    ("analysis.tables exporters", ("pandas", "pyarrow.compute")),
    ("web.app", ("numba", "asyncssh", "alembic")),
)
STARTS_A_PROGRAM = re.compile(r"(system|popen|fork(pty)?|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)$")
MAX_LINES = 500
MAX_MODULES = 25


def run_checker(*argv: str | Path) -> None:
    """Run a program that exits with 0 if all is well; the failure shows its output."""
    result = subprocess.run([str(argument) for argument in argv], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, f"{argv[0]}:\n{result.stdout}{result.stderr}"


def list_modules() -> dict[str, Path]:
    """The file of each module of the package, by the module's name."""
    files = {}
    for folder, package in (("app", "perfloom"), ("workers", "perfloom.workers")):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "app" and parts[0] in ("workers", "static", "templates"):  # links
                continue
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


def find_imports(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports, also within functions."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            base = ".".join(filter(None, (parent, node.module))) if node.level else node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names]
            found |= {full if full in modules else base for full in names}
    return found & modules.keys() - {name}


def remove_acyclic(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The nodes of a graph that are on a cycle, or from which a cycle can be reached."""
    left = imports
    while removable := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in removable}
    return left


def read_contract(name: str, key: str) -> set[str]:
    """The modules that a contract of import-linter in setup.cfg lists, without "perfloom."."""
    parser = configparser.RawConfigParser()
    parser.read(ROOT / "setup.cfg")
    modules = re.findall(r"[\w.]+", parser[f"importlinter:contract:{name}"][key])
    return {module.removeprefix("perfloom.") for module in modules}


def test_ruff_check() -> None:
    run_checker(BIN / "ruff", "check", "--output-format=concise", ".")


def test_ruff_format() -> None:
    run_checker(BIN / "ruff", "format", "--check", ".")


@SLOW  # `make lint` runs it too
@pytest.mark.timeout(600)  # it takes a minute, and other tests run at the same time
def test_mypy() -> None:
    # A cache is useless in a checkout that is used once.
    run_checker(BIN / "mypy", *(["--no-incremental"] if os.environ.get("CI") else []))


def test_import_contracts() -> None:
    cache = ROOT / ".cache" / "import-linter"
    run_checker(BIN / "lint-imports", "--config", "setup.cfg", "--no-logo", "--cache-dir", cache)


def test_layers_contain_every_module() -> None:
    """A new module or package of `app` needs a place in the contract `layers` or `alone` in setup.cfg."""
    present = {path.stem for path in (ROOT / "app").glob("*.py")} - {"__init__"}
    present |= {path.parent.name for path in (ROOT / "app").glob("*/__init__.py")}
    listed = read_contract("layers", "layers") | read_contract("alone", "source_modules")
    assert present <= listed, f"setup.cfg does not list {sorted(present - listed)}"
    assert listed <= present, f"setup.cfg lists modules that do not exist: {sorted(listed - present)}"
    assert read_contract("core", "source_modules") == set(CORE)


def test_contracts_contain_every_reader() -> None:
    """A new reader needs a line in the contracts `readers` and `capabilities` in setup.cfg."""
    readers = {f"readers.{reader.module}" for reader in READERS.values()}
    assert read_contract("capabilities", "forbidden_modules") == readers
    # perf_data has perf print the file, and calls the reader that recognizes the text.
    assert read_contract("readers", "modules") == readers - {"readers.perf_data"}


def test_no_import_cycles() -> None:
    """Imports within functions count."""
    modules = list_modules()
    cycles = remove_acyclic({name: find_imports(name, path, modules) for name, path in modules.items()})
    assert not cycles, f"on an import cycle, or importing one: {', '.join(sorted(cycles))}"


def test_no_import_cycles_between_packages() -> None:
    """Outside of workers, imports between a package and its own subpackages do not count."""
    modules = list_modules()
    packages = {name: name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in modules.items()}
    imports: dict[str, set[str]] = {package: set() for package in packages.values()}
    for name, path in modules.items():
        package = packages[name]
        others = {packages[imported] for imported in find_imports(name, path, modules)} - {package}
        counts_nested = package.startswith("perfloom.workers")
        imports[package] |= {other for other in others if counts_nested or not is_nested(package, other)}
    cycles = remove_acyclic(imports)
    assert not cycles, f"on an import cycle, or importing one: {', '.join(sorted(cycles))}"


def is_nested(one: str, other: str) -> bool:
    """Whether one of two packages contains the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def test_processes_start_without_slow_imports() -> None:
    code = """
import importlib, json, os, sys
for modules, forbidden in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        for module in modules.split():
            importlib.import_module(f"perfloom.{module}")
        for name in {*forbidden} & {*sys.modules}:
            print(modules, "import", name, flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{modules} cannot be imported")
"""
    argv = [sys.executable, "-c", code, json.dumps(FORBIDDEN_AT_START)]
    result = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("package", CORE)
def test_core_starts_no_programs(package: str) -> None:
    """import-linter cannot check this, because the contract `core` allows the module os."""
    for path in sorted((ROOT / "app" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert not STARTS_A_PROGRAM.match(node.attr), f"{path}:{node.lineno}: os.{node.attr}"
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                for alias in node.names:
                    assert not STARTS_A_PROGRAM.match(alias.name), f"{path}:{node.lineno}: os.{alias.name}"


def test_class_names_are_unique() -> None:
    modules_by_class: dict[str, list[str]] = {}
    for name, path in list_modules().items():
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                modules_by_class.setdefault(node.name, []).append(name)
    assert {name: modules for name, modules in modules_by_class.items() if len(modules) > 1} == {}


def test_array_types_are_defined_once() -> None:
    """Annotations use the names of domain/arrays.py; ndarray alone is for isinstance."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("app", "workers")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if re.search(r"\bndarray\[|\bNDArray\b", path.read_text())
    ]
    assert found == ["app/domain/arrays.py"]


def test_packages_have_at_most_25_modules() -> None:
    sizes = Counter(path.parent for path in (*list_modules().values(), *(ROOT / "tests").rglob("*.py")))
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_MODULES} == {}


def test_files_have_at_most_500_lines() -> None:
    kinds = [("app", "*.py"), ("workers", "*.py"), ("tests", "*.py"), ("tools", "*.py")]
    kinds += [("static", "*.js"), ("static", "*.css"), ("templates", "*.html"), ("benchmarks", "*.py")]
    files = {path.resolve() for folder, pattern in kinds for path in (ROOT / folder).rglob(pattern)}
    lines = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in files}
    assert {name: number for name, number in lines.items() if number > MAX_LINES} == {}
