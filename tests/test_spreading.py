"""How tests are spread over processes, and that everybody is told what they need."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests import parts

spreading = pytest.importorskip("tests.spreading")
TESTS = Path(__file__).parent


def test_a_file_stays_together_and_so_do_those_of_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "TOGETHER", {"far/": "an island", "web/test_sea": "an island"})
    path = "tests/web/test_pages.py"
    assert spreading.group(f"{path}::test_a[::x]") == spreading.group(f"{path}::TestB::test_c") == path
    assert {spreading.group(f"tests/{name}::test_a") for name in ("far/test_x.py", "far/y/test_z.py")} == {"an island"}
    assert spreading.group("tests/web/test_sea.py::test_a") == "an island"


def test_the_dearest_begin_first() -> None:
    assert spreading.rank(f"tests/{spreading.FIRST[0]}.py::test_a") == 0
    assert spreading.rank("tests/workers/test_steps.py::test_a") > spreading.rank(
        "tests/workers/test_crashes.py::test_a"
    )
    assert spreading.rank("tests/nowhere/test_a.py::test_a") == len(spreading.FIRST)


@pytest.mark.parametrize("start", [*spreading.TOGETHER, *spreading.FIRST])
def test_what_is_named_is_there(start: str) -> None:
    assert list(TESTS.glob(f"{start}*")) or (TESTS / start).is_dir()


def test_every_part_is_installed_and_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "tools"))
    system_parts = importlib.import_module("system_parts")
    readme = (root / "README.md").read_text()
    installed = {package for _, _, packages in system_parts.TEST_PARTS for package in packages}
    assert installed <= set(re.findall(r"[\w+-]+", readme.partition("## Tests")[2])), "not in the README"
    before = {"git", "make", "gzip"}  # what a machine has that got this far
    for part, (_, _, hint) in parts.PROGRAMS.items():
        wanted = set(re.findall(r"apt-get install (.*?)(?: \(|$)", hint)[0].split())
        assert part in before or wanted <= installed | {"linux-perf"}, part
