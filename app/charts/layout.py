"""The adapter to pygal, the only module that imports it: the positions of the bars of a chart.

Only rectangles are used. Text, script, style, links and tooltips of pygal are discarded, so that charts
work under a strict content security policy, and no name from a recording is passed to pygal: charts draw shapes, text
and tooltips themselves, with colors by class.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

UNIT = 1000


@dataclass(frozen=True)
class Area:
    """The plot area of a drawing: upper left corner and size, in the units of the drawing."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Rectangle:
    """A bar or a part of one."""

    x: float
    y: float
    width: float
    height: float

    @property
    def attributes(self) -> dict[str, str]:
        """As attributes of an SVG element."""
        return {name: f"{value:.2f}" for name, value in vars(self).items()}


def bar_layout(
    series: Sequence[Sequence[float]],
    area: Area,
    most: float,
    *,
    horizontal: bool = False,
    gap: float = 0.12,
) -> list[list[Rectangle]]:
    """The rectangles of stacked bars by series, then by bar.

    series: values (none negative counts) by bar, all of one length; the first series begins at the axis. most: the
    value of a bar as long as the area. horizontal: bars extend from left to right, the first on top; else upward, the
    first on the left. gap: the free share of the space of a bar, both sides together.
    """
    bars = len(series[0]) if series else 0
    if not bars or most <= 0:
        return [[_nothing(number, bars, area, horizontal) for number in range(bars)] for _ in series]
    values = tuple(tuple(max(0.0, float(value)) for value in row) for row in series)
    return [
        [
            Rectangle(
                area.x + area.width * drawn.x / UNIT,
                area.y + area.height * drawn.y / UNIT,
                area.width * drawn.width / UNIT,
                area.height * drawn.height / UNIT,
            )
            for drawn in row
        ]
        for row in _lay_out_unit_square(values, float(most), horizontal, gap)
    ]


@lru_cache(maxsize=64)
def _lay_out_unit_square(
    series: tuple[tuple[float, ...], ...], most: float, horizontal: bool, gap: float
) -> tuple[tuple[Rectangle, ...], ...]:
    """The layout in a square of the side UNIT. pygal takes milliseconds, and a page draws each chart for two widths."""
    # The first horizontal bar of pygal is the lowest.
    step = -1 if horizontal else 1
    chart = _chart_class(horizontal)(
        js=[],
        css=[],
        width=UNIT,
        height=UNIT,
        margin=0,
        range=(0.0, most),
        show_legend=False,
        show_x_labels=False,
        show_y_labels=False,
        print_values=False,
        no_prefix=True,
    )
    chart._series_margin = gap / 2
    for values in series:
        chart.add("", values[::step])
    plot = next(group for group in chart.render_tree().iter("g") if group.get("class") == "plot")
    parts = [group for group in plot.iterfind("g") if "series" in group.get("class", "").split()]
    return tuple(tuple(_rectangle(drawn) for drawn in part.iter("rect"))[::step] for part in parts)


def _nothing(number: int, bars: int, area: Area, horizontal: bool) -> Rectangle:
    """Bar `number` of bars without length."""
    if horizontal:
        return Rectangle(area.x, area.y + area.height * number / bars, 0.0, area.height / bars)
    return Rectangle(area.x + area.width * number / bars, area.y + area.height, area.width / bars, 0.0)


def _rectangle(drawn: Any) -> Rectangle:
    x, y, width, height = (float(drawn.get(name, 0)) for name in ("x", "y", "width", "height"))
    # A bar drawn in reverse has its corner at its end.
    return Rectangle(min(x, x + width), min(y, y + height), abs(width), abs(height))


@cache
def _chart_class(horizontal: bool) -> Any:
    """A class of stacked bars without pygal's own tooltips and margins."""
    # Importing it is slow, and few pages need it.
    import pygal

    # It installs an import hook for plugins with a deprecated protocol, which causes a warning at every import.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]

    def nothing(*_: Any, **__: Any) -> None:
        """Draws no tooltip, value or confidence interval."""

    def set_view(self: Any) -> None:
        self._box.margin = 0
        base._set_view(self)

    base = pygal.HorizontalStackedBar if horizontal else pygal.StackedBar
    replaced = {"_set_view": set_view, "_tooltip_data": nothing, "_static_value": nothing}
    return type("BarLayout", (base,), replaced | {"_confidence_interval": nothing})
