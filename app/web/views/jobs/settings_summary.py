"""The settings of a job, as its page lists them."""

from collections.abc import Iterator
from dataclasses import dataclass

from ....domain.jobs import Batch, EventSplitting, JobSpec, Mpi, PyTorch, RecorderName, Scope
from ....domain.targets import LOCAL
from ....domain.units import NS_PER_S, format_quantity
from ....recording.fields import command_line
from ....recording.fields.placement_validity import MPI_TITLES
from ....recording.fields.values import format_wall_time
from ....recording.recorders.torch_inject import WHOLE
from ....store import Job


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
        found = [*_recorded(spec), *_placed(spec)]
    if job.host:
        found.append(SettingRow("Machine" if job.target == LOCAL else "Monitored by", job.host))
    if job.attempt > 1:
        found.append(SettingRow("Attempt", str(job.attempt)))
    return tuple(found)


def _recorded(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.command:
        yield SettingRow("Command", _short(command_line.join(spec.command)), True)
    if spec.scope is Scope.PROCESS:
        yield SettingRow("Process", f"PID {spec.pid}")
    elif spec.scope is Scope.SYSTEM:
        yield SettingRow("Scope", "the whole system")
    if spec.recorder is RecorderName.PYTORCH:
        yield from _pytorch(spec.pytorch)
    else:
        yield SettingRow("Events", ", ".join(spec.events) or "default", bool(spec.events))
    if spec.splitting is not EventSplitting.ONE_RUN:
        most = f" of {spec.events_per_run} events" if spec.events_per_run else ""
        order = "at once" if spec.splitting is EventSplitting.AT_ONCE else "one after another"
        yield SettingRow("Runs", f"per group{most}, {order}")
    if spec.recorder is RecorderName.PERF_RECORD:
        stack = f", {spec.stack_bytes:,} bytes of stack" if spec.call_graph == "dwarf" else ""
        yield SettingRow("Call graph", f"{spec.call_graph}{stack}")
    if spec.cwd:
        yield SettingRow("Directory", spec.cwd, True)
    for path in spec.inputs:
        yield SettingRow("Input file", path, True)
    if spec.environment:
        yield SettingRow("Environment", f"{', '.join(sorted(spec.environment))} (values not shown)")
    if spec.duration_s is not None:
        yield SettingRow("Time limit", format_quantity(spec.duration_s * NS_PER_S, "ns").text)


def _pytorch(asked: PyTorch) -> Iterator[SettingRow]:
    yield SettingRow("Recorder", "PyTorch")
    yield SettingRow("Steps", "the whole run" if asked.steps.lower() == WHOLE else asked.steps)
    options = [name for name in ("memory", "shapes", "stacks", "modules") if getattr(asked, name)]
    if options:
        yield SettingRow("With", ", ".join(options))
    if asked.seconds is not None:
        yield SettingRow("At most", format_quantity(asked.seconds * NS_PER_S, "ns").text)


def _placed(spec: JobSpec) -> Iterator[SettingRow]:
    if spec.target != LOCAL:
        yield SettingRow("Target", spec.target)
    if spec.mpi is not None:
        yield SettingRow("MPI", _mpi(spec.mpi))
        if spec.mpi.program:
            yield SettingRow("MPI launcher", spec.mpi.program, True)
        if arguments := (*spec.mpi.arguments, *spec.mpi.rank_arguments):
            yield SettingRow("Launcher arguments", _short(command_line.join(arguments)), True)
    if spec.batch != Batch():
        yield SettingRow("Batch system", ", ".join(_batch(spec.batch)))
        if spec.batch.arguments:
            yield SettingRow("Batch arguments", _short(command_line.join(spec.batch.arguments)), True)
    for label, values in (
        ("Modules", spec.modules),
        ("PATH", spec.path),
        ("LD_LIBRARY_PATH", spec.library_path),
        ("LD_PRELOAD", spec.preload),
    ):
        if values:
            yield SettingRow(label, _short(" ".join(values) if label == "Modules" else ":".join(values)), True)
    if spec.sudo:
        yield SettingRow("perf", "with sudo")
    if not spec.keep_recordings and spec.recorder is RecorderName.PERF_RECORD:
        yield SettingRow("perf.data", "not copied back")
    if spec.leave_files:
        yield SettingRow("Files", "not removed at the target")


def _mpi(mpi: Mpi) -> str:
    per_node = f", {mpi.ranks_per_node:,} per node" if mpi.ranks_per_node else ""
    text = f"{MPI_TITLES[mpi.flavour]}, {mpi.ranks:,} ranks{per_node}"
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


def _short(text: str) -> str:
    return text if len(text) <= 400 else text[:399] + "…"
