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
from perfloom.store import Store
from perfloom.store.ids import new_id
from perfloom.workers.base import processes
from perfloom.workers.read import early_reading, prefork, reading
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


def read_early(settings: Settings, store: Store, clock: str = "") -> str:
    """Store TRACE with the unit `clock`, after a process began to read it without one; its id."""
    id = new_id()
    with early_reading.begin_reading(settings, id, [TRACE], ""), prefork.ReaderKeeper() as keeper:
        reading.read_to_result(
            settings,
            store,
            id,
            [TRACE],
            name="early",
            meta_changes={},
            progress=lambda part, text: None,
            clock=clock,
            keeper=keeper,
        )
    return id


def test_reading_that_began_early_is_continued(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun()
    started = []
    monkeypatch.setattr(prefork, "start_reader", lambda **_: started.append(1))
    stored = store.results.open(read_early(settings, store))
    assert not started
    expected = reading.read_profile(settings, [TRACE])
    assert all(table.equals(expected.tables()[name]) for name, table in stored.tables().items())


def test_reading_that_began_with_another_clock_is_ended(settings: Settings, store: Store) -> None:
    pid = begun()
    with pytest.raises(UnreadableInput, match="clock"):
        read_early(settings, store, "ns")
    assert has_ended(pid)
    assert list(store.results.directory.iterdir()) == []


def test_reading_that_was_not_needed_is_ended(settings: Settings, store: Store) -> None:
    pid = begun()
    with early_reading.begin_reading(settings, new_id(), [TRACE], ""):
        assert not has_ended(pid)
    assert has_ended(pid)
    assert list(store.results.directory.iterdir()) == []


@pytest.mark.parametrize("name", ["base", "difference"])
def test_only_the_profile_that_is_read_already_is_not_read_again(settings: Settings, name: str) -> None:
    prefork.prefork_reader(loads_loops=False)
    [preforked] = prefork._waiting
    begun_file, wanted = (paths.DATA / "folded" / f"{each}.folded" for each in ("base", name))
    early_reading.begin_profile(settings, [str(begun_file)])
    [begun] = prefork._begun
    seen: list[bool] = []
    profile = reading.read_profile(settings, [str(wanted)], lambda part, text: seen.append(preforked.usable))
    assert any(seen) == (name == "base")
    assert profile.functions.equals(reading.read_profile(settings, [wanted]).functions)
    assert has_ended(preforked.process.pid) and not prefork.has_begun()
    assert not Path(begun.folder.name).exists()


def test_profiles_that_were_read_already_are_used_in_any_order(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [paths.DATA / "folded" / f"{each}.folded" for each in ("base", "difference")]
    expected = [reading.read_profile(settings, [file]).functions for file in files]
    for file in files:
        prefork.prefork_reader(loads_loops=False)
        early_reading.begin_profile(settings, [str(file)])
    until(lambda: all(has_ended(begun.reader.process.pid) for begun in prefork._begun), "the end of both")
    monkeypatch.setattr(reading.subprocess, "Popen", None)
    found = [reading.read_profile(settings, [str(file)]).functions for file in reversed(files)]
    assert [table.equals(other) for table, other in zip(reversed(found), expected, strict=True)] == [True, True]
    assert not prefork.has_begun()
