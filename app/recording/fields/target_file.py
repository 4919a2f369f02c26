"""A target as a file that people exchange: TOML or JSON, without secrets and without keys of hosts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.targets import TARGET_FIELDS, Target
from . import serialization
from .models import find_structure_problems, form_errors, without_paths
from .preset_file import FORMATS, find_secrets
from .target_validity import raise_problems, validate_target


def to_file(target: Target, form: str) -> str:
    """A target as text: what differs from its default. form: of FORMATS.

    Variables that look like secrets are left out, and named in a comment where the form has such.
    """
    if form not in FORMATS:
        raise InvalidRequest(f"Targets can be written as {' or '.join(FORMATS)}, not as {form[:40]!r}.", "format")
    left_out = find_secrets(target.environment)
    environment = {name: value for name, value in target.environment.items() if name not in left_out}
    data = to_data(replace(target, environment=environment))
    if form == "json":
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
    """A target as it is in a file that was exchanged. name: in place of the file's own.

    Keys of hosts in it are left out: a person accepts them, for each Perfloom anew. Raises InvalidRequest with
    everything that is wrong: unknown fields, and values that cannot be used.
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
    """A target for a file to exchange: what differs from its default, and no key of a host."""
    data: dict[str, Any] = {}
    for each in TARGET_FIELDS.values():
        value = each.get(target)
        if each.info.internal or (each.part and target.ssh is None):
            continue
        owner = data.setdefault(each.part, {}) if each.part else data
        if each.required or value != each.default:
            owner[each.attribute] = value
    return data
