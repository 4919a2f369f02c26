"""serve, demo, web and worker as a user starts them: what they print, what they run, what is left when they end."""

import contextlib
import dataclasses
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from perfloom import workload
from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store
from perfloom.store.files import columns
from perfloom.store.jobs import Job
from perfloom.workers.base import processes
from perfloom.workers.base.facts_probe import host_name
from perfloom.workers.serve import services
from tests.support import servers
from tests.support.jobspecs import spec_of
from tests.support.parts import require
from tests.support.servers import OrdinaryUser, RedisServer
from tests.workers.running import PERFLOOM, Running, ended, environment, reached, running
from tests.workers.waiting import has_ended, until

ENDLESS = (sys.executable, "-S", "-c", "while True: pass")
LINK = re.compile(r"^(http://\S+/\S*\?token=\S+)$", re.MULTILINE)


@pytest.fixture
def settings(tmp_path: Path, short_path: Path) -> Settings:
    require("perf")
    return Settings.load(tmp_path / "data", environ={}, runtime=short_path / "run", port=0, reserve_bytes=0)


class Kept:
    """`perfloom serve`, which is there when a test begins, whatever another one did to it. url: the link it printed."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.store = open_store(settings)
        self._folder = folder
        self._starts = 0
        self.begin()

    def begin(self) -> None:
        """Start it, or another one after it was killed or ended."""
        self._starts += 1
        self.running = Running(self.settings, self._folder / f"log{self._starts}", "serve")
        self.url = link(self.running)

    def submit(self, name: str, *command: str) -> Job:
        """A recording without a notification."""
        return self.store.jobs.create("record", spec_of(*command).to_json(), name)

    def close(self) -> None:
        self.running.kill()
        for job in self.store.jobs.list(limit=1000):
            processes.terminate_by_variable("PERFLOOM_JOB", job.id, grace_s=0)
        self.store.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    require("perf")
    folder = tmp_path_factory.mktemp("serve")
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as short:
        run = Path(short, "run")
        one = Kept(Settings.load(folder / "data", environ={}, runtime=run, port=0, reserve_bytes=0), folder)
        yield one
        one.close()


@pytest.fixture
def server(kept: Kept) -> Kept:
    if kept.running.process.poll() is not None:
        kept.begin()
    return kept


def link(server: Running, limit_s: float = 60.0) -> str:
    """The address that it prints, which is the last one printed."""

    def look() -> str:
        assert server.process.poll() is None, server.log_text()
        found = LINK.findall(server.log_text())
        return found[-1] if found else ""

    return until(look, "a link is printed", limit_s)


def status_of(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
    try:
        with opener.open(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def wait_for_end(pids: list[int]) -> None:
    """What a dying parent kills may end after it."""
    until(lambda: all(map(has_ended, pids)), "all processes have ended", 30)


def test_serve_does_everything_and_leaves_nothing(server: Kept) -> None:
    url, store, process = server.url, server.store, server.running.process
    assert status_of(url) == 200 and status_of(url.partition("?")[0]) in (401, 403)
    environment = services.environment_for(server.settings)
    until(lambda: TaskQueue(server.settings, store).has_worker(host_name()), "the worker is heard of", 40)
    argv = [*PERFLOOM, "record", "-e", "cpu-clock:u", "--", sys.executable, "-S", "-c", "sum(range(10**7))"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    id = done.stdout.strip()
    assert str(process.pid) not in (store.jobs.get(id).claimed_by or "")
    base = url.partition("?")[0]
    assert status_of(f"{base}results/{id}/flamegraph?{url.partition('?')[2]}") == 200
    second = subprocess.run([*PERFLOOM, "serve"], env=environment, capture_output=True, text=True)
    assert second.returncode == 2 and f"Process {process.pid} at {base}" in second.stderr
    job = server.submit("endless", *ENDLESS)
    reached(store, job.id, JobState.RUNNING)
    until(lambda: _recorded(store, job.id), "samples")
    pids = [one.pid for one in server.running.tree()]
    assert len(pids) > 6
    assert server.running.stop(signal.SIGINT) == 0, server.running.log_text()
    wait_for_end(pids)
    assert not processes.find_by_variable("PERFLOOM_JOB", job.id)
    said = server.running.log_text()
    assert "Traceback" not in said and "token=" not in said.replace(url, "")
    # What was being recorded is kept, at the next start.
    server.begin()
    job = ended(store, job.id)
    assert job.state is JobState.STORED and job.reason == "Perfloom stopped during the recording."
    assert not store.results.get(job.id).complete


def _recorded(store: Store, id: str) -> bool:
    path = store.jobs.directory(id) / "artefacts" / "perf.data"
    return path.exists() and path.stat().st_size > 3000


@pytest.mark.slow
def test_killed_server_ends_everything_except_recordings(server: Kept) -> None:
    job = server.submit("endless", *ENDLESS)
    reached(server.store, job.id, JobState.RUNNING)
    until(lambda: len(processes.find_by_variable("PERFLOOM_JOB", job.id)) == 2, "perf and the program run")
    pids = [one.pid for one in server.running.tree()]
    server.running.process.kill()
    server.running.process.wait()
    wait_for_end(pids)
    program = processes.find_by_variable("PERFLOOM_JOB", job.id)
    assert program and server.store.jobs.get(job.id).state is JobState.RUNNING
    server.begin()
    assert status_of(server.url) == 200
    assert [one.pid for one in processes.find_by_variable("PERFLOOM_JOB", job.id)] == [one.pid for one in program]
    server.store.jobs.request_cancel(job.id)
    assert ended(server.store, job.id).state is JobState.CANCELLED
    assert not processes.find_by_variable("PERFLOOM_JOB", job.id)


@pytest.mark.slow
def test_serve_ends_when_another_server_took_its_database(
    settings: Settings, postgres_url: str, tmp_path: Path
) -> None:
    """Only then: a lock that the database releases meanwhile is acquired again. Recordings continue for the next server."""
    with servers.postgres_database(postgres_url, "taken") as url, contextlib.ExitStack() as stack:
        settings = dataclasses.replace(settings, database_url=url)
        store = stack.enter_context(contextlib.closing(open_store(settings)))
        one = stack.enter_context(running(settings, tmp_path / "one", "serve"))
        link(one)
        where = f"host={postgres_url.partition('?host=')[2]} user=app dbname=taken"
        other = stack.enter_context(psycopg.connect(where, autocommit=True))
        ours = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        other.execute(f"SELECT pg_terminate_backend(pid, 5000) {ours}")
        until(lambda: "locking it again" in one.log_text(), "it has the lock again")
        job = store.jobs.create("record", spec_of(*ENDLESS).to_json(), "endless")
        stack.callback(lambda: processes.terminate_by_variable("PERFLOOM_JOB", job.id, grace_s=0))
        reached(store, job.id, JobState.RUNNING)
        until(lambda: len(processes.find_by_variable("PERFLOOM_JOB", job.id)) == 2, "perf and the program run")
        holder = "(SELECT pid FROM pg_locks WHERE locktype = 'advisory')"

        def take_lock() -> bool:
            other.execute(f"SELECT pg_terminate_backend(pid, 5000) {ours} AND pid IN {holder}")
            return other.execute("SELECT pg_try_advisory_lock(%s)", [services.CATALOG_LOCK]).fetchone() == (True,)

        # The server may lock it again in between.
        until(take_lock, "the lock is taken")
        assert one.process.wait(30) == 2
        assert "took over the database" in one.log_text() and "Traceback" not in one.log_text()
        assert len(processes.find_by_variable("PERFLOOM_JOB", job.id)) == 2
        other.close()
        with running(settings, tmp_path / "two", "serve") as two:
            link(two)
            assert store.jobs.get(job.id).state is JobState.RUNNING
            store.jobs.request_cancel(job.id)
            assert ended(store, job.id).state is JobState.CANCELLED


@pytest.mark.slow
def test_killed_children_are_restarted(server: Kept) -> None:
    for name in ("redis", "perfloom-launch", "perfloom-read", "web_server"):
        victims = until(lambda name=name: _named(server.running, name), f"{name} runs")  # type: ignore[misc]
        for victim in victims:
            processes.send_signal(victim, signal.SIGKILL)
        job = server.submit(f"after {name}", "seq", "200000")
        assert ended(server.store, job.id).state is JobState.STORED, f"{name}: {server.running.log_text()}"
        until(lambda: _answers(server.url), f"pages are served again after {name}")


def _named(server: Running, name: str) -> list[processes.ProcessStat]:
    return [one for one in server.tree()[1:] if name in _called(one.pid)]


def _called(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return words + Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def _answers(url: str) -> bool:
    try:
        return status_of(url) == 200
    except OSError:
        return False


def test_other_machines_need_a_token(settings: Settings) -> None:
    code = "from perfloom.cli.group import run; print([run([one, '--host', '0.0.0.0']) for one in ('serve', 'web', 'demo')])"
    environment = services.environment_for(settings)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[2, 2, 2]\n" and done.stderr.count("export PERFLOOM_TOKEN") == 3


def test_port_in_use(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        argv = [*PERFLOOM, "serve", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(argv, env=services.environment_for(settings), capture_output=True, text=True)
    assert done.returncode == 4 and "--port" in done.stderr and "Traceback" not in done.stderr


def test_a_worker_without_any_broker(settings: Settings) -> None:
    done = subprocess.run(
        [*PERFLOOM, "worker"], env=services.environment_for(settings), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4 and "perfloom serve" in done.stderr


@pytest.mark.slow
def test_web_and_worker_apart(
    settings: Settings, tmp_path: Path, redis_server: RedisServer, postgres_database: str
) -> None:
    """As in a real deployment: a Redis server and a PostgreSQL database by URL, and three processes of Perfloom."""
    with redis_server.client() as client:
        client.flushall()
    settings = dataclasses.replace(
        settings,
        broker_url=redis_server.url,
        database_url=postgres_database,
        configured_token="chosen-by-somebody-who-likes-long-ones",
    )
    store = open_store(settings)
    queue = TaskQueue(settings, store)
    try:
        with (
            running(settings, tmp_path / "web", "web", "--processes", "2") as web,
            running(settings, tmp_path / "launch", "worker", "--queue", "launch") as launch,
            running(settings, tmp_path / "read", "worker", "--queue", "read") as read,
        ):
            found = until(lambda: re.search(r"^(http://\S+/) ", web.log_text(), re.MULTILINE), "the address")
            url = found[1]  # type: ignore[index]
            assert "chosen-by-somebody-who-likes-long-ones" not in web.log_text()
            until(lambda: _answers(f"{url}?token=chosen-by-somebody-who-likes-long-ones"), "pages are served", 40)
            assert status_of(f"{url}?token=wrong") in (401, 403)
            job = store.jobs.create("record", spec_of("seq", "500000").to_json(), "apart")
            queue.enqueue_job(job.id)
            assert ended(store, job.id).state is JobState.STORED, launch.log_text() + read.log_text()
            assert status_of(f"{url}results/{job.id}?token=chosen-by-somebody-who-likes-long-ones") == 200
            assert web.stop() == 0 and launch.stop() == 0 and read.stop() == 0
        output = web.log_text() + launch.log_text() + read.log_text()
        assert "Traceback" not in output, output
    finally:
        queue.close()
        store.close()


@pytest.mark.slow
def test_demo_of_an_ordinary_user(ordinary_user: OrdinaryUser) -> None:
    require("perf")
    env = environment() | ordinary_user.environment() | {"XDG_RUNTIME_DIR": "", "XDG_DATA_HOME": ""}
    env |= {"PERFLOOM_RESERVE_BYTES": "0"}
    log = ordinary_user.home / "log"
    with open(log, "wb") as output:
        server = subprocess.Popen(
            ordinary_user.command(*PERFLOOM, "demo", "--port", "0"),
            env=env,
            cwd=ordinary_user.home,
            stdout=output,
            stderr=output,
        )
    try:
        look = lambda: next((u for u in LINK.findall(log.read_text()) if "flamegraph" in u), "")  # noqa: E731
        url = until(look, "a flame graph", 90)
        assert status_of(url) == 200
        id = url.rpartition("/results/")[2].partition("/")[0]
        # Owned by that user, so no other user can open it as a store.
        result = ordinary_user.home / ".local/share/perfloom/results" / id
        profile = columns.read(result)
        assert profile.meta.complete and profile.meta.command == shlex.join(workload.command())
        names = set(profile.functions.column("name").to_pylist())
        assert names & {"_PyEval_EvalFrameDefault", "deflate", "SHA256_Update", "sqlite3VdbeExec"}, sorted(names)[:50]
        assert "Ctrl-C" in log.read_text()
    finally:
        server.send_signal(signal.SIGINT)
        status = server.wait(60)
    assert status == 0, log.read_text()
