"""Planned jobs on this machine itself, with a real perf: from the queue to a stored result, or to a reason."""

import dataclasses
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.errors import Unreachable
from perfloom.domain.jobs import EventSplitting, JobState, RecorderName
from perfloom.domain.targets import Target
from perfloom.workers import steps
from perfloom.workers.base import processes
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.jobfiles import JOB_VARIABLE, save_environment
from perfloom.workers.local import supervisor_client
from perfloom.workers.read.rank_folders import STATE
from perfloom.workers.remote import cancellation, collection, polling, retries
from perfloom.workers.targets import cleanup
from tests.workers.remote.driving import at, far, files_of, is_cleaned_up, run, sight_of, submit, to_the_end, until_job
from tests.workers.waiting import until

BUSY = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
"""Some tenths of a second on a CPU."""
ENDLESS = (sys.executable, "-S", "-c", "print('begun', flush=True)\nwhile True: pass")


def test_a_planned_job_becomes_a_result(context: JobContext, here: Target) -> None:
    job = run(context, at(here, *BUSY))
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert job.outcome is not None and job.outcome.exit_status == 0 and job.host == context.host
    states = [state for state, _ in job.history]
    assert states == ["queued", "staging", "running", "collecting", "reading", "stored"]
    result = context.store.results.get(job.id)
    assert result.complete and result.samples > 10 and sys.executable in result.command
    names = {original.name for original in context.store.results.original(job.id)}
    assert "perf.data" in names and any(name.startswith("perf.script") for name in names)
    hosts = context.store.results.open(job.id).threads.column("host").to_pylist()
    assert set(hosts) == {os.uname().nodename}
    assert is_cleaned_up(job) and not files_of(context, job).artifacts.exists()
    sight = sight_of(context, job)
    assert [run.state for run in sight.runs] == ["ended"] and sight.submissions[0].exit_status == 0


def test_job_gets_inputs_and_submitters_environment(context: JobContext, here: Target, tmp_path: Path) -> None:
    (tmp_path / "data $(touch x)").write_text("content")
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_text("deep")
    (folder / "link").symlink_to("below/file")
    script = folder / "program"
    script.write_text('#!/bin/sh\ncat "data $(echo "\\$(touch x)")" folder/link; echo " $WHO $ASKED"\n')
    script.chmod(0o755)
    spec = at(
        here, "./folder/program", inputs=(str(tmp_path / "data $(touch x)"), str(folder)), environment={"WHO": "me"}
    )
    job = submit(context.store, spec)
    save_environment(files_of(context, job), {**os.environ, "ASKED": "it's", "PERFLOOM_TOKEN": "s" * 20})
    job = to_the_end(context, job)
    assert files_of(context, job).output.read_text().startswith("contentdeep me it's\n"), job.reason
    assert not (files_of(context, job).run / "environment.json").exists()


@pytest.mark.slow
def test_inputs_of_each_run(context: JobContext, here: Target, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"in{number}").write_text(f"number {number}\n")
    spec = at(
        here,
        *("sh", "-c", "cat in{run}; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
        inputs=(str(tmp_path / "in{run}"),),
        events=("cpu-clock:u", "task-clock:u"),
        splitting=EventSplitting.SEQUENTIAL,
        events_per_run=1,
    )
    job = run(context, spec)
    assert job.state is JobState.STORED, job.reason
    assert [line for line in files_of(context, job).output.read_text().split("\n") if "number" in line] == [
        "number 0",
        "number 1",
    ]
    runs = context.store.results.open(job.id).runs
    assert runs.num_rows == 2 and len(sight_of(context, job).runs) == 2


def test_inputs_do_not_replace_foreign_files(context: JobContext, here: Target, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "given").write_text("theirs")
    (tmp_path / "given").write_text("ours")
    job = run(context, at(here, "true", cwd=str(place), inputs=(str(tmp_path / "given"),)))
    assert job.state is JobState.FAILED and "already exists" in (job.reason or "")
    assert (place / "given").read_text() == "theirs" and is_cleaned_up(job)
    job = run(context, at(here, "cat", "given", cwd=str(place), inputs=(str(place / "given"),)))
    assert files_of(context, job).output.read_text().startswith("theirs"), job.reason


def test_a_working_directory_there(context: JobContext, here: Target, tmp_path: Path) -> None:
    place = tmp_path / "a 'place'"
    place.mkdir()
    job = run(context, at(here, "sh", "-c", "pwd; echo made >file", cwd=str(place)))
    assert files_of(context, job).output.read_text().startswith(f"{place}\n") and (place / "file").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cwd": "/does/not/exist"}, "/does/not/exist does not exist on"),
        ({"cwd": "relative"}, "not an absolute path"),
        ({"inputs": ("/does/not/exist",)}, "/does/not/exist does not exist"),
        ({"inputs": ("relative",)}, "not an absolute path"),
        ({"command": ("/no/such/program",)}, "/no/such/program"),
        ({"command": ("no-such-program",)}, "searched on PATH at here"),
        ({"command": ("./no-such-program",)}, "searched in the job's directory at here"),
        ({"command": ()}, "No command"),
        ({"events": ("nonsense-event",)}, "nonsense-event"),
        ({"sudo": True}, "does not allow sudo"),
        ({"target": "nowhere"}, "No target 'nowhere'"),
    ],
)
def test_impossible_job_has_reason(context: JobContext, here: Target, changes: dict[str, object], words: str) -> None:
    job = run(context, dataclasses.replace(at(here, "true"), **changes))  # type: ignore[arg-type]
    assert (job.state, job.result_id) == (JobState.FAILED, None)
    assert words in (job.reason or ""), job.reason
    assert is_cleaned_up(job)


def test_without_perf_there(context: JobContext, tmp_path: Path) -> None:
    bare = Target("bare", directory=str(tmp_path / "jobs"), perf="/no/perf/here")
    context.store.targets.save(bare)
    job = run(context, at(bare, "true"))
    assert job.state is JobState.FAILED and "/no/perf/here" in (job.reason or ""), job.reason


def test_recording_without_samples_has_reason(context: JobContext, here: Target) -> None:
    job = run(context, at(here, "true", frequency=1))
    assert job.state is JobState.STORED, job.reason
    result = context.store.results.get(job.id)
    assert not result.complete and "No sample was recorded" in result.reasons[0]


def test_a_command_that_fails_keeps_its_samples(context: JobContext, here: Target) -> None:
    job = run(context, at(here, sys.executable, "-S", "-c", "sum(range(10**7)); raise SystemExit(7)"))
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.exit_status == 7
    result = context.store.results.get(job.id)
    assert not result.complete and [reason for reason in result.reasons if "exit status 7" in reason]


def test_crashed_command_has_signal(context: JobContext, here: Target) -> None:
    job = run(context, at(here, sys.executable, "-c", "import os; sum(range(10**7)); os.kill(os.getpid(), 11)"))
    assert job.state is JobState.STORED and job.outcome is not None
    assert job.outcome.signal == 11 and "SIGSEGV" in (job.reason or ""), job


def test_the_time_limit(context: JobContext, here: Target) -> None:
    job = run(context, at(here, *ENDLESS, duration_s=0.5))
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.time_limit, job
    assert "limit of 0.5 s" in (job.reason or "") and not context.store.results.get(job.id).complete
    assert is_cleaned_up(job)


def test_counting(context: JobContext, here: Target) -> None:
    job = run(context, at(here, *BUSY, recorder=RecorderName.PERF_STAT, events=("task-clock:u", "page-faults:u")))
    assert job.state is JobState.STORED, job.reason
    assert context.store.results.open(job.id).counts.num_rows >= 2


def test_unknown_files_are_ignored(context: JobContext, here: Target) -> None:
    job = run(context, at(here, *BUSY, leave_files=True))
    assert job.state is JobState.STORED and (far(job) / "run0" / "all" / "perf.data").exists()


def test_recordings_need_not_be_brought(context: JobContext, here: Target) -> None:
    job = run(context, at(here, *BUSY, keep_recordings=False))
    assert job.state is JobState.STORED
    assert [original.name for original in context.store.results.original(job.id) if "perf.data" in original.name] == []


def test_cancelling_keeps_what_was_recorded(context: JobContext, here: Target) -> None:
    job = until_job(context, submit(context.store, at(here, *ENDLESS)), lambda job: _said(context, job))
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, job.id) and job.outcome is not None
    assert job.outcome.cancelled and "It was cancelled." in (job.reason or "") and is_cleaned_up(job)
    assert not context.store.results.get(job.id).complete


def _said(context: JobContext, job: object) -> bool:
    return "begun" in files_of(context, job).tail()  # type: ignore[arg-type]


@pytest.mark.slow
def test_cancelling_twice_drops_it(context: JobContext, here: Target) -> None:
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); signal.signal(2, signal.SIG_IGN)\n" + ENDLESS[-1]
    job = submit(context.store, at(here, sys.executable, "-S", "-c", stubborn))
    job = until_job(context, job, lambda job: _said(context, job))
    context.store.jobs.request_cancel(job.id)
    job = until_job(context, job, lambda job: job.details.cancellation.gentle)
    assert job.progress_text == cancellation.PROGRESS_TEXT and not job.cancel_requested
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, None) and is_cleaned_up(job)


@pytest.mark.slow
def test_job_that_ignores_term_is_killed(context: JobContext, here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "KILL_AFTER_S", 0.3)
    job = until_job(context, submit(context.store, at(here, *ENDLESS)), lambda job: _said(context, job))
    for one in processes.find_by_variable(JOB_VARIABLE, job.id):
        processes.send_signal(one, 19)  # A stopped process does not handle SIGTERM.
    context.store.jobs.request_cancel(job.id)
    job = to_the_end(context, job)
    assert job.state is JobState.CANCELLED and is_cleaned_up(job)


def test_cancelled_before_it_began(context: JobContext, here: Target) -> None:
    job = submit(context.store, at(here, *ENDLESS))
    context.store.jobs.request_cancel(job.id)
    assert to_the_end(context, job).state is JobState.CANCELLED
    job = until_job(context, submit(context.store, at(here, *ENDLESS)), lambda job: job.state is not JobState.QUEUED)
    assert job.state is JobState.RUNNING


@pytest.mark.slow
def test_vanished_job_is_lost_with_reason(context: JobContext, here: Target) -> None:
    job = until_job(context, submit(context.store, at(here, "sleep", "60")), lambda job: job.state is JobState.RUNNING)
    until(lambda: processes.find_by_variable(JOB_VARIABLE, job.id), "it runs")
    processes.terminate_by_variable(JOB_VARIABLE, job.id, grace_s=0)
    job = to_the_end(context, job)
    assert job.state is JobState.LOST and "killed" in (job.reason or "") and is_cleaned_up(job)


def test_a_directory_that_vanishes(context: JobContext, here: Target) -> None:
    job = until_job(context, submit(context.store, at(here, "sleep", "1")), lambda job: job.state is JobState.RUNNING)
    far(job).rename(far(job).with_name("elsewhere"))
    job = to_the_end(context, job)
    assert job.state is JobState.LOST and "no longer exists" in (job.reason or "")


def test_output_without_end_is_cut_in_the_middle(
    context: JobContext, here: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_client, "HEAD_BYTES", 1000)
    monkeypatch.setattr(supervisor_client, "TAIL_BYTES", 1000)
    job = run(context, at(here, "seq", "200000"))
    text = files_of(context, job).output.read_text()
    assert text.startswith("1\n2\n") and "\n200000\n" in text and "left out here" in text and len(text) < 2200


def test_a_planned_job_takes_one_of_the_places(context: JobContext, here: Target) -> None:
    spec = at(here, *ENDLESS)
    first, second, third = (submit(context.store, spec) for _ in range(3))
    for job in (first, second):
        until_job(context, job, lambda job: job.state is JobState.RUNNING)
    steps.advance(context, third.id)
    assert context.store.jobs.get(third.id).state is JobState.QUEUED
    for job in (first, second, third):
        steps.cancel(context, job.id)
    assert to_the_end(context, third).state is JobState.CANCELLED


@pytest.mark.slow
def test_a_full_disk_here_waits_for_room(context: JobContext, here: Target) -> None:
    job = until_job(context, submit(context.store, at(here, *BUSY)), lambda job: job.state is JobState.RUNNING)
    poor = dataclasses.replace(context, settings=dataclasses.replace(context.settings, reserve_bytes=10**18))
    until(
        lambda: (steps.advance(poor, job.id), "disk space" in context.store.jobs.get(job.id).progress_text)[1],
        "no room",
    )
    assert context.store.jobs.get(job.id).state is JobState.COLLECTING
    assert to_the_end(context, job).state is JobState.STORED


def test_words_for_a_target_that_is_gone_for_good(
    context: JobContext, here: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost after the time that the settings say; the directory is removed when the target is there again."""
    job = until_job(context, submit(context.store, at(here, *ENDLESS)), lambda job: job.state is JobState.RUNNING)
    with monkeypatch.context() as away:
        for module in (polling, cleanup):
            away.setattr(module, "open_target", _nobody)
        steps.advance(context, job.id)
        job = context.store.jobs.get(job.id)
        assert job.state is JobState.RUNNING and "The way is broken. Perfloom retries" in job.progress_text
        details = replace(job.details, unreachable_since=time.time() - context.settings.unreachable_seconds - 1)
        context.store.jobs.update(job.id, details=details)
        steps.advance(context, job.id)
        job = context.store.jobs.get(job.id)
    assert job.state is JobState.LOST and retries.UNREACHABLE_NOTE in (job.reason or "")
    assert cleanup.targets_to_clean_up(context.settings) == ("here",) and far(job).exists()
    polling.poll(context, "here")
    assert cleanup.targets_to_clean_up(context.settings) == () and is_cleaned_up(job)


def test_ssh_is_loaded_only_where_it_is_used() -> None:
    code = "import sys; import perfloom.workers.remote.steps, perfloom.workers.serve.server; sys.exit('asyncssh' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def _nobody(*_: object) -> object:
    raise Unreachable("The way is broken.")


@pytest.mark.slow
def test_a_perf_that_was_killed_before_it_wrote_samples(context: JobContext, here: Target, tmp_path: Path) -> None:
    job = run(context, at(here, "true"))
    artefacts = files_of(context, job).artifacts / "run0" / "all"
    artefacts.mkdir(parents=True)
    for killed in (False, True):
        (artefacts / STATE).write_text("exit 0\n" + "killed 9\n" * killed)
        assert ("lack of memory" in collection._why(job, files_of(context, job))) is killed
