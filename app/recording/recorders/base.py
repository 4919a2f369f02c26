"""The interface of recorders: from a JobSpec and the facts of a host they return argv and the names of artifacts."""

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

    text: a reader can read it anywhere. Other artifacts (perf.data) must be converted to text on the host that recorded
    them, because that host has the binaries with the symbols. The text is stored next to them.
    """

    name: str
    title: str
    text: bool


@dataclass(frozen=True)
class Injection:
    """Files and variables that make a program record itself, without a wrapper.

    files: texts for the job's directory, by name. variables: for the program's environment. folder: the variable for
    the directory of recordings. paths: search-path variables to which the job's directory is prepended.
    """

    files: Mapping[str, str]
    variables: Mapping[str, str]
    folder: str
    paths: tuple[str, ...]


class Recorder(Protocol):
    """A recorder. Pure: `argv` returns the command to start, `artifacts` the files that it will write."""

    @property
    def name(self) -> str:
        """Its name in a JobSpec."""

    @property
    def title(self) -> str:
        """Its name for users."""

    @property
    def label(self) -> str:
        """Its name in a list of choices."""

    @property
    def hint(self) -> str:
        """What it records, in one line."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The groups of fields of a job that it uses, as `recorder_fields` of their declarations name them: perf
        (events and other options of perf), sampling, counting, pytorch."""

    @property
    def fields_hint(self) -> str:
        """What the form says above the fields of its group; empty if it has none."""

    @property
    def uses_perf(self) -> bool:
        """Whether it needs perf and its permissions."""

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
        """The subject of a message about a missing recording."""

    @property
    def nothing_recorded(self) -> str:
        """The usual reason for a missing recording after success; empty without one."""

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        """The events that it records, those of the job or its default; empty if it has none."""

    def find_problems(self, spec: JobSpec) -> Iterable[PreflightFinding]:
        """What is to be reported about its own fields, whatever the host."""

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        """The recorder's program and options, then the user's command if there is one."""

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        """The files of a recording, the main one first. The others may be missing."""

    def injection(self, spec: JobSpec) -> Injection | None:
        """The injection of a recorder that is not a program; None for a program."""


STANDARD_DIRECTORIES = frozenset(
    f"{root}/{folder}" for root in ("", "/usr", "/usr/local") for folder in ("bin", "sbin")
)
"""Directories on the PATH of every user."""


def perf_program(facts: HostFacts) -> str:
    """The name or path of perf on that host: the name if PATH finds it.

    If perf is started by its absolute path, it prepends its own directory to its command's PATH: /usr/bin before a
    virtual environment (setup_path in tools/lib/subcmd/exec-cmd.c), so that another program than the user's would run.
    """
    path = PurePath(facts.perf or "perf")
    return path.name if str(path.parent) in (*STANDARD_DIRECTORIES, ".") else str(path)


def selection_arguments(spec: JobSpec) -> tuple[str, ...]:
    """The options for CPUs and cgroups; they follow the events."""
    if spec.scope is not Scope.SYSTEM:
        return ()
    cpus = ("-C", spec.cpu_list) if spec.cpu_list else ()
    # A single cgroup applies to all events before it.
    return (*cpus, "-G", spec.cgroup) if spec.cgroup else cpus


def target_arguments(spec: JobSpec) -> tuple[str, ...]:
    """The end of a perf command line: the scope, and the command if there is one."""
    command = ("--", *spec.command) if spec.command else ()
    if spec.scope is Scope.PROCESS:
        return ("-p", ",".join(map(str, spec.pids)))
    if spec.scope is Scope.SYSTEM:
        return ("-a", *command)
    return command
