"""MPI programs for tests, compiled once for each run and MPI implementation."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from perfloom.domain.jobs import MpiFlavor
from tests.support.batch import folder
from tests.support.parts import require

SOURCES = Path(__file__).parent
COMPILERS = {MpiFlavor.OPENMPI: "mpicc.openmpi", MpiFlavor.MPICH: "mpicc.mpich"}
MpiProgram = Callable[[MpiFlavor], Path]
MpiBuild = Callable[[MpiFlavor, str], Path]


def compiled(flavour: MpiFlavor, into: Path, name: str = "unequal") -> Path:
    """A program of this folder, built with the compiler of one MPI implementation. See there for its arguments.
    unequal: rank 1 works twice as long as the others."""
    require("gcc")
    require(str(flavour))
    program = into / f"{name}.{flavour}"
    argv = [COMPILERS[flavour], "-O1", "-g", "-o", program, SOURCES / f"{name}.c"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="session")
def mpi_build() -> Iterator[MpiBuild]:
    """The path of any of the programs for an MPI implementation, in a directory that is readable for all users."""
    with folder("pl-mpi-") as place:
        yield cache(lambda flavour, name: compiled(flavour, place, name))


@pytest.fixture(scope="session")
def mpi_program() -> Iterator[MpiProgram]:
    """The path of the program for an MPI implementation, in a directory that is readable for all users."""
    with folder("pl-mpi-") as place:
        yield cache(lambda flavour: compiled(flavour, place))
