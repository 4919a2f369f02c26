"""The command lines that a job means, for a person to read before it is submitted."""

from ..domain.jobs import JobSpec
from ..domain.targets import Target, TargetFacts


def preview(spec: JobSpec, target: Target, facts: TargetFacts | None) -> str:
    """The command lines that a job means, for a person: transport, batch system, launcher, recorder, command."""
    return ""
