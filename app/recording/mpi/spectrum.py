"""IBM's MPI implementations: Spectrum MPI, which is based on Open MPI, and Platform MPI."""

from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavor
from .base import Arguments, RankVariables, find_version
from .openmpi import OpenMpi

SPECTRUM = OpenMpi(
    MpiFlavor.SPECTRUM,
    "Spectrum MPI",
    ("mpirun", "mpiexec"),
    "Spectrum MPI",
    label="IBM Spectrum MPI",
    printed_version=r"(?:IBM )?Spectrum MPI\)?\s+([\d.]+)",
    job_script="",
    library_patterns=("libmpi_ibm.so",),
    accepted_libraries=(MpiFlavor.SPECTRUM,),
)

PLATFORM_OPTIONS_WITH_VALUE = ("-e", "-f", "-h", "-hostfile", "-hostlist", "-l", "-netaddr", "-np", "-sp", "-subnet")
"""Options of Platform MPI's mpirun whose value is the next word."""


@dataclass(frozen=True)
class Platform:
    """The batch system determines the ranks per node: Platform MPI uses the hosts in the order that it provides."""

    implementation: MpiFlavor = MpiFlavor.PLATFORM
    title: str = "Platform MPI"
    program_names: tuple[str, ...] = ("mpirun",)
    version_pattern: str = "Platform MPI\\|HP-MPI"
    label: str = "Platform MPI"
    job_script: str = ""
    stop_signal: str = "TERM"
    rank_variables: tuple[RankVariables, ...] = (RankVariables("MPI_RANKID", ("MPI_NRANKS",)),)
    probe_command: tuple[str, ...] = ()
    library_patterns: tuple[str, ...] = ("libpcmpi.so", "libmpio.so")
    accepted_libraries: tuple[str, ...] = (MpiFlavor.PLATFORM,)
    scheduler: str = ""

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        return (*mpi.arguments, "-np", str(mpi.ranks), *mpi.rank_arguments)

    def parse_version(self, text: str) -> str:
        return find_version(self.title, r"Platform MPI\s+([\d.]+)", text)

    def value_count(self, word: str) -> int:
        return int(word in PLATFORM_OPTIONS_WITH_VALUE)


PLATFORM = Platform()
