"""Perfloom's own processes, started as a user starts them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.jobs import JobState
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job
from perfloom.workers.base import processes
from perfloom.workers.base.facts_probe import host_name
from perfloom.workers.serve import services
from tests.support.servers import RedisServer
from tests.workers.waiting import has_ended, until

PERFLOOM = (sys.executable, "-P", "-m", "perfloom.cli")


class Running:
    """A command of Perfloom that stays in the foreground."""

    def __init__(self, settings: Settings, log: Path, *arguments: str) -> None:
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [*PERFLOOM, *arguments],
                env=services.environment_for(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def tree(self) -> list[processes.ProcessStat]:
        """Its process and all descendants except recordings (other sessions). Empty after it was waited for."""
        if self.process.returncode is not None:
            return []
        below = processes.descendants(self.process.pid)
        own = {self.process.pid} | {one.pid for one in below if one.parent == self.process.pid}
        first = processes.read_stat(self.process.pid)
        return [*([first] if first else []), *(one for one in below if one.session in own)]

    def kill(self) -> None:
        """SIGKILL all its processes, and wait for their end; recordings continue."""
        tree = self.tree()
        processes.send_all(tree, signal.SIGKILL)
        self.process.wait(20)
        # Redis would deliver the next message to this worker, although it is ending.
        until(lambda: all(has_ended(one.pid) for one in tree), "all of it has ended")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; its exit status."""
        self.process.send_signal(number)
        return self.process.wait(40)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")


@contextlib.contextmanager
def running(settings: Settings, log: Path, *arguments: str) -> Iterator[Running]:
    """Such a command for the time of the block."""
    one = Running(settings, log, *arguments)
    try:
        yield one
    finally:
        one.kill()


@contextlib.contextmanager
def running_worker(settings: Settings, log: Path, redis: RedisServer) -> Iterator[tuple[Settings, Store]]:
    """A worker of `perfloom worker` with this broker, heard of: the settings to use it, and its store."""
    with redis.client() as client:
        client.flushall()
    settings = Settings.load(settings.data, environ={}, runtime=settings.runtime, broker_url=redis.url, reserve_bytes=0)
    store = open_store(settings)
    queue = TaskQueue(settings, store)
    try:
        with running(settings, log, "worker"):
            until(lambda: queue.has_worker(host_name()), "the worker is heard of", 40)
            yield settings, store
    finally:
        queue.close()
        store.close()


def all_ended(store: Store, count: int, limit_s: float = 60.0, *, worker: Running | None = None) -> list[Job]:
    """Wait until `count` jobs have ended, and return them."""
    end = time.monotonic() + limit_s
    while sum(number for state, number in store.jobs.counts().items() if state.final) < count:
        if time.monotonic() > end:
            left = [job for job in store.jobs.list(limit=1000) if not job.state.final]
            said = worker.log_text()[-3000:] if worker else ""
            pytest.fail(f"{len(left)} jobs hang, such as {left[0]}\n{said}")
        time.sleep(0.05)
    return list(store.jobs.list(limit=1000))


def ended(store: Store, job_id: str, limit_s: float = 60.0) -> Job:
    """Wait until the job has ended."""
    end = time.monotonic() + limit_s
    while not (job := store.jobs.get(job_id)).state.final:
        if time.monotonic() > end:
            pytest.fail(f"the job hangs: {job}")
        time.sleep(0.05)
    return job


def reached(store: Store, job_id: str, *states: JobState, limit_s: float = 40.0) -> Job:
    """Wait until the job is in one of `states`."""
    end = time.monotonic() + limit_s
    while (job := store.jobs.get(job_id)).state not in states:
        if time.monotonic() > end or job.state.final:
            pytest.fail(f"never {states}: {job}")
        time.sleep(0.01)
    return job


def environment() -> dict[str, str]:
    """The environment of the tests, without settings of Perfloom."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PERFLOOM_")}
