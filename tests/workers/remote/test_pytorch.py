"""Jobs with the recorder of PyTorch: however they end, what was recorded of each process is stored. Most have a double."""

from __future__ import annotations

import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import JobSpec, JobState, Mpi, MpiFlavor, PyTorch, RecorderName
from perfloom.domain.profile import Profile
from perfloom.domain.targets import Target
from perfloom.store.jobs import Job
from perfloom.workers.base.context import JobContext
from tests.recording.recorders.test_torch_inject import DOUBLE
from tests.support.parts import require
from tests.workers.remote.driving import at, far, files_of, is_cleaned_up, run, sight_of, submit, to_the_end, until_job

TRAIN = """
import sys, torch
steps = int(sys.argv[1])
optimizer = torch.optim.SGD()
while steps:
    torch.op("forward")
    optimizer.step()
    steps -= 1
    if steps == -9: print("begun", flush=True)
    if steps < -9: __import__("time").sleep(0.01)
"""
"""Of so many steps, or without end (0 or less)."""
ON = "-1"
REAL = """
import torch, torch.distributed as distributed
distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
"""


@pytest.fixture
def job(tmp_path: Path) -> JobSpec:
    """A training at no target yet."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    command = (sys.executable, str(script), "12")
    spec = at(Target("here"), *command, recorder=RecorderName.PYTORCH, environment={"PYTHONPATH": str(DOUBLE)})
    return replace(spec, pytorch=PyTorch("1,0,2,2"))


def endless(job: JobSpec) -> JobSpec:
    """The same, but it does not end, nor does its recording."""
    return replace(job, command=(*job.command[:-1], ON), pytorch=PyTorch("2,0,999999"))


def stored(context: JobContext, job: Job) -> Profile:
    assert job.result_id == job.id, (job.reason, files_of(context, job).tail())
    assert is_cleaned_up(job)
    return context.store.results.open(job.id)


def test_spans_of_the_only_process(
    context: JobContext, here: Target, job: JobSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its small files need no compiled loops, also on a machine where none are compiled yet."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    context.store.targets.save(replace(here, scratch=str(tmp_path / "scratch")))
    ended = run(context, job)
    profile = stored(context, ended)
    assert ended.state is JobState.STORED and context.store.results.get(ended.id).complete
    assert profile.steps.column("name").to_pylist() == [f"ProfilerStep#{n}" for n in (1, 2, 4, 5)]
    (thread,) = profile.threads.to_pylist()
    assert (thread["rank"], thread["host"]) == (None, os.uname().nodename)
    assert '"optimizer step"' in profile.meta.facts["perfloom"] and profile.ranks.num_rows == 1
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not list((tmp_path / "cache").glob("*/*/*.nbc"))


def test_ranks_of_mpi(context: JobContext, here: Target, job: JobSpec) -> None:
    require("openmpi")
    ended = run(context, replace(job, mpi=Mpi(MpiFlavor.OPENMPI, 3, only="0,2")), 60)
    profile = stored(context, ended)
    assert profile.steps.column("rank").to_pylist() == [0] * 4 + [2] * 4
    assert profile.threads.column("rank").to_pylist() == [0, 2]
    assert [rank.recorded for rank in sight_of(context, ended).ranks] == [True, False, True]
    assert [original.name for original in context.store.results.original(ended.id)] == ["ranks.tar"]


@pytest.mark.parametrize("how", ["cancel", "limit"])
def test_a_stopped_program_saves_its_recording(context: JobContext, here: Target, job: JobSpec, how: str) -> None:
    begun = submit(context.store, replace(endless(job), duration_s=2.0 if how == "limit" else None))
    if how == "cancel":
        until_job(context, begun, lambda job: "begun" in files_of(context, job).tail())
        context.store.jobs.request_cancel(begun.id)
    ended = to_the_end(context, begun, 60)
    assert ended.state is (JobState.CANCELLED if how == "cancel" else JobState.STORED), ended
    assert stored(context, ended).steps.num_rows > 2
    result = context.store.results.get(ended.id)
    assert not result.complete and any("request to end" in reason for reason in result.reasons), result.reasons


def test_a_program_without_its_script_ends_and_saves_its_recording(
    context: JobContext, here: Target, job: JobSpec, tmp_path: Path
) -> None:
    """Its rank.sh was killed; what it saved is on scratch."""
    context.store.targets.save(replace(here, scratch=str(tmp_path / "scratch")))
    begun = submit(context.store, endless(job))
    running = until_job(context, begun, lambda job: "begun" in files_of(context, job).tail())
    state = (far(running) / "run0" / "all" / "state").read_text()
    (pid,) = re.findall(r"^pid (\d+)$", state, re.MULTILINE)
    # Its parent is rank.sh.
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    ended = to_the_end(context, running, 60)
    assert stored(context, ended).steps.num_rows > 2 and not context.store.results.get(ended.id).complete
    assert list((tmp_path / "scratch").iterdir()) == []


def test_why_there_is_nothing(context: JobContext, here: Target, job: JobSpec) -> None:
    few = run(context, replace(job, command=(*job.command[:-1], "2"), pytorch=PyTorch("5,1,1")))
    assert few.state is JobState.FAILED and "after 2 steps" in (few.reason or ""), few.reason
    none = run(context, replace(job, command=("true",)))
    assert none.state is JobState.FAILED and "no PyTorch operator was recorded" in (none.reason or ""), none.reason
    assert is_cleaned_up(few) and is_cleaned_up(none)


@pytest.mark.slow
def test_ranks_of_torchrun(context: JobContext, here: Target, tmp_path: Path) -> None:
    """Of PyTorch itself. The launcher is no rank."""
    require("torch")
    script = tmp_path / "train.py"
    script.write_text(REAL)
    start = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script))
    spec = at(here, *start, recorder=RecorderName.PYTORCH, environment={"OMP_NUM_THREADS": "1"})
    ended = run(context, replace(spec, pytorch=PyTorch("1,0,2,1", memory=True)), 100)
    profile = stored(context, ended)
    assert context.store.results.get(ended.id).complete, context.store.results.get(ended.id).reasons
    steps = zip(*(profile.steps.column(name).to_pylist() for name in ("rank", "name")), strict=True)
    assert list(steps) == [(rank, f"ProfilerStep#{number}") for rank in (0, 1) for number in (1, 2)]
    assert {thread["pid"] for thread in profile.threads.to_pylist() if thread["rank"] is None} == set()
    assert "gloo:all_reduce" in profile.functions.column("name").to_pylist() and profile.allocations.num_rows
