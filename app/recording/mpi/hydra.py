"""Hydra, the launcher of MPICH and of Intel MPI."""

from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavor
from ..quoting import ShellCode
from ..scripts import script_text
from .base import HOSTFILE, Arguments, RankVariables, find_version, has_option

LOCALHOST = '${pl_nameless:+"-localhost"} ${pl_nameless:+"localhost"}'
"""The address to which its proxies connect, on a host whose own name cannot be resolved."""

_VALUED = """
bind-to binding bootstrap bootstrap-exec bootstrap-exec-args branch-count configfile demux envlist errfile-pattern f
genvlist gpus-per-proc grr gtool gtoolfile host hostfile hosts iface launcher launcher-exec localhost machine
machinefile map-by membind n nameserver np order-nodes outfile-pattern perhost ppn prepend-pattern rankmap rmk s tmpdir
topolib usize wdir
"""
VALUE_COUNTS = dict.fromkeys(_VALUED.split(), 1) | {"env": 2, "genv": 2}
"""The number of values of options of MPICH's and Intel MPI's Hydra. Each may start with one or two hyphens."""


@dataclass(frozen=True)
class Hydra:
    """It detects Slurm itself, and reads the hosts of LSF from LSF's file."""

    implementation: MpiFlavor
    title: str
    program_names: tuple[str, ...]
    version_pattern: str
    label: str
    printed_version: str
    job_script: str = script_text("mpi/hydra_job.sh")
    stop_signal: str = "TERM"
    rank_variables: tuple[RankVariables, ...] = (
        RankVariables("PMI_RANK", ("PMI_SIZE",)),
        RankVariables("PMIX_RANK", ("PMI_SIZE",)),
    )
    probe_command: tuple[str, ...] = ()
    library_patterns: tuple[str, ...] = ()
    # MPICH and Intel MPI have one binary interface, and each other's launchers work.
    accepted_libraries: tuple[str, ...] = (MpiFlavor.MPICH,)
    scheduler: str = ""

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        words: list[str | ShellCode] = []
        if not has_option(mpi.arguments, "-f", "-hostfile", "-machinefile", "-machine", "-hosts", "-host"):
            words += [ShellCode(HOSTFILE % "-f")]
        if not has_option(mpi.arguments, "-localhost", "-iface"):
            words.append(ShellCode(LOCALHOST))
        words += mpi.arguments
        if mpi.ranks_per_node is not None and not has_option(mpi.arguments, "-ppn", "-perhost", "-grr"):
            words += ["-ppn", str(mpi.ranks_per_node)]
        return (*words, "-n", str(mpi.ranks), *mpi.rank_arguments)

    def parse_version(self, text: str) -> str:
        return find_version(self.title, self.printed_version, text)

    def value_count(self, word: str) -> int:
        return VALUE_COUNTS.get(word.lstrip("-"), 0) if word.startswith("-") else 0


MPICH = Hydra(
    MpiFlavor.MPICH,
    "MPICH",
    ("mpirun", "mpiexec", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra"),
    "HYDRA\\|MPICH",
    "MPICH (Hydra)",
    r"HYDRA build details:.*?Version:\s+([\w.]+)",
    library_patterns=("libmpich.so", "libmpi.so.12", "libmpi.so.4[!0-9]"),
)
INTEL = Hydra(
    MpiFlavor.INTEL,
    "Intel MPI",
    ("mpirun", "mpiexec.hydra", "mpiexec"),
    "Intel(R) MPI",
    "Intel MPI",
    r"Intel\(R\) MPI Library.*?Version ([\w.]+(?: (?:Update|Build) \w+)?)",
)
