"""The checks of a JobSpec that need no host: which fields apply, and their permitted values.

One definition for form, API and command line.
"""

from collections.abc import Mapping

from ...domain.jobs import JOB_FIELDS, EventSplitting, JobSpec, Scope
from ...domain.targets import Target
from ...domain.text import encodable
from ..recorders import recorder_of
from ..recorders.perf_arguments import find_argument_problem
from .models import find_problems
from .placement_validity import Messages, placement_problems, target_problems
from .relevance import LOCAL_ONLY, relevant_fields


def validate_job(spec: JobSpec, targets: Mapping[str, Target] = LOCAL_ONLY, *, complete: bool = True) -> dict[str, str]:
    """Errors by form field. Values of any type are checked, since a spec may come from JSON. Empty if all checks that
    need no host pass.

    targets: the existing ones, by name. complete: if False, required fields may be empty: a preset needs no command.
    """
    target = targets.get(spec.target) if isinstance(spec.target, str) else None
    used = relevant_fields(spec, target) | {"target", "sudo"}
    if not complete:
        used -= {name for name in ("command", "pid") if not getattr(spec, name)}
    values = {n: each.get(spec) for n, each in JOB_FIELDS.items() if each.part != "mpi" or spec.mpi is not None}
    problems = find_problems(values, JOB_FIELDS)
    problems |= [
        *_command(spec),
        *_rate(spec),
        *_process(spec),
        *_perf_arguments(spec),
        *_fresh_inputs(spec),
        *_baseline(spec),
        *placement_problems(spec),
        *target_problems(spec, targets),
    ]
    return {name: encodable(message) for name, message in problems.items() if name in used}


def _command(spec: JobSpec) -> Messages:
    if spec.command or spec.scope is Scope.SYSTEM:
        return []
    return [("command", "Enter the command to record, as in python3 -c 'print(1)'.")]


def _rate(spec: JobSpec) -> Messages:
    if spec.frequency is None or spec.period is None:
        return []
    return [("frequency", "Frequency and period are mutually exclusive. Use one of them.")]


def _perf_arguments(spec: JobSpec) -> Messages:
    problem = find_argument_problem(recorder_of(spec), spec.perf_arguments)
    return [("perf_arguments", problem)] if problem else []


def _fresh_inputs(spec: JobSpec) -> Messages:
    if spec.fresh_inputs is not True:
        return []
    if not spec.inputs:
        return [("fresh_inputs", "There are no input files to copy. Enter them, or turn this off.")]
    text = "Each run has its own directory, so the working directory must be empty. Clear one of the two fields."
    return [("fresh_inputs", text)] if spec.cwd is not None else []


def _baseline(spec: JobSpec) -> Messages:
    if not spec.baseline or spec.splitting is not EventSplitting.AT_ONCE:
        return []
    text = (
        "Runs at the same time disturb each other, so that they do not show the overhead. Run them one after another."
    )
    return [("baseline", text)]


def _process(spec: JobSpec) -> Messages:
    if spec.pid not in (None, ()):
        return []
    return [("pid", "Enter the PID of the process to attach to, as ps or top shows it.")]
