"""Checks which fields of a JobSpec are incompatible with each other or with its target."""

from collections.abc import Mapping

from ...domain.errors import InvalidRequest
from ...domain.jobs import JobSpec, Scope
from ...domain.jobs.parts import MAX_RANKS
from ...domain.selection import parse_ranks
from ...domain.targets import SchedulerName, Target
from ..recorders import recorder_of

Messages = list[tuple[str, str]]


def target_problems(spec: JobSpec, targets: Mapping[str, Target]) -> Messages:
    """Errors if the target does not exist, or if the scope is not possible there."""
    if not isinstance(spec.target, str):
        return []
    target = targets.get(spec.target)
    if target is None:
        names = ", ".join(f"“{name}”" for name in list(targets)[:8])
        return [("target", f"No such target. Choose {names}, or add one under Targets.")]
    if spec.scope is Scope.PROCESS and target.scheduler is not SchedulerName.NONE:
        return [("scope", "A running process cannot be recorded through a batch system. Record a command.")]
    if spec.sudo and not target.sudo:
        return [
            ("sudo", f"The target “{target.name}” does not allow perf with sudo. Turn sudo off, or change the target.")
        ]
    return []


def placement_problems(spec: JobSpec) -> Messages:
    """Incompatible fields, by form field."""
    return [*_ranks(spec), *_only_command(spec)]


def _ranks(spec: JobSpec) -> Messages:
    mpi = spec.mpi
    if mpi is None or not isinstance(mpi.only, str):
        return []
    try:
        ranges = parse_ranks(mpi.only)
    except InvalidRequest:
        return []
    most = mpi.ranks if isinstance(mpi.ranks, int) else MAX_RANKS
    beyond = [high for _, high in ranges if high >= most]
    if beyond:
        return [("only", f"Rank {beyond[0]} does not exist: the {most:,} ranks are 0 to {most - 1:,}.")]
    every = mpi.every if isinstance(mpi.every, int) and mpi.every > 0 else 1
    if ranges and not any(low + -low % every <= high for low, high in ranges):
        which = f"a step of {every} selects only ranks 0, {every}, {2 * every} …"
        return [("only", f"None of these ranks is recorded: {which} Change one of the two fields.")]
    return []


def _only_command(spec: JobSpec) -> Messages:
    recorder = recorder_of(spec)
    if not recorder.only_command:
        return []
    found: Messages = []
    if spec.scope is not Scope.COMMAND:
        found.append(("scope", f"{recorder.label} only records a command. Choose a command."))
    if spec.mpi is not None and spec.mpi.per_host is True:
        found.append(("recorded", f"{recorder.label} records ranks, not hosts. Choose ranks."))
    return found
