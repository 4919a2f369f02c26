"""srun, Slurm's launcher."""

import re
from dataclasses import dataclass

from ...domain.jobs import JobSpec, Mpi, MpiFlavor
from ..quoting import ShellCode
from ..schedulers import sbatch_options
from ..scripts import script_text
from .base import Arguments, RankVariables, has_option

SHORT_WITH_VALUE = frozenset("ABCDFGJLMNSTWbcdeimnopqrtwx")
"""Short options whose value follows in the same word or the next."""
SHORT_WITH_ATTACHED_VALUE = frozenset("IKk")
"""Short options whose value can only follow in the same word."""

_LONG_WITH_VALUE = """
accel-bind bcast-exclude cpu-bind epilog het-group jobid mpi msg-timeout pack-group prolog relative slurmd-debug
task-epilog task-prolog threads treewidth wait
"""
LONG_WITH_VALUE = sbatch_options.LONG_WITH_VALUE | frozenset(_LONG_WITH_VALUE.split())
"""Long options that require a value: nearly all of sbatch's, and srun's own."""
_LONG_ALONE = """
bcast compress disable-status exact immediate interactive kill-on-bad-exit label multi-prog no-allocate overlap
preserve-env pty quit-on-interrupt send-libs unbuffered whole x11
"""
LONG_WITHOUT_VALUE = sbatch_options.LONG_WITHOUT_VALUE - LONG_WITH_VALUE | frozenset(_LONG_ALONE.split())


@dataclass(frozen=True)
class Srun:
    """The PMI of the ranks (`--mpi`) depends on the MPI library of the program; it is determined when the job
    starts."""

    implementation: MpiFlavor = MpiFlavor.SRUN
    title: str = "srun"
    program_names: tuple[str, ...] = ("srun",)
    version_pattern: str = ""
    label: str = "srun (Slurm)"
    job_script: str = script_text("mpi/srun_job.sh")
    stop_signal: str = "USR2"
    rank_variables: tuple[RankVariables, ...] = (
        RankVariables("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    )
    scheduler: str = "slurm"
    probe_command: tuple[str, ...] = ("srun", "--mpi=list")
    library_patterns: tuple[str, ...] = ()
    accepted_libraries: tuple[str, ...] = ()

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        words: list[str | ShellCode] = []
        own = (*mpi.arguments, *mpi.rank_arguments)
        if not has_option(own, "--mpi"):
            words += [ShellCode('${pl_pmi:+"--mpi=$pl_pmi"}')]
        words += [*mpi.arguments, "-n", str(mpi.ranks)]
        if mpi.ranks_per_node is not None and not has_option(own, "--ntasks-per-node"):
            words += [f"--ntasks-per-node={mpi.ranks_per_node}"]
        if spec.batch.cpus is not None and not has_option(own, "--cpus-per-task", "-c"):
            words += [f"--cpus-per-task={spec.batch.cpus}"]
        return (*words, *mpi.rank_arguments)

    def parse_version(self, text: str) -> str:
        kinds = pmi_kinds(text)
        return f"srun with {', '.join(kinds)}" if kinds else ""

    def value_count(self, word: str) -> int:
        if word.startswith("--"):
            return int(_long(word[2:]))
        if not word.startswith("-"):
            return 0
        for place, letter in enumerate(word[1:], 2):
            if letter in SHORT_WITH_VALUE:
                return int(place == len(word))
            if letter in SHORT_WITH_ATTACHED_VALUE:
                break
        return 0


def pmi_kinds(text: str) -> list[str]:
    """From `srun --mpi=list`: up to Slurm 22 lines `srun: pmix`, later `\\tpmix`, then the versions of pmix."""
    words: list[str] = []
    for line in text.partition("specific pmix plugin")[0].splitlines():
        word = line.removeprefix("srun:").strip()
        if re.fullmatch(r"[a-z]\w*", word) and word not in ("none", *words):
            words.append(word)
    return words


def _long(name: str) -> bool:
    """Whether the next word is the value of a long option, which may be abbreviated."""
    if name in LONG_WITHOUT_VALUE or not name:
        return False
    known = LONG_WITH_VALUE | LONG_WITHOUT_VALUE
    fits = {name} if name in known else {each for each in known if each.startswith(name)}
    return bool(fits) and fits <= LONG_WITH_VALUE


SRUN = Srun()
