"""The command line of a job with a supervisor: recorder(command). Previews show it, and workers run it."""

import shlex
from dataclasses import dataclass
from pathlib import PurePath

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec
from ..recorders import perf_record, recorder_of

UNKNOWN_HOST = HostFacts(host="")
"""Used before a worker has published facts: perf by name, and no option that some builds lack."""

ARTIFACTS = PurePath("artefacts")
"""The artifacts directory in previews, before the job has an id."""


def argv(spec: JobSpec, facts: HostFacts | None, artifacts: PurePath) -> tuple[str, ...]:
    """The argv of a job, without a shell.

    artifacts: the directory for recordings; a relative one is relative to the working directory.
    """
    known = facts or UNKNOWN_HOST
    recorder = recorder_of(spec)
    words = recorder.argv(spec, known, artifacts)
    return perf_record.nested_stat_argv(words, spec, known, artifacts) if recorder.samples else words


@dataclass(frozen=True)
class SupervisedRun:
    """The run of a job with a supervisor. executable: the file of the recorder, null to search argv[0] in PATH.
    nests_stat: whether perf record runs perf stat, which runs the program."""

    argv: tuple[str, ...]
    executable: str | None
    nests_stat: bool


def plan_supervised_run(spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> SupervisedRun:
    """The run that a supervisor starts. artifacts: see `argv`."""
    words = argv(spec, facts, artifacts)
    is_perf = bool(facts.perf) and PurePath(words[0]).name == PurePath(facts.perf or "").name
    return SupervisedRun(words, facts.perf if is_perf else None, perf_record.has_nested_stat(words))


def command_line(spec: JobSpec, facts: HostFacts | None, artifacts: PurePath = ARTIFACTS) -> str:
    """The same as text, quoted for a shell.

    Before a job has an id, only the artifacts directory differs.
    """
    return shlex.join(argv(spec, facts, artifacts))


__all__ = ["ARTIFACTS", "UNKNOWN_HOST", "SupervisedRun", "argv", "command_line", "plan_supervised_run"]
