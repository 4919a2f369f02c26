"""Nothing is lost when real workers on a real Redis are killed. One worker serves all tests, and is restarted."""

import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.queue import LAUNCH_QUEUE, READ_QUEUE, TaskQueue
from perfloom.store import Store, open_store
from perfloom.workers.base import processes
from tests.support import servers
from tests.support.marks import SLOW, slow_except
from tests.support.parts import require
from tests.workers.conftest import end_all
from tests.workers.running import Running, ended, reached
from tests.workers.test_celery import BUSY, NOWHERE, rung
from tests.workers.waiting import until


class Worker:
    """`perfloom worker` with all that it works with; there when a test begins."""

    def __init__(self, settings: Settings, redis: servers.RedisServer, log: Path) -> None:
        self.settings = dataclasses.replace(settings, broker_url=redis.url, recordings_at_once=4)
        self.redis = redis
        self.store = store = open_store(self.settings)
        self.queue = TaskQueue(self.settings, store)
        self._log = log
        self.begin()

    def begin(self) -> None:
        """Start it, or another one after it was killed or ended."""
        self.running = Running(self.settings, self._log, "worker")

    def ring(self, *commands: tuple[str, ...]) -> list[str]:
        """The ids of jobs for it."""
        return rung(self.store, self.queue, *commands)

    def close(self) -> None:
        self.running.kill()
        self.queue.close()
        end_all(self.store)
        self.store.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    require("perf")
    folder = tmp_path_factory.mktemp("worker")
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as short, servers.redis_server(Path(short)) as redis:
        settings = Settings.load(folder / "data", environ={}, runtime=Path(short, "run"), reserve_bytes=0)
        worker = Worker(settings, redis, folder / "log")
        yield worker
        worker.close()


@pytest.fixture
def worker(kept: Worker) -> Worker:
    if kept.running.process.poll() is not None:
        kept.begin()
    return kept


@pytest.mark.slow
@SLOW
def test_of_200_jobs_none_is_lost(worker: Worker) -> None:
    """Most of them end quickly, because their program does not exist; some are recorded."""
    commands = [BUSY if number % 25 == 0 else (f"{NOWHERE}-{number}",) for number in range(200)]
    before = _final(worker.store)
    ids = worker.ring(*commands)
    for part in (20, 60, 110):
        until(lambda part=part: _final(worker.store) - before >= part, f"{part} jobs have ended", 60)  # type: ignore[misc]
        worker.running.kill()
        worker.begin()
    for number, id in enumerate(ids):
        job = ended(worker.store, id, 120)
        if number % 25 == 0:
            assert job.state is JobState.STORED, job
        else:
            assert job.state is JobState.FAILED and f"{NOWHERE}-{number} " in (job.reason or "")


def _final(store: Store) -> int:
    return sum(count for state, count in store.jobs.counts().items() if state.final)


@pytest.mark.slow
@pytest.mark.parametrize("state", slow_except([JobState.READING], [JobState.STAGING, JobState.READING]))
def test_while_a_job_is(worker: Worker, tmp_path: Path, state: JobState) -> None:
    """A task of either queue is at work then. What is lost at every single step: see test_crashes."""
    note = tmp_path / "starts"
    code = f"open({str(note)!r}, 'a').write('x')\nsum(i * i for i in range(4_000_000))"
    (id,) = worker.ring((sys.executable, "-S", "-c", code))
    # It may be past that state before anybody looks; then it is killed in a later one.
    until(lambda: worker.store.jobs.get(id).state in _from(state), f"{state}", 40)
    worker.running.kill()
    worker.begin()
    assert ended(worker.store, id).state is JobState.STORED and note.read_text() == "x"


def _from(state: JobState) -> list[JobState]:
    order = list(JobState)
    return order[order.index(state) :]


@pytest.mark.slow
def test_one_process_after_the_other(worker: Worker) -> None:
    """The process manager restarts them."""
    # No process is killed before it has begun.
    (first,) = worker.ring(BUSY)
    assert ended(worker.store, first).state is JobState.STORED
    (id,) = worker.ring(BUSY)
    reached(worker.store, id, JobState.RUNNING)
    for one in worker.running.tree()[1:]:
        processes.send_signal(one, 9)
    assert ended(worker.store, id).state is JobState.STORED
    assert worker.running.process.poll() is None


@pytest.mark.slow
def test_terminated_worker(worker: Worker) -> None:
    (id,) = worker.ring((sys.executable, "-S", "-c", "while True: pass"))
    reached(worker.store, id, JobState.RUNNING)
    assert worker.running.stop() == 0
    time.sleep(0.1)
    assert worker.store.jobs.get(id).state is JobState.RUNNING, "a worker alone leaves its recordings alone"
    worker.begin()
    worker.store.jobs.request_cancel(id)
    assert ended(worker.store, id).state is JobState.CANCELLED and not processes.find_by_variable("PERFLOOM_JOB", id)


@pytest.mark.slow
def test_tasks_of_absent_jobs_are_ignored(worker: Worker) -> None:
    before = _folders(worker.settings)
    for absent in ("a" * 12, "../../x", "", "'; drop table jobs; --"):
        worker.queue.enqueue_job(absent)
        worker.queue.enqueue_read(absent)
    (id,) = worker.ring((NOWHERE,))
    assert ended(worker.store, id).state is JobState.FAILED
    with worker.redis.client() as client:
        until(lambda: not client.llen(LAUNCH_QUEUE) and not client.llen(READ_QUEUE), "all were taken")
    assert _folders(worker.settings) - before == {id}, worker.running.log_text()


def _folders(settings: Settings) -> set[str]:
    return {path.name for path in (settings.data / "jobs").iterdir() if path.is_dir()}
