"""Fixtures for all tests: real servers, a real browser, and an unprivileged user if the tests run as root."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis.database import DirectoryBasedExampleDatabase

from perfloom.domain import units
from perfloom.ingest.jit import cache as compiled_cache
from tests.support import paths, servers, sshd
from tests.support.network_lock import stable_network
from tests.support.parts import require

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest_plugins = [
    "tests.support.batch_fixtures",
    "tests.support.mpi.programs",
    *(["tests.support.spreading"] if importlib.util.find_spec("xdist") else []),
]

ROOT = paths.ROOT

# nohup makes child processes ignore SIGHUP, which shells cannot undo. MPI launchers end ranks with it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The user's own recordings in ~/.debug could name functions that are unknown elsewhere.
os.environ["PERFLOOM_BUILDID_DIR"] = os.devnull

# A busy machine must not fail a test for being slow. CI uses the same examples every time; development tries new ones
# at each run.
IN_CI = bool(os.environ.get("CI"))
hypothesis.settings.register_profile(
    "perfloom",
    deadline=None,
    max_examples=50 if IN_CI else 20,
    derandomize=IN_CI,
    database=None if IN_CI else DirectoryBasedExampleDatabase(ROOT / ".cache" / "hypothesis"),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("perfloom")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the loops for reading before any process reads: else each compiles what it needs."""
    is_first = not hasattr(config, "workerinput")
    if is_first and importlib.util.find_spec("numba") and not compiled_cache.is_ready():
        subprocess.run([sys.executable, "-m", "perfloom.readers.warmup"], check=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The directory of the checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def reset_time_unit() -> Iterator[None]:
    """The unit of times that a request chose applies to the thread until its next request; reset it."""
    yield
    units.set_time_unit("")


@pytest.fixture(autouse=True)
def stable_network_of_browsers(request: pytest.FixtureRequest) -> Iterator[None]:
    """While a test uses the browser, no other test adds or removes network interfaces."""
    if "browser" not in request.fixturenames:
        yield
        return
    with stable_network():
        yield


@pytest.fixture
def ordinary_user() -> Iterator[servers.OrdinaryUser]:
    """A user other than root, with an empty home directory."""
    with servers.ordinary_user() as user:
        yield user


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty directory with a short path, for Unix sockets; `tmp_path` is often too long for them."""
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[servers.RedisServer]:
    """A private Redis server: `.url` for Celery, `.client()` for a connection."""
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as folder, servers.redis_server(Path(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The SQLAlchemy URL of a database on a real PostgreSQL server, one for the whole run."""
    with servers.postgres_server() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The SQLAlchemy URL of an empty PostgreSQL database that only this test uses."""
    with servers.postgres_database(postgres_url, f"t{uuid.uuid4().hex[:12]}") as url:
        yield url


@pytest.fixture(scope="session")
def far_host() -> Iterator[sshd.Sshd]:
    """A host reached over SSH, one for the whole run: `.target()`, `.ssh()`, `.home`."""
    from perfloom.workers import transports

    with sshd.sshd() as far:
        yield far
    transports.close_all()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, one for the whole run."""
    program = require("chromium")
    from playwright.sync_api import sync_playwright

    arguments = ["--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a new browser context.

    The test fails if a script raised an error or the content security policy was violated. For another size, color
    scheme or no JavaScript, create a context in the test.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    faults: list[str] = []
    context.on("weberror", lambda error: faults.append(f"uncaught: {error.error}"))
    context.on(
        "console",
        lambda message: faults.append(message.text) if "Content Security Policy" in message.text else None,
    )
    opened = context.new_page()
    yield opened
    context.close()
    assert not faults, "the page's own faults: " + "; ".join(faults)
