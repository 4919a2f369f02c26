"""The job form: fields as typed ↔ JobSpec, with an error by field and the typed text kept whatever happens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.fields import Choice
from ...domain.jobs import JOB_FIELDS, JOB_PARTS, JobSpec, Mpi, MpiFlavor
from ...domain.targets import Target
from ..recorders.preflight import PreflightFinding, Severity
from . import command_line
from .job_validity import validate_job
from .kinds import format_value, parse_text
from .relevance import CHOICES_OF_FORM, LOCAL_ONLY, NO_MPI, choices, normalize, relevant_fields


def _defaults() -> dict[str, str | bool]:
    found = {
        name: format_value(each.kind, each.default) if each.info.prefilled else "" for name, each in JOB_FIELDS.items()
    }
    return found | {"sampling": "frequency", "mpi": NO_MPI}


class JobForm(Mapping[str, str | bool]):
    """What stands in the form, as typed, by names of fields: a text, or whether a switch is on. What is not given is as
    in an empty form. mpi: a flavor or "none". recorded: "ranks" or "hosts"."""

    DEFAULTS: Mapping[str, str | bool] = _defaults()

    def __init__(self, **typed: str | bool) -> None:
        unknown = typed.keys() - self.DEFAULTS.keys()
        if unknown:
            raise TypeError(f"The form has no field {', '.join(sorted(unknown))}.")
        self._typed = {**self.DEFAULTS, **typed}

    def __getitem__(self, name: str) -> str | bool:
        return self._typed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._typed)

    def __len__(self) -> int:
        return len(self._typed)

    def __repr__(self) -> str:
        changed = {name: value for name, value in self.items() if value != self.DEFAULTS[name]}
        return f"JobForm(**{changed!r})"

    @property
    def target(self) -> str:
        """The name of the target."""
        return str(self["target"])

    @classmethod
    def from_form(cls, values: Mapping[str, Sequence[str]]) -> "JobForm":
        """From the lists of values of a posted form; what is missing is as in an empty form.

        A switch that is off has an empty value, since a browser sends nothing for an empty box. Line breaks become \\n.
        `event` (any number of times) is added to `events`: it comes from the search without JavaScript, where each
        match is a box to tick.
        """
        typed: dict[str, Any] = {}
        for name, default in cls.DEFAULTS.items():
            posted = values.get(name, ())
            if posted and isinstance(default, bool):
                typed[name] = bool(posted[-1])
            elif posted:
                typed[name] = posted[-1].replace("\r\n", "\n")
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
    typed = {
        name: format_value(each.kind, each.get(spec))
        for name, each in JOB_FIELDS.items()
        if each.part != "mpi" or spec.mpi is not None
    }
    return JobForm(**typed, sampling="frequency" if spec.period is None else "period")


def parse(typed: JobForm, targets: Mapping[str, Target] = LOCAL_ONLY, *, complete: bool = True) -> ParsedJob:
    """The spec that was typed, or an error for each field that has one. Never raises.

    Fields that the choices and the target leave unused are not looked at, so that nothing invisible can be wrong.
    targets, complete: see `validate_job`.
    """
    errors: dict[str, str] = {}
    hints: dict[str, tuple[str, ...]] = {}
    chosen = _choices(typed, errors)
    used = relevant_fields(chosen, targets.get(typed.target))
    values: dict[str, dict[str, Any]] = {part: {} for part in ("", *JOB_PARTS)}
    for name, each in JOB_FIELDS.items():
        if name not in used or name in CHOICES_OF_FORM:
            continue
        try:
            value = parse_text(each.kind, typed[name])
        except InvalidRequest as error:
            errors[name] = error.message
            continue
        if isinstance(value, command_line.CommandLine):
            hints |= {name: value.hints} if value.hints else {}
            value = value.argv
        empty = value in (None, "", ())
        values[each.part][each.attribute] = each.default if empty and each.info.prefilled else value
    whole = values.pop("")
    if "sampling" in used:
        _keep_one_rate(typed, whole, errors)
    parts = {name: replace(part, **values[name]) for name in JOB_PARTS if (part := getattr(chosen, name)) is not None}
    spec = replace(chosen, **whole, **parts)
    # A field that could not be read keeps its own message: what the check says of its empty value would hide it.
    errors = validate_job(spec, targets, complete=complete) | errors
    return ParsedJob(None if errors else normalize(spec, targets.get(spec.target)), errors, hints)


def _keep_one_rate(typed: JobForm, values: dict[str, Any], errors: dict[str, str]) -> None:
    """Of frequency and period only the one that was chosen counts."""
    other = "frequency" if typed["sampling"] == "period" else "period"
    values.pop(other, None)
    errors.pop(other, None)
    if typed["sampling"] == "period" and values.get("period", 0) is None:
        errors["period"] = "Enter the number of events between two samples, or choose a frequency."


def _choices(typed: JobForm, errors: dict[str, str]) -> JobSpec:
    """The spec with the choices that decide which other fields are used."""
    chosen = JobSpec()
    for name, each in JOB_FIELDS.items():
        if each.part or not isinstance(each.kind, Choice):
            continue
        try:
            change: dict[str, Any] = {name: parse_text(each.kind, typed[name])}
            chosen = replace(chosen, **change)
        except ValueError:
            errors[name] = _no_choice(name, typed)
    if typed["mpi"] != NO_MPI:
        try:
            mpi = Mpi(MpiFlavor(str(typed["mpi"])), per_host=typed["recorded"] == "hosts")
            chosen = replace(chosen, mpi=mpi)
        except ValueError:
            errors["mpi"] = _no_choice("mpi", typed)
        if typed["recorded"] not in choices()["recorded"]:
            errors["recorded"] = _no_choice("recorded", typed)
    used, plain = relevant_fields(chosen, None), JobSpec()
    for name in ("call_graph", "splitting", "mpi"):
        if name not in used:
            errors.pop(name, None)
            unused: dict[str, Any] = {name: getattr(plain, name)}
            chosen = replace(chosen, **unused)
    if chosen.mpi is None:
        errors.pop("recorded", None)
    return chosen


def _no_choice(name: str, typed: JobForm) -> str:
    return f"“{str(typed[name])[:60]}” is not valid. Use one of: {', '.join(choices()[name])}."
