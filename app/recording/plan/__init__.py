"""Launchers: each wraps the argv of a recorder into the argv that starts it. Nothing is run here.

`argv` composes them: launcher(recorder(command)). What a preview shows and what a worker runs come from here.
"""

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Protocol

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec, RecorderName
from ..recorders import perf_record, recorder_of
from .direct import Direct


class Launcher(Protocol):
    """Runs nothing: takes the argv of what is to be started, and gives the argv that starts it."""

    @property
    def name(self) -> str:
        """As it stands in a target."""

    @property
    def title(self) -> str:
        """For a person."""

    def argv(self, spec: JobSpec, inner: Sequence[str]) -> tuple[str, ...]:
        """The whole command line."""


LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in (Direct(),)}

UNKNOWN_HOST = HostFacts(host="")
"""Stands in where no worker has said anything yet: perf's plain name, and no option that some builds lack."""

ARTIFACTS = PurePath("artefacts")
"""Stands for a job's own artefacts directory as long as the job has no number."""


def argv(spec: JobSpec, facts: HostFacts | None, artifacts: PurePath) -> tuple[str, ...]:
    """What is started for a job: argv, no shell in between.

    artefacts: the directory for what is recorded; relative, it is meant from where the command starts.
    """
    known = facts or UNKNOWN_HOST
    if spec.recorder is RecorderName.PERF_RECORD:
        inner = perf_record.nested_stat_argv(spec, known, artifacts)
    else:
        inner = recorder_of(spec).argv(spec, known, artifacts)
    return LAUNCHERS["direct"].argv(spec, inner)


def command_line(spec: JobSpec, facts: HostFacts | None, artifacts: PurePath = ARTIFACTS) -> str:
    """The same as text, quoted so that a person can paste it into a shell.

    Only the artefacts directory differs before a job has a number.
    """
    return shlex.join(argv(spec, facts, artifacts))


__all__ = ["ARTIFACTS", "LAUNCHERS", "UNKNOWN_HOST", "Launcher", "argv", "command_line"]
