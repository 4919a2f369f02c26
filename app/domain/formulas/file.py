"""Files of formulas: TOML with a table `formula` for each."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidRequest
from .formula import Formula, FormulaError, expand

MAX_FORMULAS = 1_000
MAX_NAME_CHARS = 100
MAX_FILE_BYTES = 1_000_000
MAX_UNIT_CHARS = 20
MAX_DESCRIPTION_CHARS = 500
_MAX_CHARS = {"unit": MAX_UNIT_CHARS, "description": MAX_DESCRIPTION_CHARS}
_STRINGS_AND_COMMENTS = re.compile(
    # A string that does not end is one up to the end of its line, so that the search needs linear time.
    r"""\"{3}.*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|\#[^\n]*""",
    re.S,
)
_FIELDS = ("name", "expression", "unit", "description")


def parse_formulas(text: str) -> tuple[Formula, ...]:
    """The formulas of a file. Raises InvalidRequest, which names the formula and the character at fault."""
    if "." in _STRINGS_AND_COMMENTS.sub("", text):
        # tomllib reads keys such as a.a.a… in quadratic time.
        raise InvalidRequest(
            "A point is outside of quotes. Formulas are tables [[formula]], with texts in quotes: "
            'expression = "cycles / instructions".',
            "formulas",
        )
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"The formulas are not valid TOML: {error}.", "formulas") from None
    except (ValueError, RecursionError):
        raise InvalidRequest(
            "The formulas are not valid TOML: a number is too long, or tables are nested too deeply.", "formulas"
        ) from None
    rows = data.get("formula", [])
    if set(data) - {"formula"} or not isinstance(rows, list):
        raise InvalidRequest("Formulas are written as tables [[formula]] with name and expression.", "formulas")
    if len(rows) > MAX_FORMULAS:
        raise InvalidRequest(f"There are {len(rows):,} formulas; at most {MAX_FORMULAS:,} are permitted.", "formulas")
    formulas = tuple(_parse_row(row, number) for number, row in enumerate(rows, 1))
    check_references(formulas)
    return formulas


def read_formulas(content: bytes) -> tuple[Formula, ...]:
    """The formulas of the content of a file. Raises InvalidRequest, as `parse_formulas`, and for other content."""
    if len(content) > MAX_FILE_BYTES:
        raise InvalidRequest(f"A file of formulas has at most {MAX_FILE_BYTES:,} bytes.", "file")
    try:
        return parse_formulas(content.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        raise InvalidRequest("The file is not UTF-8 text. Export formulas to see an example.", "file") from None


def write_formulas(formulas: Iterable[Formula]) -> str:
    """The text of a file with these formulas, from which `parse_formulas` reads the same."""
    # Imported here, because most commands write none.
    import tomli_w

    rows = [{name: value for name in _FIELDS if (value := getattr(one, name))} for one in formulas]
    return tomli_w.dumps({"formula": rows})


def check_formula(values: Mapping[str, str]) -> Formula:
    """The formula of these fields: name, expression, unit and description. Raises InvalidRequest, which names the field
    and in an expression the character at fault."""
    name = values.get("name", "").strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InvalidRequest(f"A name of at most {MAX_NAME_CHARS} printable characters is required.", "name")
    for field, most in _MAX_CHARS.items():
        text = values.get(field, "")
        if len(text) > most or not text.isprintable():
            raise InvalidRequest(
                f"The {field} is longer than {most} characters, or not all of them can be printed.", field
            )
    formula = Formula(name, values.get("expression", ""), values.get("unit", ""), values.get("description", ""))
    _ = formula.steps
    return formula


def check_references(formulas: Iterable[Formula], others: Iterable[Formula] = ()) -> None:
    """Raises InvalidRequest if one of the formulas refers to itself, also through the others, or has too many parts."""
    every = tuple(formulas)
    by_name: dict[str, Formula] = {}
    for formula in (*every, *others):
        by_name.setdefault(formula.name, formula)
    for number, formula in enumerate(every, 1):
        try:
            expand(formula, by_name)
        except FormulaError as error:
            raise InvalidRequest(f"Formula {number} ({formula.name}): {error.message}", "formulas") from None


def _parse_row(row: Any, number: int) -> Formula:
    label = f"Formula {number}"
    if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
        raise InvalidRequest(f"{label} must be a table of texts: {', '.join(_FIELDS)}.", "formulas")
    unknown = sorted(set(row) - set(_FIELDS))
    if unknown:
        raise InvalidRequest(f"{label} has {unknown[0][:40]!r}; permitted are {', '.join(_FIELDS)}.", "formulas")
    try:
        return check_formula(row)
    except InvalidRequest as error:
        name = f" ({row['name'].strip()[:MAX_NAME_CHARS]})" if error.field != "name" else ""
        raise InvalidRequest(f"{label}{name}: {error.message}", "formulas") from None
