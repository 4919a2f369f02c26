"""The kinds of fields: how form text is parsed to a value, how a value is formatted as text, and which values are
invalid."""

import re
from functools import singledispatch
from typing import Any

from ...domain import fields as kinds
from ...domain.errors import InvalidRequest
from ...domain.selection import parse_ranks
from ..recorders.torch_inject import MAX_SPANS, WHOLE, parse_steps
from . import command_line, values
from .events import event_problem, split_events
from .value_checks import (
    find_control_error,
    find_first_error,
    find_host_error,
    find_host_key_error,
    find_jump_host_error,
    find_path_error,
    find_private_key_error,
    find_target_name_error,
    find_target_path_error,
    find_target_program_error,
    find_text_error,
    find_user_error,
)

MAX_NAME = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@singledispatch
def parse_text(kind: kinds.FieldKind, text: Any) -> Any:
    """The typed value; for a CommandLine or Arguments with hints. Raises InvalidRequest."""
    raise TypeError(kind)


@parse_text.register
def _(kind: kinds.TextField, text: str) -> Any:
    return text.strip()


@parse_text.register
def _(kind: kinds.TargetNameField, text: str) -> Any:
    return text


@parse_text.register
def _(kind: kinds.ProgramField, text: str) -> Any:
    return command_line.parse_value(text)


@parse_text.register
def _(kind: kinds.PathField, text: str) -> Any:
    return command_line.parse_value(text) or None


@parse_text.register
def _(kind: kinds.StepsField, text: str) -> Any:
    return ",".join(map(str.strip, text.split(",")))


@parse_text.register
def _(kind: kinds.NumberField, text: str) -> Any:
    return values.parse_int(text)


@parse_text.register
def _(kind: kinds.NumbersField, text: str) -> Any:
    found = [values.parse_int(word) for word in text.replace(",", " ").split()]
    return tuple(found) if len(found) > 1 else found[0] if found else None


@parse_text.register
def _(kind: kinds.DurationField, text: str) -> Any:
    return values.parse_duration(text)


@parse_text.register
def _(kind: kinds.WallTimeField, text: str) -> Any:
    return values.parse_wall_time(text)


@parse_text.register
def _(kind: kinds.SwitchField, text: Any) -> Any:
    return bool(text)


@parse_text.register
def _(kind: kinds.EitherField, text: str) -> Any:
    return text == kind.on.value


@parse_text.register
def _(kind: kinds.ChoiceField, text: str) -> Any:
    return kind.type(text)


@parse_text.register
def _(kind: kinds.OptionalChoiceField, text: str) -> Any:
    return kind.type(text) if text else None


@parse_text.register
def _(kind: kinds.LinesField, text: str) -> Any:
    return values.parse_lines(text)


@parse_text.register
def _(kind: kinds.WordsField, text: str) -> Any:
    return tuple(text.split())


@parse_text.register
def _(kind: kinds.WordListField, text: str) -> Any:
    return tuple(text.replace(",", " ").split())


@parse_text.register
def _(kind: kinds.ProgramsField, text: str) -> Any:
    programs: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        name, sign, program = (word.strip() for word in line.partition("="))
        if name and sign and program:
            programs[name] = program
        elif line.strip():
            raise InvalidRequest(f"Line {number} is not of the form name=program. Write for example {_example(kind)}.")
    return programs


def _example(kind: kinds.ProgramsField) -> str:
    return f"{next(iter(kind.type))}=/usr/local/bin/program"


@parse_text.register(kinds.PathListField)
@parse_text.register(kinds.LibrariesField)
def _(kind: kinds.FieldKind, text: str) -> Any:
    return values.parse_path_list(text)


@parse_text.register
def _(kind: kinds.ArgumentsField, text: str) -> Any:
    return command_line.split(text)


@parse_text.register
def _(kind: kinds.EventsField, text: str) -> Any:
    return split_events(text)


@parse_text.register
def _(kind: kinds.VariablesField, text: str) -> Any:
    return values.parse_variables(text)


@singledispatch
def format_value(kind: kinds.FieldKind, value: Any) -> str | bool:
    """The inverse of `parse_text`: the text of a field, or whether a switch is on."""
    return str(value)


@format_value.register
def _(kind: kinds.TextField, value: Any) -> str | bool:
    return str(value)


@format_value.register(kinds.ProgramField)
@format_value.register(kinds.PathField)
def _(kind: kinds.FieldKind, value: Any) -> str | bool:
    return command_line.format_value(value or "")


@format_value.register(kinds.NumberField)
@format_value.register(kinds.DurationField)
def _(kind: kinds.FieldKind, value: Any) -> str | bool:
    return values.format_number(value)


@format_value.register
def _(kind: kinds.NumbersField, value: Any) -> str | bool:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else values.format_number(value)


@format_value.register
def _(kind: kinds.WallTimeField, value: Any) -> str | bool:
    return values.format_wall_time(value)


@format_value.register
def _(kind: kinds.OptionalChoiceField, value: Any) -> str | bool:
    return str(value or "")


@format_value.register
def _(kind: kinds.SwitchField, value: Any) -> str | bool:
    return bool(value)


@format_value.register
def _(kind: kinds.EitherField, value: Any) -> str | bool:
    return (kind.on if value else kind.off).value


@format_value.register
def _(kind: kinds.TextListField, value: Any) -> str | bool:
    return values.format_lines(value)


@format_value.register(kinds.WordsField)
@format_value.register(kinds.WordListField)
@format_value.register(kinds.EventsField)
def _(kind: kinds.FieldKind, value: Any) -> str | bool:
    return "\n".join(value)


@format_value.register
def _(kind: kinds.ArgumentsField, value: Any) -> str | bool:
    return command_line.join(value)


@format_value.register
def _(kind: kinds.VariablesField, value: Any) -> str | bool:
    return values.format_variables(value)


@format_value.register
def _(kind: kinds.ProgramsField, value: Any) -> str | bool:
    return "\n".join(f"{name}={program}" for name, program in value.items())


@singledispatch
def find_problem(kind: kinds.FieldKind, value: Any) -> str | None:
    """Why a value of the right type is invalid: a sentence that tells what to do, or None. Types and ranges are for
    `perfloom.recording.fields.models`."""
    return None


@find_problem.register
def _(kind: kinds.TextField, value: Any) -> str | None:
    return find_text_error(value, kind.what)


@find_problem.register
def _(kind: kinds.TitleField, value: Any) -> str | None:
    if len(value) > kind.most:
        return f"{kind.what} has {len(value):,} characters. Use at most {kind.most}."
    if not value.isprintable():
        return f"{kind.what} contains a nonprintable character. Remove it."
    return None


@find_problem.register
def _(kind: kinds.LineField, value: Any) -> str | None:
    problem = find_text_error(value, kind.what)
    if problem is None and value and not value.isprintable():
        return f"{kind.what} contains a line break or another control character. Write it on one line."
    return problem


@find_problem.register
def _(kind: kinds.WordField, value: Any) -> str | None:
    problem = find_problem.dispatch(kinds.LineField)(kind, value)
    if problem is None and value.startswith("-"):
        return f"{kind.what} starts with a hyphen, like an option. Write only its name."
    return problem


@find_problem.register
def _(kind: kinds.ProgramField, value: Any) -> str | None:
    problem = find_text_error(value, kind.what)
    if problem is None and value.startswith("-"):
        return f"{kind.what} starts with a hyphen, like an option. Write only its name or path."
    if problem is None and any(sign in value for sign in "\r\n"):
        return f"{kind.what} contains a line break. Write its name or path on one line."
    return problem


@find_problem.register
def _(kind: kinds.PathField, value: Any) -> str | None:
    return find_path_error(value, kind.what)


@find_problem.register
def _(kind: kinds.NewTargetNameField, value: Any) -> str | None:
    return find_target_name_error(value)


@find_problem.register
def _(kind: kinds.ParagraphsField, value: Any) -> str | None:
    if len(value) > kind.most:
        return f"{kind.what} has {len(value):,} characters. Use at most {kind.most:,}."
    return find_control_error(value, kind.what, lines=True)


@find_problem.register
def _(kind: kinds.HostNameField, value: Any) -> str | None:
    return find_host_error(value)


@find_problem.register
def _(kind: kinds.UserNameField, value: Any) -> str | None:
    return find_user_error(value)


@find_problem.register
def _(kind: kinds.PrivateKeyField, value: Any) -> str | None:
    return find_private_key_error(value, kind.what)


@find_problem.register
def _(kind: kinds.JumpHostField, value: Any) -> str | None:
    return find_jump_host_error(value)


@find_problem.register
def _(kind: kinds.HostKeyField, value: Any) -> str | None:
    return find_host_key_error(value)


@find_problem.register
def _(kind: kinds.TargetPathField, value: Any) -> str | None:
    return find_target_path_error(value, kind.what)


@find_problem.register
def _(kind: kinds.TargetProgramField, value: Any) -> str | None:
    return find_target_program_error(value, kind.what) if value else None


@find_problem.register
def _(kind: kinds.PatternField, value: Any) -> str | None:
    problem = find_text_error(value, kind.what)
    if problem is None and value and not re.fullmatch(kind.pattern, value, re.ASCII):
        return f"{kind.what} “{value[:60]}” is not valid. Write for example {kind.example}."
    return problem


@find_problem.register
def _(kind: kinds.RanksField, value: Any) -> str | None:
    if len(value) > 4000:
        return "Too many ranges. Use fewer, or record every n-th rank."
    try:
        ranges = parse_ranks(value)
    except InvalidRequest as error:
        return error.message[:1].upper() + error.message[1:]
    if value.strip() and not ranges:
        return "No ranks given. Write for example 0-3,8, or leave it empty for all ranks."
    return None


@find_problem.register
def _(kind: kinds.StepsField, value: Any) -> str | None:
    try:
        parse_steps(value)
        # Python accepts other notations, such as 1_0 and digits of every script.
        fit = value.strip().lower() == WHOLE or not value.strip(" ,0123456789")
    except ValueError:
        fit = False
    if fit:
        return None
    return (
        f"“{str(value)[:40]}” is not a valid schedule. Write wait,warmup,active,repeat, as in 1,1,3,1, with at least "
        f"1 active step and at most {MAX_SPANS} repeats; or “whole”."
    )


@find_problem.register
def _(kind: kinds.TextListField, value: Any) -> str | None:
    if kind.most is not None and len(value) > kind.most:
        return f"The list has {len(value):,} entries. Use at most {kind.most}."
    return find_first_error(*(_find_entry_problem(kind, entry) for entry in value))


@find_problem.register
def _(kind: kinds.CommandLineField, value: Any) -> str | None:
    if value and not value[0]:
        return "The first word, the program's name, is empty. Enter the program's name or path."
    return find_problem.dispatch(kinds.TextListField)(kind, value)


@find_problem.register
def _(kind: kinds.EventsField, value: Any) -> str | None:
    if kind.most is not None and len(value) > kind.most:
        return f"The job has {len(value):,} events. Use at most {kind.most}."
    return find_problem.dispatch(kinds.TextListField)(kind, value)


@find_problem.register
def _(kind: kinds.VariablesField, value: Any) -> str | None:
    if kind.most is not None and len(value) > kind.most:
        return f"There are {len(value):,} variables. Use at most {kind.most}."
    for name, text in value.items():
        if len(name) > MAX_NAME or not _NAME.fullmatch(name):
            return f"“{name[:60]}” is not a valid variable name. Use letters, digits and _, and no digit first."
        if name.startswith(kind.reserved):
            return f"The variable {name[:60]} is reserved for Perfloom. Use another name."
        problem = find_text_error(text, f"The value of {name[:60]}")
        if problem is not None:
            return problem
    return None


@find_problem.register
def _(kind: kinds.ProgramsField, value: Any) -> str | None:
    for name, program in value.items():
        if name not in tuple(kind.type):
            return f"“{name[:40]}” is not a known {kind.type.kind}. Use one of: {', '.join(kind.type)}."
        problem = find_target_program_error(program, f"the {kind.what} of {name}")
        if problem is not None:
            return problem
    return None


@singledispatch
def _find_entry_problem(kind: kinds.TextListField, entry: Any) -> str | None:
    """The first problem of several texts, or None."""
    return find_problem(kind.entry, entry)


@_find_entry_problem.register
def _(kind: kinds.WordsField, entry: Any) -> str | None:
    problem = find_problem(kind.entry, entry)
    if problem is None and not entry.strip():
        return f"{kind.entry.what} has no name. Enter its name, or remove it."
    if problem is None and any(sign.isspace() for sign in entry):
        return f"“{entry[:60]}” contains a space. Write one module per line, as in gcc/12.2.0."
    return problem


@_find_entry_problem.register
def _(kind: kinds.PathListField, entry: Any) -> str | None:
    problem = find_problem(kind.entry, entry)
    if problem is None and ":" in entry:
        what = kind.entry.what
        return f"{what} must not contain a colon, which separates directories. Write one directory per line."
    return problem


@_find_entry_problem.register
def _(kind: kinds.LibrariesField, entry: Any) -> str | None:
    problem = find_problem(kind.entry, entry)
    if problem is None and (":" in entry or any(sign.isspace() for sign in entry)):
        return f"“{entry[:60]}”: LD_PRELOAD accepts no path with a space or colon. Link to it under another name."
    if problem is None and not entry:
        return f"{kind.entry.what} has no name. Enter its name, or remove it."
    return problem


@_find_entry_problem.register
def _(kind: kinds.EventsField, entry: Any) -> str | None:
    return event_problem(entry)
