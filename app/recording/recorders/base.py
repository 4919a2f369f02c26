"""What a recorder is: a JobSpec and the facts of a host become argv and the names of what comes out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec, Scope
from .findings import PreflightFinding


@dataclass(frozen=True)
class Artifact:
    """A file that a recorder leaves in the job's artifacts directory. name: letters, digits and . _ - only; * is
    replaced by any text.

    text: it can be read as it is. Otherwise it means something only on the host that recorded it (perf.data needs
    that host's binaries for its symbols) and is brought into text there, beside it, before anything reads it.
    """

    name: str
    title: str
    text: bool


@dataclass(frozen=True)
class Injection:
    """What is put into the program itself, where no program is put around it.

    files: texts that are laid down in the job's directory, by name. variables: what the program finds in its
    environment. folder: the variable that gets the directory for what is recorded. paths: variables of search paths,
    before which the job's directory is put.
    """

    files: Mapping[str, str]
    variables: Mapping[str, str]
    folder: str
    paths: tuple[str, ...]


class Recorder(Protocol):
    """Runs nothing and asks nothing: `argv` is what to start, `artifacts` what it will have left."""

    @property
    def name(self) -> str:
        """As it stands in a JobSpec."""

    @property
    def title(self) -> str:
        """For a person."""

    @property
    def label(self) -> str:
        """Its title where a person chooses one."""

    @property
    def hint(self) -> str:
        """What it records, in one line."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The groups of fields of a job that it uses, as `recorder_fields` of their declarations name them: perf
        (events and other options of perf), sampling, counting, pytorch."""

    @property
    def fields_hint(self) -> str:
        """What the form says above the fields of its own group; empty if it has none."""

    @property
    def uses_perf(self) -> bool:
        """Whether it needs perf, and the rights that perf needs."""

    @property
    def samples(self) -> bool:
        """Whether it runs perf record."""

    @property
    def counts(self) -> bool:
        """Whether it runs perf stat."""

    @property
    def needs_torch(self) -> bool:
        """Whether a Python program must have PyTorch."""

    @property
    def only_command(self) -> bool:
        """Whether it only records a command and its ranks: no running process, no whole system or host."""

    @property
    def program_title(self) -> str:
        """What ended, in a message about a recording that is missing."""

    @property
    def nothing_recorded(self) -> str:
        """Why there may be no recording although the command succeeded; empty without a usual reason."""

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        """The events that it records, those of the job or its default; empty if it has none."""

    def find_problems(self, spec: JobSpec) -> Iterable[PreflightFinding]:
        """What is to be reported about its own fields, whatever the host."""

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        """The recorder's program and options, then the user's command where there is one."""

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        """What a recording leaves, the main one first. The others may be missing."""

    def injection(self, spec: JobSpec) -> Injection | None:
        """What is put into the program, for a recorder that is no program; None for one that is."""


STANDARD_DIRECTORIES = frozenset(
    f"{root}/{folder}" for root in ("", "/usr", "/usr/local") for folder in ("bin", "sbin")
)
"""Directories in which everybody finds a program by its name."""


def perf_program(facts: HostFacts) -> str:
    """perf as it is called on that host: by its name where that is enough.

    Called by its absolute path perf would put its own directory before all others in its command's PATH, and /usr/bin
    before a virtual environment (setup_path in tools/lib/subcmd/exec-cmd.c): another program than the user's would run.
    """
    path = PurePath(facts.perf or "perf")
    return path.name if str(path.parent) in (*STANDARD_DIRECTORIES, ".") else str(path)


def selection_arguments(spec: JobSpec) -> tuple[str, ...]:
    """What of the whole system is observed; they stand behind the events."""
    if spec.scope is not Scope.SYSTEM:
        return ()
    cpus = ("-C", spec.cpu_list) if spec.cpu_list else ()
    # A single cgroup applies to all events before it.
    return (*cpus, "-G", spec.cgroup) if spec.cgroup else cpus


def target_arguments(spec: JobSpec) -> tuple[str, ...]:
    """The end of a perf command line: what is observed, and the command where there is one."""
    command = ("--", *spec.command) if spec.command else ()
    if spec.scope is Scope.PROCESS:
        return ("-p", ",".join(map(str, spec.pids)))
    if spec.scope is Scope.SYSTEM:
        return ("-a", *command)
    return command
