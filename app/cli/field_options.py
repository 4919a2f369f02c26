"""The options of `record` for the declared fields of a job, and the values that they give."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..domain import fields as kinds
from ..domain.errors import InvalidRequest
from ..domain.jobs import JOB_FIELDS, MpiFlavor
from ..recording import adapters  # noqa: F401  (registers the names of adapters)
from .option_groups import option_in_group

F = TypeVar("F", bound=Callable[..., Any])
SECTIONS = {
    "what": "Recording",
    "pytorch": "With --recorder pytorch",
    "where": "Where it runs",
    "mpi": "MPI",
    "batch": "Batch system",
    "around": "Environment",
    "kept": "Settings and files",
}
"""The headings of the help, in order."""
NO_MPI = "none"


def field_options(function: F) -> F:
    """Adds an option for each declared field that has one. A parameter is named as the field of the form."""
    declared = [(each, each.info.option) for each in JOB_FIELDS.values() if each.info.option is not None]
    order = list(SECTIONS)
    declared.sort(key=lambda one: order.index(_section(*one)))
    # A decorator puts its option before those that are there.
    for each, option in reversed(declared):
        given: dict[str, Any] = {"help": option.help, **_type(each.kind)}
        if option.metavar:
            given["metavar"] = option.metavar
        function = option_in_group(SECTIONS[_section(each, option)])(*option.names, each.name, **given)(function)
    return function


def option_name(field: str) -> str:
    """The option for a field of the form."""
    if field == "command":
        return "COMMAND"
    each = JOB_FIELDS.get(field)
    option = each.info.option if each else None
    return option.names[0] if option else "--" + field.replace("_", "-")


def option_value(each: kinds.DeclaredField, given: Any) -> Any:
    """The value of a field from what its option was given. Raises InvalidRequest, named by the option."""
    from ..recording.fields.events import split_event_lists
    from ..recording.fields.kinds import parse_text

    kind, option = each.kind, each.info.option
    if isinstance(kind, kinds.Choice):
        return kind.type(given)
    if isinstance(kind, kinds.WallTime | kinds.Numbers):
        try:
            return parse_text(kind, given)
        except InvalidRequest as error:
            raise InvalidRequest(f"{option_name(each.name)}: {error.message}", each.name) from None
    if isinstance(kind, kinds.Events):
        return split_event_lists(given)
    if isinstance(kind, kinds.Lines):
        return tuple(os.path.abspath(path) for path in given)
    return not given if option is not None and option.off else given


def _section(each: kinds.DeclaredField, option: kinds.CliOption) -> str:
    return option.section or each.part or "what"


def _type(kind: kinds.Kind) -> dict[str, Any]:
    """How click reads an option of a kind."""
    if isinstance(kind, kinds.Choice):
        none = [NO_MPI] if kind.type is MpiFlavor else []
        return {"type": click.Choice([*none, *(str(value) for value in kind.type)])}
    if isinstance(kind, kinds.Number) and not isinstance(kind, kinds.Numbers):
        return {"type": click.IntRange(min=1)}
    if isinstance(kind, kinds.Duration):
        return {"type": click.FloatRange(min=0, min_open=True)}
    if isinstance(kind, kinds.Switch | kinds.Either):
        return {"is_flag": True}
    if isinstance(kind, kinds.Lines):
        return {"multiple": True, "type": click.Path()}
    if isinstance(kind, kinds.Path):
        return {"type": click.Path(file_okay=False)}
    return {"multiple": True} if isinstance(kind, kinds.Texts | kinds.Variables) else {}
