"""The options of `record` and `target add` for declared fields, and the conversion of their values."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..domain import fields as kinds
from ..domain.errors import InvalidRequest
from ..domain.jobs import JOB_FIELDS, JobSpec, MpiFlavor
from ..domain.targets import TARGET_FIELDS
from ..recording import adapters  # noqa: F401  (registers the names of adapters)
from ..recording.fields.relevance import NO_MPI
from .option_groups import option_in_group

F = TypeVar("F", bound=Callable[..., Any])
OptionDecorator = Callable[..., Callable[[F], F]]
_PARTS = kinds.part_labels(JobSpec)
SECTIONS = {
    "what": "Recording",
    **{name: label for name, label in _PARTS.items() if name not in ("mpi", "batch")},
    "where": "Where it runs",
    "mpi": _PARTS["mpi"],
    "batch": _PARTS["batch"],
    "around": "Environment",
    "kept": "Settings and files",
}
"""The headings of the help of `record`, in order."""


class FieldText(click.ParamType[str]):
    """The text of a declared field. Its range, or its choices, are for the help and for completion: the values of all
    options are checked together, by the declarations."""

    def __init__(self, name: str, choices: tuple[str, ...] = ()) -> None:
        self.name = name
        self._choices = choices

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return f"[{'|'.join(self._choices)}]" if self._choices else None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(choice) for choice in self._choices if choice.startswith(incomplete)]


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
        raise InvalidRequest(" ".join(name_problems(problems, declared)), next(iter(problems)))


def name_problems(problems: Mapping[str, str], declared: Mapping[str, kinds.DeclaredField] = JOB_FIELDS) -> list[str]:
    """What is wrong with fields, each with the name of its option, if it has one."""
    whole = [field for field in problems if field in declared and declared[field].info.option is None]
    whole = [field for field in whole if field not in ("command", "name")]
    return [
        text if field in ("", *whole) else f"{option_name(field, declared)}: {text}" for field, text in problems.items()
    ]


def option_values(
    given: Mapping[str, Any], declared: Mapping[str, kinds.DeclaredField], problems: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """The values of options by the part that has the field ("": none) and its name there. What cannot be read is in
    `problems`, by field of the form."""
    values: dict[str, dict[str, Any]] = {part: {} for part in ("", *(each.part for each in declared.values()))}
    for name, text in given.items():
        if name not in declared:
            continue
        each = declared[name]
        try:
            values[each.part][each.attribute] = _option_value(each, text)
        except InvalidRequest as error:
            problems[name] = error.message
    return values


def _option_value(each: kinds.DeclaredField, given: Any) -> Any:
    """The value of a field from its option's values. Raises InvalidRequest."""
    from ..recording.fields.events import split_event_lists
    from ..recording.fields.form_values import no_choice_text
    from ..recording.fields.kinds import parse_text

    kind, option = each.kind, each.info.option
    if isinstance(kind, kinds.ChoiceField):
        try:
            return kind.type(given)
        except ValueError:
            raise InvalidRequest(no_choice_text(given, kind.type)) from None
    if isinstance(kind, kinds.NumberField | kinds.DurationField | kinds.WallTimeField):
        value = parse_text(kind, given)
        if value is None:
            raise InvalidRequest("The value is empty. Write a number.")
        return value
    if isinstance(kind, kinds.EventsField):
        return split_event_lists(given)
    if isinstance(kind, kinds.LinesField):
        return tuple(os.path.abspath(path) for path in given)
    if isinstance(kind, kinds.VariablesField | kinds.ProgramsField):
        return _pairs(given)
    return not given if option is not None and option.off else given


def _pairs(values: Iterable[str]) -> dict[str, str]:
    """The values of a repeated option NAME=VALUE; the last one of a name counts. Raises InvalidRequest."""
    pairs = {}
    for one in values:
        name, sign, value = one.partition("=")
        if not sign:
            raise InvalidRequest(f"“{name[:60]}” has no “=”. Write NAME=VALUE.")
        pairs[name] = value
    return pairs


def _with_options(declared: Mapping[str, kinds.DeclaredField]) -> list[tuple[kinds.DeclaredField, kinds.CliOption]]:
    return [(each, each.info.option) for each in declared.values() if each.info.option is not None]


def _add_options(
    function: F,
    declared: Iterable[tuple[kinds.DeclaredField, kinds.CliOption]],
    decorator: Callable[[kinds.DeclaredField, kinds.CliOption], OptionDecorator[F]],
) -> F:
    # A decorator inserts its option before the existing ones.
    for each, option in reversed(list(declared)):
        help = f"{option.help}  [{limits}]" if (limits := _range_text(each.kind)) else option.help
        given: dict[str, Any] = {"help": help, **_type(each.kind)}
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
        return {"type": FieldText("choice", (*none, *(str(value) for value in kind.type)))}
    if isinstance(kind, kinds.NumberField | kinds.DurationField | kinds.WallTimeField):
        return {"type": FieldText("number")}
    if isinstance(kind, kinds.SwitchField | kinds.EitherField):
        return {"is_flag": True}
    if isinstance(kind, kinds.LinesField):
        return {"multiple": True, "type": click.Path()}
    if isinstance(kind, kinds.PathField):
        return {"type": click.Path(file_okay=False)}
    several = isinstance(kind, kinds.TextListField | kinds.VariablesField | kinds.ProgramsField)
    return {"multiple": True} if several else {}


def _range_text(kind: kinds.FieldKind) -> str:
    """The range of a number, for the help; empty for other kinds."""
    if isinstance(kind, kinds.NumberField):
        return f"{kind.least:,} to {kind.most:,}"
    if isinstance(kind, kinds.DurationField):
        return f"{_plain_number(kind.least)} to {_plain_number(kind.most)} s"
    return f"1 to {kind.most:,} s" if isinstance(kind, kinds.WallTimeField) else ""


def _plain_number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)
