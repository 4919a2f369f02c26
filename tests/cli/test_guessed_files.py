"""What `convert` and its files say of an event whose samples tell shares alone."""

import gzip
from pathlib import Path

import pytest

from perfloom.domain.event_names import SAMPLED_ONLY
from perfloom.exporters import EXPORTERS
from tests.cli.conftest import Run

NOTE = f"page-faults: {SAMPLED_ONLY}"
BESIDE = {"pprof": NOTE, "speedscope": f"page-faults ({SAMPLED_ONLY})"}
"""Formats that can contain estimates."""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Two events as perf script writes them; weights of page faults differ, so that perf guessed them."""
    path = tmp_path / "guessed.txt"
    sample = "a 1/1 {at}.000000: {weight} {event}: \n\t400570 main+0x10 (/bin/a)\n\n"
    rows = [(1, 10, "page-faults"), (2, 400, "page-faults"), (3, 7, "cpu-clock"), (4, 9, "page-faults")]
    path.write_text("".join(sample.format(at=at, weight=weight, event=event) for at, weight, event in rows))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("form", [name for name in EXPORTERS if name != "profile"])
def test_estimate_is_not_exported_as_count(run: Run, text: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "out"
    status, _, err = run("convert", str(text), "--to", form, "--event", "page-faults", "-o", str(file))
    assert status == 0 and NOTE in err
    data = file.read_bytes()
    inside = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    assert BESIDE.get(form, "").encode() in inside
    status, _, err = run("convert", str(text), "--to", form, "--event", "cpu-clock", "-o", str(file))
    assert status == 0 and SAMPLED_ONLY not in err
    both = run("convert", str(text), "--to", form, "-o", str(file))[2]
    if form == "perfetto":
        # The main event is a profile of V8 without weights, all others are instants with theirs.
        assert f'"cat":"page-faults ({SAMPLED_ONLY})"' in file.read_text()
    assert (NOTE in both) is (EXPORTERS[form].writes_all_events or form == "collapsed"), "the first event of a text"
