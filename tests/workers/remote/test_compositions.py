"""Every composition of a way to the host, a batch system and a way to start: what comes back names ranks and hosts.

Rank 1 of the program works twice as long as the others, and each rank's thread calls itself by the number of its rank:
so nothing that one rank did can be shown as another's without being noticed.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import CallGraph, JobState, Mpi, MpiFlavor, RecorderName
from perfloom.domain.targets import SchedulerName, Target, TargetFacts
from perfloom.ingest.facts import PERF_SCRIPT_FACT
from perfloom.recording.plan import symbol_tables
from perfloom.store.jobs import Job
from perfloom.workers.base.context import JobContext
from perfloom.workers.remote.symbol_tables import open_target_symbols
from perfloom.workers.transports import close_all
from tests.recording.recorders.test_torch_inject import DOUBLE
from tests.support import sshd as servers
from tests.support.batch import BatchSystem
from tests.support.marks import slow_but_every
from tests.support.mpi.programs import MpiProgram
from tests.support.sshd import Sshd
from tests.workers.remote.driving import at, files_of, is_cleaned_up, run

RANKS = 4
WORK_MS = "250"
PLACES = ("here", "ssh")
SYSTEMS = ("direct", "slurm", "lsf")
STARTS = ("one process", "openmpi", "mpich", "srun")
TABLE = [
    (place, system, start)
    for place in PLACES
    for system in SYSTEMS
    for start in STARTS
    if start != "srun" or system == "slurm"
]


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with servers.sshd() as found:
        yield found
    close_all()


def target_of(request: pytest.FixtureRequest, place: str, system: str, tmp_path: Path) -> Target:
    """The target of that composition."""
    target = Target(f"{place} {system}", directory=str(tmp_path / "jobs"), poll_s=0.4)
    if place == "ssh":
        server: Sshd = request.getfixturevalue("server")
        target = replace(target, ssh=server.ssh(), directory=str(server.home / "jobs"))
    if system != "direct":
        batch: BatchSystem = request.getfixturevalue(system)
        environment = {"PATH": f"{batch.path}:/usr/local/bin:/usr/bin:/bin", **batch.environment}
        target = replace(target, scheduler=SchedulerName(system), environment=environment)
    return target


@pytest.mark.slow
@pytest.mark.parametrize(("place", "system", "start"), slow_but_every(4, TABLE))
def test_collected_files_belong_to_worker(
    request: pytest.FixtureRequest,
    context: JobContext,
    mpi_program: MpiProgram,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    system: str,
    start: str,
) -> None:
    # Some recordings come with symbol tables. Those of Open MPI and MPICH have many binaries, which takes long.
    with_tables = place == "ssh" and start in ("one process", "srun")
    if with_tables:
        monkeypatch.setattr(symbol_tables, "MIN_RECORDING_BYTES", 1)
        monkeypatch.setattr(symbol_tables, "MIN_BYTES_WITH_NEW_TABLES", 1)
    target = target_of(request, place, system, tmp_path)
    context.store.targets.save(target)
    # Known already: asking takes its time.
    context.store.targets.save_check(target.name, TargetFacts(context.facts(), clock_ns=0), ())
    flavour = None if start == "one process" else MpiFlavor(start)
    program = mpi_program(MpiFlavor.MPICH if flavour is MpiFlavor.MPICH else MpiFlavor.OPENMPI)
    command = (str(program), WORK_MS) if flavour else ("sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done")
    spec = at(
        target,
        *command,
        frequency=999,
        call_graph=CallGraph.FP,
        events=("cpu-clock",),
        mpi=Mpi(flavour, ranks=RANKS) if flavour else None,
    )
    job = run(context, spec, 60)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None), files_of(context, job).tail()
    assert context.store.results.get(job.id).complete and is_cleaned_up(job)
    has_tables = bool((tables := open_target_symbols(context.settings.data, target)) and tables.list_names())
    facts = context.store.results.open(job.id).meta.facts
    assert has_tables == with_tables and PERF_SCRIPT_FACT not in facts, facts
    names, samples = _by_rank(context, job)
    if flavour is None:
        assert list(samples) == [None] and samples[None] > 20
        return
    assert sorted(names) == list(range(RANKS)), names
    assert all(names[rank] == {f"rank-{rank}"} for rank in names), names
    others = [samples[rank] for rank in range(RANKS) if rank != 1]
    # 0.5 on a quiet machine; a busy one delays timers, and perf takes one sample where several were due. Samples of
    # another rank would give 1 or 2.
    assert all(0.25 <= other / samples[1] <= 0.8 for other in others), samples


def test_injected_files_are_copied(request: pytest.FixtureRequest, context: JobContext, tmp_path: Path) -> None:
    target = target_of(request, "ssh", "slurm", tmp_path)
    context.store.targets.save(target)
    context.store.targets.save_check(target.name, TargetFacts(context.facts(), clock_ns=0), ())
    train = "import torch; o = torch.optim.SGD(); [o.step() for _ in range(9)]"
    spec = at(target, sys.executable, "-c", train, recorder=RecorderName.PYTORCH, mpi=Mpi(MpiFlavor.SRUN, ranks=2))
    job = run(context, replace(spec, environment={"PYTHONPATH": str(DOUBLE)}), 60)
    assert job.state is JobState.STORED and is_cleaned_up(job), files_of(context, job).tail()
    assert context.store.results.open(job.id).steps.column("rank").to_pylist() == [0] * 3 + [1] * 3


def _by_rank(context: JobContext, job: Job) -> tuple[dict[int | None, set[str]], dict[int | None, int]]:
    """By rank: what its threads called themselves while `work` ran, and how many samples that gave."""
    profile = context.store.results.open(job.id)
    threads, frames, functions, stacks, names = (
        getattr(profile, table).to_pylist() for table in ("threads", "frames", "functions", "stacks", "thread_names")
    )
    assert {thread["host"] for thread in threads} == {os.uname().nodename}
    inside: list[bool] = []
    for node in stacks:
        work = node["frame"] >= 0 and functions[frames[node["frame"]]["function"]]["name"] == "work"
        inside.append(work or (node["parent"] >= 0 and inside[node["parent"]]))
    named: dict[int | None, set[str]] = {}
    counts: dict[int | None, int] = {}
    for sample in profile.samples.to_pylist():
        rank = threads[sample["thread"]]["rank"]
        if rank is None:
            counts[rank] = counts.get(rank, 0) + 1
        elif inside[sample["stack"]]:
            counts[rank] = counts.get(rank, 0) + 1
            latest = [
                name["name"]
                for name in names
                if name["thread"] == sample["thread"] and name["from_ns"] <= sample["time_ns"]
            ]
            named.setdefault(rank, set()).add(latest[-1])
    return named, counts
