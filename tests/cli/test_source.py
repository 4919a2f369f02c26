"""`perfloom source` as a user types it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

from tests.support.machine_code import compile_program
from tests.workers.read.test_source_lines import record

from .conftest import Run

pytestmark = pytest.mark.heavy


def test_missing_files_are_listed_and_added(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    binary, debug = compile_program("sum.c", tmp_path / "there", optimized=True), tmp_path / "sum.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(binary), str(debug)], check=True)
    subprocess.run(["strip", "-g", str(binary)], check=True)
    status, out, err = run("import", str(record(binary, "4000")))
    assert status == 0, err
    id = out.strip()

    def list_missing() -> dict[str, str]:
        status, out, err = run("source", "list", id, "--format", "json")
        assert status == 0, err
        return {row["path"]: row["missing"] for row in json.loads(out)}

    def place_of(function: str, table: str) -> tuple[str | None, int | None]:
        rows = json.loads(run("report", id, table, "--format", "json")[1])
        return next((row["file"], row["line"]) for row in rows if row["name"] == function)

    assert list_missing()[str(binary)] == "debug information"
    assert place_of("walk", "hotspots") == (None, None)
    status, _, err = run("source", "add", id, "/bin/true")
    assert status == 3 and "Upload the very file that was recorded" in err
    assert run("source", "add", id, str(debug))[0] == 0
    assert debug.is_file()
    for table in ("hotspots", "tree"):
        file, line = place_of("walk", table)
        assert file is not None and file.endswith("sum.c") and line is not None and line > 0
    missing = list_missing()
    (path,) = [path for path, what in missing.items() if what == "source file" and path.endswith("sum.c")]
    assert str(binary) not in missing
    text = tmp_path / "other.c"
    text.write_text("int other;\n")
    status, _, err = run("source", "add", id, str(text))
    assert status == 2 and "neither a binary" in err
    assert run("source", "add", id, str(text), "--as", path)[0] == 0
    assert path not in list_missing()
    status, out, _ = run("source", "list", id, "--format", "csv")
    assert status == 0 and next(csv.reader(io.StringIO(out))) == ["missing", "path", "build_id", "samples_percent"]


def test_faults_are_named(run: Run, tmp_path: Path) -> None:
    status, _, err = run("source", "add", "abcdefghijkl", str(tmp_path / "nothing"))
    assert status == 3 and "does not exist" in err
    assert run("source", "list", "abcdefghijkl")[0] != 0
