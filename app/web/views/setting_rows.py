"""The settings of a job or a target, as its page lists them, from the declarations of the fields."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...domain import fields as kinds
from ...domain.fields import DeclaredField
from ...domain.text import shorten
from ...domain.units import NS_PER_S, format_quantity
from ...recording.fields.choices import option_label
from ...recording.fields.kinds import format_value

MAX_TEXT = 400


@dataclass(frozen=True)
class SettingRow:
    """A setting. is_code: it is a command or a path."""

    label: str
    value: str
    is_code: bool = False


def declared_rows(
    declared: Mapping[str, DeclaredField], whole: Any, used: Collection[str] | None = None
) -> Iterator[SettingRow]:
    """Rows of the fields with a label for pages, if they differ from the default. Of environment variables only the
    names: a value can be a secret. used: the fields that apply (null: all)."""
    for name, each in declared.items():
        value, label = each.get(whole), each.info.setting
        if not label or (used is not None and name not in used) or (each.part and getattr(whole, each.part) is None):
            continue
        if each.info.default_shown or value != each.default:
            code = isinstance(each.kind, _CODE)
            for text in _texts(each, value):
                yield SettingRow(label, shorten(text, MAX_TEXT), code)


_CODE = (
    kinds.TextListField,
    kinds.PathField,
    kinds.ProgramField,
    kinds.TargetPathField,
    kinds.TargetProgramField,
    kinds.PrivateKeyField,
)


def _texts(declared_field: DeclaredField, value: Any) -> Iterator[str]:
    """A value as text; of a list of files one text for each."""
    match declared_field.kind:
        case kinds.SwitchField():
            yield declared_field.info.shown
        case kinds.EitherField():
            yield (declared_field.kind.on if value else declared_field.kind.off).label
        case kinds.ChoiceField():
            yield option_label(declared_field.kind, value)
        case kinds.NumbersField():
            yield str(format_value(declared_field.kind, value))
        case kinds.NumberField():
            yield f"{value:,} {declared_field.info.unit}".rstrip()
        case kinds.DurationField():
            yield format_quantity(value * NS_PER_S, "ns").text
        case kinds.VariablesField():
            yield f"{', '.join(sorted(value))} (values not shown)"
        case kinds.ProgramsField():
            choice = kinds.ChoiceField(declared_field.kind.type)
            yield from (f"{option_label(choice, name)}: {program}" for name, program in value.items())
        case kinds.LinesField():
            yield from value
        case kinds.PathListField() | kinds.LibrariesField():
            yield ":".join(value)
        case kinds.WordsField():
            yield " ".join(value)
        case kinds.EventsField():
            yield ", ".join(value) or declared_field.info.shown
        case kind:
            yield str(format_value(kind, value))
