"""How the tests are spread over processes when pytest-xdist runs them.

A file stays together, so that what it prepares once is prepared once. Files that need the same costly server
stay together too, and what takes longest begins first, so that no process is left with it at the end.
"""

from __future__ import annotations

import os

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

# Beginnings of paths below tests/ -> the group that one process runs.
TOGETHER: dict[str, str] = {
    "recording/schedulers/": "a Slurm of its own",
    "recording/plan/test_batches": "a Slurm of its own",
}

# Beginnings of paths below tests/: the dearest first.
FIRST: tuple[str, ...] = (
    # All that read traces find compiled what it compiles.
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

# More hold no more speed, and each has servers and a browser of its own.
MOST = 8


def group(nodeid: str) -> str:
    """What a test is to share a process with."""
    path = nodeid.partition("::")[0]
    below = path.removeprefix("tests/")
    return next((name for start, name in TOGETHER.items() if below.startswith(start)), path)


def rank(nodeid: str) -> int:
    """How early a test begins."""
    below = nodeid.removeprefix("tests/")
    return next((number for number, start in enumerate(FIRST) if below.startswith(start)), len(FIRST))


class Groups(LoadScopeScheduling):
    """A scheduler of pytest-xdist that hands out groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return Groups(config, log)  # type: ignore[arg-type]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """For `-n auto`: two for each processor, as many tests wait more than they compute."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return min(2 * len(os.sched_getaffinity(0)), MOST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes; alone, the order is the one that people expect
        items.sort(key=lambda item: rank(item.nodeid))
