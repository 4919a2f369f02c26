"""Which fields of the job form count, after the choices that were made and the target that was chosen.

One definition for form, API and command line, from the declarations of the fields; the page hides a field exactly
where it does not count.
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
"""The targets where nobody has added one."""

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
"""Fields of the form by names in Batch."""
_BY_PATH = {each.path: each.name for each in JOB_FIELDS.values()}

CHOICES_OF_TARGET = ("scheduler", "sudo")
"""What the target decides."""


def choices() -> dict[str, tuple[str, ...]]:
    """What decides which fields count, by name, with the values that each may have."""
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


CHOICES_OF_FORM = tuple(name for name in choices() if name not in CHOICES_OF_TARGET)
"""The choices that are fields of the form themselves."""


def form_field(name: str) -> str:
    """The field of the form for a name in JobSpec, such as duration_s, mpi.ranks or batch.queue."""
    if name == "mpi":
        return name
    return _BY_PATH.get(name, name.partition(".")[0])


def conditions() -> Mapping[str, Applies]:
    """For each field of the form the choices with which it counts."""
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
    """The conditions with the recorders that use a group of fields, in place of the group."""
    if "recorder_fields" not in applies:
        return applies
    groups = applies["recorder_fields"]
    recorders = tuple(name for name, each in RECORDERS.items() if not set(groups).isdisjoint(each.fields))
    return {"recorder": recorders} | {name: values for name, values in applies.items() if name != "recorder_fields"}


def relevant_fields(spec: JobSpec, target: Target | None = LOCAL_ONLY[LOCAL]) -> frozenset[str]:
    """The fields of the form that count for the choices of `spec` at `target`. None: at any target."""
    chosen = {name: str(getattr(spec, name)) for name in ("recorder", "scope", "call_graph", "splitting")}
    chosen["mpi"] = NO_MPI if spec.mpi is None else str(spec.mpi.flavour)
    if spec.mpi is not None:
        chosen["recorded"] = "hosts" if spec.mpi.per_host else "ranks"
    if target is not None:
        chosen |= target_choices(target)
    return frozenset(
        field
        for field, condition in conditions().items()
        if all(chosen[name] in values for name, values in condition.items() if name in chosen)
    )


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
    return " ".join(f"scheduler-{other}" for other in SchedulerName if field_label(other, name) != label)


def normalize(spec: JobSpec, target: Target | None = LOCAL_ONLY[LOCAL]) -> JobSpec:
    """The spec with every field that does not count at its default."""
    used = relevant_fields(spec, target)
    changes: dict[str, dict[str, Any]] = {part: {} for part in ("", *JOB_PARTS)}
    for each in JOB_FIELDS.values():
        if each.name not in used:
            changes[each.part][each.attribute] = each.default
    parts = {name: getattr(spec, name) for name in JOB_PARTS}
    whole = {name: part and replace(part, **changes[name]) for name, part in parts.items() if name != "mpi"}
    whole["mpi"] = replace(spec.mpi, **changes["mpi"]) if spec.mpi is not None and "mpi" in used else None
    return replace(spec, **changes[""], **whole)


def target_choices(target: Target) -> dict[str, str]:
    """What a target decides, in the words of `choices`."""
    return {"scheduler": str(target.scheduler), "sudo": "yes" if target.sudo else "no"}


def hiding_choices() -> Mapping[str, str]:
    """For each field of the form the choices that leave it unused, as words "name-value" with blanks between.

    A field is used exactly if none of them is made.
    """
    return hiding_words(conditions(), choices())


def hiding_words(conditions: Mapping[str, Applies], choices: Mapping[str, Collection[str]]) -> Mapping[str, str]:
    """The same for the conditions of a form's fields, and the values of what they depend on."""
    return {
        field: " ".join(
            f"{name}-{value}"
            for name, values in choices.items()
            for value in values
            if value not in condition.get(name, values)
        )
        for field, condition in conditions.items()
    }


def hiding_rules() -> str:
    """Rules of CSS that hide what the choices of a form leave unused, by its attribute data-hidden-by.

    What the target decides is an attribute of the form and always hides. Without scripts the other choices cannot be
    followed: all fields are there.
    """
    rules: dict[bool, list[str]] = {True: [], False: []}
    for name, values in choices().items():
        for value in values:
            of_target = name in CHOICES_OF_TARGET
            # A select has options below it; other choices are radio buttons.
            control = f'[name="{name}"] [value="{value}"]' if name == "mpi" else f'[name="{name}"][value="{value}"]'
            form = f'form[data-{name}="{value}"]' if of_target else f"form:has({control}:checked)"
            rules[of_target].append(f'{form} [data-hidden-by~="{name}-{value}"] {{ display: none; }}\n')
    return "".join(rules[True]) + "@media (scripting: enabled) {\n" + "".join(rules[False]) + "}\n"
