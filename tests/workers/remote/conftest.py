"""The data directory, store and context that the tests of workers have, and a target for jobs."""

from pathlib import Path

import pytest

from perfloom.domain.targets import Target
from perfloom.store import Store
from tests.workers.conftest import context, facts, settings, store

__all__ = ["context", "facts", "here", "settings", "store"]


@pytest.fixture
def here(store: Store, tmp_path: Path) -> Target:
    """A target on this machine whose jobs are planned, and have their directories in `jobs`."""
    target = Target("here", directory=str(tmp_path / "jobs"))
    store.targets.save(target)
    return target
