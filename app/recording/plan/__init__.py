"""The command line of a job: recorder(command). What a preview shows and what a worker runs come from here."""

import shlex
from dataclasses import dataclass
from pathlib import PurePath

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec
from ..recorders import perf_record, recorder_of

UNKNOWN_HOST = HostFacts(host="")
"""Stands in where no worker has said anything yet: perf's plain name, and no option that some builds lack."""

ARTIFACTS = PurePath("artefacts")
"""Stands for a job's own artifacts directory as long as the job has no number."""


def argv(spec: JobSpec, facts: HostFacts | None, artifacts: PurePath) -> tuple[str, ...]:
    """What is started for a job: argv, no shell in between.

    artifacts: the directory for what is recorded; relative, it is meant from where the command starts.
    """
    known = facts or UNKNOWN_HOST
    recorder = recorder_of(spec)
    words = recorder.argv(spec, known, artifacts)
    return perf_record.nested_stat_argv(words, spec, known, artifacts) if recorder.samples else words


@dataclass(frozen=True)
class SupervisedRun:
    """The one run of a job with a supervisor. executable: the file of the recorder, null to search argv[0] in PATH.
    nests_stat: whether perf record runs a perf stat, which runs the program."""

    argv: tuple[str, ...]
    executable: str | None
    nests_stat: bool


def plan_supervised_run(spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> SupervisedRun:
    """What a supervisor starts. artifacts: see `argv`."""
    words = argv(spec, facts, artifacts)
    is_perf = bool(facts.perf) and PurePath(words[0]).name == PurePath(facts.perf or "").name
    return SupervisedRun(words, facts.perf if is_perf else None, perf_record.has_nested_stat(words))


def command_line(spec: JobSpec, facts: HostFacts | None, artifacts: PurePath = ARTIFACTS) -> str:
    """The same as text, quoted so that a person can paste it into a shell.

    Only the artifacts directory differs before a job has a number.
    """
    return shlex.join(argv(spec, facts, artifacts))


__all__ = ["ARTIFACTS", "UNKNOWN_HOST", "SupervisedRun", "argv", "command_line", "plan_supervised_run"]
