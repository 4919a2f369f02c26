"""IBM's two: Spectrum MPI, which is made of Open MPI, and Platform MPI."""

from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavor
from .base import Arguments
from .openmpi import OpenMpi

SPECTRUM = OpenMpi(MpiFlavor.SPECTRUM, "Spectrum MPI", ("mpirun", "mpiexec"), "Spectrum MPI")

PLATFORM_OPTIONS_WITH_VALUE = ("-e", "-f", "-h", "-hostfile", "-hostlist", "-l", "-netaddr", "-np", "-sp", "-subnet")
"""Options of Platform MPI's mpirun that have a value in the next word."""


@dataclass(frozen=True)
class Platform:
    """Ranks per node are the batch system's to say here: Platform MPI takes the hosts as it gives them."""

    implementation: MpiFlavor = MpiFlavor.PLATFORM
    title: str = "Platform MPI"
    program_names: tuple[str, ...] = ("mpirun",)
    version_pattern: str = "Platform MPI\\|HP-MPI"

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        return (*mpi.arguments, "-np", str(mpi.ranks), *mpi.rank_arguments)

    def value_count(self, word: str) -> int:
        return int(word in PLATFORM_OPTIONS_WITH_VALUE)


PLATFORM = Platform()
