"""Hydra, the starter of MPICH and of Intel MPI."""

from dataclasses import dataclass

from ..domain.jobs import JobSpec, Mpi, MpiFlavour
from .base import HOSTFILE, Words, named
from .quoting import Shell

LOCALHOST = '${pl_nameless:+"-localhost"} ${pl_nameless:+"localhost"}'
"""Where its proxies are to connect to, on a host whose own name cannot be resolved."""


@dataclass(frozen=True)
class Hydra:
    """It finds Slurm by itself, and the hosts of LSF in the file that LSF made."""

    flavour: MpiFlavour
    title: str
    names: tuple[str, ...]
    says: str

    def words(self, spec: JobSpec, mpi: Mpi) -> Words:
        words: list[str | Shell] = []
        if not named(mpi.arguments, "-f", "-hostfile", "-machinefile", "-machine", "-hosts", "-host"):
            words += [Shell(HOSTFILE % "-f")]
        if not named(mpi.arguments, "-localhost", "-iface"):
            words.append(Shell(LOCALHOST))
        words += mpi.arguments
        if mpi.ranks_per_node is not None and not named(mpi.arguments, "-ppn", "-perhost", "-grr"):
            words += ["-ppn", str(mpi.ranks_per_node)]
        return (*words, "-n", str(mpi.ranks), *mpi.rank_arguments)


MPICH = Hydra(
    MpiFlavour.MPICH,
    "MPICH (Hydra)",
    ("mpirun", "mpiexec", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra"),
    "HYDRA\\|MPICH",
)
INTEL = Hydra(MpiFlavour.INTEL, "Intel MPI", ("mpirun", "mpiexec.hydra", "mpiexec"), "Intel(R) MPI")
