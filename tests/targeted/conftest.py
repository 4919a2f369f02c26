"""A data directory, its store and its road for tests of jobs at targets; nothing of a job outlives its test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.targets import Target
from perfloom.store import Store, open_store
from perfloom.workers import processes
from perfloom.workers.jobfiles import MARK
from perfloom.workers.road import Road, open_road
from tests.parts import require


@pytest.fixture
def settings(tmp_path: Path, short_path: Path) -> Settings:
    """Settings of a new data directory."""
    return Settings.load(tmp_path / "data", environ={}, runtime=short_path / "run", reserve_bytes=0)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """Its store; what its jobs left running is ended."""
    store = open_store(settings)
    yield store
    for job in store.jobs.list(limit=1000):
        processes.end_marked(MARK, job.id, grace_s=0)
    store.close()


@pytest.fixture
def road(settings: Settings, store: Store) -> Road:
    """The road of this process, which rings for nobody."""
    require("perf")
    return open_road(settings, store)


@pytest.fixture
def here(store: Store, tmp_path: Path) -> Target:
    """A target on this machine whose jobs are planned, and have their directories in `jobs`."""
    target = Target("here", directory=str(tmp_path / "jobs"))
    store.targets.save(target)
    return target
