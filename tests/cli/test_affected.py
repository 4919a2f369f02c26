"""What `report` says of a recording that was not read to its end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.test_files import Run
from tests.support import paths

DATA = paths.DATA


@pytest.mark.slow
def test_figures_of_a_cut_trace_are_marked_and_advice_is_withheld(run: Run, tmp_path: Path) -> None:
    whole = gzip.decompress((DATA / "pytorch" / "training.pt.trace.json.gz").read_bytes())
    path, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    path.write_bytes(whole)
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    status, out, err = run("report", str(path), "steps", "--format", "json")
    assert status == 0 and "affected_by_losses" not in out and "not complete" not in err
    status, out, err = run("report", str(cut), "operators", "--format", "json")
    assert status == 0 and all(row["affected_by_losses"] is True for row in json.loads(out))
    assert "The file ends in the middle of its JSON" in err and "See the table losses" in err
    summary = json.loads(run("report", str(cut), "summary", "--format", "json")[1])
    assert summary["complete"] is False and summary["losses"] > 0 and summary["affected_by_losses"] is True
    status, out, err = run("report", str(cut), "advice", "--format", "json")
    (row,) = json.loads(out)
    assert row["rule"] == "withheld" and row["measured"] is None and "ends in the middle" in row["evidence"]
    assert "Advice is withheld" in err
    assert "affected_by_losses" not in run("report", str(cut), "operators", "--format", "csv")[1]


def test_lost_line_is_reported(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text("main;work 3\n" * 500 + "no stack here\n")
    status, out, err = run("report", str(path), "hotspots", "--format", "json")
    assert status == 0 and json.loads(out)[0]["affected_by_losses"] is True
    assert "1 item in the recording could not be read; figures may lack it." in err
    stat = str(DATA / "perf-stat" / "run.json")
    out, err = run("report", stat, "counts", "--format", "json")[1:]
    assert "affected_by_losses" not in out and not err, "events without a value say so themselves"
