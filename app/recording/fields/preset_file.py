"""The settings of a job as a file for exchange: TOML or JSON, without secrets."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.jobs import JOB_PARTS, JobSpec, Mpi
from ...domain.targets import Target
from . import serialization
from .job_json import parse_unvalidated
from .job_validity import validate_job

FORMATS = ("toml", "json")
_SECRET_NAME = re.compile(
    r"PASSW|PASSPHRASE|SECRET|CREDENTIAL|APIKEY|PRIVATE|COOKIE|PWD_|_PWD|TOKEN$|(^|_)(PASS|TOKENS?|KEYS?|AUTH)(_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"://[^/@\s:]*:[^/@\s]+@|-----BEGIN [A-Z ]*PRIVATE KEY", re.IGNORECASE)


def find_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Matches variables that look like secrets, by name or value."""
    return tuple(n for n, value in environment.items() if _SECRET_NAME.search(n) or _SECRET_VALUE.search(value))


def to_file(spec: JobSpec, file_format: str, title: str = "") -> str:
    """A spec as text: the fields that differ from their defaults. form: the file format, of FORMATS. title: a comment,
    if the format has comments.

    Variables that look like secrets are left out, and named in a comment.
    """
    if file_format not in FORMATS:
        raise InvalidRequest(
            f"Settings can be written as {' or '.join(FORMATS)}, not as {file_format[:40]!r}.", "format"
        )
    left_out = find_secrets(spec.environment)
    environment = {name: value for name, value in spec.environment.items() if name not in left_out}
    data = _select_changed(replace(spec, environment=environment).to_json(), JobSpec().to_json())
    if spec.mpi is not None:
        changed = _select_changed(vars(spec.mpi), vars(Mpi(spec.mpi.flavour)))
        data["mpi"] = {"flavour": str(spec.mpi.flavour), "ranks": spec.mpi.ranks} | changed
    for name, part in JOB_PARTS.items():
        if not part.optional and getattr(spec, name) != part.type():
            data[name] = _select_changed(vars(getattr(spec, name)), vars(part.type()))
    if file_format == "json":
        return serialization.to_json(data)
    heading = [f"Settings of a Perfloom job{': ' + _plain(title) if title else ''}."]
    heading += ["Use it with: perfloom record --preset THIS-FILE, or under New job, Presets."]
    if left_out:
        heading.append(f"Left out because they look like secrets: {', '.join(map(_plain, left_out))}.")
    return serialization.to_toml(data, "\n".join(heading))


def from_file(data: bytes | str) -> JobSpec:
    """The spec in a preset file; the command may be missing and the target unknown. Raises InvalidRequest."""
    parsed = parse_unvalidated(serialization.from_text(data))
    spec = parsed.spec
    errors = parsed.errors
    if spec is not None:
        # An unknown target may support everything that a job can request.
        errors = validate_job(spec, {spec.target: Target(spec.target, sudo=True)}, complete=False) | errors
    if spec is None or errors:
        field, message = next(iter(errors.items()))
        if len(errors) > 1:
            message = " ".join(f"{name}: {text}" for name, text in errors.items())
        raise InvalidRequest(f"The file does not contain valid job settings. {message}", field or None)
    return spec


def _select_changed(values: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value != plain[name]}


def _plain(text: str) -> str:
    """Text without line breaks, for a comment."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:200]
