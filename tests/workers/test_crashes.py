"""Whatever is killed with SIGKILL, at whatever moment: started again, the job ends, says how, and ran at most once."""

import importlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.jobs import JobSpec, JobState
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base import json_files, processes
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.jobfiles import JOB_VARIABLE
from perfloom.workers.base.outcome import SAMPLES_LOST
from tests.support.jobspecs import spec_of
from tests.support.marks import slow_but_every
from tests.workers.conftest import files_of, has_no_process, submit, to_the_end, until_state
from tests.workers.waiting import until


def counted(tmp_path: Path, then: str = "sum(i * i for i in range(5_000_000))") -> JobSpec:
    """A command that notes that it was started, then does something."""
    code = f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\n{then}"
    return spec_of(sys.executable, "-S", "-c", code)


def starts(tmp_path: Path) -> int:
    path = tmp_path / "starts"
    return len(path.read_text()) if path.exists() else 0


def killed_at(context: JobContext, job: Job, place: str, moment: str, call: int = 1) -> None:
    """Take steps in a process that kills itself before or after that call of the function `module:qualified.name`."""
    module_name, _, path = place.partition(":")
    owner: Any = importlib.import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **more)
        if calls == call and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    child = os.fork()
    if child == 0:
        try:
            static = isinstance(inspect.getattr_static(owner, name), staticmethod)
            setattr(owner, name, staticmethod(deadly) if static else deadly)
            steps.run_to_end(context, job.id)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{place} was not called {call} times"


PLACES = [
    ("perfloom.store.jobs:Jobs.claim", "before", 1),
    ("perfloom.store.jobs:Jobs.claim", "after", 1),
    ("perfloom.workers.base.jobfiles:JobFiles.prepare", "after", 1),
    ("perfloom.workers.local.supervisor_client:write_task", "after", 1),
    ("perfloom.workers.local.supervisor_client:spawn", "before", 1),
    ("perfloom.workers.local.supervisor_client:spawn", "after", 1),
    ("perfloom.store.jobs:Jobs.update", "before", 1),
    ("perfloom.store.jobs:Jobs.update", "after", 1),
    ("perfloom.workers.local.supervisor_client:start_program", "before", 1),
    ("perfloom.workers.local.supervisor_client:start_program", "after", 1),
    ("perfloom.workers.local.supervisor_client:wait_for_start", "after", 1),
    ("perfloom.store.jobs:Jobs.transition", "before", 1),
    ("perfloom.store.jobs:Jobs.transition", "after", 1),
    ("perfloom.workers.local.supervisor_client:read_status", "after", 3),
    ("perfloom.workers.local.outcome:parse_exit", "after", 1),
    ("perfloom.store.jobs:Jobs.transition", "before", 2),
    ("perfloom.store.jobs:Jobs.transition", "after", 2),
    ("perfloom.workers.read.reading:symbolize", "before", 1),
    ("perfloom.workers.read.reading:script_name", "after", 1),
    ("perfloom.workers.read.reading:symbolize", "after", 1),
    ("perfloom.store.jobs:Jobs.transition", "before", 3),
    ("perfloom.store.jobs:Jobs.transition", "after", 3),
    ("perfloom.workers.read.reading:read_to_result", "before", 1),
    ("perfloom.store.results:Results.stage", "after", 1),
    ("perfloom.store.results:Results.publish", "before", 1),
    ("perfloom.store.results:Results._rename", "before", 1),
    ("perfloom.store.results:Results._rename", "after", 1),
    ("perfloom.store.results:Results.adopt", "after", 1),
    ("perfloom.store.jobs:Jobs.transition", "before", 4),
]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "moment", "call"), slow_but_every(4, PLACES))
def test_a_worker_killed_there_loses_nothing(
    context: JobContext, tmp_path: Path, place: str, moment: str, call: int
) -> None:
    job = submit(context.store, counted(tmp_path))
    killed_at(context, job, place, moment, call)
    job = to_the_end(context, job)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert starts(tmp_path) == 1 and has_no_process(job)
    result = context.store.results.get(job.id)
    assert result.complete and result.samples > 0 and len(result.originals) == 2


@pytest.mark.slow
@pytest.mark.parametrize("place", ["perfloom.store.jobs:Jobs.transition", "perfloom.store.results:Results.compress"])
def test_killed_after_the_end_there_is_nothing_to_do(context: JobContext, tmp_path: Path, place: str) -> None:
    job = submit(context.store, counted(tmp_path))
    killed_at(context, job, place, "after", 4 if "transition" in place else 1)
    assert context.store.jobs.get(job.id).state is JobState.STORED
    assert to_the_end(context, job).state is JobState.STORED and starts(tmp_path) == 1


@pytest.mark.slow
def test_killed_while_cancelling(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, counted(tmp_path, "while True: pass"))
    until_state(context, job.id, JobState.RUNNING)
    until(lambda: starts(tmp_path), "the program runs")
    context.store.jobs.request_cancel(job.id)
    killed_at(context, job, "perfloom.workers.local.supervisor_client:request_stop", "before")
    killed_at(context, job, "perfloom.workers.local.supervisor_client:request_stop", "after")
    job = to_the_end(context, job)
    assert job.state is JobState.CANCELLED and has_no_process(job) and starts(tmp_path) == 1


@pytest.mark.slow
def test_killed_again_and_again_while_reading_it_gives_up(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, counted(tmp_path))
    for _ in range(steps.MAX_READING_TRIES):
        killed_at(context, job, "perfloom.workers.read.reading:read_to_result", "before")
    job = to_the_end(context, job)
    assert job.state is JobState.FAILED and "may not have enough memory" in (job.reason or "")


# ---- the supervisor ----------------------------------------------------------------------------------------


def supervisor_of(context: JobContext, job: Job) -> processes.ProcessIdentity:
    identity = until(lambda: json_files.read_json(files_of(context, job).run / "supervisor.json"), "a supervisor")
    return processes.ProcessIdentity.from_json(identity)


MOMENTS: dict[str, Callable[[Path, Path], object]] = {
    "begun": lambda run, starts: (run / "supervisor.json").exists(),
    "perf started": lambda run, starts: (run / "program.json").exists(),
    "command started": lambda run, starts: starts.exists(),
    "samples": lambda run, starts: _size(run.parent / "artefacts/perf.data") > 2000,
}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("ends", [False, True])
def test_a_killed_supervisor_ends_everything(context: JobContext, tmp_path: Path, moment: str, ends: bool) -> None:
    """ends: the command ends by itself soon. Otherwise perf gets SIGINT when the supervisor has ended."""
    job = submit(context.store, counted(tmp_path) if ends else counted(tmp_path, "while True: pass"))
    until_state(context, job.id, JobState.RUNNING)
    run = files_of(context, job).run
    # On a busy machine a command that ends soon may end before anybody looks.
    until(lambda: MOMENTS[moment](run, tmp_path / "starts") or (ends and (run / "exit.json").exists()), moment)
    processes.send_signal(supervisor_of(context, job), signal.SIGKILL)
    job = to_the_end(context, job)
    assert has_no_process(job) and starts(tmp_path) <= 1
    # A command that ends soon may have ended, and the supervisor have written so, before it was killed.
    assert job.reason or (ends and (run / "exit.json").exists())
    if job.state is JobState.STORED and not (run / "exit.json").exists():
        result = context.store.results.get(job.id)
        assert not result.complete and "killed" in result.reasons[-1]
    else:
        assert job.state in (JobState.LOST, JobState.STORED)
    if moment == "samples" and not ends:
        assert job.state is JobState.STORED


def test_supervisor_and_worker_killed_together(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, counted(tmp_path, "while True: pass"))
    killed_at(context, job, "perfloom.store.jobs:Jobs.transition", "after", 1)
    until(lambda: starts(tmp_path), "the program runs")
    processes.send_signal(supervisor_of(context, job), signal.SIGKILL)
    processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)
    job = to_the_end(context, job)
    assert job.state in (JobState.LOST, JobState.STORED) and job.reason and starts(tmp_path) == 1


@pytest.mark.slow
def test_after_a_restart_of_the_machine_a_pid_means_nothing(context: JobContext, tmp_path: Path) -> None:
    """The stored pids were reused by another process: here, by this test."""
    job = submit(context.store, counted(tmp_path, "while True: pass"))
    until_state(context, job.id, JobState.RUNNING)
    run = files_of(context, job).run
    processes.send_signal(supervisor_of(context, job), signal.SIGKILL)
    processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)
    us = processes.identity()
    assert us is not None
    for name in ("supervisor.json", "program.json"):
        (run / name).write_text(json.dumps(us.to_json() | {"boot": "another-boot"}))
    job = to_the_end(context, job)
    assert job.state in (JobState.LOST, JobState.STORED) and job.reason


@pytest.mark.slow
def test_a_pid_that_was_given_out_again_is_not_signalled(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, counted(tmp_path, "while True: pass"))
    until_state(context, job.id, JobState.RUNNING)
    processes.send_signal(supervisor_of(context, job), signal.SIGKILL)
    processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)
    bystander = os.posix_spawn("/bin/sleep", ["sleep", "60"], os.environ)
    try:
        who = processes.identity(bystander)
        assert who is not None
        for name in ("supervisor.json", "program.json"):
            other = who.to_json() | {"started": who.started - 1}
            (files_of(context, job).run / name).write_text(json.dumps(other))
        context.store.jobs.request_cancel(job.id)
        job = to_the_end(context, job)
        assert processes.is_alive(who) and job.state.final and job.reason
    finally:
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)


# ---- perf, and the command ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["perf started", "command started", "samples"])
def test_a_command_runs_on_when_perf_is_killed(context: JobContext, tmp_path: Path, moment: str) -> None:
    """A program that perf had started continues to its end, which ends the job; before that, nothing was started."""
    wait = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0)"
    job = submit(context.store, counted(tmp_path, wait))
    until_state(context, job.id, JobState.RUNNING)
    run = files_of(context, job).run
    until(lambda: MOMENTS[moment](run, tmp_path / "starts"), moment)
    identity = json_files.read_json(run / "program.json")
    assert identity is not None
    processes.send_signal(processes.ProcessIdentity.from_json(identity), signal.SIGKILL)
    (tmp_path / "go").write_text("")
    job = to_the_end(context, job)
    assert job.outcome is not None and has_no_process(job)
    assert job.state in (JobState.FAILED, JobState.STORED) and "SIGKILL" in (job.reason or "")
    if starts(tmp_path):
        assert (starts(tmp_path), job.outcome.exit_status, job.outcome.signal) == (1, 0, None)
    if job.state is JobState.STORED:
        assert not context.store.results.get(job.id).complete
    if (
        moment == "command started"
        and starts(tmp_path)
        and not (job.result_id and context.store.results.get(job.id).samples)
    ):
        # Nothing was written yet, and nothing says that the command was idle or is wrong.
        reason = job.reason or ""
        assert SAMPLES_LOST in reason and "is kept" not in reason and "correct the job" not in reason, reason


def test_a_killed_command_keeps_its_samples(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, counted(tmp_path, "while True: pass"))
    until_state(context, job.id, JobState.RUNNING)
    run = files_of(context, job).run
    until(lambda: MOMENTS["samples"](run, tmp_path / "starts"), "samples")
    perf = json_files.read_json(run / "program.json")
    assert perf is not None
    for command in processes.descendants(int(perf["pid"])):
        processes.send_signal(command, signal.SIGKILL)
    job = to_the_end(context, job)
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.signal == signal.SIGKILL
    assert context.store.results.get(job.id).samples > 0
