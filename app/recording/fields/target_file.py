"""A target as a file for exchange: TOML or JSON, without secrets and host keys."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.targets import TARGET_FIELDS, Target
from . import serialization
from .models import find_structure_problems, form_errors, without_paths
from .preset_file import FORMATS, find_secrets
from .target_validity import raise_problems, validate_target


def to_file(target: Target, file_format: str) -> str:
    """A target as text: the fields that differ from their defaults. form: the file format, of FORMATS.

    Variables that look like secrets are left out, and named in a comment if the format has comments.
    """
    if file_format not in FORMATS:
        raise InvalidRequest(
            f"Targets can be written as {' or '.join(FORMATS)}, not as {file_format[:40]!r}.", "format"
        )
    left_out = find_secrets(target.environment)
    environment = {name: value for name, value in target.environment.items() if name not in left_out}
    data = to_data(replace(target, environment=environment))
    if file_format == "json":
        return serialization.to_json(data)
    heading = ["A target of Perfloom. Use it with: perfloom target import THIS-FILE, or under Targets, New target."]
    if left_out:
        heading.append(f"Left out because they look like secrets: {', '.join(left_out)}.")
    return serialization.to_toml(data, "\n".join(heading))


def from_file(data: bytes | str, name: str | None = None) -> Target:
    """The target in a target file. name: overrides its own. Raises InvalidRequest."""
    try:
        values = serialization.from_text(data)
        if not values:
            raise InvalidRequest("The file is empty.")
        return from_data(values, name=name)
    except InvalidRequest as error:
        raise InvalidRequest(f"The file does not contain a valid target. {error.message}", error.field) from None


def from_data(data: Mapping[str, Any], *, name: str | None = None) -> Target:
    """The target of a file for exchange. name: overrides its own.

    Host keys in it are ignored: users accept them in each installation of Perfloom. Raises InvalidRequest with all
    problems: unknown fields and invalid values.
    """
    values = dict(data) | ({} if name is None else {"name": name})
    for each in TARGET_FIELDS.values():
        if each.info.internal and isinstance(values.get(each.part), Mapping):
            values[each.part] = {key: value for key, value in values[each.part].items() if key != each.attribute}
    wrong = find_structure_problems(Target, values, "A target")
    problems = form_errors(TARGET_FIELDS, wrong)
    try:
        target = Target.from_json(without_paths(Target, values, wrong))
    except InvalidRequest:
        raise_problems(problems)
        raise
    raise_problems(validate_target(target) | problems)
    return target


def to_data(target: Target) -> dict[str, Any]:
    """A target for a file for exchange: the fields that differ from their defaults, without host keys."""
    data: dict[str, Any] = {}
    for each in TARGET_FIELDS.values():
        value = each.get(target)
        if each.info.internal or (each.part and target.ssh is None):
            continue
        owner = data.setdefault(each.part, {}) if each.part else data
        if each.required or value != each.default:
            owner[each.attribute] = value
    return data
