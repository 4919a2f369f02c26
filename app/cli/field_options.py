"""The options of `record` and `target add` for declared fields, and the conversion of their values."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from ..domain import fields as kinds
from ..domain.errors import InvalidRequest
from ..domain.jobs import JOB_FIELDS, MpiFlavor
from ..domain.targets import TARGET_FIELDS
from ..recording import adapters  # noqa: F401  (registers the names of adapters)
from ..recording.fields.relevance import NO_MPI
from .option_groups import option_in_group
from .options import parse_pairs

F = TypeVar("F", bound=Callable[..., Any])
OptionDecorator = Callable[..., Callable[[F], F]]
SECTIONS = {
    "what": "Recording",
    "pytorch": "With --recorder pytorch",
    "where": "Where it runs",
    "mpi": "MPI",
    "batch": "Batch system",
    "around": "Environment",
    "kept": "Settings and files",
}
"""The headings of the help of `record`, in order."""


def job_options(function: F) -> F:
    """Adds an option for each declared field of a job that has one. The parameters have the names of the form
    fields."""
    order = list(SECTIONS)
    declared = sorted(_with_options(JOB_FIELDS), key=lambda pair: order.index(_section(*pair)))
    return _add_options(function, declared, lambda each, option: option_in_group(SECTIONS[_section(each, option)]))


def target_options(function: F) -> F:
    """The same for a target."""
    return _add_options(function, _with_options(TARGET_FIELDS), lambda each, option: click.option)


def option_name(field: str, declared: Mapping[str, kinds.DeclaredField] = JOB_FIELDS) -> str:
    """The option for a form field; an argument is in capitals."""
    each = declared.get(field)
    option = each.info.option if each else None
    if option is None and field in ("command", "name"):
        return field.upper()
    return option.names[0] if option else "--" + field.replace("_", "-")


def name_option(error: InvalidRequest, declared: Mapping[str, kinds.DeclaredField] = JOB_FIELDS) -> InvalidRequest:
    """The message about a field as a message about its option. Messages without a field are unchanged."""
    known = not error.field or error.field in ("recorder", "scope")
    text = f"{option_name(error.field or '', declared)}: {error.message}"
    return error if known else InvalidRequest(text, error.field)


def raise_problems(problems: Mapping[str, str], declared: Mapping[str, kinds.DeclaredField] = JOB_FIELDS) -> None:
    """Raises InvalidRequest with all problems, each with the name of its option."""
    if problems:
        named = [name_option(InvalidRequest(message, field), declared) for field, message in problems.items()]
        raise InvalidRequest(" ".join(error.message for error in named), named[0].field)


def option_value(each: kinds.DeclaredField, given: Any) -> Any:
    """The value of a field from its option's values. Raises InvalidRequest, UsageError, which name the option."""
    from ..recording.fields.events import split_event_lists
    from ..recording.fields.kinds import parse_text

    kind, option = each.kind, each.info.option
    name = option.names[0] if option else each.name
    if isinstance(kind, kinds.ChoiceField):
        return kind.type(given)
    if isinstance(kind, kinds.WallTimeField | kinds.NumbersField):
        try:
            return parse_text(kind, given)
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {error.message}", each.name) from None
    if isinstance(kind, kinds.EventsField):
        return split_event_lists(given)
    if isinstance(kind, kinds.LinesField):
        return tuple(os.path.abspath(path) for path in given)
    if isinstance(kind, kinds.VariablesField | kinds.ProgramsField):
        return parse_pairs(given, name)
    return not given if option is not None and option.off else given


def _with_options(declared: Mapping[str, kinds.DeclaredField]) -> list[tuple[kinds.DeclaredField, kinds.CliOption]]:
    return [(each, each.info.option) for each in declared.values() if each.info.option is not None]


def _add_options(
    function: F,
    declared: Iterable[tuple[kinds.DeclaredField, kinds.CliOption]],
    decorator: Callable[[kinds.DeclaredField, kinds.CliOption], OptionDecorator[F]],
) -> F:
    # A decorator inserts its option before the existing ones.
    for each, option in reversed(list(declared)):
        given: dict[str, Any] = {"help": option.help, **_type(each.kind)}
        if option.metavar:
            given["metavar"] = option.metavar
        function = decorator(each, option)(*option.names, each.name, **given)(function)
    return function


def _section(each: kinds.DeclaredField, option: kinds.CliOption) -> str:
    return option.section or each.part or "what"


def _type(kind: kinds.FieldKind) -> dict[str, Any]:
    """The arguments of click.option for a kind of field."""
    if isinstance(kind, kinds.ChoiceField):
        none = [NO_MPI] if kind.type is MpiFlavor and not isinstance(kind, kinds.OptionalChoiceField) else []
        return {"type": click.Choice([*none, *(str(value) for value in kind.type)])}
    if isinstance(kind, kinds.NumberField) and not isinstance(kind, kinds.NumbersField):
        return {"type": click.IntRange(min=1)}
    if isinstance(kind, kinds.DurationField):
        return {"type": click.FloatRange(min=0, min_open=True)}
    if isinstance(kind, kinds.SwitchField | kinds.EitherField):
        return {"is_flag": True}
    if isinstance(kind, kinds.LinesField):
        return {"multiple": True, "type": click.Path()}
    if isinstance(kind, kinds.PathField):
        return {"type": click.Path(file_okay=False)}
    several = isinstance(kind, kinds.TextListField | kinds.VariablesField | kinds.ProgramsField)
    return {"multiple": True} if several else {}
