"""The distribution of tests over processes, and the lists of programs that tests need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from part_list import PARTS
from tests.support import paths

spreading = pytest.importorskip("tests.support.spreading")
TESTS = paths.TESTS


def test_tests_of_a_file_or_server_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "TOGETHER", {"far/": "an island", "web/test_sea": "an island"})
    path = "tests/web/test_pages.py"
    assert spreading.group(f"{path}::test_a[::x]") == spreading.group(f"{path}::TestB::test_c") == path
    assert {spreading.group(f"tests/{name}::test_a") for name in ("far/test_x.py", "far/y/test_z.py")} == {"an island"}
    assert spreading.group("tests/web/test_sea.py::test_a") == "an island"


def test_longest_tests_start_first() -> None:
    assert spreading.rank(f"tests/{spreading.FIRST[0]}.py::test_a") == 0
    assert spreading.rank("tests/workers/test_steps.py::test_a") > spreading.rank(
        "tests/workers/test_crashes.py::test_a"
    )
    assert spreading.rank("tests/nowhere/test_a.py::test_a") == len(spreading.FIRST)


@pytest.mark.parametrize("start", [*spreading.TOGETHER, *spreading.FIRST])
def test_named_files_exist(start: str) -> None:
    assert list(TESTS.glob(f"{start}*")) or (TESTS / start).is_dir()


def test_readme_names_the_packages(root: Path) -> None:
    named = set(re.findall(r"[\w+-]+", (root / "README.md").read_text().partition("## Tests")[2]))
    wanted = {package for part in PARTS.values() for package in part.packages}
    assert wanted - {"git", "make"} <= named, "not in the README"  # needed to get this far
