"""An MPI launcher: it returns arguments of a command line, and runs nothing."""

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
"""Of a command line. Shell: what only the host where it is started knows."""

HOSTFILE = '${pl_hostfile:+"%s"} ${pl_hostfile:+"$pl_hostfile"}'
"""An option with the file that LSF made of the job's hosts, where there is one."""


@dataclass(frozen=True)
class RankVariables:
    """A variable with the number of a rank, and those that may have the number of ranks: the first that is set
    counts."""

    rank: str
    sizes: tuple[str, ...] = ()


def find_version(title: str, pattern: str, text: str) -> str:
    """The title with the version that the group of `pattern` finds in `text`; empty where it is not there."""
    match = re.search(pattern, text, re.I | re.S)
    return f"{title} {match[1].strip('.')}" if match else ""


class MpiLauncher(Protocol):
    """One flavor of MPI."""

    @property
    def implementation(self) -> str:
        """As it stands in a JobSpec."""

    @property
    def title(self) -> str:
        """For a person."""

    @property
    def program_names(self) -> tuple[str, ...]:
        """Usual names of the launcher, the most likely first."""

    @property
    def version_pattern(self) -> str:
        """What `NAME --version` says of it: a basic regular expression of grep. Empty where nothing needs to."""

    @property
    def label(self) -> str:
        """Its title where a person chooses one."""

    @property
    def scheduler(self) -> str:
        """The name of the batch system that it works only with; empty if it works with and without any."""

    @property
    def stop_signal(self) -> str:
        """The signal that makes it end its ranks in order: USR2, which it hands on to them and goes on itself, or TERM.
        One that is sent TERM ignores USR2, which a batch system may send to all processes of a job."""

    @property
    def rank_variables(self) -> tuple[RankVariables, ...]:
        """Variables by which a rank knows its number, the most reliable first."""

    @property
    def library_patterns(self) -> tuple[str, ...]:
        """Names of the MPI libraries that programs built for it have, as patterns of a shell, the most certain first.
        Empty where they do not distinguish it."""

    @property
    def accepted_libraries(self) -> tuple[str, ...]:
        """The implementations whose programs it starts as ranks, by their libraries. Empty: those of any."""

    @property
    def job_script(self) -> str:
        """sh: what is to be found out before it starts in a job, in variables `pl_…` that its arguments use.
        pl_launcher is its program, and pl_linked the implementation that the user's program was built for, if known."""

    @property
    def probe_command(self) -> tuple[str, ...]:
        """argv that asks for its version; empty where `NAME --version` of its program names does."""

    def parse_version(self, text: str) -> str:
        """Its name and version, in what `NAME --version` or `probe_command` printed; empty for another's output."""

    def arguments(self, spec: JobSpec, mpi: Mpi) -> Arguments:
        """Arguments between the launcher and the command of each rank."""

    def value_count(self, word: str) -> int:
        """How many of the next words a word of the user's takes for its values, whatever they are."""


def has_option(words: Sequence[str], *options: str) -> bool:
    """Whether the user's words hold one of the options, as `--option value` or `--option=value`."""
    return any(word == option or word.startswith(f"{option}=") for word in words for option in options)


def check_arguments(launcher: MpiLauncher, words: Sequence[str], field: str) -> None:
    """Raises InvalidRequest where the last option lacks a value: it would get an argument of Perfloom as its value."""
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
    """Possible names of the launcher there: what the user says, what the target says, what its check found, or else
    its usual names, of which the first is taken that is there and says that it is of the flavor."""
    program = mpi.program or target.starters.get(str(mpi.flavour)) or (facts.starters if facts else {}).get(mpi.flavour)
    return (program,) if program else launcher.program_names
