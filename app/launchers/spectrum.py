"""IBM's two: Spectrum MPI, which is made of Open MPI, and Platform MPI."""

from dataclasses import dataclass

from ..domain.jobs import JobSpec, Mpi, MpiFlavour
from .base import Words, named
from .openmpi import OpenMpi

SPECTRUM = OpenMpi(MpiFlavour.SPECTRUM, "Spectrum MPI", ("mpirun", "mpiexec"), "Spectrum MPI")


@dataclass(frozen=True)
class Platform:
    """Platform MPI knows LSF by itself and has no option of its own for ranks per node there."""

    flavour: MpiFlavour = MpiFlavour.PLATFORM
    title: str = "Platform MPI"
    names: tuple[str, ...] = ("mpirun",)
    says: str = "Platform MPI\\|HP-MPI"

    def words(self, spec: JobSpec, mpi: Mpi) -> Words:
        words = list(mpi.arguments)
        if mpi.ranks_per_node is not None and not named(mpi.arguments, "-ppn"):
            words += ["-ppn", str(mpi.ranks_per_node)]
        return (*words, "-np", str(mpi.ranks), *mpi.rank_arguments)


PLATFORM = Platform()
