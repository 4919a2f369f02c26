"""The interface of MPI launchers: they return command-line arguments, and run nothing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from ...domain.errors import InvalidRequest
from ...domain.jobs import JobSpec, Mpi
from ...domain.targets import Target, TargetFacts
from ..quoting import ShellCode

Arguments = tuple[str | ShellCode, ...]
"""Arguments of a command line. ShellCode is expanded on the host where the launcher starts."""

HOSTFILE = '${pl_hostfile:+"%s"} ${pl_hostfile:+"$pl_hostfile"}'
"""An option with LSF's file of the job's hosts, if there is one."""


@dataclass(frozen=True)
class RankVariables:
    """A variable with the number of a rank, and those that may have the number of ranks, of which the first that is set
    counts."""

    rank: str
    sizes: tuple[str, ...] = ()


def find_version(title: str, pattern: str, text: str) -> str:
    """The title with the version that the group of `pattern` finds in `text`; empty without a match."""
    match = re.search(pattern, text, re.I | re.S)
    return f"{title} {match[1].strip('.')}" if match else ""


class MpiLauncher(Protocol):
    """The launcher of one MPI implementation."""

    @property
    def implementation(self) -> str:
        """Its name in a JobSpec."""

    @property
    def title(self) -> str:
        """Its name for users."""

    @property
    def program_names(self) -> tuple[str, ...]:
        """Usual names of the launcher, the most likely first."""

    @property
    def version_pattern(self) -> str:
        """A basic regular expression that identifies it in the output of `NAME --version`. Empty for no check."""

    @property
    def label(self) -> str:
        """Its name in a list of choices."""

    @property
    def scheduler(self) -> str:
        """The name of the batch system that it works only with; empty if it works with and without any."""

    @property
    def stop_signal(self) -> str:
        """The signal on which it lets its ranks end cleanly: USR2, which it forwards while it continues, or TERM. With
        TERM, it ignores USR2, which a batch system may send to all processes of a job."""

    @property
    def rank_variables(self) -> tuple[RankVariables, ...]:
        """Variables with a rank's number, the most reliable first."""

    @property
    def library_patterns(self) -> tuple[str, ...]:
        """Names of the MPI libraries that programs built for it have, as patterns of a shell, the most certain first.
        Empty where they do not distinguish it."""

    @property
    def accepted_libraries(self) -> tuple[str, ...]:
        """The implementations whose programs it starts as ranks, by their libraries. Empty: those of any."""

    @property
    def job_script(self) -> str:
        """sh: sets variables `pl_…` that its arguments use, before it starts in a job. pl_launcher is its program, and
        pl_linked the implementation that the user's program was built for, if known."""

    @property
    def probe_command(self) -> tuple[str, ...]:
        """argv that prints its version; empty if that is `NAME --version` of its program names."""

    def parse_version(self, text: str) -> str:
        """Its name and version from the output of `NAME --version` or `probe_command`; empty for another's output."""

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        """Arguments between the launcher and the command of each rank."""

    def value_count(self, word: str) -> int:
        """How many of the following words are values of this user-given option."""


def has_option(words: Sequence[str], *options: str) -> bool:
    """Whether the user-given arguments contain one of the options, as `--option value` or `--option=value`."""
    return any(word == option or word.startswith(f"{option}=") for word in words for option in options)


def check_arguments(launcher: MpiLauncher, words: Sequence[str], field: str) -> None:
    """Raises InvalidRequest if the last option lacks its value: it would take an argument of Perfloom as its value."""
    rest = iter(words)
    for word in rest:
        value_count = launcher.value_count(word)
        if len(list(islice(rest, value_count))) < value_count:
            lacks = "a value" if value_count == 1 else "two values"
            raise InvalidRequest(
                f"{word[:80]!r} in the arguments of {launcher.title} needs {lacks}. The next argument would be "
                "used as its value. Add the value, or remove the option.",
                field,
            )


def launcher_programs(launcher: MpiLauncher, mpi: Mpi, target: Target, facts: TargetFacts | None) -> tuple[str, ...]:
    """Candidates for the launcher's program: that of the job, else that of the target, else the one that its check
    found, else the usual names, of which the first one that exists and matches the version pattern is used."""
    program = (
        mpi.program or target.starters.get(str(mpi.flavour)) or (facts.mpi_launchers if facts else {}).get(mpi.flavour)
    )
    return (program,) if program else launcher.program_names
