"""The job form: fields as typed ↔ JobSpec, with an error by field and the typed text kept whatever happens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.jobs import (
    Batch,
    CallGraph,
    EventSplitting,
    JobSpec,
    Mpi,
    MpiFlavor,
    PyTorch,
    RecorderName,
    Scope,
)
from ...domain.targets import Target
from ..recorders.preflight import PreflightFinding, Severity
from . import command_line
from .events import split_events
from .job_validity import validate_job
from .relevance import (
    BATCH_FIELDS,
    CHOICES_OF_FORM,
    FIELD_OF,
    LOCAL_ONLY,
    MPI_FIELDS,
    PYTORCH_FIELDS,
    normalize,
    relevant_fields,
)
from .values import (
    format_lines,
    format_number,
    format_variables,
    format_wall_time,
    parse_duration,
    parse_int,
    parse_lines,
    parse_path_list,
    parse_variables,
    parse_wall_time,
)

NO_MPI = "none"


@dataclass(frozen=True)
class JobForm:
    """What stands in the form, as typed. environment, inputs, events, modules, path, library_path, preload: one a line.
    mpi: a flavor or "none". recorded: "ranks" or "hosts"."""

    name: str = ""
    target: str = "local"
    recorder: str = "perf-record"
    scope: str = "command"
    command: str = ""
    cwd: str = ""
    environment: str = ""
    inputs: str = ""
    events: str = ""
    sampling: str = "frequency"
    frequency: str = ""
    period: str = ""
    call_graph: str = "dwarf"
    stack_bytes: str = "8192"
    pid: str = ""
    per_cpu: bool = False
    count_hardware: bool = False
    duration: str = ""
    interval: str = ""
    repeat: str = ""
    splitting: str = "one-run"
    events_per_run: str = ""
    steps: str = PyTorch.steps
    torch_memory: bool = False
    torch_shapes: bool = False
    torch_stacks: bool = False
    torch_modules: bool = False
    torch_seconds: str = ""
    mpi: str = NO_MPI
    ranks: str = ""
    ranks_per_node: str = ""
    mpi_program: str = ""
    mpi_arguments: str = ""
    rank_arguments: str = ""
    recorded: str = "ranks"
    every: str = "1"
    only: str = ""
    queue: str = ""
    project: str = ""
    wall_time: str = ""
    resources: str = ""
    nodes: str = ""
    cpus: str = ""
    exclusive: bool = False
    batch_arguments: str = ""
    modules: str = ""
    path: str = ""
    library_path: str = ""
    preload: str = ""
    sudo: bool = False
    keep_recordings: bool = True
    leave_files: bool = False

    @classmethod
    def from_form(cls, values: Mapping[str, Sequence[str]]) -> "JobForm":
        """From the lists of values of a posted form; what is missing is as in an empty form.

        A switch that is off has an empty value, since a browser sends nothing for an empty box. Line breaks become \\n.
        `event` (any number of times) is added to `events`: it comes from the search without JavaScript, where each
        match is a box to tick.
        """
        typed: dict[str, Any] = {}
        for each in fields(cls):
            posted = values.get(each.name, ())
            if posted and isinstance(each.default, bool):
                typed[each.name] = bool(posted[-1])
            elif posted:
                typed[each.name] = posted[-1].replace("\r\n", "\n")
        ticked = [event for event in values.get("event", ()) if event.strip()]
        if ticked:
            lines = [line for line in typed.get("events", "").split("\n") if line.strip()]
            typed["events"] = "\n".join([*lines, *(event for event in ticked if event not in lines)])
        return cls(**typed)


@dataclass(frozen=True)
class ParsedJob:
    """A spec, or the reasons why there is none. errors and hints: by field, sentences for a person.

    A hint is what may be meant as it stands, and is a mistake more often than not.
    """

    spec: JobSpec | None
    errors: dict[str, str] = field(default_factory=dict)
    hints: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def findings(self) -> list[PreflightFinding]:
        """The errors as findings."""
        return [PreflightFinding(Severity.ERROR, name, message, "") for name, message in self.errors.items()]


def to_form(spec: JobSpec) -> JobForm:
    """The form of a spec; `parse` gives the spec back, without what its choices leave unused."""
    fields = JobForm(
        name=spec.name,
        target=spec.target,
        recorder=str(spec.recorder),
        scope=str(spec.scope),
        command=command_line.join(spec.command),
        cwd=command_line.format_value(spec.cwd or ""),
        environment=format_variables(spec.environment),
        inputs=format_lines(spec.inputs),
        events="\n".join(spec.events),
        sampling="frequency" if spec.period is None else "period",
        frequency=format_number(spec.frequency),
        period=format_number(spec.period),
        call_graph=str(spec.call_graph),
        stack_bytes=format_number(spec.stack_bytes),
        pid=format_number(spec.pid),
        per_cpu=spec.per_cpu,
        count_hardware=spec.count_hardware,
        duration=format_number(spec.duration_s),
        interval=format_number(spec.interval_ms),
        repeat=format_number(spec.repeat),
        splitting=str(spec.splitting),
        events_per_run=format_number(spec.events_per_run),
        modules="\n".join(spec.modules),
        path=format_lines(spec.path),
        library_path=format_lines(spec.library_path),
        preload=format_lines(spec.preload),
        sudo=spec.sudo,
        keep_recordings=spec.keep_recordings,
        leave_files=spec.leave_files,
    )
    fields = replace(fields, **_batch_fields(spec.batch), **(_mpi_fields(spec.mpi) if spec.mpi else {}))
    return replace(fields, **_pytorch_fields(spec.pytorch))


def _batch_fields(batch: Batch) -> dict[str, Any]:
    return {
        "queue": batch.queue,
        "project": batch.project,
        "wall_time": format_wall_time(batch.wall_time_s),
        "resources": batch.resources,
        "nodes": format_number(batch.nodes),
        "cpus": format_number(batch.cpus),
        "exclusive": batch.exclusive,
        "batch_arguments": command_line.join(batch.arguments),
    }


def _pytorch_fields(asked: PyTorch) -> dict[str, Any]:
    values = {field: getattr(asked, name) for name, field in PYTORCH_FIELDS.items()}
    return values | {"torch_seconds": format_number(asked.seconds)}


def _mpi_fields(mpi: Mpi) -> dict[str, Any]:
    return {
        "mpi": str(mpi.flavour),
        "ranks": format_number(mpi.ranks),
        "ranks_per_node": format_number(mpi.ranks_per_node),
        "mpi_program": command_line.format_value(mpi.program),
        "mpi_arguments": command_line.join(mpi.arguments),
        "rank_arguments": command_line.join(mpi.rank_arguments),
        "recorded": "hosts" if mpi.per_host else "ranks",
        "every": format_number(mpi.every),
        "only": mpi.only,
    }


def parse(typed: JobForm, targets: Mapping[str, Target] = LOCAL_ONLY, *, complete: bool = True) -> ParsedJob:
    """The spec that was typed, or an error for each field that has one. Never raises.

    Fields that the choices and the target leave unused are not looked at, so that nothing invisible can be wrong.
    targets, complete: see `validate_job`.
    """
    errors: dict[str, str] = {}
    hints: dict[str, tuple[str, ...]] = {}
    chosen = _choices(typed, errors)
    used = relevant_fields(chosen, targets.get(typed.target))

    def take(names: Mapping[str, str]) -> dict[str, Any]:
        """The values of the fields that count, by names in the spec. names: of the fields, by those."""
        values: dict[str, Any] = {}
        for key, name in names.items():
            if name not in used or name in CHOICES_OF_FORM:
                continue
            try:
                values[key] = _CONVERTERS[name](getattr(typed, name))
            except InvalidRequest as error:
                errors[name] = error.message
            if isinstance(values.get(key), command_line.CommandLine):
                split = values[key]
                values[key] = split.argv
                if split.hints:
                    hints[name] = split.hints
        return values

    plain = {name: name for name in _CONVERTERS if name in JobSpec.__dataclass_fields__}
    values = take(plain | FIELD_OF) | {"target": typed.target, "batch": Batch(**take(BATCH_FIELDS))}
    values["pytorch"] = PyTorch(**take(PYTORCH_FIELDS))
    if chosen.mpi is not None:
        values["mpi"] = replace(chosen.mpi, **take(MPI_FIELDS))
    if "sampling" in used:
        # Of the two only the one that was chosen counts.
        other = "frequency" if typed.sampling == "period" else "period"
        values.pop(other, None)
        errors.pop(other, None)
        if typed.sampling == "period" and values.get("period", 0) is None:
            errors["period"] = "Enter the number of events between two samples, or choose a frequency."
    spec = replace(chosen, **values)
    # A field that could not be read keeps its own message: what the check says of its empty value would hide it.
    errors = validate_job(spec, targets, complete=complete) | errors
    return ParsedJob(None if errors else normalize(spec, targets.get(spec.target)), errors, hints)


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "name": str.strip,
    "command": command_line.split,
    "cwd": lambda text: command_line.parse_value(text) or None,
    "environment": parse_variables,
    "inputs": parse_lines,
    "modules": lambda text: tuple(text.split()),
    "path": parse_path_list,
    "library_path": parse_path_list,
    "preload": parse_path_list,
    "events": split_events,
    "frequency": parse_int,
    "period": parse_int,
    "stack_bytes": lambda text: parse_int(text) or JobSpec.stack_bytes,
    "pid": parse_int,
    "per_cpu": bool,
    "count_hardware": bool,
    "duration": parse_duration,
    "interval": parse_int,
    "repeat": parse_int,
    "events_per_run": parse_int,
    "steps": lambda text: ",".join(map(str.strip, text.split(","))) or PyTorch.steps,
    "torch_memory": bool,
    "torch_shapes": bool,
    "torch_stacks": bool,
    "torch_modules": bool,
    "torch_seconds": parse_duration,
    "sudo": bool,
    "keep_recordings": bool,
    "leave_files": bool,
    "ranks": parse_int,
    "ranks_per_node": parse_int,
    "mpi_program": command_line.parse_value,
    "mpi_arguments": command_line.split,
    "rank_arguments": command_line.split,
    "every": lambda text: parse_int(text) or 1,
    "only": str.strip,
    "queue": str.strip,
    "project": str.strip,
    "wall_time": parse_wall_time,
    "resources": str.strip,
    "nodes": parse_int,
    "cpus": parse_int,
    "exclusive": bool,
    "batch_arguments": command_line.split,
}
"""How the text of each field becomes a value; choices aside. Each may raise InvalidRequest."""


def _choices(typed: JobForm, errors: dict[str, str]) -> JobSpec:
    """The spec with the choices that decide which other fields are used."""
    chosen = JobSpec()
    kinds = (("recorder", RecorderName), ("scope", Scope), ("call_graph", CallGraph), ("splitting", EventSplitting))
    for name, kind in kinds:
        text = getattr(typed, name)
        try:
            change: dict[str, Any] = {name: kind(text)}
            chosen = replace(chosen, **change)
        except ValueError:
            errors[name] = f"“{text[:60]}” is not valid. Use one of: {', '.join(kind)}."
    if typed.mpi != NO_MPI:
        try:
            chosen = replace(chosen, mpi=Mpi(MpiFlavor(typed.mpi), per_host=typed.recorded == "hosts"))
        except ValueError:
            errors["mpi"] = f"“{typed.mpi[:60]}” is not valid. Use one of: {NO_MPI}, {', '.join(MpiFlavor)}."
        if typed.recorded not in ("ranks", "hosts"):
            errors["recorded"] = f"“{typed.recorded[:60]}” is not valid. Use one of: ranks, hosts."
    used, plain = relevant_fields(chosen, None), JobSpec()
    for name in ("call_graph", "splitting", "mpi"):
        if name not in used:
            errors.pop(name, None)
            unused: dict[str, Any] = {name: getattr(plain, name)}
            chosen = replace(chosen, **unused)
    if chosen.mpi is None:
        errors.pop("recorded", None)
    return chosen
