"""JavaScript modules that need no browser, tested by Node's runner; and the versions of the tools that check
scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support import paths
from tests.support.parts import require

ROOT = paths.ROOT
FILES = sorted((ROOT / "tests" / "js").glob("*.test.js"))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_pure_javascript_modules(path: Path) -> None:
    # Otherwise Node believes that it is a child of another test runner.
    environment = {name: value for name, value in os.environ.items() if name != "NODE_TEST_CONTEXT"}
    done = subprocess.run(
        [require("node"), "--test", "--test-reporter=tap", path],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None and int(passed[1]) > 0, done.stdout


def test_javascript_tools_have_exact_versions() -> None:
    """package-lock.json matches package.json, so that everyone gets the tested versions."""
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert packages[""]["devDependencies"] == wanted
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version) and packages[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in package for path, package in packages.items() if path)
