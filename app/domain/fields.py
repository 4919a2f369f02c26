"""Declared fields: type, label and help of a job's field, next to the field itself.

A field of a data class is declared with `declare`. Forms, validation, JSON, command line options, the job page and the
reference are derived from the declarations. Kinds are data: `perfloom.recording.fields.kinds` parses, formats and
checks the values of each kind.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar

from .registered_names import RegisteredName

_KEY = "declared"


@dataclass(frozen=True)
class FieldKind:
    """The type of a field's values. `load` converts a JSON value to that of the data class. widget: how the form draws
    it: line, number, lines, switch or cards."""

    widget: ClassVar[str] = "line"

    def load(self, value: Any) -> Any:
        """The value of a stored JSON value. Raises TypeError, ValueError."""
        return value


@dataclass(frozen=True)
class TextField(FieldKind):
    """A text. what: its name at the start of a message."""

    what: str = ""


@dataclass(frozen=True)
class TitleField(TextField):
    """A short text for people, without control characters. most: the maximum number of characters."""

    most: int = 200


class LineField(TextField):
    """A text on one line."""


class WordField(LineField):
    """A name that a program takes after an option: one line that does not start with a hyphen."""


@dataclass(frozen=True)
class PatternField(TextField):
    """A text in a notation, or an empty one. pattern: a regular expression; example: a text that it matches."""

    pattern: str = ""
    example: str = ""


class ProgramField(TextField):
    """The name or path of a program."""


class TargetNameField(TextField):
    """The name of an existing target."""


class NewTargetNameField(TextField):
    """The name of a new target."""


@dataclass(frozen=True)
class ParagraphsField(TextField):
    """Text for people, on several lines. most: the maximum number of characters."""

    widget: ClassVar[str] = "lines"

    most: int = 32_768


class HostNameField(TextField):
    """The name of a host, its address, or its alias in ~/.ssh/config."""


class UserNameField(TextField):
    """A login name, or none."""


class PrivateKeyField(TextField):
    """The path of a private key, which may start with ~/, or none."""


class JumpHostField(TextField):
    """A host through which a connection is made: [user@]host[:port]."""


class HostKeyField(TextField):
    """A line of a known_hosts file."""


class TargetPathField(TextField):
    """An absolute path at a target, where variables such as $HOME are expanded there, or none."""


class TargetProgramField(TextField):
    """A program at a target: a name that PATH finds, or an absolute path, or none."""


class PathField(TextField):
    """An absolute path, or none."""


class RanksField(TextField):
    """Ranges of ranks, as in 0-3,8."""


class StepsField(TextField):
    """Steps of PyTorch: wait,warmup,active,repeat or "whole"."""


@dataclass(frozen=True)
class NumberField(FieldKind):
    """A whole number. unit: what a message counts. multiple: it must be a multiple of this. missing: the message for an
    empty field, if a value is required."""

    widget: ClassVar[str] = "number"

    least: int
    most: int
    unit: str
    multiple: int = 1
    missing: str = ""


class NumbersField(NumberField):
    """One whole number or several, or none: an int, a tuple, or None."""

    widget: ClassVar[str] = "line"

    def load(self, value: Any) -> Any:
        return tuple(value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class DurationField(FieldKind):
    """Seconds, with a fraction, or none. problem, wrong: the messages for a number out of range, and for a value that
    is not a number. optional: none is permitted."""

    least: float
    most: float
    problem: str
    wrong: str = ""
    optional: bool = True


@dataclass(frozen=True)
class WallTimeField(FieldKind):
    """Whole seconds of a batch job's time limit, or none."""

    most: int
    problem: str


class SwitchField(FieldKind):
    """True or false."""

    widget: ClassVar[str] = "switch"


@dataclass(frozen=True)
class Option:
    """A choice. hint: what it means."""

    value: str
    label: str
    hint: str = ""


@dataclass(frozen=True)
class ChoiceField(FieldKind):
    """One of several choices. options: with labels, if the field defines them. what: its name in messages."""

    widget: ClassVar[str] = "cards"

    type: type[StrEnum] | type[RegisteredName]
    options: tuple[Option, ...] = ()
    what: str = ""

    def load(self, value: Any) -> Any:
        return self.type(value)


@dataclass(frozen=True)
class OptionalChoiceField(ChoiceField):
    """One of several choices, or none. none: the form's label for that."""

    widget: ClassVar[str] = "select"

    none: str = "None"

    def load(self, value: Any) -> Any:
        return super().load(value) if value else None


@dataclass(frozen=True)
class EitherField(FieldKind):
    """True or false, as a choice between two. off, on: the values of the form."""

    widget: ClassVar[str] = "cards"

    off: Option
    on: Option


@dataclass(frozen=True)
class TextListField(FieldKind):
    """A list of texts. entry: the kind of each. most: the maximum number (null: any)."""

    widget: ClassVar[str] = "lines"

    entry: TextField
    most: int | None = None

    def load(self, value: Any) -> Any:
        return tuple(str(each) for each in value)


class LinesField(TextListField):
    """One per line."""


class WordsField(TextListField):
    """Without spaces; separated by spaces or line breaks."""


class PathListField(TextListField):
    """Entries of a variable such as PATH: one per line, or separated by colons."""


class LibrariesField(TextListField):
    """Entries of LD_PRELOAD."""


class WordListField(TextListField):
    """Without spaces; separated by spaces, commas or line breaks."""


class ArgumentsField(TextListField):
    """Words of a command line, quoted as in a shell."""

    widget: ClassVar[str] = "line"


class CommandLineField(ArgumentsField):
    """A program with its arguments."""

    widget: ClassVar[str] = "lines"


@dataclass(frozen=True)
class EventsField(TextListField):
    """Events of perf."""

    most: int | None = 256


@dataclass(frozen=True)
class VariablesField(FieldKind):
    """Environment variables. reserved: prefixes of names that are not allowed. most: the maximum number (null: any)."""

    widget: ClassVar[str] = "lines"

    reserved: tuple[str, ...] = ()
    most: int | None = None


@dataclass(frozen=True)
class ProgramsField(FieldKind):
    """The program of each of several adapters, by the adapter's name. type: of the names. what: what the programs
    are."""

    widget: ClassVar[str] = "lines"

    type: type[RegisteredName]
    what: str


@dataclass(frozen=True)
class PartField(FieldKind):
    """Fields of a nested class. optional: may be None."""

    type: type[Any]
    optional: bool = False

    def load(self, value: Any) -> Any:
        return None if self.optional and value is None else load_fields(self.type, value)


Applies = dict[str, Collection[str]]
"""For which values of choices (recorder, scope, call_graph, splitting, mpi, recorded, scheduler, sudo) a field is used.
Choices that are not named have no influence. recorder_fields: groups of fields, of which a recorder must have one."""


@dataclass(frozen=True)
class CliOption:
    """An option of `perfloom record` or `perfloom target add`. names: as typed. section: the heading above it in the
    help ("": that of its part, or "what"). off: it turns a switch off. strict: it is refused if the field is not used,
    instead of ignored."""

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    section: str = ""
    off: bool = False
    strict: bool = False


def option(*names: str, help: str, **more: Any) -> CliOption:
    """A `CliOption` from click's notation."""
    return CliOption(names, help, **more)


@dataclass(frozen=True)
class Info:
    """The declaration of a field.

    kind: its type. label, help: in the form; help explains an empty field. applies: when it is used. form: its name in
    the form, if that is not the field's own. group: where the form shows it ("": the template does, by name). unit,
    placeholder: next to and in its empty line. short, mono: width and font of the line. prefilled: the form shows the
    default, which an empty line also means. option: of the command line, if there is one. setting: its label on the
    page of the job or target (empty: no row); shown: what the page shows for a switch that is on, or for no events;
    default_shown: the page also shows the default. internal: Perfloom sets it; forms, files and options have no such
    field.
    """

    kind: FieldKind
    label: str
    help: str = ""
    applies: Applies = field(default_factory=dict)
    form: str = ""
    group: str = ""
    unit: str = ""
    placeholder: str = ""
    short: bool = False
    mono: bool = False
    prefilled: bool = True
    option: CliOption | None = None
    setting: str = ""
    shown: str = "yes"
    default_shown: bool = False
    internal: bool = False


def declare(default: Any, kind: FieldKind, label: str, help: str = "", **info: Any) -> Any:
    """A field of a data class with its declaration: the default, then the fields of `Info`. A list or mapping is copied
    for each instance; MISSING: the field has no default."""
    declared: dict[str, Any] = {"metadata": {_KEY: Info(kind, label, help, **info)}}
    if isinstance(default, dict | list):
        declared["default_factory"] = default.copy
    elif default is not MISSING:
        declared["default"] = default
    return field(**declared)


@dataclass(frozen=True)
class DeclaredField:
    """A field with its declaration. name: in the form. part: the field that contains its class ("": the class itself),
    and attribute: its name there. required: it has no default; default is None then."""

    name: str
    part: str
    attribute: str
    required: bool
    default: Any
    info: Info

    @property
    def kind(self) -> FieldKind:
        """The kind of its values."""
        return self.info.kind

    @property
    def path(self) -> str:
        """Its name in JSON, such as mpi.ranks."""
        return f"{self.part}.{self.attribute}" if self.part else self.attribute

    def get(self, whole: Any) -> Any:
        """Its value in `whole`; the default if its part is None."""
        within = getattr(whole, self.part) if self.part else whole
        return self.default if within is None else getattr(within, self.attribute)


def declared_fields(cls: type[Any], part: str = "") -> tuple[DeclaredField, ...]:
    """The fields of a data class and of its parts, in order."""
    found: list[DeclaredField] = []
    for each in fields(cls):
        info = each.metadata[_KEY]
        if isinstance(info.kind, PartField):
            found += declared_fields(info.kind.type, each.name)
            continue
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        required = default is MISSING
        found.append(
            DeclaredField(info.form or each.name, part, each.name, required, None if required else default, info)
        )
    return tuple(found)


def declared_kinds(cls: type[Any]) -> dict[str, FieldKind]:
    """The kinds of the fields of a data class, by name."""
    return {each.name: each.metadata[_KEY].kind for each in fields(cls)}


def required_fields(cls: type[Any]) -> frozenset[str]:
    """The names of the fields of a data class that have no default."""
    return frozenset(each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING)


def declared_parts(cls: type[Any]) -> dict[str, PartField]:
    """The fields of a data class that are parts."""
    return {name: kind for name, kind in declared_kinds(cls).items() if isinstance(kind, PartField)}


def part_labels(cls: type[Any]) -> dict[str, str]:
    """The labels of the parts of a data class, by the field that has the part."""
    return {
        name: next(each for each in fields(cls) if each.name == name).metadata[_KEY].label
        for name in declared_parts(cls)
    }


def load_fields(cls: type[Any], data: Mapping[str, Any]) -> Any:
    """A data class from its JSON; keys of a later version are ignored. Raises TypeError, ValueError, KeyError,
    AttributeError for bad values."""
    kinds = declared_kinds(cls)
    return cls(**{name: kinds[name].load(value) for name, value in data.items() if name in kinds})


def dump_fields(whole: Any) -> dict[str, Any]:
    """The reverse of `load_fields`."""
    return asdict(whole)
