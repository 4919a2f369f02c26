"""The job form: fields as typed ↔ JobSpec, with an error by field and the typed text kept whatever happens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..domain.errors import InvalidRequest
from ..domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from . import words
from .check import check, normalised, relevant
from .events import split_events
from .values import duration, number_text, variable_text, variables, whole


@dataclass(frozen=True)
class JobFields:
    """What stands in the form, as typed. environment, inputs, events: one a line."""

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
    duration: str = ""
    interval: str = ""
    repeat: str = ""

    @classmethod
    def from_form(cls, values: Mapping[str, Sequence[str]]) -> "JobFields":
        """From the lists of values of a posted form; what is missing is empty, and a switch off.

        Line breaks become \\n. `event` (any number of times) is added to `events`: it comes from the search without
        JavaScript, where each match is a box to tick.
        """
        typed: dict[str, Any] = {}
        for each in fields(cls):
            posted = values.get(each.name, ())
            if each.name == "per_cpu":
                typed[each.name] = bool(posted)
            elif posted:
                typed[each.name] = posted[-1].replace("\r\n", "\n")
        ticked = [event for event in values.get("event", ()) if event.strip()]
        if ticked:
            lines = [line for line in typed.get("events", "").split("\n") if line.strip()]
            typed["events"] = "\n".join([*lines, *(event for event in ticked if event not in lines)])
        return cls(**typed)


@dataclass(frozen=True)
class Parsed:
    """A spec, or the reasons why there is none. errors and hints: by field, sentences for a person.

    A hint is what may be meant as it stands, and is a mistake more often than not.
    """

    spec: JobSpec | None
    errors: dict[str, str] = field(default_factory=dict)
    hints: dict[str, tuple[str, ...]] = field(default_factory=dict)


def to_fields(spec: JobSpec) -> JobFields:
    """The form of a spec; `parse` gives the spec back, without what its recorder and scope leave unused."""
    return JobFields(
        name=spec.name,
        target=spec.target,
        recorder=str(spec.recorder),
        scope=str(spec.scope),
        command=words.join(spec.command),
        cwd=words.to_line(spec.cwd or ""),
        environment="\n".join(f"{name}={variable_text(value)}" for name, value in spec.environment.items()),
        inputs="\n".join(map(words.to_line, spec.inputs)),
        events="\n".join(spec.events),
        sampling="frequency" if spec.period is None else "period",
        frequency=number_text(spec.frequency),
        period=number_text(spec.period),
        call_graph=str(spec.call_graph),
        stack_bytes=number_text(spec.stack_bytes),
        pid=number_text(spec.pid),
        per_cpu=spec.per_cpu,
        duration=number_text(spec.duration_s),
        interval=number_text(spec.interval_ms),
        repeat=number_text(spec.repeat),
    )


def parse(typed: JobFields, *, complete: bool = True) -> Parsed:
    """The spec that was typed, or an error for each field that has one. Never raises.

    Fields that recorder and scope leave unused are not looked at, so that nothing invisible can be wrong. complete: see
    `check`.
    """
    errors: dict[str, str] = {}
    hints: dict[str, tuple[str, ...]] = {}
    chosen = _choices(typed, errors)
    used = relevant(chosen)
    values: dict[str, Any] = {"name": typed.name.strip(), "target": typed.target}

    def take(name: str, convert: Any, text: str, key: str | None = None) -> None:
        if name in used:
            try:
                values[key or name] = convert(text)
            except InvalidRequest as error:
                errors[name] = error.message

    def command(text: str) -> tuple[str, ...]:
        split = words.split(text)
        if split.hints:
            hints["command"] = split.hints
        return split.argv

    take("command", command, typed.command)
    take("cwd", lambda text: words.from_line(text) or None, typed.cwd)
    take("environment", variables, typed.environment)
    take("inputs", lambda text: tuple(filter(None, map(words.from_line, text.split("\n")))), typed.inputs)
    take("events", split_events, typed.events)
    if typed.sampling == "period":
        take("period", whole, typed.period)
        if "period" in used and values.get("period", 0) is None:
            errors["period"] = "Say after how many events a sample is taken, or choose a frequency."
    else:
        take("frequency", whole, typed.frequency)
    take("stack_bytes", lambda text: whole(text) or JobSpec.stack_bytes, typed.stack_bytes)
    take("pid", whole, typed.pid)
    take("duration", duration, typed.duration, "duration_s")
    take("interval", whole, typed.interval, "interval_ms")
    take("repeat", whole, typed.repeat)
    if "per_cpu" in used:
        values["per_cpu"] = typed.per_cpu
    spec = replace(chosen, **values)
    # A field that could not be read keeps its own message: what the check says of its empty value would hide it.
    errors = check(spec, complete=complete) | errors
    return Parsed(None if errors else spec, errors, hints)


def from_json(data: object) -> Parsed:
    """A spec that came as JSON (the API): JobSpec's words, where `command` may be a command line too."""
    if not isinstance(data, dict):
        return Parsed(None, {"": "Send one JSON object with the words of a job."})
    known = {each.name for each in fields(JobSpec)}
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        return Parsed(None, {unknown[0]: f"A job has no word “{unknown[0]}”. It has: {', '.join(sorted(known))}."})
    hints: tuple[str, ...] = ()
    if isinstance(data.get("command"), str):
        try:
            split = words.split(data["command"])
        except InvalidRequest as error:
            return Parsed(None, {"command": error.message})
        data, hints = data | {"command": list(split.argv)}, split.hints
    for name in ("command", "inputs", "events"):
        value = data.get(name, [])
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            return Parsed(None, {name: f"“{name}” is a list of texts."})
    try:
        spec = JobSpec.from_json(data)
    except InvalidRequest as error:
        return Parsed(None, {error.field or "": error.message})
    errors = check(spec)
    return Parsed(None if errors else normalised(spec), errors, {"command": hints} if hints else {})


def _choices(typed: JobFields, errors: dict[str, str]) -> JobSpec:
    """The spec with the three choices that decide which other fields are used."""
    chosen = JobSpec()
    for name, kind in (("recorder", RecorderName), ("scope", Scope), ("call_graph", CallGraph)):
        text = getattr(typed, name)
        try:
            change: dict[str, Any] = {name: kind(text)}
            chosen = replace(chosen, **change)
        except ValueError:
            errors[name] = f"“{text[:60]}” is none of {', '.join(kind)}. Choose one of them."
    if "call_graph" not in relevant(chosen):
        errors.pop("call_graph", None)
        chosen = replace(chosen, call_graph=JobSpec.call_graph)
    return chosen
