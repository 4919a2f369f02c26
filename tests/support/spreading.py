"""How pytest-xdist distributes the tests over processes.

A file stays together, so that its fixtures are set up once. Files that need the same expensive server stay together
too, and the longest tests start first, so that no process runs them alone at the end.
"""

from __future__ import annotations

import os

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

# Prefixes of paths below tests/ -> the group that one process runs.
TOGETHER: dict[str, str] = {
    "recording/schedulers/": "a Slurm of its own",
    "recording/plan/test_batches": "a Slurm of its own",
}

# Prefixes of paths below tests/, the longest first.
FIRST: tuple[str, ...] = (
    # It fills the cache of compiled loops for all tests that read traces.
    "readers/test_compiled",
    "workers/test_killed_workers",
    "workers/test_celery",
    "workers/remote/",
    "recording/schedulers/",
    "cli/test_serving",
    "workers/test_crashes",
    "web/jobs/test_job_browser",
    "workers/transports/",
    "test_architecture",
    "web/test_browser",
    "workers/test_reading",
    "cli/",
    "workers/",
    "store/test_processes",
    "web/flamegraph/",
    "web/",
)

# More processes are not faster, and each has its own servers and browser.
MAX_PROCESSES = 8


def group(nodeid: str) -> str:
    """The group of tests that share a process with a test."""
    path = nodeid.partition("::")[0]
    below = path.removeprefix("tests/")
    return next((name for start, name in TOGETHER.items() if below.startswith(start)), path)


def rank(nodeid: str) -> int:
    """How early a test starts."""
    below = nodeid.removeprefix("tests/")
    return next((number for number, start in enumerate(FIRST) if below.startswith(start)), len(FIRST))


class Groups(LoadScopeScheduling):
    """A scheduler of pytest-xdist that distributes groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return Groups(config, log)  # type: ignore[arg-type]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """For `-n auto`: two for each processor, because many tests wait more than they compute."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return min(2 * len(os.sched_getaffinity(0)), MAX_PROCESSES)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # only in one of several processes; alone, the order is the usual one
        items.sort(key=lambda item: rank(item.nodeid))
