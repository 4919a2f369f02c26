"""The job form: conversion between typed fields and a JobSpec, with errors by field. The typed text is never lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ...domain.fields import ChoiceField
from ...domain.jobs import JOB_FIELDS, JOB_PARTS, JobSpec, Mpi, MpiFlavor
from ...domain.targets import Target
from ..recorders.preflight import PreflightFinding, Severity
from .form_values import FormValues, default_values, format_fields, no_choice_text, parse_fields
from .job_validity import validate_job
from .kinds import parse_text
from .relevance import CHOICES_OF_FORM, LOCAL_ONLY, NO_MPI, list_choices, normalize, relevant_fields


class JobForm(FormValues):
    """The content of the job form as typed. mpi: an MPI implementation or "none". recorded: "ranks" or "hosts"."""

    DEFAULTS = default_values(JOB_FIELDS.values()) | {"sampling": "frequency", "mpi": NO_MPI}

    @property
    def target(self) -> str:
        """The name of the target."""
        return str(self["target"])

    @classmethod
    def from_form(cls, values: Mapping[str, Sequence[str]]) -> Self:
        """From the lists of values of a posted form.

        Each `event` is added to `events`: without JavaScript, the search results are checkboxes of that name.
        """
        typed = super().from_form(values)
        ticked = [event for event in values.get("event", ()) if event.strip()]
        if not ticked:
            return typed
        lines = [line for line in str(typed["events"]).split("\n") if line.strip()]
        events = "\n".join([*lines, *(event for event in ticked if event not in lines)])
        return cls(**dict(typed) | {"events": events})


@dataclass(frozen=True)
class ParsedJob:
    """A spec, or the reasons why there is none. errors and hints: sentences by field.

    A hint marks a value that is valid but usually a mistake.
    """

    spec: JobSpec | None
    errors: dict[str, str] = field(default_factory=dict)
    hints: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def findings(self) -> list[PreflightFinding]:
        """The errors as findings."""
        return [PreflightFinding(Severity.ERROR, name, message, "") for name, message in self.errors.items()]


def to_form(spec: JobSpec) -> JobForm:
    """The form of a spec; `parse` returns the spec again, without fields that its choices leave unused."""
    fields = format_fields(JOB_FIELDS.values(), spec)
    return JobForm(**fields, sampling="frequency" if spec.period is None else "period")


def parse(job_form: JobForm, targets: Mapping[str, Target] = LOCAL_ONLY, *, complete: bool = True) -> ParsedJob:
    """The typed spec, or errors by field. Never raises.

    Fields that the choices and the target leave unused are not checked, because the user cannot see them.
    targets, complete: see `validate_job`.
    """
    errors: dict[str, str] = {}
    chosen = _choices(job_form, errors)
    used = relevant_fields(chosen, targets.get(job_form.target))
    fields = [each for name, each in JOB_FIELDS.items() if name in used and name not in CHOICES_OF_FORM]
    values, hints = parse_fields(fields, job_form, JOB_PARTS, errors)
    own_values = values.pop("")
    if "sampling" in used:
        _keep_one_rate(job_form, own_values, errors)
    parts = {name: replace(part, **values[name]) for name in JOB_PARTS if (part := getattr(chosen, name)) is not None}
    spec = replace(chosen, **own_values, **parts)
    # The message of a field that could not be parsed takes precedence over the one about its empty value.
    errors = validate_job(spec, targets, complete=complete) | errors
    return ParsedJob(None if errors else normalize(spec, targets.get(spec.target)), errors, hints)


def _keep_one_rate(job_form: JobForm, values: dict[str, Any], errors: dict[str, str]) -> None:
    """Only the selected one of frequency and period counts."""
    other = "frequency" if job_form["sampling"] == "period" else "period"
    values.pop(other, None)
    errors.pop(other, None)
    if job_form["sampling"] == "period" and values.get("period", 0) is None:
        errors["period"] = "Enter the number of events between two samples, or choose a frequency."


def _choices(job_form: JobForm, errors: dict[str, str]) -> JobSpec:
    """The spec with the choices that decide which other fields are used."""
    job_spec = JobSpec()
    for name, each in JOB_FIELDS.items():
        if each.part or not isinstance(each.kind, ChoiceField):
            continue
        try:
            change: dict[str, Any] = {name: parse_text(each.kind, job_form[name])}
            job_spec = replace(job_spec, **change)
        except ValueError:
            errors[name] = _no_choice(name, job_form)
    if job_form["mpi"] != NO_MPI:
        try:
            mpi = Mpi(MpiFlavor(str(job_form["mpi"])), per_host=job_form["recorded"] == "hosts")
            job_spec = replace(job_spec, mpi=mpi)
        except ValueError:
            errors["mpi"] = _no_choice("mpi", job_form)
        if job_form["recorded"] not in list_choices()["recorded"]:
            errors["recorded"] = _no_choice("recorded", job_form)
    used, plain = relevant_fields(job_spec, None), JobSpec()
    for name in ("call_graph", "language", "splitting", "mpi"):
        if name not in used:
            errors.pop(name, None)
            unused: dict[str, Any] = {name: getattr(plain, name)}
            job_spec = replace(job_spec, **unused)
    if job_spec.mpi is None:
        errors.pop("recorded", None)
    return job_spec


def _no_choice(name: str, job_form: JobForm) -> str:
    return no_choice_text(str(job_form[name]), list_choices()[name])
