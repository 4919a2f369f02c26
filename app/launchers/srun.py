"""Slurm's own starter of ranks."""

from dataclasses import dataclass

from ..domain.jobs import JobSpec, Mpi, MpiFlavour
from .base import Words, named
from .quoting import Shell


@dataclass(frozen=True)
class Srun:
    """How ranks find each other (`--mpi`) depends on the MPI library of the program; it is looked up when it starts."""

    flavour: MpiFlavour = MpiFlavour.SRUN
    title: str = "srun"
    names: tuple[str, ...] = ("srun",)
    says: str = ""

    def words(self, spec: JobSpec, mpi: Mpi) -> Words:
        words: list[str | Shell] = []
        own = (*mpi.arguments, *mpi.rank_arguments)
        if not named(own, "--mpi"):
            words += [Shell('${pl_pmi:+"--mpi=$pl_pmi"}')]
        words += [*mpi.arguments, "-n", str(mpi.ranks)]
        if mpi.ranks_per_node is not None and not named(own, "--ntasks-per-node"):
            words += [f"--ntasks-per-node={mpi.ranks_per_node}"]
        if spec.batch.cpus is not None and not named(own, "--cpus-per-task", "-c"):
            words += [f"--cpus-per-task={spec.batch.cpus}"]
        return (*words, *mpi.rank_arguments)


SRUN = Srun()
