"""The target form: conversion between typed fields and a Target, with errors by field. The typed text is never lost."""

from dataclasses import dataclass, field, replace

from ...domain.fields import Applies, EitherField, Info, Option
from ...domain.targets import LOCAL, TARGET_FIELDS, Ssh, Target
from .form_values import FormValues, default_values, format_fields, no_choice_text, parse_fields
from .target_validity import validate_target

ACCESS = EitherField(
    Option("ssh", "Another host, over SSH", "Jobs run there, or in its batch system."),
    Option("here", "This machine", "Without SSH: to use its batch system, or other settings."),
)
"""How a target is reached."""
FORM_ONLY = {"way": Info(ACCESS, "How it is reached")}
"""Fields of the form that a Target does not have."""
CHOICES = {"way": (ACCESS.off.value, ACCESS.on.value)}
"""The conditions by name, with their possible values."""
CONDITIONS: dict[str, Applies] = {
    name: each.info.applies for name, each in TARGET_FIELDS.items() if not each.info.internal
} | {"way": {}}
"""For each form field the choices with which it applies."""


class TargetForm(FormValues):
    """The content of the target form as typed. way: "ssh" or "here"."""

    DEFAULTS = default_values(TARGET_FIELDS.values()) | {"way": "ssh"}


@dataclass(frozen=True)
class ParsedTarget:
    """A target, or the reasons why there is none: sentences by field."""

    target: Target | None
    errors: dict[str, str] = field(default_factory=dict)


def to_form(target: Target) -> TargetForm:
    """The form of a target; `parse` returns the target again."""
    return TargetForm(**format_fields(TARGET_FIELDS.values(), target), way="here" if target.ssh is None else "ssh")


def parse(target_form: TargetForm, earlier: Target | None = None) -> ParsedTarget:
    """The typed target, or errors by field. Never raises.

    Fields that do not apply are not checked. earlier: the target that filled the form; its accepted host keys, which
    the form does not show, are kept if the host is the same.
    """
    errors: dict[str, str] = {}
    way = str(target_form["way"])
    if way not in CHOICES["way"]:
        errors["way"] = no_choice_text(way, CHOICES["way"])
    fields = [
        TARGET_FIELDS[name]
        for name, condition in CONDITIONS.items()
        if name in TARGET_FIELDS and way in condition.get("way", (way,))
    ]
    values, _ = parse_fields(fields, target_form, ("ssh",), errors)
    ssh = Ssh(**values["ssh"]) if way == "ssh" else None
    if ssh is not None and earlier is not None and earlier.ssh is not None and _is_same_host(earlier.ssh, ssh):
        ssh = replace(ssh, host_keys=earlier.ssh.host_keys)
    target = Target(**values[""], ssh=ssh)
    # A field that cannot be parsed keeps its own message.
    errors = validate_target(target) | errors
    if target.name == LOCAL and way == "here" and not target.is_local and "name" in errors:
        errors["scheduler"] = errors.pop("name")
    return ParsedTarget(None if errors else target, errors)


def _is_same_host(ssh: Ssh, other: Ssh) -> bool:
    return (ssh.host, ssh.port, ssh.jump) == (other.host, other.port, other.jump)
