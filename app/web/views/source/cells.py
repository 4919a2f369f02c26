"""Cells of the figures of lines and instructions, as columns: only those that are not 0 have a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....analysis.source.figures import Figures
from ....domain.arrays import Array
from ....domain.units import Scale, choose_scale, format_ratio


class FigureCell(NamedTuple):
    """A number. exact: with all digits, for its tooltip."""

    text: str
    exact: str


@dataclass(frozen=True)
class FigureColumn:
    """A column of numbers. name: in the parameter `columns`. unit: in its heading."""

    name: str
    label: str
    unit: str
    cells: tuple[FigureCell, ...]


NONE = FigureCell("", "")


def build_columns(figures: Sequence[Figures], shown: frozenset[str]) -> tuple[FigureColumn, ...]:
    """The chosen columns of figures."""
    found = []
    for number, one in enumerate(figures):
        scale_of = float(np.nanmax(np.abs(one.total), initial=0)) if not np.isnan(one.total).all() else 0.0
        for name, label, values in (
            (f"self_{number}", "Self", one.own),
            (f"self_percent_{number}", "%", one.own_percent),
            (f"total_{number}", "Total", one.total),
            (f"total_percent_{number}", "%", one.total_percent),
        ):
            if name not in shown:
                continue
            unit = "percent" if "percent" in name else one.unit or "count"
            head = label if number == 0 or label == "%" else f"{one.name} {label.lower()}"
            if one.is_formula:
                found.append(FigureColumn(name, head, one.unit, tuple(_format_ratio(value) for value in values)))
            else:
                scale = choose_scale(100 if unit == "percent" else scale_of, unit)
                found.append(FigureColumn(name, head, scale.label, _format_all(values, scale)))
    return tuple(found)


def _format_ratio(value: float) -> FigureCell:
    return NONE if np.isnan(value) else FigureCell(format_ratio(value, ""), f"{value!r}")


def _format_all(values: Array, scale: Scale) -> tuple[FigureCell, ...]:
    cells = [NONE] * len(values)
    for row in np.flatnonzero((values != 0) & ~np.isnan(values)).tolist():
        value = float(values[row])
        quantity = scale.format(int(value) if value.is_integer() else value)
        cells[row] = FigureCell(quantity.text, quantity.exact)
    return tuple(cells)
