"""Open MPI's mpirun."""

from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavour
from ..plan.quoting import Shell
from .base import HOSTFILE, Words, named

_VALUED = """
am app bind-to c cartofile cf cpu-list cpu-set cpus-per-proc cpus-per-rank debugger default-hostfile display dvm-uri
H hnp host hostfile launch-agent machinefile map-by max-restarts max-vm-size N n np npernode npersocket ompi-server
output output-filename path personality ppr prefix preload-files rank-by rankfile report-events report-pid report-uri rf
runtime-options stdin timeout tune wd wdir x xml-file xterm
"""
VALUES = dict.fromkeys(_VALUED.split(), 1) | dict.fromkeys(("gmca", "mca", "omca", "gpmixmca", "pmixmca", "prtemca"), 2)
"""How many values the options of Open MPI 4 and 5 have. Each may begin with one hyphen or two."""


@dataclass(frozen=True)
class OpenMpi:
    """`--allow-run-as-root` only for root. With more ranks than cores: `--oversubscribe` where no batch system gave out
    places, and where one did `--bind-to none`, without which Open MPI 5 refuses to start them. In LSF ranks on other
    hosts are started by blaunch, since ssh may not be allowed there."""

    flavour: MpiFlavour = MpiFlavour.OPENMPI
    title: str = "Open MPI"
    names: tuple[str, ...] = ("mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun")
    says: str = "Open MPI\\|OpenRTE\\|PRRTE"

    def words(self, spec: JobSpec, mpi: Mpi) -> Words:
        words: list[str | Shell] = [Shell('${pl_root:+"--allow-run-as-root"}')]
        if not named(mpi.arguments, "--oversubscribe", "-oversubscribe", "--nooversubscribe", "-nooversubscribe"):
            words += [Shell('${pl_crowded:+"--oversubscribe"}')]
        if not named((*mpi.arguments, *mpi.rank_arguments), "--bind-to", "-bind-to"):
            words += [Shell('${pl_unbound:+"--bind-to"} ${pl_unbound:+"none"}')]
        if not named(
            mpi.arguments, "--hostfile", "-hostfile", "--machinefile", "-machinefile", "--host", "-host", "-H"
        ):
            words += [Shell(HOSTFILE % "--hostfile")]
            words += [Shell('${pl_blaunch:+"--mca"} ${pl_blaunch:+"plm_rsh_agent"} ${pl_blaunch:+"blaunch"}')]
        words += mpi.arguments
        words += ["-n", str(mpi.ranks)]
        placed = ("--map-by", "-map-by", "--npernode", "-npernode", "-N")
        if mpi.ranks_per_node is not None and not named((*mpi.arguments, *mpi.rank_arguments), *placed):
            words += ["--map-by", f"ppr:{mpi.ranks_per_node}:node"]
        return (*words, *mpi.rank_arguments)

    def values(self, word: str) -> int:
        return VALUES.get(word.lstrip("-"), 0) if word.startswith("-") else 0


OPENMPI = OpenMpi()
