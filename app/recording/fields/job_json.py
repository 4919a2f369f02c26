"""A job as JSON, from the API or a file: the fields of JobSpec, all validated."""

from collections.abc import Mapping
from dataclasses import replace

from ...domain.errors import InvalidRequest
from ...domain.jobs import JOB_FIELDS, JobSpec
from ...domain.targets import Target
from ...domain.text import encodable
from . import command_line
from .events import split_event_lists
from .job_form import ParsedJob
from .job_validity import validate_job
from .models import find_structure_problems, form_errors, without_paths
from .relevance import LOCAL_ONLY, normalize


def from_json(data: object, targets: Mapping[str, Target] = LOCAL_ONLY) -> ParsedJob:
    """The spec of JSON with JobSpec's fields, where `command` may also be a command line; or errors by field. Never
    raises."""
    parsed = parse_unvalidated(data)
    if parsed.spec is None:
        return parsed
    errors = validate_job(parsed.spec, targets) | parsed.errors
    if errors:
        return ParsedJob(None, errors)
    return ParsedJob(normalize(parsed.spec, targets.get(parsed.spec.target)), {}, parsed.hints)


def parse_unvalidated(data: object) -> ParsedJob:
    """The same without checks of the values. The spec contains the readable fields, and errors the others; it is None
    if there are none."""
    if not isinstance(data, dict):
        return ParsedJob(None, {"": "Send one JSON object with the fields of a job."})
    errors: dict[str, str] = {}
    hints: dict[str, tuple[str, ...]] = {}
    if isinstance(data.get("command"), str):
        try:
            split = command_line.split(data["command"])
        except InvalidRequest as error:
            errors["command"] = encodable(error.message)
        else:
            hints = {"command": split.hints} if split.hints else {}
        data = data | {"command": [] if errors else list(split.argv)}
    wrong = find_structure_problems(JobSpec, data, "A job")
    errors |= form_errors(JOB_FIELDS, wrong)
    try:
        spec = JobSpec.from_json(without_paths(JobSpec, data, wrong))
        return ParsedJob(replace(spec, events=split_event_lists(spec.events)), errors, hints)
    except InvalidRequest as error:
        return ParsedJob(None, errors or {error.field or "": error.message})
