"""How tables come out of commands: aligned for people, CSV and JSON for programs."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

FORMATS = ("table", "csv", "json")
LEAST_ROWS = 1000
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def write_rows(columns: Sequence[str], rows: Sequence[dict[str, Any]], form: str, *, single: bool = False) -> None:
    """Write a table to standard output as `form`. single: it has one row, which JSON shows as one object."""
    out = sys.stdout
    if form == "json":
        _json(rows, single, out)
    elif form == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([row[name] for name in columns] for row in rows)
    elif single and rows:
        _aligned(["field", "value"], [{"field": name, "value": rows[0][name]} for name in columns], out)
    else:
        _aligned(columns, rows, out)


def _json(rows: Sequence[dict[str, Any]], single: bool, out: TextIO) -> None:
    if single:
        out.write(json.dumps(rows[0], indent=1) + "\n")
        return
    out.write("[")
    for number, row in enumerate(rows):
        out.write((",\n " if number else "\n ") + json.dumps(row))
    out.write("\n]\n")


def _aligned(columns: Sequence[str], rows: Sequence[dict[str, Any]], out: TextIO) -> None:
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    numeric = [
        all(isinstance(row[name], int | float) or row[name] is None for row in rows) and bool(rows) for name in columns
    ]
    widths = [max([len(name), *(len(line[i]) for line in cells)]) for i, name in enumerate(columns)]
    put: list[Callable[[str, int], str]] = [str.rjust if right else str.ljust for right in numeric]

    def lines() -> Iterator[str]:
        for line in [list(columns), *cells]:
            parts = (put[i](text, widths[i]) for i, text in enumerate(line))
            yield "  ".join(parts).rstrip() + "\n"

    out.writelines(lines())


def _cell(value: Any) -> str:
    """A value as a person reads it. What a terminal would obey (names are hostile) is shown as an escape."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}" if not value.is_integer() or abs(value) >= 1e15 else f"{value:.0f}"
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return clean(str(value))


def clean(text: str, *, lines: bool = False) -> str:
    """A text for a terminal: what it would obey is shown as an escape. lines: line breaks stay."""
    if lines:
        return "\n".join(clean(line) for line in text.split("\n"))
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
