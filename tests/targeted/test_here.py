"""Planned jobs on this machine itself, with a real perf: from the queue to a stored result, or to a reason."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfloom.domain.errors import Unreachable
from perfloom.domain.jobs import JobState, RecorderName, Splitting
from perfloom.domain.targets import Target
from perfloom.workers import steps
from perfloom.workers.local import processes, supervised
from perfloom.workers.local.jobfiles import MARK, keep_environment
from perfloom.workers.read.rank_folders import STATE
from perfloom.workers.remote import collecting, leaving, patience, polling, wishes
from perfloom.workers.road import Road
from tests.targeted.driving import at, far, files_of, nothing_left, run, sight_of, submit, to_the_end, until_job
from tests.workers.waiting import until

BUSY = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
"""Some tenths of a second on a CPU."""
ENDLESS = (sys.executable, "-S", "-c", "print('begun', flush=True)\nwhile True: pass")


def test_a_planned_job_becomes_a_result(road: Road, here: Target) -> None:
    job = run(road, at(here, *BUSY))
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert job.outcome is not None and job.outcome.exit_status == 0 and job.host == road.host
    states = [state for state, _ in job.history]
    assert states == ["queued", "staging", "running", "collecting", "reading", "stored"]
    result = road.store.results.get(job.id)
    assert result.complete and result.samples > 10 and sys.executable in result.command
    names = {original.name for original in road.store.results.original(job.id)}
    assert "perf.data" in names and any(name.startswith("perf.script") for name in names)
    hosts = road.store.results.open(job.id).threads.column("host").to_pylist()
    assert set(hosts) == {os.uname().nodename}
    assert nothing_left(job) and not files_of(road, job).artefacts.exists()
    sight = sight_of(road, job)
    assert [run.state for run in sight.runs] == ["ended"] and sight.submissions[0].exit_status == 0


def test_it_gets_inputs_and_the_environment_of_who_asked(road: Road, here: Target, tmp_path: Path) -> None:
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
    job = submit(road.store, spec)
    keep_environment(files_of(road, job), {**os.environ, "ASKED": "it's", "PERFLOOM_TOKEN": "s" * 20})
    job = to_the_end(road, job)
    assert files_of(road, job).output.read_text().startswith("contentdeep me it's\n"), job.reason
    assert not (files_of(road, job).run / "environment.json").exists()


def test_inputs_of_each_run(road: Road, here: Target, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"in{number}").write_text(f"number {number}\n")
    spec = at(
        here,
        *("sh", "-c", "cat in{run}; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
        inputs=(str(tmp_path / "in{run}"),),
        events=("cpu-clock:u", "task-clock:u"),
        splitting=Splitting.SEQUENTIAL,
        events_per_run=1,
    )
    job = run(road, spec)
    assert job.state is JobState.STORED, job.reason
    assert [line for line in files_of(road, job).output.read_text().split("\n") if "number" in line] == [
        "number 0",
        "number 1",
    ]
    runs = road.store.results.open(job.id).runs
    assert runs.num_rows == 2 and len(sight_of(road, job).runs) == 2


def test_inputs_replace_nothing_of_somebody_else(road: Road, here: Target, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "given").write_text("theirs")
    (tmp_path / "given").write_text("ours")
    job = run(road, at(here, "true", cwd=str(place), inputs=(str(tmp_path / "given"),)))
    assert job.state is JobState.FAILED and "is there already" in (job.reason or "")
    assert (place / "given").read_text() == "theirs" and nothing_left(job)
    job = run(road, at(here, "cat", "given", cwd=str(place), inputs=(str(place / "given"),)))
    assert files_of(road, job).output.read_text().startswith("theirs"), job.reason


def test_a_working_directory_there(road: Road, here: Target, tmp_path: Path) -> None:
    place = tmp_path / "a 'place'"
    place.mkdir()
    job = run(road, at(here, "sh", "-c", "pwd; echo made >file", cwd=str(place)))
    assert files_of(road, job).output.read_text().startswith(f"{place}\n") and (place / "file").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cwd": "/does/not/exist"}, "/does/not/exist does not exist on"),
        ({"cwd": "relative"}, "no full path"),
        ({"inputs": ("/does/not/exist",)}, "/does/not/exist does not exist"),
        ({"inputs": ("relative",)}, "no full path"),
        ({"command": ("/no/such/program",)}, "/no/such/program"),
        ({"command": ("no-such-program",)}, "looked for on PATH at here"),
        ({"command": ("./no-such-program",)}, "looked for in the job's own directory at here"),
        ({"command": ()}, "no command"),
        ({"events": ("nonsense-event",)}, "nonsense-event"),
        ({"sudo": True}, "does not allow sudo"),
        ({"target": "nowhere"}, "no target 'nowhere'"),
    ],
)
def test_a_job_that_cannot_work_says_why(road: Road, here: Target, changes: dict[str, object], words: str) -> None:
    job = run(road, dataclasses.replace(at(here, "true"), **changes))  # type: ignore[arg-type]
    assert (job.state, job.result_id) == (JobState.FAILED, None)
    assert words in (job.reason or ""), job.reason
    assert nothing_left(job)


def test_without_perf_there(road: Road, tmp_path: Path) -> None:
    bare = Target("bare", directory=str(tmp_path / "jobs"), perf="/no/perf/here")
    road.store.targets.save(bare)
    job = run(road, at(bare, "true"))
    assert job.state is JobState.FAILED and "/no/perf/here" in (job.reason or ""), job.reason


def test_no_sample_at_all_is_a_result_that_says_so(road: Road, here: Target) -> None:
    job = run(road, at(here, "true", frequency=1))
    assert job.state is JobState.STORED, job.reason
    result = road.store.results.get(job.id)
    assert not result.complete and "No sample was taken" in result.reasons[0]


def test_a_command_that_fails_keeps_its_samples(road: Road, here: Target) -> None:
    job = run(road, at(here, sys.executable, "-S", "-c", "sum(range(10**7)); raise SystemExit(7)"))
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.exit_status == 7
    result = road.store.results.get(job.id)
    assert not result.complete and [reason for reason in result.reasons if "exit status 7" in reason]


def test_a_command_that_crashes_says_its_signal(road: Road, here: Target) -> None:
    job = run(road, at(here, sys.executable, "-c", "import os; sum(range(10**7)); os.kill(os.getpid(), 11)"))
    assert job.state is JobState.STORED and job.outcome is not None
    assert job.outcome.signal == 11 and "SIGSEGV" in (job.reason or ""), job


def test_the_time_limit(road: Road, here: Target) -> None:
    job = run(road, at(here, *ENDLESS, duration_s=0.5))
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.time_limit, job
    assert "limit of 0.5 s" in (job.reason or "") and not road.store.results.get(job.id).complete
    assert nothing_left(job)


def test_counting(road: Road, here: Target) -> None:
    job = run(road, at(here, *BUSY, recorder=RecorderName.PERF_STAT, events=("task-clock:u", "page-faults:u")))
    assert job.state is JobState.STORED, job.reason
    assert road.store.results.open(job.id).counts.num_rows >= 2


def test_files_may_be_left(road: Road, here: Target) -> None:
    job = run(road, at(here, *BUSY, leave_files=True))
    assert job.state is JobState.STORED and (far(job) / "run0" / "all" / "perf.data").exists()


def test_recordings_need_not_be_brought(road: Road, here: Target) -> None:
    job = run(road, at(here, *BUSY, keep_recordings=False))
    assert job.state is JobState.STORED
    assert [original.name for original in road.store.results.original(job.id) if "perf.data" in original.name] == []


def test_cancelling_keeps_what_was_recorded(road: Road, here: Target) -> None:
    job = until_job(road, submit(road.store, at(here, *ENDLESS)), lambda job: _said(road, job))
    road.store.jobs.request_cancel(job.id)
    job = to_the_end(road, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, job.id) and job.outcome is not None
    assert job.outcome.cancelled and "It was cancelled." in (job.reason or "") and nothing_left(job)
    assert not road.store.results.get(job.id).complete


def _said(road: Road, job: object) -> bool:
    return "begun" in files_of(road, job).tail()  # type: ignore[arg-type]


def test_cancelling_twice_drops_it(road: Road, here: Target) -> None:
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); signal.signal(2, signal.SIG_IGN)\n" + ENDLESS[-1]
    job = submit(road.store, at(here, sys.executable, "-S", "-c", stubborn))
    job = until_job(road, job, lambda job: _said(road, job))
    road.store.jobs.request_cancel(job.id)
    job = until_job(road, job, lambda job: wishes.of(job).gentle)
    assert job.progress_text == wishes.TEXT and not job.cancel_requested
    road.store.jobs.request_cancel(job.id)
    job = to_the_end(road, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, None) and nothing_left(job)


def test_who_does_not_end_is_made_to(road: Road, here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wishes, "HARD_S", 0.3)
    job = until_job(road, submit(road.store, at(here, *ENDLESS)), lambda job: _said(road, job))
    for one in processes.marked(MARK, job.id):
        processes.send(one, 19)  # Whoever is stopped answers nothing gentle.
    road.store.jobs.request_cancel(job.id)
    job = to_the_end(road, job)
    assert job.state is JobState.CANCELLED and nothing_left(job)


def test_cancelled_before_it_began(road: Road, here: Target) -> None:
    job = submit(road.store, at(here, *ENDLESS))
    road.store.jobs.request_cancel(job.id)
    assert to_the_end(road, job).state is JobState.CANCELLED
    job = until_job(road, submit(road.store, at(here, *ENDLESS)), lambda job: job.state is not JobState.QUEUED)
    assert job.state is JobState.RUNNING


def test_what_vanishes_is_lost_with_its_reason(road: Road, here: Target) -> None:
    job = until_job(road, submit(road.store, at(here, "sleep", "60")), lambda job: job.state is JobState.RUNNING)
    until(lambda: processes.marked(MARK, job.id), "it runs")
    processes.end_marked(MARK, job.id, grace_s=0)
    job = to_the_end(road, job)
    assert job.state is JobState.LOST and "killed" in (job.reason or "") and nothing_left(job)


def test_a_directory_that_vanishes(road: Road, here: Target) -> None:
    job = until_job(road, submit(road.store, at(here, "sleep", "1")), lambda job: job.state is JobState.RUNNING)
    far(job).rename(far(job).with_name("elsewhere"))
    job = to_the_end(road, job)
    assert job.state is JobState.LOST and "is not there any more" in (job.reason or "")


def test_output_without_end_is_cut_in_the_middle(road: Road, here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "HEAD_BYTES", 1000)
    monkeypatch.setattr(supervised, "TAIL_BYTES", 1000)
    job = run(road, at(here, "seq", "200000"))
    text = files_of(road, job).output.read_text()
    assert text.startswith("1\n2\n") and "\n200000\n" in text and "left out here" in text and len(text) < 2200


def test_a_planned_job_takes_one_of_the_places(road: Road, here: Target) -> None:
    spec = at(here, *ENDLESS)
    first, second, third = (submit(road.store, spec) for _ in range(3))
    for job in (first, second):
        until_job(road, job, lambda job: job.state is JobState.RUNNING)
    steps.advance(road, third.id)
    assert road.store.jobs.get(third.id).state is JobState.QUEUED
    for job in (first, second, third):
        steps.cancel(road, job.id)
    assert to_the_end(road, third).state is JobState.CANCELLED


def test_a_full_disk_here_waits_for_room(road: Road, here: Target) -> None:
    job = until_job(road, submit(road.store, at(here, *BUSY)), lambda job: job.state is JobState.RUNNING)
    poor = dataclasses.replace(road, settings=dataclasses.replace(road.settings, reserve_bytes=10**18))
    until(lambda: (steps.advance(poor, job.id), "no room" in road.store.jobs.get(job.id).progress_text)[1], "no room")
    assert road.store.jobs.get(job.id).state is JobState.COLLECTING
    assert to_the_end(road, job).state is JobState.STORED


def test_words_for_a_target_that_is_gone_for_good(road: Road, here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost after the time that the settings say; the directory is removed when the target is there again."""
    job = until_job(road, submit(road.store, at(here, *ENDLESS)), lambda job: job.state is JobState.RUNNING)
    with monkeypatch.context() as away:
        for module in (polling, leaving):
            away.setattr(module, "reach", _nobody)
        steps.advance(road, job.id)
        job = road.store.jobs.get(job.id)
        assert job.state is JobState.RUNNING and "The way is broken. Tried again" in job.progress_text
        details = job.details | {"unreached": time.time() - road.settings.unreachable_seconds - 1}
        road.store.jobs.update(job.id, details=details)
        steps.advance(road, job.id)
        job = road.store.jobs.get(job.id)
    assert job.state is JobState.LOST and patience.CANNOT_SAY in (job.reason or "")
    assert leaving.targets(road.settings) == ("here",) and far(job).exists()
    polling.poll(road, "here")
    assert leaving.targets(road.settings) == () and nothing_left(job)


def test_ssh_is_loaded_only_where_it_is_used() -> None:
    code = "import sys; import perfloom.workers.remote.steps, perfloom.workers.serve.server; sys.exit('asyncssh' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def _nobody(*_: object) -> object:
    raise Unreachable("The way is broken.")


def test_a_perf_that_was_killed_before_it_wrote_samples(road: Road, here: Target, tmp_path: Path) -> None:
    job = run(road, at(here, "true"))
    artefacts = files_of(road, job).artefacts / "run0" / "all"
    artefacts.mkdir(parents=True)
    for killed in (False, True):
        (artefacts / STATE).write_text("exit 0\n" + "killed 9\n" * killed)
        assert ("memory was short" in collecting._why(job, files_of(road, job))) is killed
