"""`perfloom history`, and tags of `perfloom import`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, collapsed


@pytest.fixture
def nightly(run: Run, tmp_path: Path) -> None:
    """Three imports of collapsed stacks with two tags."""
    for at in range(3):
        file = collapsed(tmp_path, f"run-{at}.folded", f"main;work {100 + at}\nmain;rest 50\n")
        assert run("import", file, "--tag", "nightly", "--tag", "main branch")[0] == 0


def test_runs_of_a_tag(run: Run, nightly: None) -> None:
    status, out, err = run("history", "nightly", "--format", "json")
    assert status == 0 and [row["value"] for row in json.loads(out)] == [150, 151, 152]
    assert "from 6 runs on" in err
    _, out, _ = run("history", "main branch", "--function", "work", "--self", "--format", "json")
    assert [row["value"] for row in json.loads(out)] == [100, 101, 102]
    _, out, _ = run("history", "--name", "run-2.folded")
    assert "run-2.folded" in out and "run-1.folded" not in out


def test_wrong_arguments_are_explained(run: Run, nightly: None, tmp_path: Path) -> None:
    for arguments, words in (
        ((), "Name a TAG"),
        (("weekly",), "No result has the tag 'weekly'"),
        (("nightly", "--event", "cycles"), "They have samples"),
        (("nightly", "--self"), "give --function"),
    ):
        status, out, err = run("history", *arguments)
        assert status == 2 and not out and words in err, err
    status, out, err = run("import", collapsed(tmp_path, "a.folded", "main 1\n"), "--tag", "x" * 100)
    assert status == 2 and not out and "longer than 60" in err
