"""Kernel events have no value if only user space was recorded, as the installed perf prints it."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from perfloom.analysis.core.loss_impact import loss_impact_of
from perfloom.analysis.core.schema import records
from perfloom.analysis.tables import TABLES
from perfloom.charts.bars import build_bars
from perfloom.config import Settings
from perfloom.domain.event_names import NOT_OBSERVABLE
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.ingest.stat_counts import add_counts
from perfloom.readers import perf_stat
from perfloom.store.description import event_totals
from perfloom.workers.read import reading
from tests.support.parts import require

SLEEPER = (sys.executable, "-c", "import time; [time.sleep(0.002) for _ in range(30)]")
EVENTS = ("-e", "page-faults:u", "-e", "context-switches:u", "-e", "cpu-migrations:u")


def stat(directory: Path, *words: str) -> Profile:
    out = directory / "perf-stat.txt"
    subprocess.run([require("perf"), "stat", *words, "-o", out, *EVENTS, "--", *SLEEPER], check=True)
    return perf_stat.read(io.BytesIO(out.read_bytes()))


def by_event(profile: Profile, table: str) -> dict[object, dict[str, object]]:
    return {row["event"]: row for row in records(TABLES[table].rows(profile, Selection()))}


@pytest.mark.parametrize("words", [("-j",), ("-x,",), (), ("-j", "-I", "20"), ("-x;", "-I", "20"), ("-r", "2")])
@pytest.mark.heavy
def test_perf_stat_has_no_count(words: tuple[str, ...], tmp_path: Path) -> None:
    profile = stat(tmp_path, *words)
    found = by_event(profile, "counts")
    assert (found["context-switches:u"]["value"], found["context-switches:u"]["status"]) == (None, NOT_OBSERVABLE)
    assert found["page-faults:u"]["value"] and found["page-faults:u"]["status"] == "ok"
    assert [total.total for total in event_totals(profile)][1:] == [None, None]
    assert by_event(profile, "events")["cpu-migrations:u"]["note"] == NOT_OBSERVABLE
    bars = build_bars(profile, Selection().replace(event="context-switches:u"))
    assert (bars.total, bars.note) == (None, NOT_OBSERVABLE)
    assert all(metric["value"] is None for metric in profile.count_metrics.to_pylist() if metric["event"] > 0)
    # In an interval in which the program did not run the others are not counted either.
    reason = f"event without a value: {NOT_OBSERVABLE}"
    (loss,) = (row for row in profile.losses.to_pylist() if row["reason"] == reason)
    assert "kernel.perf_event_paranoid" in loss["example"] and "context-switches:u" in loss["example"]
    assert not loss_impact_of(profile)


@pytest.fixture
def recorded(tmp_path: Path) -> Profile:
    settings = Settings.load(tmp_path / "data", environ={}, reserve_bytes=0)
    path = tmp_path / "perf.data"
    argv = [require("perf"), "record", "-q", "-N", "-c", "1", *EVENTS, "-o", path, "--", *SLEEPER]
    subprocess.run(argv, check=True)
    return reading.read_profile(settings, [path])


@pytest.mark.heavy
def test_perf_record_has_no_samples(recorded: Profile, tmp_path: Path) -> None:
    found = by_event(recorded, "counts")
    assert found["page-faults:u"]["value"]
    assert (found["context-switches:u"]["value"], found["context-switches:u"]["status"]) == (None, NOT_OBSERVABLE)
    assert recorded.losses.to_pylist()[0]["count"] == 2 and not loss_impact_of(recorded)
    threads = records(TABLES["threads"].rows(recorded, Selection().replace(event="context-switches:u")))
    assert {row["value"] for row in threads} == {None} and {row["note"] for row in threads} == {NOT_OBSERVABLE}
    counted = add_counts(recorded, stat(tmp_path, "-x,"))
    assert by_event(counted, "events")["context-switches:u"]["note"] == NOT_OBSERVABLE
    assert sum(row["count"] for row in counted.losses.to_pylist()) == 2
