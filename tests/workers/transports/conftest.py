"""Transports of every kind to this machine."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perfloom.domain.targets import Target
from perfloom.workers import transports
from perfloom.workers.transports import Transport, connections, open_transport
from tests.support.sshd import Sshd, sshd


@pytest.fixture(scope="session")
def host_without_sftp() -> Iterator[Sshd]:
    """A host that copies no files by itself."""
    with sshd(options=["Subsystem sftp /bin/false"]) as far:
        yield far
    transports.close_all()


@pytest.fixture(params=["local", "ssh", "ssh-without-sftp"])
def target(request: pytest.FixtureRequest) -> Target:
    """This machine, reached in different ways."""
    if request.param == "local":
        return Target("local")
    far: Sshd = request.getfixturevalue("far_host" if request.param == "ssh" else "host_without_sftp")
    return far.target()


@pytest.fixture
def there(target: Target) -> Iterator[Transport]:
    """A transport to `target`."""
    with open_transport(target) as transport:
        yield transport


@pytest.fixture
def far(far_host: Sshd) -> Iterator[Transport]:
    """A transport over SSH."""
    with open_transport(far_host.target()) as transport:
        yield transport


@pytest.fixture
def make_host() -> Iterator[Callable[..., Sshd]]:
    """Makes hosts, as `sshd` does; they end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(sshd(**options))
    transports.close_all()


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of the user who connects, with an empty ~/.ssh and no agent."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is reported a hundred times per second."""
    monkeypatch.setattr(connections, "CALLBACK_S", 0.01)
