"""The settings of a job, as its page lists them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....domain import fields as kinds
from ....domain.fields import DeclaredField
from ....domain.jobs import JOB_FIELDS, Batch, EventSplitting, JobSpec, Mpi, RecorderName, Scope
from ....domain.targets import LOCAL
from ....domain.text import shorten
from ....domain.units import NS_PER_S, format_quantity
from ....recording.fields.kinds import format_value
from ....recording.fields.values import format_wall_time
from ....recording.mpi.registry import mpi_title
from ....recording.recorders.torch_inject import WHOLE
from ....store import Job

MAX_TEXT = 400
"""How many characters of a setting are shown."""


@dataclass(frozen=True)
class SettingRow:
    """A setting. is_code: it is a command or a path."""

    label: str
    value: str
    is_code: bool = False


def list_settings(job: Job, spec: JobSpec | None) -> tuple[SettingRow, ...]:
    """The settings of a job. Of environment variables only the names: a value may be a secret."""
    if spec is None:
        found = [SettingRow("File", str(name), True) for name in job.spec.get("files", ())]
    else:
        found = [row for name, each in JOB_FIELDS.items() for row in _COMPOSED.get(name, _declared(each))(spec)]
    if job.host:
        found.append(SettingRow("Machine" if job.target == LOCAL else "Monitored by", job.host))
    if job.attempt > 1:
        found.append(SettingRow("Attempt", str(job.attempt)))
    return tuple(found)


def _declared(each: DeclaredField) -> Callable[[JobSpec], Iterator[SettingRow]]:
    """Rows of a field that its declaration describes, if it has another value than its default."""

    def rows(spec: JobSpec) -> Iterator[SettingRow]:
        value, label = each.get(spec), each.info.setting
        if label and value != each.default:
            code = isinstance(each.kind, kinds.Texts | kinds.Path | kinds.Program)
            for text in _texts(each, value):
                yield SettingRow(label, shorten(text, MAX_TEXT), code)

    return rows


def _texts(each: DeclaredField, value: Any) -> Iterator[str]:
    """A value as text; of a list of files one text for each."""
    match each.kind:
        case kinds.Switch():
            yield each.info.shown
        case kinds.Number():
            yield f"{value:,} {each.info.unit}".rstrip()
        case kinds.Duration():
            yield format_quantity(value * NS_PER_S, "ns").text
        case kinds.Variables():
            yield f"{', '.join(sorted(value))} (values not shown)"
        case kinds.Lines():
            yield from value
        case kinds.PathList() | kinds.Libraries():
            yield ":".join(value)
        case kinds.Words():
            yield " ".join(value)
        case kind:
            yield str(format_value(kind, value))


def _scope(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.scope is Scope.PROCESS:
        yield SettingRow("Process", f"PID {spec.pid_text}")
    elif spec.scope is Scope.SYSTEM:
        yield SettingRow("Scope", "the whole system")


def _events(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.recorder is not RecorderName.PYTORCH:
        yield SettingRow("Events", ", ".join(spec.events) or "default", bool(spec.events))


def _splitting(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.splitting is not EventSplitting.ONE_RUN:
        most = f" of {spec.events_per_run} events" if spec.events_per_run else ""
        order = "at once" if spec.splitting is EventSplitting.AT_ONCE else "one after another"
        yield SettingRow("Runs", f"per group{most}, {order}")


def _call_graph(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.recorder is RecorderName.PERF_RECORD:
        stack = f", {spec.stack_bytes:,} bytes of stack" if spec.call_graph == "dwarf" else ""
        yield SettingRow("Call graph", f"{spec.call_graph}{stack}")


def _pytorch(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.recorder is RecorderName.PYTORCH:
        yield SettingRow("Recorder", "PyTorch")
        yield SettingRow("Steps", "the whole run" if spec.pytorch.steps.lower() == WHOLE else spec.pytorch.steps)
        options = [name for name in ("memory", "shapes", "stacks", "modules") if getattr(spec.pytorch, name)]
        if options:
            yield SettingRow("With", ", ".join(options))


def _target(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.target != LOCAL:
        yield SettingRow("Target", spec.target)


def _mpi_row(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.mpi is not None:
        yield SettingRow("MPI", _mpi(spec.mpi))


def _batch_row(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.batch != Batch():
        yield SettingRow("Batch system", ", ".join(_batch(spec.batch)))


_COMPOSED: Mapping[str, Callable[[JobSpec], Iterator[SettingRow]]] = {
    "scope": _scope,
    "events": _events,
    "splitting": _splitting,
    "call_graph": _call_graph,
    "steps": _pytorch,
    "target": _target,
    "mpi": _mpi_row,
    "queue": _batch_row,
}
"""Rows that several fields make together, by the field where they stand."""


def _mpi(mpi: Mpi) -> str:
    per_node = f", {mpi.ranks_per_node:,} per node" if mpi.ranks_per_node else ""
    text = f"{mpi_title(mpi.flavour)}, {mpi.ranks:,} ranks{per_node}"
    if mpi.per_host:
        return f"{text}; recorded: once per host"
    which = [f"every {mpi.every} ranks"] if mpi.every > 1 else []
    which += [f"of {mpi.only}" if which else f"ranks {mpi.only}"] if mpi.only else []
    return f"{text}; recorded: {' '.join(which)}" if which else text


def _batch(batch: Batch) -> Iterator[str]:
    if batch.queue:
        yield batch.queue
    if batch.project:
        yield f"project {batch.project}"
    if batch.wall_time_s is not None:
        yield f"at most {format_wall_time(batch.wall_time_s)}"
    if batch.nodes is not None:
        yield f"{batch.nodes:,} nodes"
    if batch.cpus is not None:
        yield f"{batch.cpus:,} CPUs each"
    if batch.resources:
        yield batch.resources
    if batch.exclusive:
        yield "exclusive nodes"
    if batch.arguments and batch == Batch(arguments=batch.arguments):
        yield "default settings"
