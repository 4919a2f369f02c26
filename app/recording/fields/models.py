"""Checks the types and ranges of declared fields with pydantic, which finds all invalid fields, with Perfloom's
messages.

Imported only to read forms, requests and files: importing pydantic takes longer than a short command.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache, singledispatch
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WrapValidator, create_model
from pydantic_core import PydanticCustomError

from ...domain import fields as kinds
from ...domain.text import encodable
from .kinds import find_problem

_STRICT = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


def find_problems(values: Mapping[str, Any], declared: Mapping[str, kinds.DeclaredField]) -> dict[str, str]:
    """The problems of values of declared fields, by form field."""
    problems: dict[str, str] = {}
    for name, error in _errors(_flat_model(tuple((name, declared[name].kind) for name in values)), values):
        problems.setdefault(name[0], _sentence(declared[name[0]].kind, error))
    return problems


def find_structure_problems(cls: type[Any], data: Mapping[str, Any], title: str) -> dict[tuple[str, ...], str]:
    """The structural problems of the JSON of a class with declared fields, by path: unknown and missing fields, values
    that are not objects or lists, and invalid choices. `find_problems` checks other types. title: the class's name in
    messages."""
    parts = kinds.declared_parts(cls)
    structure_problems = _unknown_fields(cls, data, title)
    for name, part in parts.items():
        if isinstance(data.get(name), Mapping):
            structure_problems |= {
                (name, *path): text for path, text in _unknown_fields(part.type, data[name], f"“{name}”").items()
            }
    # Only known names are checked further: pydantic cannot report a name with a lone surrogate.
    for loc, error in _errors(_structure(cls), without_paths(cls, data, structure_problems)):
        kind = kinds.declared_kinds(cls).get(loc[0])
        part_kind = kind if isinstance(kind, kinds.PartField) else None
        path = loc[:2] if part_kind else loc[:1]
        if len(path) == 1 and part_kind:
            text = f"“{path[0]}” must be an object with its own fields."
        else:
            inner = kinds.declared_kinds(part_kind.type)[path[1]] if part_kind else kind
            if isinstance(inner, kinds.TextListField):
                text = f"“{'.'.join(path)}” must be a list of strings."
            elif isinstance(inner, kinds.ChoiceField) and error["type"] == "missing":
                text = _no_choice(inner, "")
            elif error["type"] == "missing":
                text = f"{f'“{path[0]}”' if part_kind else title} needs the field “{path[-1]}”. Add it."
            else:
                text = str(error["msg"])
        structure_problems.setdefault(path, text)
    return structure_problems


def form_errors(declared: Mapping[str, kinds.DeclaredField], problems: Mapping[tuple[str, ...], str]) -> dict[str, str]:
    """What `find_structure_problems` found, by the names of the form; by path where the form has no such field."""
    names = {each.path: each.name for each in declared.values()}
    paths = {encodable(".".join(path)[:120]): text for path, text in problems.items()}
    return {names.get(path, path): text for path, text in paths.items()}


def without_paths(cls: type[Any], data: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """The JSON of a class without the fields that `find_structure_problems` found, so that the others can be checked. A
    field without a default gets any value that can be read."""
    remaining = {name: dict(value) if isinstance(value, Mapping) else value for name, value in data.items()}
    parts = kinds.declared_parts(cls)
    for whole, *inner in paths:
        if not inner:
            _leave_out(cls, remaining, whole)
        elif isinstance(remaining.get(whole), dict):
            _leave_out(parts[whole].type, remaining[whole], inner[0])
    return remaining


def _leave_out(cls: type[Any], values: dict[str, Any], name: str) -> None:
    if name in kinds.required_fields(cls):
        kind = kinds.declared_kinds(cls)[name]
        values[name] = next(map(str, kind.type), "") if isinstance(kind, kinds.ChoiceField) else ""
    else:
        values.pop(name, None)


def _unknown_fields(cls: type[Any], data: Mapping[str, Any], what: str) -> dict[tuple[str, ...], str]:
    known = kinds.declared_kinds(cls)
    text = f"Its fields are: {', '.join(sorted(known))}."
    return {(n,): f"{what} has no field “{encodable(n[:60])}”. {text}" for n in map(str, data) if n not in known}


def _errors(model: type[BaseModel], data: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
    try:
        model.model_validate(dict(data))
    except ValidationError as error:
        return [(tuple(map(str, each["loc"])), each) for each in error.errors(include_url=False)]
    return []


@cache
def _flat_model(declared: tuple[tuple[str, kinds.FieldKind], ...]) -> type[BaseModel]:
    """Fields by form name. The names are aliases, because pydantic reserves some."""
    fields: dict[str, Any] = {
        f"field_{number}": (annotation(kind), Field(alias=name)) for number, (name, kind) in enumerate(declared)
    }
    return create_model("Values", __config__=_STRICT, **fields)


def _structure(cls: type[Any]) -> type[BaseModel]:
    # mypy considers a class unhashable.
    return _cached_structure(cast(Hashable, cls))


@cache
def _cached_structure(cls: Any) -> type[BaseModel]:
    """A pydantic model that checks only lists, objects and choices of a class with declared fields and of its parts."""
    declared: dict[str, Any] = {}
    required_fields = kinds.required_fields(cls)
    for number, (name, kind) in enumerate(kinds.declared_kinds(cls).items()):
        default = Field(alias=name) if name in required_fields else Field(None, alias=name)
        declared[f"field_{number}"] = (_structure_type(kind), default)
    return create_model(cls.__name__, __config__=_STRICT, **declared)


def _structure_type(kind: kinds.FieldKind) -> Any:
    match kind:
        case kinds.PartField():
            return _structure(kind.type) | None if kind.optional else _structure(kind.type)
        case kinds.TextListField():
            return Sequence[str]
        case kinds.OptionalChoiceField():
            return Annotated[Any, AfterValidator(_one_of(kind))] | None
        case kinds.ChoiceField():
            return Annotated[Any, AfterValidator(_one_of(kind))]
        case _:
            return Any


def _one_of(kind: kinds.ChoiceField) -> Any:
    def check(value: Any) -> Any:
        if value in tuple(kind.type):
            return value
        raise PydanticCustomError("unfit", "{text}", {"text": _no_choice(kind, value)})

    return check


def _no_choice(kind: kinds.ChoiceField, value: Any) -> str:
    shown = f"“{encodable(value[:60])}”" if isinstance(value, str) else "This"
    what = f"Unknown {kind.what}." if kind.what else f"{shown} is not valid."
    return f"{what} Use one of: {', '.join(kind.type)}."


@singledispatch
def annotation(kind: kinds.FieldKind) -> Any:
    """The pydantic type of a kind's values, with its range; `find_problem` checks notations."""
    raise TypeError(kind)


def _validated_type(kind: kinds.FieldKind, type_: Any) -> Any:
    """The type, with `find_problem` as its validator."""

    def check(value: Any) -> Any:
        problem = find_problem(kind, value)
        if problem is not None:
            raise PydanticCustomError("unfit", "{text}", {"text": encodable(problem)})
        return value

    return Annotated[type_, AfterValidator(check)]


@annotation.register
def _(kind: kinds.TextField) -> Any:
    return _validated_type(kind, str)


@annotation.register
def _(kind: kinds.PathField) -> Any:
    return _validated_type(kind, str) | None


@annotation.register
def _(kind: kinds.TextListField) -> Any:
    return _validated_type(kind, tuple[str, ...])


@annotation.register
def _(kind: kinds.VariablesField) -> Any:
    return _validated_type(kind, dict[str, str])


@annotation.register
def _(kind: kinds.NumberField) -> Any:
    number = Annotated[int, Field(ge=kind.least, le=kind.most, multiple_of=kind.multiple)]
    return number if kind.missing else number | None


@annotation.register
def _(kind: kinds.NumbersField) -> Any:
    number = Annotated[int, Field(ge=kind.least, le=kind.most)]

    def one_or_all(value: Any, handler: Any) -> Any:
        return handler(value if isinstance(value, tuple) else (value,))

    return Annotated[tuple[number, ...], WrapValidator(one_or_all)]


@annotation.register
def _(kind: kinds.ProgramsField) -> Any:
    return _validated_type(kind, dict[str, str])


@annotation.register
def _(kind: kinds.DurationField) -> Any:
    number = Annotated[float, Field(ge=kind.least, le=kind.most, allow_inf_nan=False)]
    return number | None if kind.optional else number


@annotation.register
def _(kind: kinds.WallTimeField) -> Any:
    return Annotated[int, Field(ge=1, le=kind.most)] | None


@annotation.register(kinds.SwitchField)
@annotation.register(kinds.EitherField)
def _(kind: kinds.FieldKind) -> Any:
    return bool


@annotation.register
def _(kind: kinds.ChoiceField) -> Any:
    return Annotated[Any, AfterValidator(_one_of(kind))]


@annotation.register
def _(kind: kinds.OptionalChoiceField) -> Any:
    return annotation.dispatch(kinds.ChoiceField)(kind) | None


def _sentence(kind: kinds.FieldKind, error: Mapping[str, Any]) -> str:
    """The message for an error of pydantic."""
    type_, value = error["type"], error["input"]
    match kind:
        case _ if type_ == "unfit":
            return str(error["msg"])
        case kinds.NumberField() if value is None and kind.missing:
            return kind.missing
        case kinds.NumberField() if type_ == "multiple_of":
            above = value - value % kind.multiple + kind.multiple
            return f"This must be a multiple of {kind.multiple}. Use {above:,}."
        case kinds.NumberField() if type_ in ("greater_than_equal", "less_than_equal"):
            return f"{value:,} is out of range. Use {kind.least:,} to {kind.most:,} {kind.unit}."
        case kinds.NumberField():
            return "This must be a whole number."
        case kinds.WallTimeField():
            return "This must be a whole number." if type_.startswith("int") else kind.problem
        case kinds.DurationField():
            return kind.wrong or kind.problem if type_ == "float_type" else kind.problem
        case kinds.SwitchField() | kinds.EitherField():
            return "This must be true or false."
        case kinds.VariablesField():
            if len(error["loc"]) > 1:
                return f"The value of {str(error['loc'][1])[:60]} must be a string."
            return "Environment variables must be an object that maps names to strings."
        case kinds.ProgramsField():
            return f"Write an object that maps names of a {kind.type.kind} to programs."
        case kinds.TextListField() | kinds.TextField() if type_ == "string_unicode":
            what = kind.entry.what if isinstance(kind, kinds.TextListField) else kind.what
            return (
                f"{what} contains bytes that are not UTF-8, which a job cannot store. Rename the file, or link to it."
            )
        case kinds.TextListField():
            return f"{kind.entry.what} must be a string."
        case kinds.TextField():
            return f"{kind.what} must be a string."
        case _:
            return str(error["msg"])
