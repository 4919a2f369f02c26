"""IBM's two: Spectrum MPI, which is made of Open MPI, and Platform MPI."""

from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavour
from .base import Words
from .openmpi import OpenMpi

SPECTRUM = OpenMpi(MpiFlavour.SPECTRUM, "Spectrum MPI", ("mpirun", "mpiexec"), "Spectrum MPI")

PLATFORM_VALUED = ("-e", "-f", "-h", "-hostfile", "-hostlist", "-l", "-netaddr", "-np", "-sp", "-subnet")
"""Options of Platform MPI's mpirun that have a value in the next word."""


@dataclass(frozen=True)
class Platform:
    """Ranks per node are the batch system's to say here: Platform MPI takes the hosts as it gives them."""

    flavour: MpiFlavour = MpiFlavour.PLATFORM
    title: str = "Platform MPI"
    names: tuple[str, ...] = ("mpirun",)
    says: str = "Platform MPI\\|HP-MPI"

    def words(self, spec: JobSpec, mpi: Mpi) -> Words:
        return (*mpi.arguments, "-np", str(mpi.ranks), *mpi.rank_arguments)

    def values(self, word: str) -> int:
        return int(word in PLATFORM_VALUED)


PLATFORM = Platform()
