"""jobs, job, wait, cancel, logs and `record --detach`, as a user types them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from perfloom.cli import group as cli
from perfloom.cli.ids import JobId
from perfloom.config import Settings
from perfloom.domain.jobs import JobDetails, JobState
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store
from perfloom.store.jobs import Job
from perfloom.workers import job_client, job_runner
from perfloom.workers.base import processes
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.serve import services
from tests.support.marks import slow_except
from tests.support.parts import require
from tests.support.servers import RedisServer
from tests.workers.running import PERFLOOM, running_worker
from tests.workers.waiting import pids_in, until

LIGHT = ("-e", "cpu-clock:u", "--call-graph", "none")
UNTIL_TOLD = """
import os, sys, time
open('pid', 'w').write(f'{os.getpid()}\\n')
print('first line', flush=True)
while not os.path.exists('go'): sum(range(10000))
print('last line')
"""
PROGRAM = ("--", sys.executable, "-S", "-c", UNTIL_TOLD)


@pytest.fixture
def settings(tmp_path: Path, short_path: Path) -> Iterator[Settings]:
    require("perf")
    settings = Settings.load(tmp_path / "data", environ={}, runtime=short_path / "run", reserve_bytes=0)
    settings.prepare()
    yield settings
    store = open_store(settings, migrate=False)
    for job in store.jobs.list(active=True):
        for pid in runners(job.id):
            os.kill(pid, signal.SIGKILL)
        processes.terminate_by_variable("PERFLOOM_JOB", job.id, grace_s=0)
    store.close()


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    store = open_store(settings)
    yield store
    store.close()


def perfloom(settings: Settings, *arguments: str, cwd: Path | None = None, **more: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    done = subprocess.run(
        [*PERFLOOM, *arguments],
        env=services.environment_for(settings) | more,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def runners(job_id: str) -> list[int]:
    """The processes that run a job and were started for that."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if job_id.encode() in words and any(b"job_runner" in word for word in words):
            found.append(int(path.parent.name))
    return found


def detach(settings: Settings, cwd: Path) -> str:
    """The id of a job whose program runs until there is a file `go`."""
    status, out, err = perfloom(settings, "record", "--detach", "--name", "mine", *LIGHT, *PROGRAM, cwd=cwd)
    assert status == 0 and re.fullmatch(r"[a-z0-9]{12}\n", out), err
    return out.strip()


def job_row(settings: Settings, id: str) -> dict[str, object]:
    status, out, err = perfloom(settings, "job", id, "--format", "json")
    assert status == 0, err
    row: dict[str, object] = json.loads(out)
    return row


def test_a_detached_job_runs_is_followed_and_stored(settings: Settings, tmp_path: Path) -> None:
    id = detach(settings, tmp_path)
    pids_in(tmp_path / "pid", 1)
    status, out, _ = perfloom(settings, "jobs", "--active")
    (row,) = [line.split() for line in out.splitlines()[1:]]
    assert status == 0 and row[0] == id and row[1] in ("staging", "running") and "mine" in row
    assert perfloom(settings, "logs", id)[1].startswith("first line\n")
    follower = subprocess.Popen(
        [*PERFLOOM, "logs", "-f", id], env=services.environment_for(settings), stdout=subprocess.PIPE, text=True
    )
    assert follower.stdout is not None and follower.stdout.readline() == "first line\n"
    (tmp_path / "go").touch()
    assert "last line\n" in follower.communicate(timeout=60)[0] and follower.returncode == 0
    assert perfloom(settings, "wait", id)[:2] == (0, f"{id}\n")
    shown = job_row(settings, id)
    assert (shown["state"], shown["result"], shown["exit_status"]) == ("stored", id, 0)
    assert [str(one).split()[0] for one in shown["history"]][-1] == "stored"  # type: ignore[attr-defined]
    assert perfloom(settings, "report", id, "hotspots")[0] == 0
    assert perfloom(settings, "jobs", "--active", "--format", "json")[1].strip() == "[\n]"
    until(lambda: not runners(id), "its process has ended")


@pytest.mark.slow
@pytest.mark.parametrize("command", slow_except(["jobs"], ["jobs", "job", "wait", "logs"]))
def test_next_command_resumes_job_without_process(
    settings: Settings, store: Store, tmp_path: Path, command: str
) -> None:
    id = detach(settings, tmp_path)
    pids_in(tmp_path / "pid", 1)
    until(lambda: store.jobs.get(id).state is JobState.RUNNING, "it runs")
    (runner,) = runners(id)
    os.kill(runner, signal.SIGKILL)
    until(lambda: not runners(id), "its process is gone")
    (tmp_path / "go").touch()
    arguments = {"jobs": ("jobs",), "logs": ("logs", "-f", id)}.get(command, (command, id))
    assert perfloom(settings, *arguments)[0] == 0
    until(lambda: store.jobs.get(id).state is JobState.STORED, "it is stored")
    assert store.jobs.get(id).attempt == 1, "the program was started once"


@pytest.mark.slow
def test_job_survives_killed_shell(settings: Settings, store: Store, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PERFLOOM, "record", *LIGHT, *PROGRAM],
        env=services.environment_for(settings),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pids_in(tmp_path / "pid", 1)
    until(lambda: [job.state for job in store.jobs.list()] == [JobState.RUNNING], "it runs")
    # Beside the command that runs it, no other command starts a process for it.
    (row,) = json.loads(perfloom(settings, "jobs", "--format", "json")[1])
    assert not runners(row["id"])
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (tmp_path / "go").touch()
    assert perfloom(settings, "wait", row["id"])[:2] == (0, f"{row['id']}\n")


def test_cancel_keeps_what_was_recorded_and_drops_it_when_asked_again(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    id = detach(settings, tmp_path)
    (pid,) = pids_in(tmp_path / "pid", 1)
    assert perfloom(settings, "cancel", id)[0] == 0
    status, out, err = perfloom(settings, "wait", id)
    assert store.jobs.get(id).state is JobState.CANCELLED
    assert (status, out) in ((0, f"{id}\n"), (4, "")) and "It was cancelled" in err
    found = processes.read_stat(pid)
    assert found is None or found.state == "Z"
    status, _, err = perfloom(settings, "cancel", id)
    assert status == 2 and "has ended" in err
    assert perfloom(settings, "cancel", "aaaaaaaaaaaa")[0] != 0


@pytest.mark.slow
def test_end_of_a_wait_is_not_the_end_of_the_job(settings: Settings, store: Store, tmp_path: Path) -> None:
    id = detach(settings, tmp_path)
    (pid,) = pids_in(tmp_path / "pid", 1)
    waiting = subprocess.Popen(
        # Under a shell that runs in the background SIGINT may be ignored.
        ["env", "--default-signal=INT", *PERFLOOM, "wait", id],
        env=services.environment_for(settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None and waiting.stderr.readline().startswith("perfloom: ")
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=30)
    # A shell shows 130 for both. CPython ends itself by the signal if it arrived while code in a string ran, for example
    # that of a new dataclass.
    assert waiting.returncode in (130, -signal.SIGINT) and "Traceback" not in err
    assert not store.jobs.get(id).cancel_requested and processes.read_stat(pid) is not None
    (tmp_path / "go").touch()
    assert perfloom(settings, "wait", id)[0] == 0


@pytest.mark.slow
def test_failed_job_has_reason(settings: Settings) -> None:
    status, out, err = perfloom(settings, "record", "-d", *LIGHT, "--", "/bin/sh", "-c", "exit 9")
    assert status == 0, err
    status, shown, err = perfloom(settings, "wait", out.strip())
    assert (status, shown) == (4, "") and "exit status 9" in err
    assert "exit status 9" in str(job_row(settings, out.strip())["text"])
    assert "/bin/sh -c 'exit 9'" in perfloom(settings, "job", out.strip())[1]
    assert perfloom(settings, "record", "-d", "--", "/does/not/exist")[0] == 2


def test_jobs_of_a_server_are_left_to_its_workers(settings: Settings, store: Store) -> None:
    """A command does not know as which user the server runs programs."""
    spec = {"command": ["true"], "recorder": "perf-record", "target": "local"}
    job = store.jobs.create("record", spec, "of the server")
    queue = TaskQueue(settings, store)
    assert not job_runner.may_run(job)
    job_runner.resume_jobs(settings, store, queue, store.jobs.list())
    assert perfloom(settings, "jobs")[0] == 0
    assert not runners(job.id) and store.jobs.get(job.id).state is JobState.QUEUED
    other = store.jobs.create("record", spec, "of another host", details=JobDetails(runner_host="elsewhere"))
    assert not job_runner.may_run(other)
    queue.close()


@pytest.mark.slow
def test_one_process_runs_a_job(settings: Settings, store: Store, tmp_path: Path) -> None:
    id = detach(settings, tmp_path)
    pids_in(tmp_path / "pid", 1)
    files = JobFiles(store.jobs.directory(id))
    job_runner.start_runner(settings, files, id)
    until(lambda: len(runners(id)) == 1, "the second one has ended", 30)
    assert job_runner.has_runner(files)
    (tmp_path / "go").touch()
    seen: list[Job] = []
    assert job_client.wait(settings, id, seen.append).state is JobState.STORED
    assert seen[-1].state is JobState.STORED


@pytest.mark.slow
def test_with_a_worker(settings: Settings, tmp_path: Path, redis_server: RedisServer) -> None:
    with running_worker(settings, tmp_path / "log", redis_server) as (settings, _):
        id = detach(settings, tmp_path)
        pids_in(tmp_path / "pid", 1)
        assert not runners(id)
        assert perfloom(settings, "jobs")[1].count(id) == 1
        (tmp_path / "go").touch()
        assert perfloom(settings, "wait", id)[:2] == (0, f"{id}\n")
        assert "last line" in perfloom(settings, "logs", id)[1]


def completions(settings: Settings, line: str) -> list[str]:
    """What bash is offered at the end of a command line."""
    more = {"_PERFLOOM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
    return perfloom(settings, **more)[1].split()


def test_names_beside_ids_are_on_one_line(settings: Settings, store: Store) -> None:
    """zsh takes each line for a candidate."""
    job = store.jobs.create("import", {"files": ["a"]}, "plain\nEVIL\nname\x1b[31m")
    context = click.Context(cli.cli)
    context.params["data"] = str(settings.data)
    (item,) = JobId().shell_complete(context, click.Argument(["id"]), "")
    assert (item.value, item.help) == (job.id, "queued: plain\\nEVIL\\nname\\x1b[31m")


@pytest.mark.slow
def test_ids_are_completed(settings: Settings, store: Store, tmp_path: Path) -> None:
    active = store.jobs.create("import", {"files": ["a"]}, "active")
    ended = store.jobs.create("import", {"files": ["a"]}, "ended")
    store.jobs.transition(ended.id, JobState.QUEUED, JobState.FAILED, reason="x")
    assert completions(settings, "perfloom job ") == [f"plain,{ended.id}", f"plain,{active.id}"]
    assert completions(settings, "perfloom wait ") == [f"plain,{active.id}"]
    (tmp_path / "a.txt").write_text("a;b 3\n")
    id = perfloom(settings, "import", str(tmp_path / "a.txt"))[1].strip()
    assert completions(settings, "perfloom report ") == ["file,", f"plain,{id}"]
    assert completions(settings, "perfloom delete ") == [f"plain,{id}"]
    assert completions(settings, f"perfloom logs --data {tmp_path / 'nothing'} ") == []
    assert not (tmp_path / "nothing").exists()
