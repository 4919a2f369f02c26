"""Ranks in a real Slurm, started by srun: a step that is killed for one rank's crash, a limit that is reached."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfloom.domain.jobs import CallGraph, Mpi, MpiFlavor
from perfloom.domain.targets import SchedulerName
from tests.recording.plan.conftest import MakeJob
from tests.recording.plan.jobs import HERE
from tests.support.batch import Slurm
from tests.support.marks import slow_except
from tests.support.mpi.programs import MpiProgram
from tests.support.parts import require

CLUSTER = replace(HERE, scheduler=SchedulerName.SLURM)
FLAVOURS = (MpiFlavor.OPENMPI, MpiFlavor.MPICH)


@pytest.mark.parametrize("built", slow_except([MpiFlavor.MPICH], FLAVOURS))
def test_recordings_survive_killed_slurm_step(
    make_job: MakeJob, mpi_program: MpiProgram, slurm: Slurm, built: MpiFlavor
) -> None:
    """With PMIx Slurm kills all ranks at once, perf included; with PMI-2 it ends when the others do."""
    require("perf")
    arguments = ("--kill-on-bad-exit=1",) if built is MpiFlavor.MPICH else ()
    job = make_job(
        str(mpi_program(built)),
        "400",
        "crash",
        "2",
        mpi=Mpi(MpiFlavor.SRUN, ranks=4, arguments=arguments),
        frequency=999,
        call_graph=CallGraph.DWARF,
        target=CLUSTER,
        host_environment=slurm.variables,
    ).start()
    sight = job.until_ended()
    assert sight.submissions[0].exit_status not in (0, None)
    assert {rank.rank: rank.size for rank in sight.ranks} == dict.fromkeys(range(4), 4), job.log()
    for rank in range(4):
        assert f"run0/{rank}/perf.script.zst" in job.listed(), job.log()
    assert job.samples("run0/0") > 20 and job.samples("run0/1") > 20
    job.until_gone()


def test_slurm_answer_is_stored(make_job: MakeJob, slurm: Slurm) -> None:
    job = make_job("true", target=CLUSTER, host_environment=slurm.variables)
    job.lay_down()
    first = job.begin()
    assert first.isdigit() and job.begin() == first
    job.until_ended()
