"""A process begun before there is something to read: it reads one run, and nothing of it is left behind."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.workers.base import processes
from perfloom.workers.read import prefork, reading
from tests.support import paths
from tests.workers.waiting import has_ended, until

TRACE = paths.DATA / "pytorch" / "training.pt.trace.json.gz"


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    """No test leaves a process that waits."""
    yield
    prefork.end_reader()


def begun() -> int:
    """Begin one, and its pid."""
    prefork.prefork_reader()
    [preforked] = prefork._waiting
    return preforked.process.pid


def test_preforked_reader_reads_one_run(settings: Settings, tmp_path: Path) -> None:
    expected = reading.read_profile(settings, [TRACE])
    pid = begun()
    assert begun() == pid
    seen = []
    profile = reading.read_profile(settings, [TRACE], lambda part, text: seen.append(processes.read_stat(pid)))
    assert profile.meta == expected.meta
    assert all(table.equals(expected.tables()[name]) for name, table in profile.tables().items())
    assert seen[-1] is not None
    assert has_ended(pid)
    assert not prefork._waiting
    bad = tmp_path / "bad.json"
    bad.write_text("no trace")
    begun()
    with pytest.raises(UnreadableInput, match=r"bad\.json"):
        reading.read_profile(settings, [bad])


def test_one_that_was_killed_is_not_missed(settings: Settings, tmp_path: Path) -> None:
    copy = tmp_path / TRACE.name
    shutil.copy(TRACE, copy)
    pid = begun()
    os.kill(pid, signal.SIGKILL)
    until(lambda: has_ended(pid), "the end of the process")
    assert reading.read_profile(settings, [copy]).slices.num_rows
    assert not prefork._waiting


def test_unused_preforked_reader_ends(settings: Settings) -> None:
    pid = begun()
    prefork.end_reader()
    assert has_ended(pid)


def test_idle_preforked_reader_ends(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefork, "IDLE_S", 0.3)
    pid = begun()
    until(lambda: has_ended(pid), "the end of a process that nobody needs")
    assert not prefork._waiting
    monkeypatch.setattr(prefork, "IDLE_S", 60.0)
    assert reading.read_profile(settings, [TRACE]).slices.num_rows
