"""Which fields of the job form count, after the choices that were made and the target that was chosen.

One definition for form, API and command line; the page hides a field exactly where it does not count.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any

from ...domain.jobs import Batch, CallGraph, EventSplitting, JobSpec, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
from ...domain.targets import LOCAL, SchedulerName, Target
from ..schedulers import SCHEDULERS, Scheduler, field_label, scheduler_of

LOCAL_ONLY: Mapping[str, Target] = MappingProxyType({LOCAL: Target(LOCAL)})
"""The targets where nobody has added one."""

COMMON_FIELDS = frozenset({"name", "target", "recorder", "scope", "duration", "leave_files"})
COMMAND_FIELDS = frozenset({"command", "cwd", "environment", "inputs", "modules", "path", "library_path", "preload"})
"""Fields of what is started, and of how."""

FIELD_OF = {"duration_s": "duration", "interval_ms": "interval"}
"""Names in JobSpec that the form shortens."""
MPI_FIELDS = {
    "flavour": "mpi",
    "ranks": "ranks",
    "ranks_per_node": "ranks_per_node",
    "program": "mpi_program",
    "arguments": "mpi_arguments",
    "rank_arguments": "rank_arguments",
    "every": "every",
    "only": "only",
    "per_host": "recorded",
}
"""Fields of the form by names in Mpi."""
BATCH_FIELDS = {
    "queue": "queue",
    "project": "project",
    "wall_time_s": "wall_time",
    "resources": "resources",
    "nodes": "nodes",
    "cpus": "cpus",
    "exclusive": "exclusive",
    "arguments": "batch_arguments",
}
"""Fields of the form by names in Batch."""
PYTORCH_FIELDS = {
    "steps": "steps",
    "memory": "torch_memory",
    "shapes": "torch_shapes",
    "stacks": "torch_stacks",
    "modules": "torch_modules",
    "seconds": "torch_seconds",
}
"""Fields of the form by names in PyTorch."""


def form_field(name: str) -> str:
    """The field of the form for a name in JobSpec, such as duration_s, mpi.ranks or batch.queue."""
    whole, _, part = name.partition(".")
    if part:
        parts = {"mpi": MPI_FIELDS, "batch": BATCH_FIELDS, "pytorch": PYTORCH_FIELDS}
        return parts.get(whole, {}).get(part, whole)
    return FIELD_OF.get(name, name)


def relevant_fields(spec: JobSpec, target: Target | None = LOCAL_ONLY[LOCAL]) -> frozenset[str]:
    """The fields of the form that count for the choices of `spec` at `target`. None: at any target."""
    perf = spec.recorder is not RecorderName.PYTORCH
    used = set(COMMON_FIELDS)
    used |= {"pid"} if spec.scope is Scope.PROCESS else COMMAND_FIELDS
    if spec.recorder is RecorderName.PERF_RECORD:
        used |= {"sampling", "frequency", "period", "call_graph", "count_hardware", "keep_recordings"}
        if spec.call_graph is CallGraph.DWARF:
            used |= {"stack_bytes"}
    elif spec.recorder is RecorderName.PERF_STAT:
        used |= {"interval"}
        if spec.scope is not Scope.PROCESS:
            used |= {"repeat"}
    else:
        used |= set(PYTORCH_FIELDS.values())
    if perf:
        used |= {"events"}
        if spec.scope is Scope.SYSTEM:
            used |= {"per_cpu"}
        if spec.scope is not Scope.PROCESS:
            used |= {"splitting"} if spec.splitting is EventSplitting.ONE_RUN else {"splitting", "events_per_run"}
        if target is None or target.sudo:
            used |= {"sudo"}
    if spec.scope is Scope.COMMAND:
        used |= {"mpi"}
        if spec.mpi is not None:
            used |= set(MPI_FIELDS.values()) - ({"every", "only"} if spec.mpi.per_host else set())
    schedulers = SCHEDULERS.values() if target is None else filter(None, [scheduler_of(target.scheduler)])
    return frozenset(used).union(*(scheduler_fields(each) for each in schedulers))


def scheduler_fields(scheduler: Scheduler) -> frozenset[str]:
    """The fields of the form that a batch system takes."""
    return frozenset(BATCH_FIELDS[name] for name in scheduler.fields)


@dataclass(frozen=True)
class FieldLabel:
    """What some batch systems call a field. hidden_by: the choices with which it has another label, as a page hides."""

    text: str
    hidden_by: str


def batch_labels() -> dict[str, tuple[FieldLabel, ...]]:
    """The labels of fields that batch systems name differently, by field of the form."""
    found: dict[str, tuple[FieldLabel, ...]] = {}
    for name, field in BATCH_FIELDS.items():
        labels = dict.fromkeys(text for each in SCHEDULERS.values() if (text := each.fields.get(name)))
        found[field] = tuple(FieldLabel(text, _hidden_without(name, text)) for text in labels)
    return {field: labels for field, labels in found.items() if labels}


def _hidden_without(name: str, label: str) -> str:
    return " ".join(
        f"scheduler-{other}" for other in CHOICES["scheduler"] if field_label(SchedulerName(other), name) != label
    )


def normalize(spec: JobSpec, target: Target | None = LOCAL_ONLY[LOCAL]) -> JobSpec:
    """The spec with every field that does not count at its default."""
    used = relevant_fields(spec, target)
    plain = JobSpec()
    changes: dict[str, Any] = {
        name: getattr(plain, name)
        for name in spec.to_json()
        if name not in ("mpi", "batch", "pytorch") and FIELD_OF.get(name, name) not in used
    }
    unused = {name: getattr(Batch(), name) for name, field in BATCH_FIELDS.items() if field not in used}
    changes["batch"] = replace(spec.batch, **unused)
    if spec.recorder is not RecorderName.PYTORCH:
        changes["pytorch"] = PyTorch()
    if spec.mpi is not None:
        unused = {name: getattr(_MPI, name) for name, field in MPI_FIELDS.items() if field not in used}
        changes["mpi"] = replace(spec.mpi, **unused) if "mpi" in used else None
    return replace(spec, **changes)


_MPI = Mpi(MpiFlavor.OPENMPI)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "recorder": tuple(RecorderName),
    "scope": tuple(Scope),
    "call_graph": tuple(CallGraph),
    "mpi": ("none", *MpiFlavor),
    "recorded": ("ranks", "hosts"),
    "splitting": tuple(EventSplitting),
    # Of the target:
    "scheduler": tuple(SchedulerName),
    "sudo": ("no", "yes"),
}
"""What decides which fields count, by name, with the values that each may have."""
CHOICES_OF_TARGET = ("scheduler", "sudo")
"""Those that the target decides."""
CHOICES_OF_FORM = tuple(name for name in CHOICES if name not in CHOICES_OF_TARGET)
"""Those that are fields of the form themselves."""


def target_choices(target: Target) -> dict[str, str]:
    """What a target decides, in the words of CHOICES."""
    return {"scheduler": str(target.scheduler), "sudo": "yes" if target.sudo else "no"}


@lru_cache
def hiding_choices() -> Mapping[str, str]:
    """For each field of the form the choices that leave it unused, as words "name-value" with blanks between.

    A field is used exactly if none of them is made.
    """
    used_with: dict[str, set[str]] = {}
    for words, used in _cases():
        for field in used:
            used_with.setdefault(field, set()).update(words)
    every = [f"{name}-{value}" for name, values in CHOICES.items() for value in values]
    return {field: " ".join(word for word in every if word not in words) for field, words in used_with.items()}


def _cases() -> Iterator[tuple[list[str], frozenset[str]]]:
    """Every way to choose, and the fields that count then. Flavours of MPI do not differ in that."""
    targets = [Target("t", scheduler=name, sudo=sudo) for name, sudo in product(SchedulerName, (False, True))]
    ways: Iterable[tuple[Any, ...]] = product(
        RecorderName, Scope, CallGraph, (None, False, True), EventSplitting, targets
    )
    for recorder, scope, graph, per_host, splitting, target in ways:
        mpi = None if per_host is None else replace(_MPI, per_host=per_host)
        spec = JobSpec(recorder=recorder, scope=scope, call_graph=graph, mpi=mpi, splitting=splitting)
        chosen = {"recorder": recorder, "scope": scope, "call_graph": graph, "splitting": splitting} | target_choices(
            target
        )
        words = [f"{name}-{value}" for name, value in chosen.items()]
        words += ["mpi-none"] if mpi is None else [f"mpi-{flavour}" for flavour in MpiFlavor]
        # Without MPI it is not seen which ranks are recorded: either may stand there.
        words += ["recorded-ranks"] if not per_host else []
        words += ["recorded-hosts"] if per_host is not False else []
        yield words, relevant_fields(spec, target)
