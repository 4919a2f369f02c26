"""ncu prints a report of Nsight Compute: a double of it prints files of tests/data/nsight."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.tables import get_column
from perfloom.readers import nsight_compute
from perfloom.workers.read import ncu_tool, reading
from tests.support import nsight_made, paths

DATA = paths.DATA / "nsight"
DOUBLE = """#!/bin/sh
echo "$@" >> {folder}/arguments
env > {folder}/environment
case "$*" in {cases}
*--page\\ raw*) cat {data}/raw.csv;;
*--page\\ details*) cat {data}/details.csv;;
*--page\\ source*) cat {data}/source.csv;;
esac
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "my report.ncu-rep"
    path.write_bytes(nsight_made.MAGIC + bytes(500))
    return path


def doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: str = "") -> None:
    """Put an ncu on PATH. cases: of its `case` over all words."""
    fake = tmp_path / "ncu"
    fake.write_text(DOUBLE.format(folder=tmp_path, data=DATA, cases=cases))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_a_report_is_printed_page_by_page(
    settings: Settings, tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubled(tmp_path, monkeypatch)
    monkeypatch.setenv("PERFLOOM_TOKEN", "x" * 40)
    profile = reading.read_profile(settings, [report])
    assert (profile.meta.format, profile.meta.complete) == (nsight_compute.FORMAT, True)
    assert get_column(profile.slices, "duration_ns").tolist() == [72_928, 53_664, 22_336]
    assert profile.hints.num_rows == 7 and profile.source_lines.num_rows == 16
    asked = (tmp_path / "arguments").read_text().splitlines()
    assert asked == [f"--import {report} --csv {' '.join(words)}" for words in nsight_compute.PAGES]
    environment = (tmp_path / "environment").read_text()
    assert "PERFLOOM_TOKEN" not in environment and "LC_ALL=C\n" in environment


def test_older_ncu_gets_fewer_options(
    settings: Settings, tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lacks one option and the source page: the other pages are read, and the missing one is reported."""
    doubled(
        tmp_path,
        monkeypatch,
        "*--print-metric-name*) echo \"==ERROR== unrecognised option '--print-metric-name'. Use --help.\"; exit 1;;\n"
        "*--page\\ source*) echo '==ERROR== the argument for option --page is invalid' >&2; exit 1;;",
    )
    profile = reading.read_profile(settings, [report])
    assert profile.hints.num_rows == 7 and not profile.source_lines.num_rows
    assert "could not print the page source" in profile.meta.reasons[0] and not profile.meta.complete


@pytest.mark.parametrize("ncu", ["", "*) echo '==ERROR== Failed to load report file'; exit 1;;"])
def test_without_ncu_that_can_read_it_the_report_itself_is_read(
    settings: Settings, tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch, ncu: str
) -> None:
    if ncu:
        doubled(tmp_path, monkeypatch, ncu)
    else:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.setattr(ncu_tool, "INSTALL_PATTERNS", ())
    report.write_bytes(nsight_made.report())
    profile = reading.read_profile(settings, [report])
    assert (profile.meta.format, profile.meta.complete) == (nsight_compute.FORMAT, True)
    assert profile.profiled_kernels.num_rows == 2
    report.write_bytes(nsight_made.MAGIC)
    with pytest.raises(UnreadableInput, match=r"no kernel launch\. The report is truncated"):
        reading.read_profile(settings, [report])
