"""`perfloom formulas` as a user types it, and what `report` shows of the formulas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfloom.domain.formulas.file import read_formulas

from .conftest import Run

COUNTS = """
 Performance counter stats for 'true':

         1,000      cycles
         2,000      instructions

       0.001 seconds time elapsed
"""
FILE = "[[formula]]\nname = 'IPC'\nexpression = 'instructions / cycles * 100'\nunit = '%'\n"


def formulas_of(run: Run, path: Path) -> dict[str, float]:
    status, out, err = run("report", str(path), "formulas", "--format", "json")
    assert status == 0, err
    return {row["formula"]: row["total"] for row in json.loads(out)}


def test_formulas_are_imported_reported_exported_and_deleted(run: Run, tmp_path: Path) -> None:
    counts, file = tmp_path / "counts.txt", tmp_path / "formulas.toml"
    counts.write_text(COUNTS)
    file.write_text(FILE)
    assert formulas_of(run, counts) == {"IPC": 2, "CPI": 0.5}
    assert not (tmp_path / "data" / "catalogue.sqlite").exists()
    assert run("formulas", "import", str(file))[0] == 0
    assert formulas_of(run, counts) == {"IPC": 200, "CPI": 0.5}
    status, out, _ = run("formulas", "list", "--format", "json")
    rows = json.loads(out)
    assert status == 0 and (rows[0]["name"], rows[0]["source"], rows[1]["source"]) == ("IPC", "yours", "built in")
    status, out, _ = run("formulas", "export")
    assert status == 0 and read_formulas(out.encode()) == read_formulas(FILE.encode())
    assert run("formulas", "export", "-o", str(tmp_path / "copy.toml"))[0] == 0
    assert (tmp_path / "copy.toml").read_text() == out
    assert run("formulas", "delete", "IPC")[0] == 0
    assert formulas_of(run, counts) == {"IPC": 2, "CPI": 0.5}


def test_a_quotient_without_a_value_in_one_function_was_not_only_sampled(run: Run, tmp_path: Path) -> None:
    samples = [("cycles", "f", 5), ("instructions", "f", 10), ("instructions", "g", 1)]
    text = "".join(
        f"a 7 {n}.000000: {period} {event}: \n\t {n + 1:x} {name} (/a)\n\n"
        for n, (event, name, period) in enumerate(samples)
    )
    recording = tmp_path / "samples.txt"
    recording.write_text(text)
    status, out, err = run("report", str(recording), "hotspots", "--event", "IPC", "--format", "json")
    assert status == 0 and {row["name"]: row["self"] for row in json.loads(out)} == {"f": 2, "g": None}
    assert "sampled, not counted" not in err


def test_faults_are_named(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(FILE.replace("* 100", "*"))
    status, _, err = run("formulas", "import", str(file))
    assert status == 2 and "Formula 1 (IPC): The formula ends too early" in err
    for words in (("import", str(tmp_path)), ("import", str(tmp_path / "none")), ("delete", "x")):
        status, _, err = run("formulas", *words)
        assert status != 0 and err.startswith("perfloom: "), words


def test_a_database_that_cannot_be_read_costs_only_its_formulas(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts = tmp_path / "counts.txt"
    counts.write_text(COUNTS)
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "catalogue.sqlite").write_bytes(b"no database" * 1000)
    assert formulas_of(run, counts) == {"IPC": 2, "CPI": 0.5}
    assert "are not used" in caplog.text
