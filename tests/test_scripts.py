"""Scripts of the pages that need no browser, tested by Node's own runner; and what checks scripts is pinned."""

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
def test_scripts_without_a_browser(path: Path) -> None:
    # Node would take it for granted that it is one of the test processes of another runner.
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


def test_tools_for_scripts_have_exact_versions() -> None:
    """The lock file is of this package.json, and nobody gets another version than the one that was tried."""
    wanted = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert packages[""]["devDependencies"] == wanted
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version) and packages[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in package for path, package in packages.items() if path)
