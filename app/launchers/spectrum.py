"""IBM's two: Spectrum MPI, which is made of Open MPI, and Platform MPI."""

from dataclasses import dataclass

from ..domain.jobs import JobSpec, Mpi, MpiFlavour
from .base import Words
from .openmpi import OpenMpi

SPECTRUM = OpenMpi(MpiFlavour.SPECTRUM, "Spectrum MPI", ("mpirun", "mpiexec"), "Spectrum MPI")


@dataclass(frozen=True)
class Platform:
    """Ranks per node are the batch system's to say here: Platform MPI takes the hosts as it gives them."""

    flavour: MpiFlavour = MpiFlavour.PLATFORM
    title: str = "Platform MPI"
    names: tuple[str, ...] = ("mpirun",)
    says: str = "Platform MPI\\|HP-MPI"

    def words(self, spec: JobSpec, mpi: Mpi) -> Words:
        return (*mpi.arguments, "-np", str(mpi.ranks), *mpi.rank_arguments)


PLATFORM = Platform()
