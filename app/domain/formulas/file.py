"""Files of formulas: TOML with a table `formula` for each."""

import tomllib
from collections.abc import Iterable
from typing import Any

from ..errors import InvalidRequest
from .formula import Formula, FormulaError, expand

MAX_FORMULAS = 1_000
MAX_NAME_CHARS = 100
MAX_FILE_BYTES = 1_000_000
_MAX_CHARS = {"unit": 20, "description": 500}
_FIELDS = ("name", "expression", "unit", "description")


def parse_formulas(text: str) -> tuple[Formula, ...]:
    """The formulas of a file. Raises InvalidRequest, which names the formula and the character at fault."""
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
    by_name = {formula.name: formula for formula in formulas}
    for number, formula in enumerate(formulas, 1):
        try:
            expand(formula, by_name)
        except FormulaError as error:
            raise InvalidRequest(f"Formula {number} ({formula.name}): {error.message}", "formulas") from None
    return formulas


def write_formulas(formulas: Iterable[Formula]) -> str:
    """The text of a file with these formulas, from which `parse_formulas` reads the same."""
    # Imported here, because most commands write none.
    import tomli_w

    rows = [{name: value for name in _FIELDS if (value := getattr(one, name))} for one in formulas]
    return tomli_w.dumps({"formula": rows})


def _parse_row(row: Any, number: int) -> Formula:
    label = f"Formula {number}"
    if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
        raise InvalidRequest(f"{label} must be a table of texts: {', '.join(_FIELDS)}.", "formulas")
    unknown = sorted(set(row) - set(_FIELDS))
    if unknown:
        raise InvalidRequest(f"{label} has {unknown[0][:40]!r}; permitted are {', '.join(_FIELDS)}.", "formulas")
    name = row.get("name", "").strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InvalidRequest(f"{label} needs a name of at most {MAX_NAME_CHARS} printable characters.", "formulas")
    for field, most in _MAX_CHARS.items():
        text = row.get(field, "")
        if len(text) > most or not text.isprintable():
            raise InvalidRequest(
                f"{label} ({name}): {field} is longer than {most} characters, or not all of them can be printed.",
                "formulas",
            )
    formula = Formula(name, row.get("expression", ""), row.get("unit", ""), row.get("description", ""))
    try:
        _ = formula.steps
    except FormulaError as error:
        raise InvalidRequest(f"{label} ({name}): {error.message}", "formulas") from None
    return formula
