"""Open MPI's mpirun."""

from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavor
from ..quoting import ShellCode
from ..scripts import script_text
from .base import HOSTFILE, Arguments, RankVariables, find_version, has_option

_VALUED = """
am app bind-to c cartofile cf cpu-list cpu-set cpus-per-proc cpus-per-rank debugger default-hostfile display dvm-uri
H hnp host hostfile launch-agent machinefile map-by max-restarts max-vm-size N n np npernode npersocket ompi-server
output output-filename path personality ppr prefix preload-files rank-by rankfile report-events report-pid report-uri rf
runtime-options stdin timeout tune wd wdir x xml-file xterm
"""
VALUE_COUNTS = dict.fromkeys(_VALUED.split(), 1) | dict.fromkeys(
    ("gmca", "mca", "omca", "gpmixmca", "pmixmca", "prtemca"), 2
)
"""The number of values of options of Open MPI 4 and 5. Each may start with one or two hyphens."""


@dataclass(frozen=True)
class OpenMpi:
    """`--allow-run-as-root` only for root. With more ranks than cores: `--oversubscribe` outside of batch systems, and
    in one `--bind-to none`, without which Open MPI 5 refuses to start them. In LSF, blaunch starts ranks on other
    hosts, since ssh may not be allowed there."""

    implementation: MpiFlavor = MpiFlavor.OPENMPI
    title: str = "Open MPI"
    program_names: tuple[str, ...] = ("mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun")
    version_pattern: str = "Open MPI\\|OpenRTE\\|PRRTE"
    label: str = "Open MPI"
    printed_version: str = r"\((?:Open MPI|OpenRTE|PRRTE)\) ([\w.]+)"
    job_script: str = script_text("mpi/openmpi_job.sh")
    stop_signal: str = "USR2"
    rank_variables: tuple[RankVariables, ...] = (
        RankVariables("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
        RankVariables("PMIX_RANK"),
    )
    probe_command: tuple[str, ...] = ()
    library_patterns: tuple[str, ...] = ("libopen-pal.so", "libmpi.so.40", "libmpi.so.20")
    accepted_libraries: tuple[str, ...] = (MpiFlavor.OPENMPI,)
    scheduler: str = ""

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        words: list[str | ShellCode] = [ShellCode('${pl_root:+"--allow-run-as-root"}')]
        if not has_option(mpi.arguments, "--oversubscribe", "-oversubscribe", "--nooversubscribe", "-nooversubscribe"):
            words += [ShellCode('${pl_crowded:+"--oversubscribe"}')]
        if not has_option((*mpi.arguments, *mpi.rank_arguments), "--bind-to", "-bind-to"):
            words += [ShellCode('${pl_unbound:+"--bind-to"} ${pl_unbound:+"none"}')]
        if not has_option(
            mpi.arguments, "--hostfile", "-hostfile", "--machinefile", "-machinefile", "--host", "-host", "-H"
        ):
            words += [ShellCode(HOSTFILE % "--hostfile")]
            words += [ShellCode('${pl_blaunch:+"--mca"} ${pl_blaunch:+"plm_rsh_agent"} ${pl_blaunch:+"blaunch"}')]
        words += mpi.arguments
        words += ["-n", str(mpi.ranks)]
        placed = ("--map-by", "-map-by", "--npernode", "-npernode", "-N")
        if mpi.ranks_per_node is not None and not has_option((*mpi.arguments, *mpi.rank_arguments), *placed):
            words += ["--map-by", f"ppr:{mpi.ranks_per_node}:node"]
        return (*words, *mpi.rank_arguments)

    def parse_version(self, text: str) -> str:
        return find_version(self.title, self.printed_version, text)

    def value_count(self, word: str) -> int:
        return VALUE_COUNTS.get(word.lstrip("-"), 0) if word.startswith("-") else 0


OPENMPI = OpenMpi()
