"""Counting during a recording at a target; the program ends as it would without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfloom.domain.event_names import split_modifiers
from perfloom.domain.jobs import CallGraph, Scope
from perfloom.recording.plan import plan as plans
from perfloom.workers.base import processes
from tests.recording.plan.conftest import MakeJob
from tests.recording.plan.jobs import PlannedJob
from tests.support.parts import require
from tests.workers.waiting import until

PAGES = 20_000
TOUCHES = f"import mmap; all = mmap.mmap(-1, {PAGES} * 4096); [all.__setitem__(n * 4096, 1) for n in range({PAGES})]"
FAULTS = {"events": ("page-faults",), "frequency": None, "call_graph": CallGraph.NONE, "cwd": "/"}
ON = "while :; do :; done"


@pytest.fixture(autouse=True)
def perf() -> Path:
    return require("perf")


def counted(job: PlannedJob, place: str = "run0/all") -> dict[str, int]:
    assert "perf-stat.txt" in str(job.listed()), (job.log(), list((job.directory / place).iterdir()))
    lines = [line.split(",") for line in (job.directory / place / "perf-stat.txt").read_text().splitlines()]
    # With `:u` if only root may observe the kernel.
    return {split_modifiers(line[2])[0]: int(line[0]) for line in lines if len(line) > 3}


@pytest.mark.parametrize("how", ["0", "7", "139", "SEGV", "KILL", "TERM", "HUP"])
def test_the_program_ends_as_it_did(make_job: MakeJob, how: str) -> None:
    end = f"exit {how}" if how.isdigit() else f"kill -s {how} $$"
    job = make_job("sh", "-c", f"{end}", **FAULTS).start()
    sight = job.until_ended()
    [rank] = sight.ranks
    state = job.state("run0/all/state")
    if how.isdigit() and how != "139":
        assert (state.get("exit"), state.get("signal")) == (how, None), job.log()
    else:
        number = 11 if how == "139" else signal.Signals[f"SIG{how}"]
        assert (state.get("exit"), state.get("signal")) == (None, str(int(number))), job.log()
    assert 10 < counted(job)["page-faults"] < 1000, job.log()
    assert not rank.note


@pytest.mark.slow
def test_faults_of_children_are_counted_by_any_shell(make_job: MakeJob, shell: Path) -> None:
    """With the pages that mmap touches, Python itself has about 1,500 faults."""
    job = make_job(
        "sh", "-c", f'for n in 1 2; do {sys.executable} -S -c "$1"; done; exit 5', "sh", TOUCHES, shell=shell, **FAULTS
    )
    sight = job.start().until_ended()
    assert sight.ranks[0].exit_status == 5, job.log()
    assert 2 * PAGES < counted(job)["page-faults"] < 2 * PAGES + 6000, job.log()
    assert set(job.listed()) == {
        f"run0/all/{name}" for name in ("perf.data", "perf.script.zst", "perf-stat.txt", "state")
    }
    assert {path.name for path in (job.directory / "run0/all").iterdir()} == {
        *("perf.data", "perf.script.zst", "build-ids.txt", "perf-stat.txt", "state")
    }
    samples = [line for line in job.text("run0/all").splitlines() if "page-faults" in line and not line.startswith("#")]
    own = [line for line in samples if "perfloom-wait" not in line]
    assert abs(len(own) - counted(job)["page-faults"]) < 0.01 * len(own)
    job.well(plans.remove_script(job.place))


def test_a_program_that_is_not_there(make_job: MakeJob) -> None:
    job = make_job("/no/such/program", **FAULTS).start()
    sight = job.until_ended()
    assert sight.ranks[0].exit_status and "No such file" in job.output.decode(), job.log()
    assert "perf-stat.txt" not in str(job.listed())


def test_clocks_are_not_counted(make_job: MakeJob) -> None:
    job = make_job("true").start()
    job.until_ended()
    assert "perf-stat.txt" not in str(job.listed()) and "pl_counts=''" in (job.directory / "plan.sh").read_text()


@pytest.mark.parametrize("gently", [True, False])
def test_a_cancelled_program(make_job: MakeJob, gently: bool) -> None:
    job = make_job("sh", "-c", ON, **FAULTS).start()
    until(lambda: marks_gone(job), "the program runs")
    job.end(gently=gently)
    sight = job.until_ended() if gently else job.look()
    assert job.survivors() == []
    if gently:
        assert sight.ranks[0].stopped and counted(job)["page-faults"] > 10, job.log()


def test_a_time_limit(make_job: MakeJob) -> None:
    job = make_job("sh", "-c", ON, duration_s=5.0, **FAULTS).start()
    sight = job.until_ended()
    assert (sight.ranks[0].stopped, sight.submissions[0].exit_status) == ("limit", 0), job.log()
    assert counted(job)["page-faults"] > 10, job.log()


def of_job(job: PlannedJob, word: str) -> int:
    """The process of perf with a word in its command line."""
    for pid in processes.list_processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[1] == word.encode() and str(job.directory).encode() in b" ".join(words):
            return pid
    return 0


@pytest.mark.parametrize("who", ["stat", "record"])
def test_a_perf_that_is_killed(make_job: MakeJob, tmp_path: Path, who: str) -> None:
    job = make_job("sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; exit 3", **FAULTS).start()
    until(lambda: marks_gone(job), "the program runs")
    os.kill(of_job(job, who), signal.SIGKILL)
    # Not a child any more, or perf's own.
    (tmp_path / "go").touch()
    sight = job.until_ended()
    if who == "stat":
        assert sight.ranks[0].exit_status == 3, job.log()
        assert "not counted" in sight.ranks[0].note
    else:
        assert counted(job)["page-faults"] > 10, job.log()


def marks_gone(job: PlannedJob) -> bool:
    """Whether the program was started."""
    return not (job.directory / "run0/all/.go").exists() and bool(of_job(job, "stat"))


def test_a_killed_rank_is_counted_to_its_end(make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job("sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; exit 3", **FAULTS).start()
    until(lambda: marks_gone(job), "the program runs")
    present = processes.list_processes()
    found = [pid for pid in present if b"rank.sh" in command_of(pid) and str(job.directory).encode() in command_of(pid)]
    for pid in found:
        # Short-lived processes are its children.
        if present[pid].parent not in found:
            os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    job.until_gone()
    assert counted(job)["page-faults"] > 10, job.log()


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_process_is_counted(make_job: MakeJob) -> None:
    busy = subprocess.Popen(["sh", "-c", "while :; do sh -c :; done"])
    try:
        job = make_job(spec=None, scope=Scope.PROCESS, pid=busy.pid, duration_s=1.5, **FAULTS).start()
        sight = job.until_ended()
    finally:
        busy.kill()
        busy.wait()
    assert sight.ranks[0].stopped == "limit", job.log()
    assert counted(job)["page-faults"] > 100
