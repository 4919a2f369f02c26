"""Jobs with real workers on a real Redis; nothing is lost when workers are killed."""

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.queue import LAUNCH_QUEUE, TaskQueue
from perfloom.recording.recorders.preflight import Severity
from perfloom.store import Store, open_store
from perfloom.workers.base import processes
from perfloom.workers.base.facts_probe import host_name
from perfloom.workers.serve.sweep import LEASE, Sweeper
from tests.support.jobspecs import spec_of
from tests.support.servers import RedisServer
from tests.workers.conftest import submit
from tests.workers.running import all_ended, ended, reached, running
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
def queue(settings: Settings, store: Store) -> Iterator[TaskQueue]:
    queue = TaskQueue(settings, store)
    yield queue
    queue.close()


def rung(store: Store, queue: TaskQueue, *commands: tuple[str, ...]) -> list[str]:
    ids = []
    for command in commands:
        job = submit(store, spec_of(*command))
        assert queue.enqueue_job(job.id)
        ids.append(job.id)
    return ids


def test_worker_checks_records_imports_and_cancels(settings: Settings, tmp_path: Path, postgres_database: str) -> None:
    """With PostgreSQL; all others have SQLite."""
    settings = dataclasses.replace(settings, database_url=postgres_database)
    store = open_store(settings)
    queue = TaskQueue(settings, store)
    try:
        assert queue.check_job(spec_of("true").to_json(), 1.0) is None, "nobody is there yet"
        with running(settings, tmp_path / "log", "worker", "--verbose") as worker:
            until(lambda: queue.has_worker(host_name()), "the worker is heard of", 40)
            (record,) = rung(store, queue, BUSY)
            imported = store.jobs.create("import", {"files": ["a.folded"]}, "an import")
            folder = store.jobs.directory(imported.id) / "artefacts"
            folder.mkdir(parents=True)
            (folder / "a.folded").write_bytes(b"main;work 3\n")
            queue.enqueue_read(imported.id)
            found = queue.check_job(spec_of(NOWHERE, cwd="/does/not/exist").to_json(), 20.0)
            assert found is not None
            errors = [finding.field for finding in found if finding.level is Severity.ERROR]
            assert errors == ["cwd", "command"]
            facts = store.hosts.get(host_name()).facts
            assert facts is not None and facts.perf and facts.events
            job = ended(store, record)
            assert job.state is JobState.STORED, worker.log_text()
            assert store.results.get(record).samples > 0
            assert ended(store, imported.id).state is JobState.STORED
            (cancelled,) = rung(store, queue, ("sleep", "60"))
            reached(store, cancelled, JobState.RUNNING)
            store.jobs.request_cancel(cancelled)
            queue.enqueue_job(cancelled)
            assert ended(store, cancelled).state is JobState.CANCELLED
            assert worker.stop() == 0
        assert "Traceback" not in worker.log_text()
    finally:
        queue.close()
        store.close()


@pytest.mark.slow
def test_an_emptied_broker_loses_no_job(
    settings: Settings, store: Store, queue: TaskQueue, tmp_path: Path, redis_server: RedisServer
) -> None:
    ids = rung(store, queue, *[(NOWHERE,)] * 20, BUSY)
    with redis_server.client() as client:
        assert client.llen(LAUNCH_QUEUE) == 21
        client.flushall()
        with running(settings, tmp_path / "log", "worker") as worker:
            until(lambda: sum(job.state.final for job in store.jobs.list(limit=100)) >= 3, "some have ended", 40)
            client.flushall()
            jobs = all_ended(store, len(ids), worker=worker)
    assert {job.state for job in jobs} == {JobState.FAILED, JobState.STORED}


def test_one_of_two_sweepers_enqueues_tasks(
    settings: Settings, store: Store, queue: TaskQueue, redis_server: RedisServer
) -> None:
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


def test_a_killed_sweeper_is_succeeded_at_once(settings: Settings, store: Store, queue: TaskQueue) -> None:
    dead = processes.ProcessIdentity(2**22 - 7, 12345, processes.boot_id())
    assert store.leases.take(LEASE, f"{host_name()} {dead.pid} {dead.started} {dead.boot}", 3600)
    submit(store, spec_of("true"))
    assert Sweeper(settings).sweep(store, queue) == 1


def test_a_broker_that_is_away_delays_and_loses_nothing(settings: Settings, store: Store, tmp_path: Path) -> None:
    away = dataclasses.replace(settings, broker_url=f"redis+socket://{tmp_path}/none.sock")
    queue = TaskQueue(away, store)
    job = submit(store, spec_of("true"))
    began = time.monotonic()
    assert not queue.enqueue_job(job.id) and not queue.is_reachable() and not queue.has_worker()
    assert Sweeper(away).sweep(store, queue) == 0
    assert time.monotonic() - began < 5
    assert job.id in store.jobs.list_due(), "it is rung for again"
    queue.close()
