"""Recordings of slow_rank.c, one perf.data for each rank, with perf alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from perfloom.domain.jobs import MpiFlavor

RANKS, SLOW, EVEN = 4, 2, -1
COMPILERS = {MpiFlavor.OPENMPI: "mpicc.openmpi", MpiFlavor.MPICH: "mpicc.mpich"}
LAUNCHERS = {
    # Open MPI would give up the CPU while it waits, because there are more ranks than CPUs on small machines.
    MpiFlavor.OPENMPI: ("mpirun.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "0"),
    MpiFlavor.MPICH: ("mpirun.mpich",),
}
RANK_SCRIPT = """#!/bin/sh
exec perf record -q -N -g -F 999 -o "$FOLDER/rank${OMPI_COMM_WORLD_RANK:-$PMI_RANK}.data" -- "$@"
"""


def build(flavour: MpiFlavor, folder: Path) -> Path:
    """The program, built for an MPI implementation. Raises CalledProcessError if that fails."""
    program = folder / f"slow_rank.{flavour}"
    source = Path(__file__).with_name("slow_rank.c")
    argv = [COMPILERS[flavour], "-O1", "-g", "-fno-omit-frame-pointer", "-o", program, source]
    subprocess.run(argv, check=True, capture_output=True)
    return program


def record_ranks(program: Path, flavour: MpiFlavor, folder: Path, *, slow: int, total_ms: int) -> list[Path]:
    """The files of the ranks, in order, of a run of the program. slow: the rank that computes more, or `EVEN`. Raises
    CalledProcessError if it fails."""
    script = folder / "rank.sh"
    script.write_text(RANK_SCRIPT)
    script.chmod(0o755)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run(
        [*LAUNCHERS[flavour], "-n", str(RANKS), script, program, str(total_ms), "10", str(slow)],
        env=os.environ | root | {"FOLDER": str(folder)},
        check=True,
        capture_output=True,
    )
    return [folder / f"rank{rank}.data" for rank in range(RANKS)]
