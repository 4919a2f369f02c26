"""The problems of a job by the last check of its target: queues, MPI, sudo, its directory. Pure.

The preflight checks what perf can do there, by the facts of the host that records.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from ...domain import units
from ...domain.jobs import JobSpec
from ...domain.targets import LOCAL, SchedulerName, Target, TargetFacts
from ...domain.units import NS_PER_S
from ..mpi.registry import MPI_LAUNCHERS, mpi_title
from ..probe.check_report import MIN_FREE_BYTES
from ..recorders.preflight import PreflightFinding, Severity
from ..schedulers import field_label


def check_at_target(spec: JobSpec, target: Target, facts: TargetFacts | None) -> list[PreflightFinding]:
    """All findings about `spec` at `target`. facts: of its last check, null if none has succeeded."""
    found = list(_command(spec, target))
    if facts is None:
        if target.name == LOCAL:
            return found
        text = f"No check of “{target.name}” has succeeded yet, so its perf, events and queues are unknown."
        return [*found, PreflightFinding(Severity.HINT, "target", text, "Check it on its page under Targets.")]
    found += [
        *_modules(spec, target, facts),
        *_directories(target, facts),
        *_mpi(spec, target, facts),
        *_batch(spec, target, facts),
    ]
    if spec.sudo and facts.sudo is False:
        text = f"sudo could not start perf on “{target.name}” without a password."
        advice = "Ask its administrator for the sudoers rule that is shown under Targets, or turn sudo off."
        found.append(PreflightFinding(Severity.WARNING, "sudo", text, advice))
    return found


def _command(spec: JobSpec, target: Target) -> Iterator[PreflightFinding]:
    """A program whose path is relative to the directory of the user, not of the job."""
    name = spec.command[0] if spec.command else ""
    if target.is_local or spec.cwd or "/" not in name or name.startswith("/"):
        return
    if PurePosixPath(name).parts[0] not in (PurePosixPath(path).name for path in spec.inputs):
        text = f"{name} is searched in the job's directory on “{target.name}”, which has only input files."
        yield PreflightFinding(
            Severity.WARNING,
            "command",
            text,
            "Use its absolute path or a working directory, or add it as an input file.",
        )


def _modules(spec: JobSpec, target: Target, facts: TargetFacts) -> Iterator[PreflightFinding]:
    """Whether modules can be loaded at all. Only the modules of the target were checked."""
    problem = facts.problems.get("modules", "")
    if facts.module_command is False and (spec.modules or target.modules):
        name = (*spec.modules, *target.modules)[0]
        text = f"The check of “{target.name}” found no module command, so the module {name} cannot be loaded."
        advice = "Remove the modules, or ask how to enable them there, and check again under Targets."
        yield PreflightFinding(Severity.WARNING, "modules" if spec.modules else "target", text, advice)
    elif target.modules and problem:
        text = f"The modules of “{target.name}” could not be loaded at its last check: {problem.rstrip('.')}."
        yield PreflightFinding(Severity.WARNING, "target", text, "Correct them under Targets, and check again.")


def _directories(target: Target, facts: TargetFacts) -> Iterator[PreflightFinding]:
    if target.scheduler is not SchedulerName.NONE:
        if facts.missing:
            text = f"The check of “{target.name}” did not find {', '.join(facts.missing[:4])}."
            yield PreflightFinding(Severity.WARNING, "target", text, "See its page under Targets.")
        if facts.shared is False:
            text = f"{facts.directory or 'The directory of jobs'} is not the same on the hosts where jobs run."
            yield PreflightFinding(
                Severity.WARNING, "target", text, "Use a directory that all hosts of the target share."
            )
        elif facts.compute is None:
            text = "The capabilities of perf were checked on the host where jobs are submitted, not where they run."
            yield PreflightFinding(Severity.HINT, "target", text, "Run a probe job under Targets.")
    if facts.free_bytes is not None and facts.free_bytes < MIN_FREE_BYTES:
        text = f"Only {units.format_quantity(facts.free_bytes, 'bytes').text} are free in {facts.directory} there."
        yield PreflightFinding(
            Severity.WARNING, "target", text, "Delete files there, or change the directory of the target."
        )


def _mpi(spec: JobSpec, target: Target, facts: TargetFacts) -> Iterator[PreflightFinding]:
    mpi = spec.mpi
    if mpi is None or mpi.program or target.starters.get(mpi.flavour) or mpi.flavour in facts.mpi_launchers:
        return
    labels = [each.label for name, each in MPI_LAUNCHERS.items() if name in facts.mpi_launchers]
    text = f"The check of “{target.name}” found no {mpi_title(mpi.flavour)}"
    text += f"; it found {', '.join(labels)}." if labels else ", and no other MPI implementation."
    # A module of the job may provide it.
    level = Severity.HINT if spec.modules or spec.path else Severity.WARNING
    yield PreflightFinding(
        level, "mpi", text, "Load its module, set the launcher, or choose another MPI implementation."
    )


def _batch(spec: JobSpec, target: Target, facts: TargetFacts) -> Iterator[PreflightFinding]:
    if target.scheduler is SchedulerName.NONE or not facts.queues:
        return
    noun = field_label(target.scheduler, "queue", "Queue").lower()
    queue_name = spec.batch.queue
    queue = next((one for one in facts.queues if one.name == queue_name or (not queue_name and one.default)), None)
    if queue is None:
        if queue_name and not set(queue_name.replace(",", " ").split()) <= {one.name for one in facts.queues}:
            names = ", ".join(one.name for one in facts.queues[:12])
            text = f"The check of “{target.name}” found no {noun} {queue_name}."
            yield PreflightFinding(Severity.WARNING, "queue", text, f"Choose one of: {names}.")
        return
    if not queue.open:
        text = f"The {noun} {queue.name} was closed when “{target.name}” was checked. The job would wait."
        yield PreflightFinding(Severity.WARNING, "queue", text, "Choose another, or check again under Targets.")
    limit, wall = queue.wall_time_s, spec.batch.wall_time_s
    if limit is not None and wall is not None and wall > limit:
        text = f"The {noun} {queue.name} has a time limit of {units.format_duration(limit * NS_PER_S)}."
        yield PreflightFinding(Severity.WARNING, "wall_time", text, f"Request less time, or choose another {noun}.")
