"""All steps of a job in one process, with a real perf: from the queue to a stored result, or to a failure reason."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import cast

import pytest

from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import CallGraph, JobSpec, JobState, RecorderName, Scope
from perfloom.recording.plan import argv as argv_of
from perfloom.store import Store
from perfloom.workers import steps
from perfloom.workers.base import json_files, processes
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.jobfiles import JOB_VARIABLE, save_environment
from perfloom.workers.jobs import transitions
from perfloom.workers.local import steps as local_steps
from perfloom.workers.local import supervisor_client
from tests.support.jobspecs import spec_of
from tests.workers.conftest import files_of, has_no_process, run, submit, until_state
from tests.workers.waiting import pids_in, until

BUSY = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
"""Some tenths of a second on a CPU."""


def test_a_recording_becomes_a_result(context: JobContext) -> None:
    job = run(context, spec_of(*BUSY, call_graph=CallGraph.DWARF))
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert job.outcome is not None and job.outcome.exit_status == 0 and job.outcome.reasons == ()
    result = context.store.results.get(job.id)
    assert result.complete and result.samples > 10 and sys.executable in result.command
    names = [original.name for original in context.store.results.original(job.id)]
    assert names == ["perf.data", "perf.data.script.zst"]
    states = [state for state, _ in job.history]
    assert states == ["queued", "staging", "running", "collecting", "reading", "stored"]
    functions = context.store.results.open(job.id).functions.column("name").to_pylist()
    assert any("_PyEval_EvalFrameDefault" in name for name in functions)
    assert not files_of(context, job).artifacts.exists() and has_no_process(job)


def test_shown_command_is_executed_command(context: JobContext) -> None:
    job = run(context, spec_of("true"))
    assert job.argv == argv_of(job.job_spec, context.facts(), files_of(context, job).artifacts)


def test_counting(context: JobContext) -> None:
    events = ("task-clock", "page-faults")
    job = run(context, spec_of(*BUSY, recorder=RecorderName.PERF_STAT, events=events, interval_ms=100))
    assert job.state is JobState.STORED, job.reason
    profile = context.store.results.open(job.id)
    # perf adds :u where this user may not count the kernel.
    assert {name.removesuffix(":u") for name in profile.events.column("name").to_pylist()} == set(events)
    assert profile.counts.num_rows >= 2


def test_output_is_stored(context: JobContext) -> None:
    job = run(context, spec_of("/bin/sh", "-c", "echo out; echo err >&2"))
    assert files_of(context, job).output.read_text().startswith("out\nerr\n")


def test_a_command_that_fails_keeps_its_samples(context: JobContext) -> None:
    job = run(context, spec_of(sys.executable, "-S", "-c", "sum(range(10**7)); raise SystemExit(7)"))
    assert (job.state, job.result_id) == (JobState.STORED, job.id)
    assert job.outcome is not None and job.outcome.exit_status == 7
    result = context.store.results.get(job.id)
    assert not result.complete and result.reasons == ("The command ended with exit status 7.",)


def test_a_command_that_fails_at_once_has_no_result(context: JobContext) -> None:
    job = run(context, spec_of("/bin/sh", "-c", "echo no such option; exit 2"))
    assert (job.state, job.result_id) == (JobState.FAILED, None)
    assert (
        job.reason
        == "The command ended with exit status 2. No sample was recorded before that. Its message: no such option"
    )


def test_crashed_command_has_signal(context: JobContext) -> None:
    job = run(context, spec_of(sys.executable, "-c", "import os; sum(range(10**7)); os.kill(os.getpid(), 11)"))
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.signal == 11
    assert "SIGSEGV" in (job.reason or "")


def test_recording_without_samples_has_reason(context: JobContext) -> None:
    job = run(context, spec_of("true", frequency=1))
    assert job.state is JobState.STORED and transitions.NO_SAMPLE in (job.reason or "")
    assert context.store.results.get(job.id).reasons == (transitions.NO_SAMPLE,)


def _plain(path: Path) -> str:
    path.write_text("echo")
    return str(path)


def _garbage(path: Path) -> str:
    path.write_bytes(b"\x01\x02\x03")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: "/does/not/exist", "does not exist"),
        (lambda f: "no-such-program-here", "not found in PATH"),
        (lambda f: _plain(f / "plain"), "may not execute"),
        (lambda f: _garbage(f / "garbage"), "exit status 127"),
        (lambda f: str(f), "may not execute"),
        (lambda f: "./relative", "which is empty for this job"),
    ],
)
def test_a_command_that_cannot_be_executed(context: JobContext, tmp_path: Path, make: object, words: str) -> None:
    job = run(context, spec_of(make(tmp_path)))  # type: ignore[operator]
    assert (job.state, job.result_id) == (JobState.FAILED, None)
    assert words in (job.reason or "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"events": ("nonsense-event",)}, "nonsense-event"),
        ({"cwd": "/does/not/exist"}, "/does/not/exist does not exist on"),
        ({"cwd": "relative"}, "not an absolute path"),
        ({"inputs": ("/does/not/exist",)}, "/does/not/exist does not exist on"),
        ({"command": ()}, "No command"),
        ({"environment": {"A=": "x"}}, "not a valid variable name"),
        ({"scope": Scope.PROCESS, "pid": 4194304, "command": ()}, "Process 4194304 does not exist"),
        ({"call_graph": CallGraph.DWARF, "stack_bytes": 70_000}, "perf ended with exit status"),
    ],
)
def test_impossible_job_has_reason(context: JobContext, changes: dict[str, object], words: str) -> None:
    job = run(context, dataclasses.replace(spec_of("true"), **changes))  # type: ignore[arg-type]
    assert (job.state, job.result_id) == (JobState.FAILED, None)
    assert words in (job.reason or "") and has_no_process(job)


def test_without_perf(context: JobContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if list(Path("/usr/lib").glob("linux-tools/*/perf")):
        pytest.skip("this machine has a perf outside PATH")
    context.store.hosts.delete(context.host)
    monkeypatch.setenv("PATH", str(tmp_path))
    job = run(context, spec_of("/bin/true"))
    assert job.state is JobState.FAILED and "Install it" in (job.reason or "")


def test_a_job_description_of_another_time_is_refused(context: JobContext) -> None:
    job = context.store.jobs.create("record", {"recorder": "vtune", "command": ["x"]}, "strange")
    job = steps.run_to_end(context, job.id)
    assert job.state is JobState.FAILED and "Invalid job description" in (job.reason or "")


def test_the_time_limit(context: JobContext) -> None:
    began = time.monotonic()
    job = run(context, spec_of(sys.executable, "-S", "-c", "while True: pass", duration_s=0.4))
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.time_limit
    assert not context.store.results.get(job.id).complete and "limit of 0.4 s" in (job.reason or "")
    assert time.monotonic() - began < 10 and has_no_process(job)


@pytest.mark.slow
def test_a_running_process(context: JobContext) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as program:
        try:
            job = run(context, spec_of(scope=Scope.PROCESS, pid=program.pid, duration_s=2.0))
            assert program.poll() is None
        finally:
            program.kill()
    assert job.state is JobState.STORED, job.reason
    result = context.store.results.get(job.id)
    assert result.reasons == () and result.complete and result.samples > 5


@pytest.mark.skipif(os.geteuid() != 0, reason="observes the whole machine")
def test_the_whole_machine(context: JobContext) -> None:
    spec = spec_of(*BUSY, scope=Scope.SYSTEM, per_cpu=True, events=("cpu-clock",))
    job = run(context, spec)
    assert job.state is JobState.STORED, job.reason
    assert -1 not in context.store.results.open(job.id).samples.column("cpu").to_pylist()


def test_a_command_that_forks_and_exits(context: JobContext, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    leave = f"(setsid sleep 60 & echo $! >>{pids}; sleep 60 & echo $! >>{pids})"
    job = run(context, spec_of("/bin/sh", "-c", f"{leave}; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
    assert job.state is JobState.STORED and has_no_process(job)
    assert all((found := processes.read_stat(pid)) is None or found.state == "Z" for pid in pids_in(pids, 2))
    assert job.outcome is not None and "2 processes still ran" in job.outcome.reasons[0]
    assert context.store.results.get(job.id).complete


@pytest.mark.parametrize("lines", [10, 2_000_000])
def test_output_without_end_is_cut_in_the_middle(
    context: JobContext, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(supervisor_client, "HEAD_BYTES", 1000)
    monkeypatch.setattr(supervisor_client, "TAIL_BYTES", 1000)
    job = run(context, spec_of("seq", str(lines)))
    text = files_of(context, job).output.read_text()
    assert text.startswith("1\n2\n") and f"\n{lines}\n" in text
    assert ("left out" in text) == (lines > 10) and len(text) < 3000
    assert job.state is JobState.STORED


# ---- what the program gets ---------------------------------------------------------------------------------


def test_environment_and_directory(context: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFLOOM_TOKEN", "a-secret-of-the-server")
    monkeypatch.setenv("OF_THE_WORKER", "yes")
    spec = spec_of("env", cwd=str(tmp_path), environment={"A": "1 2", "ÄÖ": "ß\n2"})
    text = files_of(context, run(context, spec)).output.read_text()
    pwd = run(context, spec_of("/bin/pwd", cwd=str(tmp_path)))
    assert files_of(context, pwd).output.read_text().startswith(f"{tmp_path}\n")
    assert "\nA=1 2\n" in text and "\nÄÖ=ß\n2\n" in text and "OF_THE_WORKER=yes" in text
    assert "secret" not in text


def test_the_environment_of_the_submitter_is_used_and_deleted(context: JobContext) -> None:
    job = submit(context.store, spec_of("/usr/bin/env", environment={"B": "mine"}))
    files = files_of(context, job)
    save_environment(files, {"PATH": "/usr/bin:/bin", "SECRET": "hush", "B": "theirs", "PERFLOOM_TOKEN": "x" * 20})
    assert (files.run / "environment.json").stat().st_mode & 0o077 == 0
    job = steps.run_to_end(context, job.id)
    variables = dict(line.split("=", 1) for line in files.output.read_text().split("\n")[:4])
    assert (
        variables.keys() == {"B", "PATH", JOB_VARIABLE, "SECRET"}
        and variables["B"] == "mine"
        and variables[JOB_VARIABLE] == job.id
    )
    assert "hush" not in str(job) and not (files.run / "environment.json").exists()
    assert all(b"hush" not in path.read_bytes() for path in files.run.iterdir())


def test_the_command_is_the_one_that_the_user_means(context: JobContext, tmp_path: Path) -> None:
    """Called by its path, perf would search its own directory first."""
    (tmp_path / "ls").write_text("#!/bin/sh\necho mine; command -v ls\n")
    (tmp_path / "ls").chmod(0o755)
    job = run(context, spec_of("ls", environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert files_of(context, job).output.read_text().startswith(f"mine\n{tmp_path}/ls\n")


def test_default_directory_is_empty(context: JobContext) -> None:
    job = run(context, spec_of("/bin/sh", "-c", "pwd; ls; touch mine"))
    files = files_of(context, job)
    assert files.output.read_text().startswith(f"{files.work}\n[ perf") and (files.work / "mine").exists()


def test_input_files_are_copied_first(context: JobContext, tmp_path: Path) -> None:
    (tmp_path / "tree/below").mkdir(parents=True)
    (tmp_path / "tree/below/file").write_text("deep")
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\ncat tree/below/file; sum=0; for i in 1 2 3; do sum=$i; done\n")
    script.chmod(0o754)
    job = run(context, spec_of("./run.sh", inputs=(str(script), str(tmp_path / "tree"))))
    assert job.state is JobState.STORED, job.reason
    files = files_of(context, job)
    assert files.output.read_text().startswith("deep") and (files.work / "run.sh").stat().st_mode & 0o777 == 0o754


def test_input_files_replace_nothing_that_was_there(context: JobContext, tmp_path: Path) -> None:
    source, cwd = tmp_path / "data.txt", tmp_path / "cwd"
    source.write_text("new")
    cwd.mkdir()
    (cwd / "data.txt").write_text("precious")
    job = run(context, spec_of("cat", "data.txt", inputs=(str(source),), cwd=str(cwd)))
    assert job.state is JobState.FAILED and "already exists" in (job.reason or "")
    assert (cwd / "data.txt").read_text() == "precious"
    same = run(context, spec_of("cat", "data.txt", inputs=(str(cwd / "data.txt"),), cwd=str(cwd)))
    assert same.state is JobState.STORED


# ---- cancelling --------------------------------------------------------------------------------------------


def test_cancel_before_the_start(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, spec_of("touch", str(tmp_path / "started")))
    steps.cancel(context, job.id)
    job = context.store.jobs.get(job.id)
    assert job.state is JobState.CANCELLED and job.outcome is not None and job.outcome.cancelled
    assert not (tmp_path / "started").exists()


def test_cancel_keeps_what_was_recorded(context: JobContext, tmp_path: Path) -> None:
    code = f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\nwhile True: pass"
    job = submit(context.store, spec_of(sys.executable, "-S", "-c", code))
    until_state(context, job.id, JobState.RUNNING)
    pids_in(tmp_path / "pid", 1)
    until(lambda: (files_of(context, job).artifacts / "perf.data").stat().st_size > 3000, "samples")
    steps.cancel(context, job.id)
    job = steps.run_to_end(context, job.id)
    assert (job.state, job.result_id) == (JobState.CANCELLED, job.id)
    assert job.outcome is not None and job.outcome.cancelled
    result = context.store.results.get(job.id)
    assert not result.complete and result.reasons == ("It was cancelled.",) and result.samples > 0
    assert has_no_process(job)


def test_cancelled_before_a_sample_there_is_no_result(context: JobContext) -> None:
    job = submit(context.store, spec_of("sleep", "60"))
    until_state(context, job.id, JobState.RUNNING)
    steps.cancel(context, job.id)
    job = steps.run_to_end(context, job.id)
    assert (job.state, job.result_id) == (JobState.CANCELLED, None) and has_no_process(job)


@pytest.mark.parametrize("state", [JobState.COLLECTING, JobState.READING])
def test_cancel_after_the_end_of_the_program_drops_it(context: JobContext, state: JobState) -> None:
    job = submit(context.store, spec_of(*BUSY))
    with _stopping_at(context, state):
        until_state(context, job.id, state)
    steps.cancel(context, job.id)
    job = context.store.jobs.get(job.id)
    assert (job.state, job.result_id) == (JobState.CANCELLED, None)
    assert not files_of(context, job).artifacts.exists()


@contextlib.contextmanager
def _stopping_at(context: JobContext, state: JobState) -> object:
    """Let the step of `state` do nothing."""
    local = cast(dict[JobState, transitions.StepFunction], local_steps.STEPS.steps)
    table = local if state in local else steps.STEPS
    step = table[state]
    table[state] = lambda context, job, files: None
    try:
        yield
    finally:
        table[state] = step


def test_cancel_while_inputs_are_copied(context: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "large"
    with open(source, "wb") as stream:
        stream.truncate(200_000_000)
    job = submit(context.store, spec_of("true", inputs=(str(source),)))
    # Somebody presses Cancel as soon as the first progress is shown.
    thread = threading.Thread(target=lambda: until(lambda: _cancel_when_staging(context.store, job.id), "staging"))
    thread.start()
    job = steps.run_to_end(context, job.id)
    thread.join()
    assert job.state in (JobState.CANCELLED, JobState.STORED)


def _cancel_when_staging(store: Store, job_id: str) -> bool:
    return store.jobs.get(job_id).state is not JobState.QUEUED and store.jobs.request_cancel(job_id)


# ---- turns -------------------------------------------------------------------------------------------------


def test_recordings_wait_for_each_other_in_order(context: JobContext) -> None:
    context = dataclasses.replace(context, settings=dataclasses.replace(context.settings, recordings_at_once=1))
    first, second, third = (submit(context.store, spec_of("sleep", "60"), f"job {n}") for n in (1, 2, 3))
    steps.advance(context, second.id)
    assert context.store.jobs.get(second.id).state is JobState.QUEUED, "the first one's turn comes first"
    until_state(context, first.id, JobState.RUNNING)
    for waiting in (second, third):
        steps.advance(context, waiting.id)
    assert "Waiting for job 1" in context.store.jobs.get(second.id).progress_text
    assert "1 ahead of it" in context.store.jobs.get(third.id).progress_text
    steps.cancel(context, first.id)
    steps.run_to_end(context, first.id)
    until_state(context, second.id, JobState.RUNNING)
    steps.cancel(context, third.id)
    assert context.store.jobs.get(third.id).state is JobState.CANCELLED


@pytest.mark.slow
def test_two_workers_at_one_job_do_it_once(context: JobContext, tmp_path: Path) -> None:
    job = submit(context.store, spec_of("/bin/sh", "-c", f"echo x >>{tmp_path}/started"))
    threads = [threading.Thread(target=steps.run_to_end, args=(context, job.id)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "started").read_text() == "x\n"
    assert context.store.jobs.get(job.id).state is JobState.STORED


# ---- imports, other hosts, broken things -------------------------------------------------------------------


def _import(context: JobContext, files: dict[str, bytes]) -> str:
    job = context.store.jobs.create("import", {"files": list(files)}, "an import")
    folder = context.store.jobs.directory(job.id) / "artefacts"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return job.id


def test_an_import_is_read(context: JobContext) -> None:
    job = steps.run_to_end(context, _import(context, {"a.folded": b"main;work 3\nmain;rest 1\n"}))
    assert (job.state, job.result_id) == (JobState.STORED, job.id)
    assert [state for state, _ in job.history] == ["queued", "reading", "stored"]


@pytest.mark.parametrize(
    "files", [{}, {"empty": b""}, {"junk": bytes(range(256)) * 10}, {"../../etc/passwd": b""}, {"missing": b"x"}]
)
def test_unreadable_import_has_reason(context: JobContext, files: dict[str, bytes], tmp_path: Path) -> None:
    job_id = _import(context, {name: data for name, data in files.items() if "/" not in name})
    context.store.jobs.update(job_id, spec={"files": list(files)})
    if "missing" in files:
        (context.store.jobs.directory(job_id) / "artefacts" / "missing").unlink()
    job = steps.run_to_end(context, job_id)
    assert job.state is JobState.FAILED and job.reason and job.result_id is None


def test_recording_of_running_host_is_not_taken_over(context: JobContext) -> None:
    job = submit(context.store, spec_of("sleep", "60"))
    until_state(context, job.id, JobState.RUNNING)
    elsewhere = dataclasses.replace(context, host="elsewhere")
    context.store.hosts.publish(HostFacts(context.host))
    steps.advance(elsewhere, job.id)
    assert context.store.jobs.get(job.id).state is JobState.RUNNING
    # The host has sent no heartbeat for long, and its programs have ended.
    context.store.hosts.heartbeat(context.host, time.time() - transitions.HOST_TIMEOUT_S - 1)
    identity = json_files.read_json(files_of(context, job).run / "supervisor.json")
    assert identity is not None
    processes.send_signal(processes.ProcessIdentity.from_json(identity), signal.SIGKILL)
    processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)
    job = steps.run_to_end(elsewhere, job.id)
    assert job.state is JobState.LOST and job.reason


@pytest.mark.slow
def test_a_step_that_fails_for_a_passing_reason_is_tried_again(
    context: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OSError(28, "No space left on device"), RuntimeError("a fault of ours")])
    real = context.store.results.publish

    def publish(*arguments: object, **more: object) -> object:
        if (failure := next(failures, None)) is not None:
            raise failure
        return real(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(context.store.results, "publish", publish)
    monkeypatch.setattr(transitions, "RETRY_PAUSE_S", 0.01)
    job = run(context, spec_of(*BUSY))
    assert job.state is JobState.STORED and next(failures, None) is None


def test_failed_step_has_reason(context: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(*arguments: object, **more: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(context.store.results, "publish", publish)
    monkeypatch.setattr(transitions, "RETRY_PAUSE_S", 0.01)
    job = run(context, spec_of(*BUSY))
    assert job.state is JobState.FAILED and "is full" in (job.reason or "")
    assert files_of(context, job).recorded_files(), "what was recorded is still there"


def test_a_job_whose_directory_is_gone(context: JobContext) -> None:
    job = submit(context.store, spec_of("sleep", "60"))
    until_state(context, job.id, JobState.RUNNING)
    files = files_of(context, job)
    processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)
    # A process that is about to end may still write into it.
    files.root.rename(context.settings.data / "gone")
    job = steps.run_to_end(context, job.id)
    assert job.state is JobState.LOST and "Submit the job again" in (job.reason or "")


def test_jobs_of_any_text(context: JobContext) -> None:
    job = run(context, JobSpec(command=("echo", '"; rm -rf ~ #', "<script>", "ä\udcff", "x" * 10_000), frequency=99))
    assert job.state is JobState.STORED, job.reason
