"""Differences of files and results on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run, collapsed
from tests.support import paths

DATA = paths.DATA
SPIN = str(DATA / "perf" / "spin.script.txt")


def test_diff(run: Run, tmp_path: Path) -> None:
    a = collapsed(tmp_path, "a", "main;f 50\nmain;g 50\n")
    b = collapsed(tmp_path, "b", "main;f 50\nmain;g 40\nmain;h 110\n")
    status, out, err = run("diff", a, b, "--format", "json")
    assert (status, err) == (0, "")
    rows = {row["name"]: row for row in json.loads(out)}
    assert (rows["h"]["status"], rows["h"]["base_self"], rows["h"]["other_self"]) == ("appeared", 0, 110)
    stacks = json.loads(run("diff", a, b, "--by", "stack", "--format", "json")[1])
    assert {row["name"] for row in stacks} == {"main;f", "main;g", "main;h"}
    assert run("diff", a, b)[1].startswith("name")


def test_diff_as_a_gate(run: Run, tmp_path: Path) -> None:
    a = collapsed(tmp_path, "a", "main;f 50\nmain;g 50\n")
    b = collapsed(tmp_path, "b", "main;f 60\nmain;g 40\n")
    double = collapsed(tmp_path, "c", "main;f 100\nmain;g 100\n")
    a, b, double = (run("import", path)[1].strip() for path in (a, b, double))
    assert run("diff", a, a, "--fail-above", "0")[0] == 0
    assert run("diff", a, b, "--fail-above", "10.5")[0] == 0
    status, out, err = run("diff", a, b, "--fail-above", "9.5")
    assert status == 1
    assert "'f' grew by 10.00 %" in err
    assert "name" in out
    # Twice as long, with the same shares.
    assert run("diff", a, double, "--fail-above", "1")[0] == 0
    status, _, err = run("diff", a, double, "--absolute", "--fail-above", "99")
    assert status == 1
    assert "'main' grew by 100.00 %" in err


def test_diff_of_counts(run: Run) -> None:
    folder = paths.DATA / "perf-stat"
    base, other = str(folder / "by-hand-repeat-base.json"), str(folder / "by-hand-repeat-other.json")
    status, out, err = run("diff", base, other, "--format", "json")
    rows = {row["event"]: row for row in json.loads(out)}
    assert status == 0 and rows["cycles"]["delta"] == 200_000_000 and rows["cycles"]["ratio"] == 1.2
    assert "LLC-loads: not supported in the base" in err
    assert json.loads(run("diff", base, other, "counts", "--format", "json")[1]) == list(rows.values())
    assert run("diff", base, other, "--fail-above", "19")[0] == 1
    # What grew by less than its spread fails no gate.
    assert run("diff", base, other, "--event", "instructions", "--fail-above", "0")[0] == 0
    status, _, err = run("diff", base, SPIN)
    assert status != 0 and ("in common" in err or "not compared" in err)
    assert run("diff", base, other, "counts", "--by", "stack")[0] == 2
    assert run("diff", SPIN, SPIN, "counts")[0] != 0


def test_gate_ignores_few_samples(run: Run, tmp_path: Path) -> None:
    a = collapsed(tmp_path, "a", "main;f 980\nmain;g 20\n")
    b = collapsed(tmp_path, "b", "main;f 971\nmain;h 29\n")
    status, _, err = run("diff", a, b, "--fail-above", "2")
    assert status == 0 and "1 more grew by more than 2 %, but have fewer than 30 samples" in err
    assert json.loads(run("diff", a, b, "--format", "json")[1])[0]["status"] == "few"
    status, _, err = run("diff", a, collapsed(tmp_path, "c", "main;f 960\nmain;h 40\n"), "--fail-above", "2")
    assert status == 1 and "'h' grew by 4.00 %" in err
    one, two = (collapsed(tmp_path, name, f"main;{name} 20\n") for name in ("d", "e"))
    status, _, err = run("diff", one, two, "--fail-above", "2")
    assert status == 2 and "too few for a verdict" in err


def test_diff_of_tables(run: Run) -> None:
    """Operators by what they are a part of, for each step or as they are; a gate for parts of a step."""
    llama = run("import", str(DATA / "llama" / "trace.txt"))[1].strip()

    def rows(*words: str) -> dict[str, float]:
        return {
            row["name"]: row["base"] for row in json.loads(run("diff", llama, llama, *words, "--format", "json")[1])
        }

    assert (
        rows("--by", "kind", "--of", "calls", "--absolute")["matmul"]
        == 7 * rows("--by", "kind", "--of", "calls")["matmul"]
    )
    assert rows("--by", "layer").keys() > {"0", "1"}
    assert "Whole step" in rows("steps") and run("diff", llama, llama, "steps", "--fail-above", "0")[0] == 0
    for words, message in (
        (("--by", "device"), "by must be one of name, kind, tensor, layer, not 'device'"),
        (("kernels",), "Neither of them has kernels"),
        (("operators", "--event", "x"), "--event does not apply to operators"),
        (("--of", "x"), "--of does not apply to functions"),
        (("--by", "x"), "--by must be one of function, stack, kind"),
        (("x",), "No comparison of 'x'"),
    ):
        status, out, err = run("diff", llama, llama, *words)
        assert (status, out) == (2, "") and message in err
