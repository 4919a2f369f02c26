"""What a JobSpec says of where and how its command is started (MPI, batch system, environment): values it may have."""

from collections.abc import Mapping
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.jobs import JobSpec, Mpi, MpiFlavor, RecorderName, Scope
from ...domain.selection import parse_ranks
from ...domain.targets import SchedulerName, Target
from ..recorders.torch_inject import MAX_SPANS, WHOLE, parse_steps
from .value_checks import bool_error, first_error, number_error, path_error, text_error

MAX_RANKS = 1_000_000
MAX_WALL_TIME_S = 366 * 86_400
MAX_CPUS = 100_000
MAX_SECONDS = 3600
Messages = list[tuple[str, str | None]]


def target_problems(spec: JobSpec, targets: Mapping[str, Target]) -> Messages:
    """Whether the target exists, and whether what is observed can be reached there."""
    if not isinstance(spec.target, str):
        return [("target", "The target must be a string: a name that is listed under Targets.")]
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
    """Errors by field of the form, None for fields without one."""
    return [
        *_mpi(spec),
        *_batch(spec),
        *_pytorch(spec),
        ("modules", _each(spec.modules, _module)),
        ("path", _each(spec.path, lambda value: _listed(value, "A directory in PATH"))),
        ("library_path", _each(spec.library_path, lambda value: _listed(value, "A directory in LD_LIBRARY_PATH"))),
        ("preload", _each(spec.preload, _preload)),
        ("events_per_run", number_error(spec.events_per_run, 1, 256, "events per run")),
        ("sudo", bool_error(spec.sudo)),
        ("keep_recordings", bool_error(spec.keep_recordings)),
        ("leave_files", bool_error(spec.leave_files)),
    ]


def _mpi(spec: JobSpec) -> Messages:
    mpi = spec.mpi
    if mpi is None:
        return []
    return [
        ("ranks", _needed(mpi.ranks, "ranks") or number_error(mpi.ranks, 1, MAX_RANKS, "ranks")),
        ("ranks_per_node", number_error(mpi.ranks_per_node, 1, MAX_RANKS, "ranks per node")),
        ("mpi_program", _program(mpi)),
        ("mpi_arguments", _each(mpi.arguments, lambda value: text_error(value, "An argument"))),
        ("rank_arguments", _each(mpi.rank_arguments, lambda value: text_error(value, "An argument"))),
        ("every", _needed(mpi.every, "ranks") or number_error(mpi.every, 1, MAX_RANKS, "ranks")),
        ("only", _only(mpi)),
        ("recorded", bool_error(mpi.per_host)),
    ]


def _needed(value: Any, what: str) -> str | None:
    return f"Enter the number of {what}, 1 or more." if value is None else None


def _program(mpi: Mpi) -> str | None:
    problem = text_error(mpi.program, "The MPI launcher")
    if problem is None and mpi.program.startswith("-"):
        return "The MPI launcher starts with a hyphen, like an option. Write only its name or path."
    if problem is None and any(sign in mpi.program for sign in "\r\n"):
        return "The MPI launcher contains a line break. Write its name or path on one line."
    return problem


def _only(mpi: Mpi) -> str | None:
    if not isinstance(mpi.only, str):
        return "The ranks to record must be a string such as 0-3,8."
    if len(mpi.only) > 4000:
        return "Too many ranges. Use fewer, or record every n-th rank."
    try:
        ranges = parse_ranks(mpi.only)
    except InvalidRequest as error:
        return error.message[:1].upper() + error.message[1:]
    most = mpi.ranks if isinstance(mpi.ranks, int) else MAX_RANKS
    if mpi.only.strip() and not ranges:
        return "No ranks given. Write for example 0-3,8, or leave it empty for all ranks."
    beyond = [high for _, high in ranges if high >= most]
    if beyond:
        return f"Rank {beyond[0]} does not exist: the {most:,} ranks are 0 to {most - 1:,}."
    every = mpi.every if isinstance(mpi.every, int) and mpi.every > 0 else 1
    if ranges and not any(low + -low % every <= high for low, high in ranges):
        which = f"a step of {every} selects only ranks 0, {every}, {2 * every} …"
        return f"None of these ranks is recorded: {which} Change one of the two fields."
    return None


def _batch(spec: JobSpec) -> Messages:
    batch = spec.batch
    return [
        ("queue", _word(batch.queue, "The queue")),
        ("project", _word(batch.project, "The project")),
        ("wall_time", _wall_time(batch.wall_time_s)),
        ("resources", _line(batch.resources, "The resource string")),
        ("nodes", number_error(batch.nodes, 1, MAX_CPUS, "nodes")),
        ("cpus", number_error(batch.cpus, 1, MAX_CPUS, "CPUs")),
        ("exclusive", bool_error(batch.exclusive)),
        ("batch_arguments", _each(batch.arguments, lambda value: text_error(value, "An argument"))),
    ]


def _pytorch(spec: JobSpec) -> Messages:
    asked = spec.pytorch
    chosen = spec.recorder is RecorderName.PYTORCH
    observed = chosen and spec.scope is not Scope.COMMAND
    hosts = chosen and spec.mpi is not None and spec.mpi.per_host is True
    return [
        (
            "scope",
            "The PyTorch profiler only records a command. Choose a command." if observed else None,
        ),
        ("recorded", "The PyTorch profiler records ranks, not hosts. Choose ranks." if hosts else None),
        ("steps", _steps(asked.steps)),
        ("torch_memory", bool_error(asked.memory)),
        ("torch_shapes", bool_error(asked.shapes)),
        ("torch_stacks", bool_error(asked.stacks)),
        ("torch_modules", bool_error(asked.modules)),
        ("torch_seconds", _seconds(asked.seconds)),
    ]


def _steps(value: Any) -> str | None:
    try:
        parse_steps(value)
        # Python takes more for a number than people do, such as 1_0 and digits of every script.
        fit = value.strip().lower() == WHOLE or not value.strip(" ,0123456789")
    except (ValueError, AttributeError):
        fit = False
    if fit:
        return None
    return (
        f"“{str(value)[:40]}” is not a valid schedule. Write wait,warmup,active,repeat, as in 1,1,3,1, with at least "
        f"1 active step and at most {MAX_SPANS} repeats; or “whole”."
    )


def _seconds(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.1 <= value <= MAX_SECONDS:
        return f"Use 0.1 seconds to {MAX_SECONDS // 60} minutes: the whole recording is kept in memory."
    return None


def _wall_time(value: Any) -> str | None:
    problem = number_error(value, 1, MAX_WALL_TIME_S, "seconds")
    if problem is not None and isinstance(value, int) and not isinstance(value, bool):
        return "The wall time is out of range. Use 1 second to 366 days."
    return problem


def _line(value: Any, what: str) -> str | None:
    problem = text_error(value, what)
    if problem is None and value and not value.isprintable():
        return f"{what} contains a line break or another control character. Write it on one line."
    return problem


def _word(value: Any, what: str) -> str | None:
    problem = _line(value, what)
    if problem is None and value.startswith("-"):
        return f"{what} starts with a hyphen, like an option. Write only its name."
    return problem


def _module(value: Any) -> str | None:
    problem = _word(value, "A module")
    if problem is None and not value.strip():
        return "A module has no name. Enter its name, or remove it."
    if problem is None and any(sign.isspace() for sign in value):
        return f"“{value[:60]}” contains a space. Write one module per line, as in gcc/12.2.0."
    return problem


def _listed(value: Any, what: str) -> str | None:
    """Directories stand in one variable with colons between."""
    problem = path_error(value, what)
    if problem is None and ":" in value:
        return f"{what} must not contain a colon, which separates directories. Write one directory per line."
    return problem


def _preload(value: Any) -> str | None:
    problem = text_error(value, "A library to preload")
    if problem is None and (":" in value or any(sign.isspace() for sign in value)):
        return f"“{value[:60]}”: LD_PRELOAD accepts no path with a space or colon. Link to it under another name."
    if problem is None and not value:
        return "A library to preload has no name. Enter its name, or remove it."
    return problem


def _each(values: Any, problem: Any) -> str | None:
    return first_error(*map(problem, values))


MPI_TITLES: dict[MpiFlavor, str] = {
    MpiFlavor.OPENMPI: "Open MPI",
    MpiFlavor.MPICH: "MPICH (Hydra)",
    MpiFlavor.INTEL: "Intel MPI",
    MpiFlavor.SPECTRUM: "IBM Spectrum MPI",
    MpiFlavor.PLATFORM: "Platform MPI",
    MpiFlavor.SRUN: "srun (Slurm)",
}
"""What each flavor is called by people."""
