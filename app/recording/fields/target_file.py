"""A target as a file that people exchange: TOML or JSON, without secrets and without keys of hosts."""

from dataclasses import replace

from ...domain.errors import InvalidRequest
from ...domain.targets import Target
from . import serialization, target_validity
from .preset_file import FORMATS, find_secrets


def to_file(target: Target, form: str) -> str:
    """A target as text: what differs from its default. form: of FORMATS.

    Variables that look like secrets are left out, and named in a comment where the form has such.
    """
    if form not in FORMATS:
        raise InvalidRequest(f"Targets can be written as {' or '.join(FORMATS)}, not as {form[:40]!r}.", "format")
    left_out = find_secrets(target.environment)
    kept = {name: value for name, value in target.environment.items() if name not in left_out}
    data = target_validity.to_data(replace(target, environment=kept))
    if form == "json":
        return serialization.to_json(data)
    heading = ["A target of Perfloom. Use it with: perfloom target import THIS-FILE, or under Targets, New target."]
    if left_out:
        heading.append(f"Left out because they look like secrets: {', '.join(left_out)}.")
    return serialization.to_toml(data, "\n".join(heading))


def from_file(data: bytes | str, name: str | None = None) -> Target:
    """The target in such a file. name: in place of its own. Raises InvalidRequest."""
    try:
        found = serialization.from_text(data)
        if not found:
            raise InvalidRequest("The file is empty.")
        return target_validity.from_data(found, name=name)
    except InvalidRequest as error:
        raise InvalidRequest(f"The file does not contain a valid target. {error.message}", error.field) from None
