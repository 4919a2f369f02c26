"""Toy MPI: `toyrun -n N COMMAND` starts N processes here."""

from dataclasses import dataclass

from perfloom.domain.jobs import JobSpec, Mpi
from perfloom.recording.mpi.base import Arguments, RankVariables, find_version


@dataclass(frozen=True)
class ToyLauncher:
    implementation: str = "toympi"
    title: str = "Toy MPI"
    label: str = "Toy MPI"
    program_names: tuple[str, ...] = ("toyrun",)
    version_pattern: str = "Toy MPI"
    scheduler: str = ""
    stop_signal: str = "TERM"
    rank_variables: tuple[RankVariables, ...] = (RankVariables("TOY_RANK", ("TOY_SIZE",)),)
    job_script: str = ""
    probe_command: tuple[str, ...] = ()
    library_patterns: tuple[str, ...] = ()
    accepted_libraries: tuple[str, ...] = ()

    def parse_version(self, text: str) -> str:
        return find_version(self.title, r"Toy MPI ([\d.]+)", text)

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        return (*mpi.arguments, "-n", str(mpi.ranks), *mpi.rank_arguments)

    def value_count(self, word: str) -> int:
        return 0
