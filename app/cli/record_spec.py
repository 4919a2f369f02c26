"""The JobSpec of `perfloom record`: a preset, overridden by options."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..config import Settings
from ..domain.errors import InvalidRequest, NotFound
from ..domain.fields import ChoiceField
from ..domain.jobs import JOB_FIELDS, JOB_PARTS, JobSpec, Mpi, MpiFlavor, RecorderName, Scope
from ..domain.targets import LOCAL, Target
from ..recording.fields.job_validity import validate_job
from ..recording.fields.preset_file import from_file, to_file
from ..recording.fields.relevance import NO_MPI, list_conditions, relevant_fields
from ..recording.recorders import recorder_of
from ..recording.schedulers import scheduler_of
from ..store import Store, open_store
from .field_options import name_problems, option_name, option_values


def build_spec(settings: Settings, options: Mapping[str, Any], command: tuple[str, ...]) -> JobSpec:
    """The job that the `options` of the command line describe. Raises UsageError, NotFound, and InvalidRequest with
    everything that is wrong with the values of options."""
    problems: dict[str, str] = {}
    typed = {name: value for name, value in options.items() if (name, value) != ("mpi", NO_MPI)}
    values = option_values(typed, JOB_FIELDS, problems)
    with _LazyStore(settings) as store:
        spec = store.preset(options["preset"]) if "preset" in options else JobSpec()
        spec = _with_options(spec, options, values, command)
        try:
            target = store.target(spec.target)
        except NotFound as error:
            problems["target"] = error.message
            # An unknown target may support everything that a job can request.
            target = Target(spec.target, sudo=True)
    if not problems and not records_anything(spec) and "save_preset" not in options:
        raise click.UsageError("Nothing to record: give a command after --, or --pid, or --system-wide.")
    spec = replace(spec, mpi=_mpi(spec, options, values["mpi"], target))
    spec = _places(spec, options, target)
    # What does not apply depends on the choices, and on the target.
    is_chosen = not any(name == "target" or isinstance(JOB_FIELDS[name].kind, ChoiceField) for name in problems)
    unfit = list(_check_meaning(spec, options, target)) if is_chosen else []
    problems = validate_job(spec, {target.name: target}, complete="save_preset" not in options) | problems
    if problems:
        raise InvalidRequest(" ".join([*unfit, *name_problems(problems)]), next(iter(problems)))
    if unfit:
        raise click.UsageError(" ".join(unfit))
    return spec


def records_anything(spec: JobSpec) -> bool:
    """Whether there is anything to record."""
    return bool(spec.command) or bool(spec.pids) or spec.scope is Scope.SYSTEM


def with_current_directory(spec: JobSpec) -> JobSpec:
    """The spec, with this directory if it has none: commands run in the current directory. At another target, and with
    input files, it runs in the job's own directory."""
    if spec.cwd or spec.inputs or spec.fresh_inputs or spec.target != LOCAL or spec.scope is Scope.PROCESS:
        return spec
    return replace(spec, cwd=os.getcwd())


def save_settings(spec: JobSpec, path: Path) -> None:
    """Write the settings to a file, as TOML or JSON depending on its name."""
    try:
        path.write_text(to_file(spec, "json" if path.suffix == ".json" else "toml", spec.name), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}. Give another file.", "save_preset") from None


def _with_options(
    spec: JobSpec, given: Mapping[str, Any], values: Mapping[str, dict[str, Any]], command: tuple[str, ...]
) -> JobSpec:
    """The spec without the settings that depend on the target. values: of `option_values`."""
    changes = dict(values[""])
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
    if "environment" in changes:
        changes["environment"] = spec.environment | changes["environment"]
    parts = {
        name: replace(getattr(spec, name), **values[name]) for name, part in JOB_PARTS.items() if not part.optional
    }
    return replace(spec, **changes, **parts)


def _mpi(spec: JobSpec, given: Mapping[str, Any], changes: Mapping[str, Any], target: Target) -> Mpi | None:
    first = next((option_name(name) for name in given if name != "mpi" and _is_of_mpi(name)), "")
    if given.get("mpi") == NO_MPI:
        if first:
            raise click.UsageError(f"{first} does not apply to --mpi none: leave out one of them.")
        return None
    mpi = spec.mpi or Mpi(target.mpi or MpiFlavor.OPENMPI, ranks=0)
    if "mpi" not in given and spec.mpi is None:
        if not first:
            return None
        if target.mpi is None:
            raise click.UsageError(f"{first} needs --mpi: name the MPI implementation that starts the ranks.")
    mpi = replace(mpi, **changes)
    if "ranks" not in given and mpi.ranks < 1:
        raise click.UsageError("--mpi needs --ranks: give the number of ranks.")
    return mpi


def _is_of_mpi(name: str) -> bool:
    return name in JOB_FIELDS and JOB_FIELDS[name].part == "mpi"


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


def _check_meaning(spec: JobSpec, given: Mapping[str, Any], target: Target) -> Iterator[str]:
    """A sentence for each option that does not apply to the target, or to another option."""
    used = relevant_fields(spec, target)
    for name in given:
        each = JOB_FIELDS.get(name)
        if each is None or name in used or name == "mpi":
            continue
        recorders = tuple(list_conditions()[name].get("recorder", (spec.recorder,)))
        option, strict = option_name(name), each.info.option is not None and each.info.option.strict
        if spec.recorder not in recorders and each.part:
            yield f"{option} needs --recorder {' or '.join(recorders)}: add it, or leave out {option}."
        elif spec.recorder not in recorders and not recorder_of(spec).uses_perf:
            yield f"{option} does not apply to --recorder {spec.recorder}: leave it out."
        elif each.part == "batch":
            scheduler = scheduler_of(target.scheduler)
            system = f"the batch system {scheduler.title}" if scheduler else "no batch system"
            yield f"{option} does not apply to target {target.name}, which has {system}."
        elif name == "sudo":
            yield f"{option}: target {target.name} does not allow it. Allow sudo in the settings of the target first."
        elif each.part or strict:
            yield f"{option} does not apply to the other options: leave it out."


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
        """A target by its name. Raises NotFound."""
        return self._open_store().targets.get(name).target

    def preset(self, name: str) -> JobSpec:
        """Settings from a file or a saved preset. Raises InvalidRequest, NotFound."""
        path = Path(name)
        if path.is_file():
            try:
                return from_file(path.read_bytes())
            except OSError as error:
                raise InvalidRequest(f"{name} cannot be read: {error.strerror}.", "preset") from None
        try:
            return self._open_store().presets.get(name).job_spec
        except NotFound:
            known = ", ".join(each.name for each in self._open_store().presets.list()[:12])
            saved = f"Saved presets: {known}." if known else "No presets are saved."
            raise InvalidRequest(
                f"--preset: {name!r} is neither a file nor a saved preset. {saved}", "preset"
            ) from None

    def _open_store(self) -> Store:
        if self._store is None:
            self._store = open_store(self._settings)
        return self._store
