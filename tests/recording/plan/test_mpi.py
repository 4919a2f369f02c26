"""Ranks are started, distinguished, recorded and read, with real MPI on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from perfloom.domain.jobs import Mpi, MpiFlavor, RecorderName
from perfloom.recording.job_status import JobStatus
from tests.recording.plan.conftest import MakeJob
from tests.recording.plan.jobs import PlannedJob
from tests.support.mpi.programs import MpiProgram
from tests.support.parts import require, require_whole_system

FLAVOURS = (MpiFlavor.OPENMPI, MpiFlavor.MPICH)
both = pytest.mark.parametrize("flavour", FLAVOURS)


def by_rank(sight: JobStatus) -> dict[int | None, str]:
    return {rank.rank: rank.state for rank in sight.ranks}


def job_of(make_job: MakeJob, built: MpiProgram, flavour: MpiFlavor, *words: str, **mpi: object) -> PlannedJob:
    require("perf")
    return make_job(str(built(flavour)), *words, mpi=Mpi(flavour, **({"ranks": 4} | mpi)), frequency=999)


@both
def test_four_ranks_and_rank_1_works_twice_as_long(
    make_job: MakeJob, mpi_program: MpiProgram, flavour: MpiFlavor
) -> None:
    job = job_of(make_job, mpi_program, flavour, "250").start()
    sight = job.until_ended()
    assert sight.submissions[0].exit_status == 0, job.log()
    assert by_rank(sight) == dict.fromkeys(range(4), "done")
    assert {rank.size for rank in sight.ranks} == {4}
    assert sorted(line for line in job.output.decode().splitlines() if line.startswith("rank ")) == [
        f"rank {number} of 4" for number in range(4)
    ]
    assert set(job.listed()) == {
        f"run0/{rank}/{name}" for rank in range(4) for name in ("perf.data", "perf.script.zst", "state")
    }
    worked = [sum("work" in line for line in job.text(f"run0/{rank}").splitlines()) for rank in range(4)]
    assert worked[1] > 300, worked
    # perf may lose some samples on a busy machine.
    assert all(0.38 <= worked[rank] / worked[1] <= 0.66 for rank in (0, 2, 3)), worked


@both
def test_crashed_rank_does_not_lose_others(make_job: MakeJob, mpi_program: MpiProgram, flavour: MpiFlavor) -> None:
    """The launcher kills the others, Hydra immediately: their recordings are complete and are read."""
    job = job_of(make_job, mpi_program, flavour, "200", "crash", "2").start()
    sight = job.until_ended()
    assert sight.submissions[0].exit_status not in (0, None)
    assert by_rank(sight) == dict.fromkeys(range(4), "done"), job.log()
    crashed = {rank.rank: rank for rank in sight.ranks}[2]
    assert (crashed.exit_status, crashed.stopped) == (128 + 11, "")
    assert all(rank.stopped and rank.exit_status is None for rank in sight.ranks if rank.rank != 2)
    assert all(job.samples(f"run0/{rank}") > 50 for rank in range(4))
    job.until_gone()


@both
def test_a_cancel_keeps_what_all_ranks_recorded(make_job: MakeJob, mpi_program: MpiProgram, flavour: MpiFlavor) -> None:
    job = job_of(make_job, mpi_program, flavour, "50", "on").start()
    job.until_recording(4)
    job.end(gently=True)
    sight = job.until_ended()
    assert (sight.submissions[0].exit_status, sight.submissions[0].stopped) == (143, "signal TERM")
    assert by_rank(sight) == dict.fromkeys(range(4), "done"), job.log()
    assert all(rank.stopped for rank in sight.ranks)
    assert all(f"run0/{rank}/perf.script.zst" in job.listed() for rank in range(4))
    job.until_gone()


@pytest.mark.parametrize(
    ("flavour", "signals"),
    [(MpiFlavor.OPENMPI, (signal.SIGCONT, signal.SIGTERM)), (MpiFlavor.MPICH, (signal.SIGUSR2,))],
    ids=["as-slurm-does", "as-lsf-does"],
)
def test_time_limit_signal_to_all_processes(
    make_job: MakeJob, mpi_program: MpiProgram, flavour: MpiFlavor, signals: tuple[signal.Signals, ...]
) -> None:
    """A batch system signals all processes of a job at the same time: launcher, ranks, perf and program."""
    job = job_of(make_job, mpi_program, flavour, "50", "on").start()
    job.until_recording(4)
    leader = job.natives[0].split()[0]
    for pid in (leader, *(line.partition(":")[0] for line in job.survivors())):
        for number in signals:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
    sight = job.until_ended()
    assert (sight.submissions[0].exit_status, sight.submissions[0].stopped[:6]) == (143, "signal")
    assert by_rank(sight) == dict.fromkeys(range(4), "done"), job.log()
    assert all(f"run0/{rank}/perf.script.zst" in job.listed() for rank in range(4))


@both
def test_killed_ranks_leave_no_process(make_job: MakeJob, mpi_program: MpiProgram, flavour: MpiFlavor) -> None:
    job = job_of(make_job, mpi_program, flavour, "50", "on", ranks=2).start()
    job.until_recording(2)
    job.end(gently=False)
    assert job.survivors() == []
    assert job.look().submissions[0].alive is False


def test_selected_ranks_are_recorded(make_job: MakeJob, mpi_program: MpiProgram) -> None:
    mpi = {"ranks": 5, "every": 2, "only": "0-1, 3-4"}
    job = job_of(make_job, mpi_program, MpiFlavor.MPICH, "20", **mpi).start()
    sight = job.until_ended()
    assert sight.submissions[0].exit_status == 0, job.log()
    assert {rank.rank: rank.recorded for rank in sight.ranks} == {0: True, 1: False, 2: False, 3: False, 4: True}
    assert all(rank.exit_status == 0 for rank in sight.ranks)
    assert {path for path in job.listed() if "perf.data" in path} == {"run0/0/perf.data", "run0/4/perf.data"}


def test_each_rank_is_counted(make_job: MakeJob, mpi_program: MpiProgram) -> None:
    """Each repeat is a run: perf cannot start a rank's program a second time."""
    require("perf")
    job = make_job(
        str(mpi_program(MpiFlavor.OPENMPI)),
        "20",
        mpi=Mpi(MpiFlavor.OPENMPI, ranks=2),
        recorder=RecorderName.PERF_STAT,
        events=("task-clock:u",),
        repeat=2,
    ).start()
    sight = job.until_ended()
    assert [run.exit_status for run in sight.runs] == [0, 0], job.log()
    counted = {path for path in job.listed() if path.endswith("perf-stat.txt")}
    assert counted == {f"run{run}/{rank}/perf-stat.txt" for run in (0, 1) for rank in (0, 1)}


@both
def test_wrong_mpi_launcher_is_reported(make_job: MakeJob, mpi_program: MpiProgram, flavour: MpiFlavor) -> None:
    """Each rank would be rank 0 of 1 without a word."""
    require("perf")
    other = next(one for one in FLAVOURS if one is not flavour)
    job = make_job(str(mpi_program(other)), "20", mpi=Mpi(flavour, ranks=2)).start()
    sight = job.until_ended()
    assert any("run as if it were the only one" in note for note in sight.notes), (sight.notes, job.log())


def test_missing_mpi_launcher_is_named(make_job: MakeJob, mpi_program: MpiProgram) -> None:
    job = job_of(make_job, mpi_program, MpiFlavor.MPICH, program="no-such-mpirun").start()
    sight = job.until_ended()
    assert sight.submissions[0].exit_status == 125
    assert "No launcher of MPICH (Hydra) was found on PATH" in job.output.decode()


def test_one_recording_of_each_host(make_job: MakeJob, mpi_program: MpiProgram) -> None:
    require_whole_system()
    job = job_of(make_job, mpi_program, MpiFlavor.MPICH, "150", ranks=3, per_host=True).start()
    sight = job.until_ended()
    assert sight.submissions[0].exit_status == 0, job.log()
    assert [(rank.rank, rank.recorded, rank.exit_status) for rank in sight.ranks] == [
        (0, False, 0),
        (1, False, 0),
        (2, False, 0),
        (None, True, 0),
    ]
    [recorded] = [path for path in job.listed() if path.endswith("/perf.data")]
    assert recorded == f"run0/on-{sight.ranks[-1].host}/perf.data"
    assert "unequal.mpich" in job.text(str(Path(recorded).parent))
