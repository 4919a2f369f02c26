"""A job as JSON, from the API or a file: the words of JobSpec, each looked at before it is believed."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.fields import CommandLine, Texts
from ...domain.jobs import JOB_FIELDS, JOB_PARTS, JobSpec, MpiFlavor
from ...domain.targets import Target
from . import command_line
from .events import split_event_lists
from .job_form import ParsedJob
from .job_validity import validate_job
from .relevance import LOCAL_ONLY, form_field, normalize


def from_json(data: object, targets: Mapping[str, Target] = LOCAL_ONLY) -> ParsedJob:
    """A spec that came as JSON: JobSpec's words, where `command` may be a command line too. Never raises."""
    parsed = parse_unvalidated(data)
    if parsed.spec is None:
        return parsed
    errors = validate_job(parsed.spec, targets)
    if errors:
        return ParsedJob(None, errors)
    return ParsedJob(normalize(parsed.spec, targets.get(parsed.spec.target)), {}, parsed.hints)


def parse_unvalidated(data: object) -> ParsedJob:
    """The same without a look at the values: whether the words are known, and lists of texts are such."""
    if not isinstance(data, dict):
        return ParsedJob(None, {"": "Send one JSON object with the fields of a job."})
    wrong = _no_lists(data) | _unknown(data)
    if wrong:
        return ParsedJob(None, wrong)
    hints: tuple[str, ...] = ()
    if isinstance(data.get("command"), str):
        try:
            split = command_line.split(data["command"])
        except InvalidRequest as error:
            return ParsedJob(None, {"command": error.message})
        data, hints = data | {"command": list(split.argv)}, split.hints
    try:
        spec = JobSpec.from_json(data)
        spec = replace(spec, events=split_event_lists(spec.events))
    except InvalidRequest as error:
        return ParsedJob(None, {error.field or "": error.message})
    return ParsedJob(spec, {}, {"command": hints} if hints else {})


def _unknown(data: Mapping[Any, Any]) -> dict[str, str]:
    """Words that no job has, and what is no object where one is wanted."""
    found = _words(data, JobSpec, "A job")
    for name, part in JOB_PARTS.items():
        inner = data.get(name, {})
        if inner is None and part.optional:
            continue
        if not isinstance(inner, dict):
            found[form_field(name)] = f"“{name}” must be an object with its own fields."
        elif wrong := _words(inner, part.type, f"“{name}”"):
            found[form_field(name)] = next(iter(wrong.values()))
        elif name == "mpi" and inner.get("flavour") not in tuple(MpiFlavor) and "mpi" in data:
            found["mpi"] = f"Unknown MPI implementation. Use one of: {', '.join(MpiFlavor)}."
    return found


def _words(data: Mapping[Any, Any], kind: type[Any], what: str) -> dict[str, str]:
    known = {each.name for each in fields(kind)}
    unknown = sorted(str(key) for key in data if key not in known)
    if not unknown:
        return {}
    return {unknown[0]: f"{what} has no field “{unknown[0][:60]}”. Its fields are: {', '.join(sorted(known))}."}


def _no_lists(data: Mapping[str, Any]) -> dict[str, str]:
    """Lists of texts that are none."""
    found: dict[str, str] = {}
    for name, each in JOB_FIELDS.items():
        within = data.get(each.part) if each.part else data
        if not isinstance(each.kind, Texts) or not isinstance(within, dict) or each.attribute not in within:
            continue
        value = within[each.attribute]
        if isinstance(each.kind, CommandLine) and isinstance(value, str):
            continue
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            found[name] = f"“{each.path}” must be a list of strings."
    return found
