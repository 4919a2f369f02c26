"""The JobSpec of `perfloom record`: a preset, overridden by options."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..config import Settings
from ..domain.errors import InvalidRequest, NotFound
from ..domain.jobs import CallGraph, EventSplitting, JobSpec, Mpi, MpiFlavor, RecorderName, Scope
from ..domain.targets import LOCAL, Target
from ..recording.fields.events import split_event_lists
from ..recording.fields.job_validity import validate_job
from ..recording.fields.preset_file import from_file, to_file
from ..recording.fields.relevance import BATCH_FIELDS, MPI_FIELDS, PYTORCH_FIELDS, relevant_fields
from ..recording.fields.values import parse_wall_time
from ..recording.schedulers import scheduler_of
from ..store import Store, open_store
from .options import parse_pairs

_MPI = {
    "ranks": "ranks",
    "ranks_per_node": "ranks_per_node",
    "mpi_program": "program",
    "mpi_arg": "arguments",
    "rank_arg": "rank_arguments",
    "record_every": "every",
    "record_only": "only",
    "per_host": "per_host",
}
"""Names in Mpi by names of options."""
_BATCH = {
    "queue": "queue",
    "project": "project",
    "wall_time": "wall_time_s",
    "resources": "resources",
    "nodes": "nodes",
    "cpus": "cpus",
    "exclusive": "exclusive",
    "batch_arg": "arguments",
}
_PYTORCH = {
    "torch_steps": "steps",
    "torch_memory": "memory",
    "torch_shapes": "shapes",
    "torch_stacks": "stacks",
    "torch_modules": "modules",
    "torch_seconds": "seconds",
}
"""Names in PyTorch by names of options."""
_SAME = {
    "name": "name",
    "target": "target",
    "events": "events",
    "frequency": "frequency",
    "period": "period",
    "stack_bytes": "stack_bytes",
    "pid": "pid",
    "per_cpu": "per_cpu",
    "count_hardware": "count_hardware",
    "duration": "duration_s",
    "interval": "interval_ms",
    "repeat": "repeat",
    "modules": "modules",
    "path": "path",
    "library_path": "library_path",
    "preload": "preload",
    "sudo": "sudo",
    "leave_files": "leave_files",
    "events_per_run": "events_per_run",
}
_OPTION = {
    "target": "--on",
    "recorded": "--per-host",
    "every": "--record-every",
    "only": "--record-only",
    "mpi_arguments": "--mpi-arg",
    "rank_arguments": "--rank-arg",
    "batch_arguments": "--batch-arg",
    "events": "--event",
    "inputs": "--input",
    "environment": "--env",
    "modules": "--module",
    "splitting": "--split",
    "steps": "--torch-steps",
    "keep_recordings": "--no-recordings",
}
"""Options by fields of the form, where the names differ."""
_NEEDS_MEANING = {
    **{option: MPI_FIELDS[name] for option, name in _MPI.items()},
    **{option: BATCH_FIELDS[name] for option, name in _BATCH.items()},
    **{option: PYTORCH_FIELDS[name] for option, name in _PYTORCH.items()},
    "events_per_run": "events_per_run",
    "sudo": "sudo",
}
"""Fields of the form by options that do not apply to some targets, or with some other options."""
_OF_PERF = {name: name for name in ("events", "frequency", "period", "call_graph", "stack_bytes", "per_cpu")} | {
    "interval": "interval",
    "repeat": "repeat",
    "split": "splitting",
    "no_recordings": "keep_recordings",
}
"""Fields of the form by options that apply only to perf."""


def build_spec(settings: Settings, options: Mapping[str, Any], command: tuple[str, ...]) -> JobSpec:
    """The job that the `options` of the command line describe. Raises UsageError, InvalidRequest, NotFound."""
    with _LazyStore(settings) as store:
        spec = store.preset(options["preset"]) if "preset" in options else JobSpec()
        spec = _with_options(spec, options, command)
        target = store.target(spec.target)
    if not records_anything(spec) and "save_preset" not in options:
        raise click.UsageError("Nothing to record: give a command after --, or --pid, or --system-wide.")
    spec = replace(spec, mpi=_mpi(spec, options, target), batch=replace(spec.batch, **_batch(options)))
    spec = _places(spec, options, target)
    _check_meaning(spec, options, target)
    for field, message in validate_job(spec, {target.name: target}, complete="save_preset" not in options).items():
        raise name_option(InvalidRequest(message, field))
    return spec


def name_option(error: InvalidRequest) -> InvalidRequest:
    """What is wrong with a field, as what is wrong with its option. What concerns the whole stays as it is."""
    known = not error.field or error.field in ("recorder", "scope")
    return error if known else InvalidRequest(f"{option_of(error.field or '')}: {error.message}", error.field)


def records_anything(spec: JobSpec) -> bool:
    """Whether there is anything to record."""
    return bool(spec.command) or spec.pid is not None or spec.scope is Scope.SYSTEM


def with_current_directory(spec: JobSpec) -> JobSpec:
    """The spec with this directory, where it says none: a command runs where it was typed. At another target, and with
    input files, it runs in the job's own directory."""
    if spec.cwd or spec.inputs or spec.target != LOCAL or spec.scope is Scope.PROCESS:
        return spec
    return replace(spec, cwd=os.getcwd())


def save_settings(spec: JobSpec, path: Path) -> None:
    """Write the settings to a file, by its name as TOML or JSON."""
    try:
        path.write_text(to_file(spec, "json" if path.suffix == ".json" else "toml", spec.name), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}. Give another file.", "save_preset") from None


def option_of(field: str) -> str:
    """The option for a field of the form."""
    return _OPTION.get(field, "--" + field.replace("_", "-")) if field != "command" else "COMMAND"


def _with_options(spec: JobSpec, given: Mapping[str, Any], command: tuple[str, ...]) -> JobSpec:
    """All that does not depend on the target."""
    changes: dict[str, Any] = {_SAME[name]: value for name, value in given.items() if name in _SAME}
    if "frequency" in given and "period" in given:
        raise click.UsageError("--frequency and --period exclude each other: leave out one of them.")
    changes |= {"period": None} if "frequency" in given else {"frequency": None} if "period" in given else {}
    if "pid" in given:
        if given.get("system_wide") or command:
            raise click.UsageError("--pid observes one process: leave out --system-wide and the command.")
        changes |= {"scope": Scope.PROCESS, "command": ()}
    elif given.get("system_wide"):
        changes |= {"scope": Scope.SYSTEM, "pid": None}
    elif command and spec.scope is Scope.PROCESS:
        changes |= {"scope": Scope.COMMAND, "pid": None}
    if command:
        changes["command"] = command
    if "count" in given and given.get("recorder", RecorderName.PERF_STAT) != RecorderName.PERF_STAT:
        raise click.UsageError(f"--count means --recorder {RecorderName.PERF_STAT}: leave out one of them.")
    if "count" in given:
        changes["recorder"] = RecorderName.PERF_STAT
    if "recorder" in given:
        changes["recorder"] = RecorderName(given["recorder"])
    pytorch = {_PYTORCH[name]: value for name, value in given.items() if name in _PYTORCH}
    if pytorch:
        changes["pytorch"] = replace(spec.pytorch, **pytorch)
    if "call_graph" in given:
        changes["call_graph"] = CallGraph(given["call_graph"])
    if "split" in given:
        changes["splitting"] = EventSplitting(given["split"])
    if "no_recordings" in given:
        changes["keep_recordings"] = False
    if "events" in given:
        changes["events"] = split_event_lists(given["events"])
    if "inputs" in given:
        changes["inputs"] = tuple(os.path.abspath(path) for path in given["inputs"])
    if "env" in given:
        changes["environment"] = spec.environment | parse_pairs(given["env"], "--env")
    return replace(spec, **changes)


def _mpi(spec: JobSpec, given: Mapping[str, Any], target: Target) -> Mpi | None:
    changes = {_MPI[name]: value for name, value in given.items() if name in _MPI}
    implementation = given.get("mpi")
    if implementation == "none":
        if changes:
            raise click.UsageError(f"{_first(given, _MPI)} does not apply to --mpi none: leave out one of them.")
        return None
    if implementation is None and spec.mpi is None:
        if not changes:
            return None
        if target.mpi is None:
            raise click.UsageError(
                f"{_first(given, _MPI)} needs --mpi: name the MPI implementation that starts the ranks."
            )
        implementation = str(target.mpi)
    if implementation is not None:
        changes["flavour"] = MpiFlavor(implementation)
    mpi = replace(spec.mpi or Mpi(MpiFlavor.OPENMPI, ranks=0), **changes)
    if mpi.ranks < 1:
        raise click.UsageError("--mpi needs --ranks: give the number of ranks.")
    return mpi


def _batch(given: Mapping[str, Any]) -> dict[str, Any]:
    changes = {_BATCH[name]: value for name, value in given.items() if name in _BATCH}
    if "wall_time" in given:
        try:
            changes["wall_time_s"] = parse_wall_time(given["wall_time"])
        except InvalidRequest as error:
            raise InvalidRequest(f"--wall-time: {error.message}", "wall_time") from None
    return changes


def _places(spec: JobSpec, given: Mapping[str, Any], target: Target) -> JobSpec:
    """Make paths absolute if the command runs here."""
    if target.ssh is not None:
        return replace(spec, cwd=given.get("cwd", spec.cwd))
    changes: dict[str, Any] = {
        name: tuple(os.path.abspath(path) for path in given[name]) for name in ("path", "library_path") if name in given
    }
    if "cwd" in given:
        changes["cwd"] = os.path.abspath(given["cwd"])
    return replace(spec, **changes)


def _check_meaning(spec: JobSpec, given: Mapping[str, Any], target: Target) -> None:
    """Raise UsageError for an option that does not apply to the target, or to another option."""
    used = relevant_fields(spec, target)
    perf = spec.recorder is not RecorderName.PYTORCH
    checked = _NEEDS_MEANING if perf else _NEEDS_MEANING | _OF_PERF
    for name in given:
        field = checked.get(name)
        if field is None or field in used:
            continue
        option = option_of(field)
        if name in _PYTORCH:
            raise click.UsageError(f"{option} needs --recorder {RecorderName.PYTORCH}: add it, or leave out {option}.")
        if not perf and (name in _OF_PERF or name == "sudo"):
            raise click.UsageError(f"{option} does not apply to --recorder {spec.recorder}: leave it out.")
        if name in _BATCH:
            scheduler = scheduler_of(target.scheduler)
            system = f"the batch system {scheduler.title}" if scheduler else "no batch system"
            raise click.UsageError(f"{option} does not apply to target {target.name}, which has {system}.")
        if name == "sudo":
            raise click.UsageError(
                f"{option}: target {target.name} does not allow it. Allow sudo in the settings of the target first."
            )
        raise click.UsageError(f"{option} does not apply to the other options: leave it out.")


def _first(given: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return next("--" + name.replace("_", "-") for name in given if name in names)


class _LazyStore:
    """The store, opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None

    def __enter__(self) -> "_LazyStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def target(self, name: str) -> Target:
        """A target by its name. Raises InvalidRequest."""
        try:
            return self._opened().targets.get(name).target
        except NotFound as error:
            raise InvalidRequest(f"--on: {error.message}", "target") from None

    def preset(self, name: str) -> JobSpec:
        """Settings from a file or a saved preset. Raises InvalidRequest, NotFound."""
        path = Path(name)
        if path.is_file():
            try:
                return from_file(path.read_bytes())
            except OSError as error:
                raise InvalidRequest(f"{name} cannot be read: {error.strerror}.", "preset") from None
        try:
            return self._opened().presets.get(name).job_spec
        except NotFound:
            known = ", ".join(each.name for each in self._opened().presets.list()[:12])
            saved = f"Saved presets: {known}." if known else "No presets are saved."
            raise InvalidRequest(
                f"--preset: {name!r} is neither a file nor a saved preset. {saved}", "preset"
            ) from None

    def _opened(self) -> Store:
        if self._store is None:
            self._store = open_store(self._settings)
        return self._store
