"""Several processes at one store, started together or killed at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from perfloom.config import Settings
from perfloom.store.models import load_all
from tests.support.parts import own_mounts


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where that may be: a process that is killed takes nothing along that it has written."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="perfloom-", dir=place) as folder:
        yield Path(folder)


Answer = Callable[[str, Settings], dict[str, Any]]


@pytest.fixture(scope="module")
def program(root: Path) -> Iterator[subprocess.Popen[str]]:
    """tests/store/processes.py, which answers line by line."""
    argv = [sys.executable, "-m", "tests.store.processes"]
    with subprocess.Popen(argv, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running


@pytest.fixture
def answer(program: subprocess.Popen[str]) -> Answer:
    """What it says."""
    assert program.stdin and program.stdout

    def ask(what: str, settings: Settings) -> dict[str, Any]:
        print(what, settings.data, settings.database_url, file=program.stdin, flush=True)
        found: dict[str, Any] = json.loads(program.stdout.readline() or "{}")
        return found

    return ask


@pytest.mark.slow
def test_all_may_open_an_empty_store_at_once(settings: Settings, answer: Answer) -> None:
    if not settings.uses_sqlite:
        engine = create_engine(settings.database_url)
        load_all().drop_all(engine)
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE alembic_version"))
        engine.dispose()
    assert answer("open", settings) == {"jobs": 6, "ids": 6}


@pytest.mark.slow
def test_each_job_is_claimed_by_one_worker(settings: Settings, answer: Answer) -> None:
    assert answer("claim", settings) == {"won": 30, "distinct": 30, "attempts": [1], "owners": True}


@pytest.mark.slow
def test_each_lease_is_taken_by_one_owner(settings: Settings, answer: Answer) -> None:
    assert answer("lease", settings) == {"won": 30, "distinct": 30}


@pytest.mark.slow
def test_concurrent_publications_store_one_result(settings: Settings, answer: Answer) -> None:
    assert answer("publish-together", settings) == {"results": 8, "whole": 8, "left": []}


@pytest.mark.slow
def test_killed_while_publishing(settings: Settings, answer: Answer) -> None:
    """Killed at every single touch of the disk in turn."""
    told = answer("kill-publish", settings)
    assert told["steps"] > 40 and told["adopted"] >= 1 and told["absent"] > (30 if settings.uses_sqlite else 6)


@pytest.mark.slow
def test_killed_while_deleting(settings: Settings, answer: Answer) -> None:
    told = answer("kill-delete", settings)
    assert told["steps"] > 10 and told["finished"] > 5


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path, root: Path) -> None:
    """With ever less space."""
    told = _on_a_small_disk(tmp_path, root, "full-disk", tmp_path / "data", tmp_path / "data")
    assert 2 <= told["done"] <= 19
    assert told["messages"] and all("full" in m and "then try again" in m for m in told["messages"]), told


def test_deleting_on_a_full_disk_frees_it(tmp_path: Path, root: Path) -> None:
    told = _on_a_small_disk(tmp_path, root, "delete-on-full-disk", tmp_path / "data", tmp_path / "data")
    assert told["before"] == 0 and told["gained"] > 200_000, told
    assert told["left"] and told["rows"] == 1, told


@pytest.mark.slow
def test_deletion_while_the_database_cannot_be_written(tmp_path: Path, root: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = _on_a_small_disk(elsewhere, root, "delete-with-full-catalogue", tmp_path / "data", elsewhere)
    assert told == {"listed": True, "found": False, "rows": [3, 1], "files": False, "begun": [True, False]}


def _on_a_small_disk(mounted: Path, root: Path, what: str, data: Path, catalogue: Path) -> dict[str, Any]:
    """What a program of `processes` says in a mount namespace that ends with it, with 3 MB at `mounted`."""
    inside = [*own_mounts(), "sh", "-c"]
    python = f"'{sys.executable}' -m tests.store.processes {what} '{data}' 'sqlite:///{catalogue}/catalogue.sqlite'"
    command = f"mount -t tmpfs -o size=3m perfloom '{mounted}' && mkdir -p '{data}' && exec {python}"
    done = subprocess.run([*inside, command], cwd=root, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told
