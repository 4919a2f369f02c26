"""Many jobs in a queue are polled together: one query to the batch system, and none occupies a worker."""

import dataclasses
import json
import sys
import time
from pathlib import Path

import pytest

from perfloom.domain.jobs import JobState
from perfloom.domain.targets import SchedulerName, Target
from perfloom.queue import POLL_TASK, TaskQueue, next_task
from perfloom.store import Store
from perfloom.store.files.locks import try_lock
from perfloom.store.models.jobs import JobRow
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.facts_probe import host_name
from perfloom.workers.remote import polling
from perfloom.workers.serve.sweep import Sweeper
from tests.support.jobspecs import spec_of
from tests.support.servers import RedisServer
from tests.workers.remote.driving import at, files_of, sight_of
from tests.workers.running import ended, running
from tests.workers.waiting import until

MANY = 500
BJOBS = """#!/bin/sh
echo "$*" >>{calls}
printf '{{"COMMAND":"bjobs","JOBS":1,"RECORDS":['
comma=''
for id; do
    case $id in *[!0-9]* | '') continue ;; esac
    printf '%s{{"JOBID":"%s","STAT":"PEND","EXIT_CODE":"","EXIT_REASON":"","PEND_REASON":"Jobs before it"}}' "$comma" "$id"
    comma=','
done
printf ']}}\\n'
"""


@pytest.fixture
def busy(store: Store, tmp_path: Path) -> Target:
    """A target whose batch system has many jobs that wait, and counts how often it is asked."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bjobs").write_text(BJOBS.format(calls=tmp_path / "calls"))
    (programs / "bjobs").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    target = Target("busy", scheduler=SchedulerName.LSF, directory=str(tmp_path / "jobs"), environment=environment)
    store.targets.save(target)
    with store.database.write() as session:
        session.add_all(_row(target, number, tmp_path) for number in range(MANY))
    return target


def _row(target: Target, number: int, folder: Path) -> JobRow:
    now = time.time() - 3600
    id = f"busy{number:08d}"
    details = {
        "planned": True,
        "directory": f"{folder}/jobs/{id}",
        "submissions": {"0": str(1000 + number)},
        "begun": 1,
    }
    return JobRow(
        id=id,
        kind="record",
        name="a job",
        spec=at(target, "true").to_json(),
        target=target.name,
        state=JobState.PENDING.value,
        progress_text="",
        created=now + number / 1000,
        changed=now,
        attempt=1,
        host=host_name(),
        cancel_requested=False,
        due_at=now,
        details=details,
        history=[["pending", now]],
    )


def _calls(tmp_path: Path) -> int:
    calls = tmp_path / "calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


@pytest.mark.slow
def test_one_question_for_all(context: JobContext, busy: Target, tmp_path: Path) -> None:
    began = time.time()
    polling.poll(context, busy.name)
    assert _calls(tmp_path) == 1 and len((tmp_path / "calls").read_text().split()) >= MANY
    jobs = context.store.jobs.list_polled(busy.name)
    assert len(jobs) == MANY and {job.state for job in jobs} == {JobState.PENDING}
    assert len({job.progress_text for job in jobs}) == 1 and "Waiting in the queue" in jobs[0].progress_text
    assert "Jobs before it" in jobs[0].progress_text
    # All of them next at one moment.
    assert len({job.due_at for job in jobs}) == 1 and all((job.due_at or 0) > began for job in jobs)
    batch = sight_of(context, jobs[7]).submissions[0].batch
    assert batch is not None and batch.id == "1007"
    assert context.store.jobs.list_due() == () and context.store.jobs.due_polls() == {}


def test_sweep_enqueues_one_poll_for_each_target(context: JobContext, busy: Target) -> None:
    class Bells(TaskQueue):
        def __init__(self) -> None:
            self.rung: list[tuple[str, ...]] = []

        def _send(self, task: str, *arguments: str) -> bool:
            self.rung.append((task, *arguments))
            return True

    bells = Bells()
    sweeper = Sweeper(context.settings)
    assert sweeper.sweep(context.store, bells) == MANY
    assert [one for one in bells.rung if one[0] == POLL_TASK] == [(POLL_TASK, busy.name)]
    assert sweeper.sweep(context.store, bells) == 0
    assert next_task(context.store.jobs.get("busy00000003")) == POLL_TASK


def test_only_one_looks_at_a_target_at_a_time(context: JobContext, busy: Target, tmp_path: Path) -> None:
    with try_lock(polling._lock_of(context, busy.name)) as mine:
        assert mine
        polling.poll(context, busy.name)
    assert _calls(tmp_path) == 0


def test_looks_become_rarer_where_nothing_happens(context: JobContext, busy: Target, tmp_path: Path) -> None:
    job = context.store.jobs.get("busy00000001")
    assert polling._pause(context, job, busy, job.changed) == polling.MIN_BATCH_POLL_S
    assert polling._pause(context, job, busy, job.changed + 60) == busy.poll_s
    assert polling._pause(context, job, busy, job.changed + 3600) == polling.MAX_POLL_S


@pytest.mark.slow
def test_a_batch_system_that_does_not_answer(context: JobContext, busy: Target, tmp_path: Path) -> None:
    (tmp_path / "bin" / "bjobs").write_text("#!/bin/sh\necho 'LSF is down. Please wait ...' >&2\nexit 255\n")
    polling.poll(context, busy.name)
    jobs = context.store.jobs.list_polled(busy.name)
    assert len(jobs) == MANY and all("Perfloom retries" in job.progress_text for job in jobs), jobs[0]
    (tmp_path / "bin" / "bjobs").write_text(BJOBS.format(calls=tmp_path / "calls"))
    polling.poll(context, busy.name)
    assert all("Waiting in the queue" in job.progress_text for job in context.store.jobs.list_polled(busy.name))


@pytest.mark.slow
def test_many_that_wait_hold_no_worker(
    context: JobContext, busy: Target, redis_server: RedisServer, tmp_path: Path
) -> None:
    """With real workers: the batch system is asked as often as it is to be, and other jobs are recorded meanwhile."""
    settings = dataclasses.replace(context.settings, broker_url=redis_server.url)
    queue = TaskQueue(settings, context.store)
    with running(settings, tmp_path / "log", "worker"):
        until(lambda: queue.has_worker(host_name()), "the worker is heard of", 60)
        until(lambda: _calls(tmp_path), "the queue is looked at", 30)
        began = time.monotonic()
        job = context.store.jobs.create("record", spec_of(sys.executable, "-c", "sum(range(10**7))").to_json(), "a job")
        queue.enqueue(job)
        assert ended(context.store, job.id).state is JobState.STORED
        assert _calls(tmp_path) <= 2 + (time.monotonic() - began) / busy.poll_s
    queue.close()
    assert json.loads((files_of(context, context.store.jobs.get("busy00000002")).run / "sight.json").read_text())
