"""Jobs at targets with real workers: killed and started again, followed from a shell, and given passwords."""

import dataclasses
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import Prompt
from perfloom.domain.jobs import JobState
from perfloom.domain.targets import Target, TargetFacts
from perfloom.queue import TaskQueue
from perfloom.store import Store
from perfloom.store.jobs import Job
from perfloom.workers import job_client
from perfloom.workers.base.context import JobContext, open_context
from perfloom.workers.serve import server
from perfloom.workers.transports import close_all
from tests.support import sshd as servers
from tests.support.servers import RedisServer
from tests.support.sshd import Account, Sshd
from tests.workers.remote.driving import at, files_of, is_cleaned_up, submit, to_the_end, until_job
from tests.workers.running import ended, reached, running
from tests.workers.waiting import until

BUSY = ("sh", "-c", "echo begun; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
ENDLESS = ("sh", "-c", "echo begun; while :; do :; done")


@pytest.fixture
def with_broker(settings: Settings, redis_server: RedisServer) -> Settings:
    """Settings for workers."""
    return dataclasses.replace(settings, broker_url=redis_server.url)


@pytest.fixture(scope="module")
def asking() -> Iterator[Sshd]:
    """A server that accepts a password."""
    with servers.sshd(account=Account(password=True)) as found:
        yield found
    close_all()


@pytest.fixture
def there(store: Store, asking: Sshd) -> Target:
    """That server as a target."""
    ssh = dataclasses.replace(asking.ssh(), key_file="", password=True)
    target = Target("there", ssh=ssh, directory=str(asking.home / "jobs"), poll_s=0.3)
    store.targets.save(target)
    return target


def test_a_shell_brings_the_password_to_the_worker(
    context: JobContext, there: Target, with_broker: Settings, tmp_path: Path
) -> None:
    queue = TaskQueue(with_broker, context.store)
    seen: list[Job] = []
    asked: list[Prompt] = []

    def ask(prompt: Prompt) -> str:
        asked.append(prompt)
        # Who mistypes is asked again.
        return "wrong" if len(asked) == 1 else servers.WORD

    with running(with_broker, tmp_path / "log", "worker") as worker:
        until(lambda: queue.has_worker(), "the worker is heard of", 60)
        output = io.BytesIO()
        job = job_client.record(with_broker, at(there, *BUSY), "a job", seen.append, output=output, ask=ask)
    queue.close()
    assert job.state is JobState.STORED, (job.reason, worker.log_text()[-2000:])
    assert [prompt.name for prompt in asked] == ["password", "password"]
    assert output.getvalue().startswith(b"begun\n") and is_cleaned_up(job)
    assert any("Enter it" in one.progress_text for one in seen) and servers.WORD not in worker.log_text()
    assert (job.claimed_by or "").split()[1] != str(os.getpid())


def test_a_shell_without_a_worker(context: JobContext, there: Target) -> None:
    output = io.BytesIO()
    job = job_client.record(
        context.settings, at(there, *BUSY), "a job", lambda job: None, output=output, ask=lambda prompt: servers.WORD
    )
    assert job.state is JobState.STORED, job.reason
    assert output.getvalue().startswith(b"begun\n") and is_cleaned_up(job)


def test_no_worker_answers(context: JobContext, there: Target) -> None:
    """Ctrl-C at a prompt for a secret ends the command."""
    close_all()
    asked = threading.Event()

    def ask(prompt: Prompt) -> None:
        asked.set()
        time.sleep(60)

    def interrupt() -> None:
        asked.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    job = job_client.record(context.settings, at(there, *BUSY), "a job", lambda job: None, ask=ask)
    assert job.state is JobState.CANCELLED and time.monotonic() - began < 40


def test_no_user_to_prompt(context: JobContext, there: Target) -> None:
    close_all()
    job = job_client.record(context.settings, at(there, *BUSY), "a job", lambda job: None)
    assert job.state is JobState.FAILED and "No secret was entered" in (job.reason or ""), job


@pytest.mark.slow
def test_workers_are_killed_and_started_again(
    context: JobContext, here: Target, with_broker: Settings, tmp_path: Path
) -> None:
    store = context.store
    far = dataclasses.replace(here, name="far", poll_s=0.3)
    store.targets.save(far)
    store.targets.save_check(far.name, TargetFacts(context.facts()), ())
    queue = TaskQueue(with_broker, store)
    code = f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\nwhile True: pass"
    job = submit(store, at(far, sys.executable, "-S", "-c", code))
    with running(with_broker, tmp_path / "log", "worker") as worker:
        reached(store, job.id, JobState.RUNNING, limit_s=60)
        until(lambda: (tmp_path / "starts").exists(), "the program runs")
        worker.kill()
    store.jobs.request_cancel(job.id)
    with running(with_broker, tmp_path / "log", "worker"):
        job = ended(store, job.id)
    queue.close()
    assert (job.state, job.result_id, job.reason) == (JobState.CANCELLED, job.id, "It was cancelled.")
    assert (tmp_path / "starts").read_text() == "x" and is_cleaned_up(job)


def test_local_recordings_end_with_server(context: JobContext, here: Target) -> None:
    job = until_job(
        context, submit(context.store, at(here, *ENDLESS)), lambda job: "begun" in files_of(context, job).tail()
    )
    server.end_recordings(context.store)
    job = to_the_end(open_context(context.settings, context.store), job)
    assert job.state is JobState.STORED and not context.store.results.get(job.id).complete, job
    assert is_cleaned_up(job) and not job.details.cancellation.times
