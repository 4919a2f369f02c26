"""The road with real workers on a real Redis, and what is lost when they are killed: nothing."""

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.queue import LAUNCH_QUEUE, Queue
from perfloom.recorders.preflight import Level
from perfloom.store import Store, open_store
from perfloom.workers import processes
from perfloom.workers.facts_probe import host_name
from perfloom.workers.sweep import LEASE, Sweeper
from tests.jobspecs import spec_of
from tests.servers import RedisServer
from tests.workers.conftest import submit
from tests.workers.running import Running, all_ended, ended, reached, running
from tests.workers.waiting import until

BUSY = (sys.executable, "-S", "-c", "sum(i * i for i in range(2_000_000))")
NOWHERE = "no-such-program-anywhere"


@pytest.fixture
def settings(settings: Settings, redis_server: RedisServer) -> Iterator[Settings]:
    """With the Redis server of the tests as the broker, emptied."""
    with redis_server.client() as client:
        client.flushall()
        yield dataclasses.replace(settings, broker_url=redis_server.url, recordings_at_once=4)
        client.flushall()


@pytest.fixture
def queue(settings: Settings, store: Store) -> Iterator[Queue]:
    queue = Queue(settings, store)
    yield queue
    queue.close()


def rung(store: Store, queue: Queue, *commands: tuple[str, ...]) -> list[str]:
    ids = []
    for command in commands:
        job = submit(store, spec_of(*command))
        assert queue.ring_job(job.id)
        ids.append(job.id)
    return ids


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_whole_road(settings: Settings, tmp_path: Path, database: str, request: pytest.FixtureRequest) -> None:
    if database == "postgresql":
        url = request.getfixturevalue("postgres_database")
        settings = dataclasses.replace(settings, database_url=url)
    store = open_store(settings)
    queue = Queue(settings, store)
    try:
        assert queue.check(spec_of("true").to_json(), 1.0) is None, "nobody is there yet"
        with running(settings, tmp_path / "log", "worker", "--verbose") as worker:
            until(lambda: queue.worker_there(host_name()), "the worker is heard of", 40)
            (record,) = rung(store, queue, BUSY)
            imported = store.jobs.create("import", {"files": ["a.folded"]}, "an import")
            folder = store.jobs.directory(imported.id) / "artefacts"
            folder.mkdir(parents=True)
            (folder / "a.folded").write_bytes(b"main;work 3\n")
            queue.ring_read(imported.id)
            found = queue.check(spec_of(NOWHERE, cwd="/does/not/exist").to_json(), 20.0)
            assert found is not None
            errors = [finding.field for finding in found if finding.level is Level.ERROR]
            assert errors == ["cwd", "command"]
            facts = store.hosts.get(host_name()).facts
            assert facts is not None and facts.perf and facts.events
            job = ended(store, record)
            assert job.state is JobState.STORED, worker.said()
            assert store.results.get(record).samples > 0
            assert ended(store, imported.id).state is JobState.STORED
            (cancelled,) = rung(store, queue, ("sleep", "60"))
            reached(store, cancelled, JobState.RUNNING)
            store.jobs.request_cancel(cancelled)
            queue.ring_job(cancelled)
            assert ended(store, cancelled).state is JobState.CANCELLED
            assert worker.stop() == 0
        assert "Traceback" not in worker.said()
    finally:
        queue.close()
        store.close()


def test_of_200_jobs_none_is_lost_when_the_workers_are_killed(
    settings: Settings, store: Store, queue: Queue, tmp_path: Path
) -> None:
    """Most of them end quickly, for want of a program; some are recorded."""
    commands = [BUSY if number % 25 == 0 else (f"{NOWHERE}-{number}",) for number in range(200)]
    ids = rung(store, queue, *commands)
    first = Running(settings, tmp_path / "first", "worker")
    try:
        for part in (20, 60, 110):
            until(lambda part=part: _final(store) >= part, f"{part} jobs have ended", 60)  # type: ignore[misc]
            first.kill()
            first = Running(settings, tmp_path / "first", "worker")
        jobs = {job.id: job for job in all_ended(store, 200, 120, worker=first)}
    finally:
        first.kill()
    assert sorted(jobs) == sorted(ids)
    for number, id in enumerate(ids):
        if number % 25 == 0:
            assert jobs[id].state is JobState.STORED, jobs[id]
        else:
            assert jobs[id].state is JobState.FAILED and f"{NOWHERE}-{number} " in (jobs[id].reason or "")


def _final(store: Store) -> int:
    return sum(count for state, count in store.jobs.counts().items() if state.final)


def test_an_emptied_broker_loses_no_job(
    settings: Settings, store: Store, queue: Queue, tmp_path: Path, redis_server: RedisServer
) -> None:
    ids = rung(store, queue, *[(NOWHERE,)] * 20, BUSY)
    with redis_server.client() as client:
        assert client.llen(LAUNCH_QUEUE) == 21
        client.flushall()
        with running(settings, tmp_path / "log", "worker") as worker:
            until(lambda: _final(store) >= 3, "some have ended", 40)
            client.flushall()
            jobs = all_ended(store, len(ids), worker=worker)
    assert {job.state for job in jobs} == {JobState.FAILED, JobState.STORED}


@pytest.mark.parametrize("state", [JobState.STAGING, JobState.RUNNING, JobState.COLLECTING, JobState.READING])
def test_workers_killed_in_any_state(
    settings: Settings, store: Store, queue: Queue, tmp_path: Path, state: JobState
) -> None:
    note = tmp_path / "starts"
    code = f"open({str(note)!r}, 'a').write('x')\nsum(i * i for i in range(4_000_000))"
    (id,) = rung(store, queue, (sys.executable, "-S", "-c", code))
    first = Running(settings, tmp_path / "log", "worker")
    try:
        # It may be past that state before anybody looks; then it is killed in a later one.
        until(lambda: store.jobs.get(id).state in _from(state), f"{state}", 40)
    finally:
        first.kill()
    with running(settings, tmp_path / "log", "worker"):
        job = ended(store, id)
    assert job.state is JobState.STORED and note.read_text() == "x"


def _from(state: JobState) -> list[JobState]:
    order = list(JobState)
    return order[order.index(state) :]


def test_one_process_of_a_worker_killed(settings: Settings, store: Store, queue: Queue, tmp_path: Path) -> None:
    """The Celery processes one after the other; the household starts them again."""
    with running(settings, tmp_path / "log", "worker") as worker:
        until(lambda: queue.worker_there(host_name()), "the worker is heard of", 40)
        for _ in range(3):
            (id,) = rung(store, queue, BUSY)
            reached(store, id, JobState.RUNNING)
            for one in worker.tree()[1:]:
                processes.send(one, 9)
            assert ended(store, id).state is JobState.STORED


def test_jobs_survive_a_worker_that_is_told_to_end(
    settings: Settings, store: Store, queue: Queue, tmp_path: Path
) -> None:
    (id,) = rung(store, queue, (sys.executable, "-S", "-c", "while True: pass"))
    with running(settings, tmp_path / "log", "worker") as worker:
        reached(store, id, JobState.RUNNING)
        assert worker.stop() == 0
    time.sleep(0.1)
    assert store.jobs.get(id).state is JobState.RUNNING, "a worker alone leaves its recordings alone"
    with running(settings, tmp_path / "log", "worker"):
        store.jobs.request_cancel(id)
        job = ended(store, id)
    assert job.state is JobState.CANCELLED and not processes.marked("PERFLOOM_JOB", id)


def test_of_two_sweepers_one_rings(settings: Settings, store: Store, queue: Queue, redis_server: RedisServer) -> None:
    submit(store, spec_of("true"))
    one, two = Sweeper(settings), Sweeper(settings)
    two._owner += " two"
    with redis_server.client() as client:
        assert one.sweep(store, queue) == 1
        assert two.sweep(store, queue) == 0
        assert client.llen(LAUNCH_QUEUE) == 1
        submit(store, spec_of("true"))
        assert (two.sweep(store, queue), one.sweep(store, queue)) == (0, 1)
        store.leases.release(LEASE, one._owner)
        submit(store, spec_of("true"))
        two._renew_at = 0
        assert two.sweep(store, queue) == 1


def test_a_killed_sweeper_is_succeeded_at_once(settings: Settings, store: Store, queue: Queue) -> None:
    dead = processes.Identity(2**22 - 7, 12345, processes.boot_id())
    assert store.leases.take(LEASE, f"{host_name()} {dead.pid} {dead.started} {dead.boot}", 3600)
    submit(store, spec_of("true"))
    assert Sweeper(settings).sweep(store, queue) == 1


def test_a_broker_that_is_away_delays_and_loses_nothing(settings: Settings, store: Store, tmp_path: Path) -> None:
    away = dataclasses.replace(settings, broker_url=f"redis+socket://{tmp_path}/none.sock")
    queue = Queue(away, store)
    job = submit(store, spec_of("true"))
    began = time.monotonic()
    assert not queue.ring_job(job.id) and not queue.answers() and not queue.worker_there()
    assert Sweeper(away).sweep(store, queue) == 0
    assert time.monotonic() - began < 5
    assert job.id in store.jobs.due(), "it is rung for again"
    queue.close()


def test_rings_for_jobs_that_are_not_there_any_more(
    settings: Settings, store: Store, queue: Queue, tmp_path: Path
) -> None:
    for id in ("a" * 12, "../../x", "", "'; drop table jobs; --"):
        queue.ring_job(id)
        queue.ring_read(id)
    (id,) = rung(store, queue, (NOWHERE,))
    with running(settings, tmp_path / "log", "worker") as worker:
        assert ended(store, id).state is JobState.FAILED
        assert not files_of_other_jobs(settings, id), worker.said()


def files_of_other_jobs(settings: Settings, id: str) -> list[Path]:
    return [path for path in (settings.data / "jobs").iterdir() if path.is_dir() and path.name != id]
