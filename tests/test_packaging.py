"""The wheel, an editable install and a bare checkout serve the same pages, templates and static files."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support import paths

SOURCES = (
    "app",
    "workers",
    "templates",
    "static",
    "perfloom",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "wsgi.py",
    "gunicorn.conf.py",
)

# Run by the interpreter under test. Follows all links of the pages and all imports of the scripts.
CRAWL = r"""
import json, re, sys
from pathlib import Path
from posixpath import dirname, join, normpath

import perfloom
from perfloom.config import Settings
if sys.argv[1] == "wsgi":
    from wsgi import app
else:
    from perfloom.web.app import create_app
    settings = Settings.load()
    settings.prepare()
    app = create_app(settings)

client = app.test_client()
token = {"Authorization": "Bearer " + Settings.load().token, "Host": "127.0.0.1"}
pages = {path: client.get(path, headers=token) for path in ("/", "/login", "/jobs/new", "/healthz")}
waiting = {link for page in pages.values() for link in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)}
files = {}
while waiting:
    url = waiting.pop()
    answer = client.get(url, headers={"Host": "127.0.0.1"})
    files[url] = [answer.status_code, len(answer.data)]
    if url.endswith(".js") and answer.status_code == 200:
        for name in re.findall(r'(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]+)"', answer.text):
            found = normpath(join(dirname(url), name))
            waiting |= {found} - files.keys()
print(json.dumps({
    "package": str(Path(perfloom.__file__).parent),
    "statuses": {path: page.status_code for path, page in pages.items()},
    "titles": [re.search("<title>(.*?)</title>", pages[path].text)[1] for path in ("/", "/login")],
    "files": files,
}))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files of the package, as in a fresh clone."""
    root = paths.ROOT
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        source = root / name
        if source.is_symlink():
            (copy / name).symlink_to(os.readlink(source))
        elif source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the installed setuptools, so that no network is needed."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(checkout, folder / "source", symlinks=True)
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    return built


def fresh_python(folder: Path) -> Path:
    """An interpreter that sees this one's packages, but not its editable install of Perfloom.

    A .pth file only adds the directory; it does not run the .pth file of an editable install in there.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    [site_packages] = folder.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another interpreter with the wheel installed."""
    python = fresh_python(tmp_path_factory.mktemp("installed") / "venv")
    # --ignore-installed, because pip would count this interpreter's editable install.
    words = ["install", "--quiet", "--no-index", "--no-deps", "--ignore-installed", wheel]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *words], check=True)
    return python


def crawl(python: Path, folder: Path, data: Path, how: str) -> dict:  # type: ignore[type-arg]
    """What `CRAWL` finds when an interpreter runs it in a directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PERFLOOM_", "PYTHON"))}
    environment |= {"PERFLOOM_DATA": str(data), "XDG_RUNTIME_DIR": str(data.parent)}
    argv = [python, "-W", "error", "-c", CRAWL, how]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_served(found: dict, checkout: Path) -> None:  # type: ignore[type-arg]
    """The pages exist, and every linked file equals that of the checkout."""
    assert set(found["statuses"].values()) == {200}, found["statuses"]
    assert all("Perfloom" in title for title in found["titles"])
    assert any(url.endswith(".css") for url in found["files"])
    assert any(url.endswith(".js") for url in found["files"])
    for url, (status, size) in found["files"].items():
        name = url.removeprefix("/static/").partition("/")[2]
        assert (status, size) == (200, (checkout / "static" / name).stat().st_size), url


@pytest.mark.slow
def test_wheel_contains_all_files(wheel: Path, checkout: Path) -> None:
    wanted = {
        f"perfloom/{path.relative_to(checkout / base).as_posix()}"
        for base in ("app", "")
        for folder in (["."] if base else ["workers", "templates", "static"])
        for path in (checkout / base / folder).rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == wanted


@pytest.mark.slow
def test_wheel_works_next_to_a_foreign_app_package(installed: Path, checkout: Path, tmp_path: Path) -> None:
    """Other projects have directories named `app` and `workers`, too."""
    for name in ("app", "workers", "static", "templates"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a foreign module was imported')\n")
    found = crawl(installed, tmp_path, tmp_path / "data", "create_app")
    assert Path(found["package"]).is_relative_to(installed.parent.parent)
    assert_served(found, checkout)


def test_wheel_installs_the_command(installed: Path, tmp_path: Path) -> None:
    argv = [installed.parent / "perfloom", "--version"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0.1.0" in done.stdout


def test_bare_checkout_serves_pages_through_wsgi(checkout: Path, tmp_path: Path) -> None:
    found = crawl(fresh_python(tmp_path / "venv"), checkout, tmp_path / "data", "wsgi")
    assert Path(found["package"]).parent.samefile(checkout)
    assert_served(found, checkout)


@pytest.mark.slow
def test_imported_packages_are_requirements(root: Path) -> None:
    """Only direct requirements may be imported: a package that only another one requires can disappear."""
    parser = configparser.RawConfigParser()
    parser.read(root / "setup.cfg")
    lines = (
        parser["options"]["install_requires"].splitlines() + parser["options.extras_require"]["postgres"].splitlines()
    )
    required = {match[0].lower().replace("-", "_") for line in lines if (match := re.match(r"[\w-]+", line))}
    # celery[redis] is the requirement for everything that talks to the broker.
    required |= {"redis", "kombu", "billiard"} if "celery" in required else set()
    # Each pydantic requires exactly one version of pydantic_core.
    required |= {"pydantic_core"} if "pydantic" in required else set()
    # Each numba requires exactly one version of llvmlite.
    required |= {"llvmlite"} if "numba" in required else set()
    providers = importlib.metadata.packages_distributions()
    for path in [*(root / "app").rglob("*.py"), *(root / "workers").rglob("*.py"), root / "wsgi.py"]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"perfloom"}:
                given = {found.lower().replace("-", "_") for found in providers.get(name, [name])}
                assert given & required, f"{path} imports {name}"
