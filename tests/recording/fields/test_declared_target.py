"""A new field of a target is one declaration: form, command line, files, page and reference have it then."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import paths


@pytest.mark.heavy
def test_declaration_is_sufficient_for_a_field(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.recording.fields.added_field", str(tmp_path)],
        cwd=paths.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["status"] == 0 and "--rack" in shown["help"] and "Number of the rack." in shown["help"]
    assert (
        "--rack: 100 is out of range. Use -5 to 99 as a rack." in shown["error"] and "--counters: 99" in shown["error"]
    )
    assert "[-5 to 99]" in shown["help"] and shown["negative"] == 0
    assert shown["json"]["rack"] == 42 and "rack = 42" in shown["file"] and shown["from_file"] == 42
    assert '<label for="f-rack">' in shown["form"] and 'value="42"' in shown["form"]
    assert '<a href="#f-rack">“x” is not a whole number.' in shown["posted"]
    assert "<dt>Rack</dt><dd>42</dd>" in shown["page"]
    assert "| `rack` | whole number, -5 to 99 |  | `--rack` | Rack. Where the machine is. |" in shown["reference"]
