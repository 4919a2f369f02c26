"""The content of a form as typed, and the parsing that all forms of declared fields share."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from ...domain.errors import InvalidRequest
from ...domain.fields import ChoiceField, DeclaredField
from . import command_line
from .kinds import format_value, parse_text


class FormValues(Mapping[str, str | bool]):
    """The content of a form as typed, by field name: a text, or whether a switch is on. Missing fields are as in an
    empty form."""

    DEFAULTS: ClassVar[Mapping[str, str | bool]]

    def __init__(self, **typed: str | bool) -> None:
        unknown = typed.keys() - self.DEFAULTS.keys()
        if unknown:
            raise TypeError(f"The form has no field {', '.join(sorted(unknown))}.")
        self._typed = {**self.DEFAULTS, **typed}

    def __getitem__(self, name: str) -> str | bool:
        return self._typed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._typed)

    def __len__(self) -> int:
        return len(self._typed)

    def __repr__(self) -> str:
        values = {name: value for name, value in self.items() if value != self.DEFAULTS[name]}
        return f"{type(self).__name__}(**{values!r})"

    @classmethod
    def from_form(cls, values: Mapping[str, Sequence[str]]) -> Self:
        """From the lists of values of a posted form; missing fields are as in an empty form.

        A switch that is off has an empty value, since browsers send nothing for an unchecked box. Line breaks become
        \\n.
        """
        typed: dict[str, str | bool] = {}
        for name, default in cls.DEFAULTS.items():
            value = values.get(name, ())
            if value and isinstance(default, bool):
                typed[name] = bool(value[-1])
            elif value:
                typed[name] = value[-1].replace("\r\n", "\n")
        return cls(**typed)


def default_values(declared_fields: Iterable[DeclaredField]) -> dict[str, str | bool]:
    """The values of an empty form, by field."""
    return {
        each.name: format_value(each.kind, each.default) if each.info.prefilled else ""
        for each in declared_fields
        if not each.info.internal
    }


def format_fields(declared_fields: Iterable[DeclaredField], instance: Any) -> dict[str, str | bool]:
    """The form values of the instance `whole`, by field; a part that is None has no fields."""
    return {
        each.name: format_value(each.kind, each.get(instance))
        for each in declared_fields
        if not each.info.internal and (not each.part or getattr(instance, each.part) is not None)
    }


def parse_fields(
    declared_fields: Iterable[DeclaredField], form_values: FormValues, parts: Collection[str], errors: dict[str, str]
) -> tuple[dict[str, dict[str, Any]], dict[str, tuple[str, ...]]]:
    """(values by part ("": the class itself) and attribute, hints by field). Adds errors by field to `errors`."""
    values: dict[str, dict[str, Any]] = {part: {} for part in ("", *parts)}
    hints: dict[str, tuple[str, ...]] = {}
    for each in declared_fields:
        try:
            value = parse_text(each.kind, form_values[each.name])
        except InvalidRequest as error:
            errors[each.name] = error.message
            continue
        except ValueError:
            if not isinstance(each.kind, ChoiceField):
                raise
            errors[each.name] = no_choice_text(str(form_values[each.name]), each.kind.type)
            continue
        if isinstance(value, command_line.CommandLine):
            hints |= {each.name: value.hints} if value.hints else {}
            value = value.argv
        empty = value in (None, "", ())
        values[each.part][each.attribute] = each.default if empty and each.info.prefilled else value
    return values, hints


def no_choice_text(text: str, choices: Iterable[str]) -> str:
    """The message for an invalid choice."""
    return f"“{text[:60]}” is not valid. Use one of: {', '.join(choices)}."
