"""Which fields of the job form apply, given the choices in the form and the target.

One definition for form, API and command line, from the declarations of the fields; the page hides the fields that do
not apply.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ...domain.fields import Applies, ChoiceField, DeclaredField, EitherField, Info, Option
from ...domain.jobs import JOB_FIELDS, JOB_PARTS, JobSpec, MpiFlavor
from ...domain.targets import LOCAL, SchedulerName, Target
from ..recorders import RECORDERS
from ..schedulers import SCHEDULERS, field_label

LOCAL_ONLY: Mapping[str, Target] = MappingProxyType({LOCAL: Target(LOCAL)})
"""The targets if no user has added one."""

NO_MPI = "none"
FORM_ONLY: Mapping[str, Info] = {
    "sampling": Info(
        EitherField(Option("frequency", "Frequency"), Option("period", "Period")),
        "Sampling",
        applies={"recorder_fields": ("sampling",)},
    )
}
"""Fields of the form that a JobSpec does not have."""
BATCH_FIELDS = {each.attribute: each.name for each in JOB_FIELDS.values() if each.part == "batch"}
"""Form fields by attribute of Batch."""
_BY_PATH = {each.path: each.name for each in JOB_FIELDS.values()}

CHOICES_OF_TARGET = ("scheduler", "sudo")
"""Conditions that depend on the target."""


def list_choices() -> dict[str, tuple[str, ...]]:
    """The conditions by name, with their possible values."""
    return {
        **{
            each.name: tuple(each.kind.type)
            for each in JOB_FIELDS.values()
            if isinstance(each.kind, ChoiceField) and not each.part
        },
        "mpi": (NO_MPI, *MpiFlavor),
        "recorded": ("ranks", "hosts"),
        "scheduler": tuple(SchedulerName),
        "sudo": ("no", "yes"),
    }


CHOICES_OF_FORM = tuple(name for name in list_choices() if name not in CHOICES_OF_TARGET)
"""The conditions that are form fields themselves."""


def get_form_field(name: str) -> str:
    """The form field of a path in JobSpec, such as duration_s, mpi.ranks or batch.queue."""
    if name == "mpi":
        return name
    return _BY_PATH.get(name, name.partition(".")[0])


def list_conditions() -> Mapping[str, Applies]:
    """For each form field the choices with which it applies."""
    return _conditions(tuple(SCHEDULERS), tuple(RECORDERS))


@lru_cache
def _conditions(_schedulers: tuple[str, ...], _recorders: tuple[str, ...]) -> Mapping[str, Applies]:
    found = {each.name: _condition(each) for each in JOB_FIELDS.values()}
    return found | {name: _of_recorders(info.applies) for name, info in FORM_ONLY.items()}


def _condition(declared_field: DeclaredField) -> Applies:
    if declared_field.part != "batch":
        return _of_recorders(declared_field.info.applies)
    return {"scheduler": tuple(name for name, one in SCHEDULERS.items() if declared_field.attribute in one.fields)}


def _of_recorders(applies: Applies) -> Applies:
    """The conditions with the recorders that use a group of fields, instead of the group."""
    if "recorder_fields" not in applies:
        return applies
    groups = applies["recorder_fields"]
    recorders = tuple(name for name, each in RECORDERS.items() if not set(groups).isdisjoint(each.fields))
    return {"recorder": recorders} | {name: values for name, values in applies.items() if name != "recorder_fields"}


def relevant_fields(spec: JobSpec, target: Target | None = LOCAL_ONLY[LOCAL]) -> frozenset[str]:
    """The form fields that apply with the choices of `spec` at `target`. None: at any target."""
    chosen = {name: str(getattr(spec, name)) for name in ("recorder", "scope", "call_graph", "splitting")}
    chosen["mpi"] = NO_MPI if spec.mpi is None else str(spec.mpi.flavour)
    if spec.mpi is not None:
        chosen["recorded"] = "hosts" if spec.mpi.per_host else "ranks"
    if target is not None:
        chosen |= get_target_choices(target)
    return frozenset(
        field
        for field, condition in list_conditions().items()
        if all(chosen[name] in values for name, values in condition.items() if name in chosen)
    )


@dataclass(frozen=True)
class FieldLabel:
    """The label of a field for some batch systems. hidden_by: the choices with which another label applies."""

    text: str
    hidden_by: str


def list_batch_labels() -> dict[str, tuple[FieldLabel, ...]]:
    """The labels of fields that batch systems name differently, by field of the form."""
    found: dict[str, tuple[FieldLabel, ...]] = {}
    for name, field in BATCH_FIELDS.items():
        labels = dict.fromkeys(text for each in SCHEDULERS.values() if (text := each.fields.get(name)))
        found[field] = tuple(FieldLabel(text, _hidden_without(name, text)) for text in labels)
    return {field: labels for field, labels in found.items() if labels}


def _hidden_without(name: str, label: str) -> str:
    return " ".join(f"scheduler-{other}" for other in SchedulerName if field_label(other, name) != label)


def normalize(spec: JobSpec, target: Target | None = LOCAL_ONLY[LOCAL]) -> JobSpec:
    """The spec with the defaults in all fields that do not apply."""
    used = relevant_fields(spec, target)
    changes: dict[str, dict[str, Any]] = {part: {} for part in ("", *JOB_PARTS)}
    for each in JOB_FIELDS.values():
        if each.name not in used:
            changes[each.part][each.attribute] = each.default
    parts = {name: getattr(spec, name) for name in JOB_PARTS}
    changed_parts = {name: part and replace(part, **changes[name]) for name, part in parts.items() if name != "mpi"}
    changed_parts["mpi"] = replace(spec.mpi, **changes["mpi"]) if spec.mpi is not None and "mpi" in used else None
    return replace(spec, **changes[""], **changed_parts)


def get_target_choices(target: Target) -> dict[str, str]:
    """The choices that a target determines, by name, see `list_choices`."""
    return {"scheduler": str(target.scheduler), "sudo": "yes" if target.sudo else "no"}


def list_hiding_choices() -> Mapping[str, str]:
    """For each form field the choices with which it does not apply, as words "name-value" separated by blanks.

    A field applies exactly if none of them is made.
    """
    return list_hiding_words(list_conditions(), list_choices())


def list_hiding_words(conditions: Mapping[str, Applies], choices: Mapping[str, Collection[str]]) -> Mapping[str, str]:
    """The same for the conditions of a form's fields, and the possible values of the choices."""
    return {
        field: " ".join(
            f"{name}-{value}"
            for name, values in choices.items()
            for value in values
            if value not in condition.get(name, values)
        )
        for field, condition in conditions.items()
    }


def make_hiding_rules() -> str:
    """CSS rules that hide the fields that do not apply, by their attribute data-hidden-by.

    Conditions of the target are attributes of the form and always hide fields. Without scripts the other choices cannot
    be observed, and all fields are visible.
    """
    rules: dict[bool, list[str]] = {True: [], False: []}
    for name, values in list_choices().items():
        for value in values:
            of_target = name in CHOICES_OF_TARGET
            # A select contains options; other choices are radio buttons.
            control = f'[name="{name}"] [value="{value}"]' if name == "mpi" else f'[name="{name}"][value="{value}"]'
            selector = f'form[data-{name}="{value}"]' if of_target else f"form:has({control}:checked)"
            rules[of_target].append(f'{selector} [data-hidden-by~="{name}-{value}"] {{ display: none; }}\n')
    return "".join(rules[True]) + "@media (scripting: enabled) {\n" + "".join(rules[False]) + "}\n"
