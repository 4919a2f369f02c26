"""The set-up programs in tools/: downloading pip from an index with its hash, and doing nothing if all is installed."""

from __future__ import annotations

import base64
import configparser
import functools
import hashlib
import http.server
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WHEEL = b"not really a wheel, but all bytes of it are checked"
DIGEST = hashlib.sha256(WHEEL).hexdigest()
OTHER = "0" * 64


@pytest.fixture
def pip_wheel(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/pip_wheel.py with an environment and a home directory that configure no index."""
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.syspath_prepend(str(root / "tools"))
    return importlib.import_module("pip_wheel")


class Index(http.server.SimpleHTTPRequestHandler):
    """A package index that serves a directory, logs nothing and knows the content type of the JSON API."""

    logins: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return "application/vnd.pypi.simple.v1+json" if Path(path).name == "index.json" else super().guess_type(path)

    def send_head(self):  # type: ignore[no-untyped-def]
        if Path(self.translate_path(self.path), "index.json").exists():
            self.path += "index.json"
        login = self.headers["Authorization"] or ""
        self.logins.append(base64.b64decode(login.removeprefix("Basic ")).decode())
        return super().send_head()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(URL, directory of pip's page) of a package index on this machine."""
    project = tmp_path / "index" / "pip"
    project.mkdir(parents=True)
    handler = functools.partial(Index, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", project
        server.shutdown()
        thread.join()


def test_newest_compatible_wheel_of_json_index(
    pip_wheel: ModuleType, index: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, project = index

    def file(name: str, digest: str = OTHER, **more: object) -> dict[str, object]:
        return {"filename": name, "url": f"files/{name}", "hashes": {"sha256": digest}, "yanked": False, **more}

    files = [
        file("pip-9.0.3-py2.py3-none-any.whl"),
        file("pip-24.10-py3-none-any.whl", DIGEST, **{"requires-python": ">=3.8"}),
        file("pip-24.9-py3-none-any.whl"),
        file("pip-25.0-py3-none-any.whl", yanked="broken"),
        file("pip-26.0-py3-none-any.whl", **{"requires-python": ">=3.99"}),
        file("pip-99.0b1-py3-none-any.whl"),
        file("pip-99.0.tar.gz"),
    ]
    (project / "index.json").write_text(json.dumps({"meta": {"api-version": "1.0"}, "name": "pip", "files": files}))
    (project / "files").mkdir()
    (project / "files" / "pip-24.10-py3-none-any.whl").write_bytes(WHEEL)
    monkeypatch.setenv("PIP_INDEX_URL", url.replace("//", "//me:open%20sesame@"))
    Index.logins.clear()
    assert pip_wheel.pip_wheel(tmp_path).read_bytes() == WHEEL
    assert Index.logins == ["me:open sesame"] * 2


def test_html_index_from_configuration_file(
    pip_wheel: ModuleType, index: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, project = index
    page = f'<a href="pip-24.1-py3-none-any.whl#sha256={DIGEST}" data-requires-python="&gt;=3.8">pip</a>'
    (project / "index.html").write_text(page)
    (project / "pip-24.1-py3-none-any.whl").write_bytes(WHEEL)
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert pip_wheel.pip_wheel(tmp_path).name == "pip-24.1-py3-none-any.whl"


def test_wheel_with_wrong_hash_is_refused(
    pip_wheel: ModuleType, index: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, project = index
    (project / "index.html").write_text(f'<a href="pip-24.1-py3-none-any.whl#sha256={DIGEST}">pip</a>')
    (project / "pip-24.1-py3-none-any.whl").write_bytes(WHEEL + b"!")
    monkeypatch.setenv("PIP_INDEX_URL", url)
    with pytest.raises(pip_wheel.Failure, match="is not what the index promised"):
        pip_wheel.pip_wheel(tmp_path)
    assert not list(tmp_path.glob("*.whl"))


def test_local_folder_replaces_index(pip_wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("24.9", "24.10"):
        (tmp_path / f"pip-{version}-py3-none-any.whl").write_bytes(WHEEL)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(pip_wheel.Failure, match="PIP_FIND_LINKS"):
        pip_wheel.pip_wheel(tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", f"/nowhere file://{tmp_path}")
    assert pip_wheel.pip_wheel(tmp_path / "unused").name == "pip-24.10-py3-none-any.whl"


def test_unreachable_index_message_has_advice_and_no_password(
    pip_wheel: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:sesame@127.0.0.1:9/simple")
    with pytest.raises(pip_wheel.Failure, match=r"127\.0\.0\.1:9(?s:.*)https_proxy(?s:.*)PIP_INDEX_URL") as caught:
        pip_wheel.pip_wheel(tmp_path)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("requires", "expected"),
    [(None, True), (">=3.9", True), (">=3.99", False), ("<4,>=3.8", True), ("<3", False), ("!=3.9.*", True)],
)
def test_requires_python(pip_wheel: ModuleType, requires: str | None, expected: bool) -> None:
    assert pip_wheel.suits(requires) is expected


def test_second_run_installs_nothing(root: Path, tmp_path: Path) -> None:
    """A second `make` reads a stamp. A change of the metadata makes it install again, a change of a tool's settings
    does not."""
    shutil.copytree(root / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    metadata = "[metadata]\nname = x\nversion = 1\n"
    (tmp_path / "setup.cfg").write_text(metadata)
    offline = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/"}

    def bootstrap() -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-B", "tools/bootstrap.py", "venv"]
        return subprocess.run(argv, cwd=tmp_path, env=offline, capture_output=True, text=True)

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    assert "pip could not be fetched" in bootstrap().stderr
    ask = "import bootstrap, json; print(json.dumps({'digest': bootstrap.requirements_digest(), 'extras': ['test']}))"
    stamp = subprocess.run(
        [sys.executable, "-B", "-c", ask], cwd=tmp_path / "tools", capture_output=True, text=True, check=True
    )
    (tmp_path / ".venv" / "bootstrap.json").write_text(stamp.stdout)
    assert (bootstrap().returncode, bootstrap().stderr) == (0, "")
    (tmp_path / "setup.cfg").write_text(metadata + "[importlinter]\nroot_package = x\n")
    assert bootstrap().returncode == 0
    (tmp_path / "setup.cfg").write_text(metadata + "[options]\ninstall_requires = flask\n")
    assert bootstrap().returncode == 1


def test_missing_pytorch_is_tried_once_and_not_fatal(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nexit 1\n')
    python.chmod(0o755)
    argv = [sys.executable, "-B", "-c", "import torch_part; torch_part.ensure_torch()"]
    for _ in range(2):
        done = subprocess.run(argv, cwd=tmp_path / "tools", capture_output=True, text=True)
        assert done.returncode == 0
    asked = [line for line in (tmp_path / "asked").read_text().splitlines() if "pip" in line]
    assert len(asked) == 2 and all(line.endswith("torch==2.13.0+cpu") for line in asked)
    assert "--index-url https://download.pytorch.org/whl/cpu" in asked[1] and done.stderr == ""


def test_requirements_are_pinned_within_their_range(root: Path) -> None:
    """Markers are evaluated for the oldest Python, in which the versions were resolved."""
    metadata = configparser.RawConfigParser()
    metadata.read(root / "setup.cfg")
    extras = metadata["options.extras_require"]
    lines = "\n".join([metadata["options"]["install_requires"], extras["test"], extras["dev"]]).splitlines()
    wanted = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    pins = [
        Requirement(line) for line in (root / "tools" / "constraints.txt").read_text().splitlines() if line[0] != "#"
    ]
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    where = {"python_version": "3.11", "platform_machine": "x86_64"}
    for requirement in wanted:
        if requirement.marker is None or requirement.marker.evaluate(where):
            version = pinned.get(canonicalize_name(requirement.name), "missing")
            assert version in requirement.specifier, f"{requirement} is {version}: make constraints"


def test_constraints_apply_to_tests_only(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "setup.cfg").write_text("[metadata]\nname = x\nversion = 1\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
    python.chmod(0o755)

    def installed(extras: list[str]) -> str:
        argv = [sys.executable, "-B", "-c", f"import bootstrap; bootstrap.ensure_venv({extras})"]
        subprocess.run(argv, cwd=tmp_path / "tools", capture_output=True, check=True)
        return (tmp_path / "calls").read_text().splitlines()[-1]

    constraint = f"--constraint {tmp_path}/tools/constraints.txt"
    assert "pip install" in installed([]) and constraint not in installed([])
    assert constraint in installed(["test"])
