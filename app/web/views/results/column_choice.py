"""The column chooser of a table: the word `columns` of a query has the names of the columns to show, joined by dots.

A form without scripts sends the word once for each column; `static/js/tables.js` joins them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flask import request

from .tables import current_url_with

PARAMETER = "columns"
_SEPARATOR = re.compile(r"[.,]")


@dataclass(frozen=True)
class ColumnOption:
    """A column that can be shown or hidden. name: in the query. fixed: it is always shown."""

    name: str
    label: str
    description: str
    shown: bool
    fixed: bool


@dataclass(frozen=True)
class ColumnChoice:
    """The columns of a table. reset: the URL that shows the default columns, "" if they are shown. hidden_fields: what
    the form keeps of the query. hidden_order: the label of the hidden column that sorts the rows, "" if it is shown.
    """

    options: tuple[ColumnOption, ...]
    reset: str
    hidden_fields: tuple[tuple[str, str], ...]
    hidden_order: str

    @property
    def is_offered(self) -> bool:
        """Whether there is a column that can be hidden."""
        return any(not option.fixed for option in self.options)

    @property
    def shown(self) -> int:
        """How many columns are shown."""
        return sum(option.shown for option in self.options)


def parse_columns() -> frozenset[str] | None:
    """The names asked for by `columns`; None without one. Names that a table does not have are ignored: another
    grouping of its rows may have them."""
    values = request.args.getlist(PARAMETER)
    return frozenset(name for value in values for name in _SEPARATOR.split(value)) if values else None


def build_choice(options: Sequence[ColumnOption], order: str) -> ColumnChoice:
    """The chooser for these columns. order: the name of the column that sorts the rows, or ""."""
    return ColumnChoice(
        options=tuple(options),
        reset=current_url_with((PARAMETER, None)) if PARAMETER in request.args else "",
        hidden_fields=tuple((k, v) for k, v in request.args.items(multi=True) if k != PARAMETER),
        hidden_order=next((option.label for option in options if option.name == order and not option.shown), ""),
    )


def unambiguous_labels(labels: Sequence[str]) -> list[str]:
    """The labels of columns as they can be read without their neighbors: a "%", or a label that an earlier column has,
    follows the label before it."""
    found: list[str] = []
    before = ""
    for label in labels:
        if before and (label == "%" or label in found):
            found.append(f"{before} {label[:1].lower()}{label[1:]}")
        else:
            found.append(label)
            before = label
    return found
