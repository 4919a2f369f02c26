"""Stacked charts: horizontal bars and columns of parts, as SVG without script or inline style.

Bars stretch to their boxes in the page; all their text is in the page or in their titles. Columns have a scale and
labels. Colors come from static/css/trace.css by the keys of the parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ..domain.units import format_axis_labels, format_percent, format_quantity
from .axis import label_stride, tick_step
from .layout import Area, bar_layout
from .svg import add_element, add_link, fit_text, measure_text_em, strip_invalid_xml

MAX_COLUMNS = 160
"""If there are more columns, adjacent ones are averaged."""
MAX_TICKS = 5
SCALE_PX = 11
"""The size of text, in static/css/bars.css."""
LEVEL_GAP, LABEL_HEIGHT, MAX_LABEL_EM = 6, 16, 10.0
GAP = 0.15


@dataclass(frozen=True)
class StackPart:
    """A part with its own color. key: the suffix of its class."""

    key: str
    name: str
    description: str = ""


@dataclass(frozen=True)
class StackedValues:
    """Values by part, in the order of the parts. url: of its link; empty for none. short: the label below a column, by
    default the label."""

    label: str
    values: tuple[float, ...]
    url: str = ""
    short: str = ""


@dataclass(frozen=True)
class ColumnSize:
    """The size of a drawing of columns. css: its classes. width: in its units, which are CSS pixels if not scaled.
    height: of the columns."""

    css: str
    width: int
    height: int


PAGE_SIZES = (ColumnSize("bars--wide", 960, 190), ColumnSize("bars--narrow", 350, 150))
"""For a chart as wide as the page. static/css/bars.css shows the one that fits."""
PANEL_SIZES = (
    ColumnSize("bars--small bars--wide", 560, 150),
    ColumnSize("bars--small bars--narrow", 340, 130),
)
"""For a chart of half that width."""


def draw_horizontal_bar(parts: Sequence[StackPart], values: StackedValues, unit: str, total: float) -> str:
    """A horizontal bar whose length is its share of `whole`."""
    svg = _svg(100, 6, "shares-row")
    add_element(svg, "title", {}).text = strip_invalid_xml(values.label)
    at = 0.0
    for part, value in zip(parts, values.values, strict=True):
        wide = 100 * max(0.0, value) / total if total > 0 else 0.0
        if wide > 0:
            box = {"x": f"{at:.3f}", "y": "0", "width": f"{wide:.3f}", "height": "6"}
            drawn = add_element(svg, "rect", box | {"class": f"shares-{part.key}"})
            add_element(drawn, "title", {}).text = strip_invalid_xml(_format_tooltip(values, part, value, unit))
            at += wide
    return ElementTree.tostring(svg, encoding="unicode")


def draw_columns(
    title: str,
    parts: Sequence[StackPart],
    bars: Sequence[StackedValues],
    unit: str,
    axis: str,
    sizes: Sequence[ColumnSize] = PAGE_SIZES,
) -> str:
    """Columns in the given order with their scale, once for each size; the first part is at the bottom.

    axis: what the labels of the columns are.
    """
    merged = _merge_neighbors(bars)
    return "".join(_draw_columns(title, parts, merged, unit, axis, size) for size in sizes)


def _draw_columns(
    title: str, parts: Sequence[StackPart], bars: Sequence[StackedValues], unit: str, axis: str, size: ColumnSize
) -> str:
    longest = max((sum(max(0.0, value) for value in one.values) for one in bars), default=0.0)
    step = tick_step(longest, unit, MAX_TICKS)
    ticks = [step * n for n in range(math.ceil(longest / step) + 1)] if longest > 0 else [0.0]
    levels = format_axis_labels(ticks, unit)
    left = math.ceil(max(map(measure_text_em, levels)) * SCALE_PX + LEVEL_GAP)
    area = Area(left, SCALE_PX, size.width - left, size.height)
    bottom = area.y + area.height
    svg = add_element(
        None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": f"bars {size.css}", "role": "group"}
    )
    svg.set("viewBox", f"0 0 {size.width} {bottom + 2 * LABEL_HEIGHT}")
    add_element(svg, "title", {}).text = strip_invalid_xml(title)
    for tick, level in zip(ticks, levels, strict=True):
        y = bottom - (area.height * tick / ticks[-1] if ticks[-1] else 0.0)
        add_element(svg, "path", {"d": f"M{area.x} {y:.2f}H{size.width}", "class": "bars-guide"})
        place = {"x": str(left - LEVEL_GAP), "y": f"{y + 0.35 * SCALE_PX:.2f}", "text-anchor": "end"}
        add_element(svg, "text", place | {"class": "bars-scale"}).text = level
    groups = [add_link(svg, one.url, _describe_column(one, unit), "stacked-column") for one in bars]
    used = _used_parts(parts, bars)
    series = [[one.values[number] for one in bars] for number in used]
    for number, drawn in zip(used, bar_layout(series, area, ticks[-1], gap=GAP), strict=True):
        for one, group, rectangle in zip(bars, groups, drawn, strict=True):
            if rectangle.height <= 0:
                continue
            css = {"class": f"shares-{parts[number].key}"}
            shape = add_element(group, "rect", rectangle.attributes | css)
            add_element(shape, "title", {}).text = strip_invalid_xml(
                _format_tooltip(one, parts[number], one.values[number], unit)
            )
    _label_columns(svg, bars, axis, area)
    return ElementTree.tostring(svg, encoding="unicode")


def _label_columns(svg: Any, bars: Sequence[StackedValues], axis: str, area: Area) -> None:
    """A label below each column, or where they do not fit below every second, third, ..."""
    labels = [fit_text(one.short or one.label, MAX_LABEL_EM) for one in bars]
    room = area.width / max(1, len(bars))
    stride = label_stride(labels, room, SCALE_PX)
    y = area.y + area.height + LABEL_HEIGHT
    for number in range(0, len(labels), stride):
        place = {"x": f"{area.x + room * (number + 0.5):.2f}", "y": f"{y}", "text-anchor": "middle"}
        add_element(svg, "text", place | {"class": "bars-scale"}).text = labels[number]
    place = {"x": f"{area.x + area.width / 2:.2f}", "y": f"{y + LABEL_HEIGHT - 2}", "text-anchor": "middle"}
    add_element(svg, "text", place | {"class": "bars-legend"}).text = strip_invalid_xml(axis)


def _used_parts(parts: Sequence[StackPart], bars: Sequence[StackedValues]) -> list[int]:
    """The parts that any column has."""
    return [number for number in range(len(parts)) if any(one.values[number] > 0 for one in bars)]


def _describe_column(one: StackedValues, unit: str) -> str:
    return f"{one.label}: {format_quantity(sum(one.values), unit).text}"


def _merge_neighbors(every: Sequence[StackedValues]) -> list[StackedValues]:
    """The values, with adjacent ones averaged if there are too many."""
    size = -(-len(every) // MAX_COLUMNS)
    if size < 2:
        return list(every)
    merged = []
    for start in range(0, len(every), size):
        some = every[start : start + size]
        means = tuple(sum(values) / len(some) for values in zip(*(one.values for one in some), strict=True))
        label = f"{some[0].label} to {some[-1].label}, on average"
        merged.append(StackedValues(label, means, short=some[0].short or some[0].label))
    return merged


def _format_tooltip(stacked_values: StackedValues, part: StackPart, value: float, unit: str) -> str:
    whole = sum(stacked_values.values)
    share = f", {format_percent(100 * value / whole)}" if whole > 0 else ""
    part_text = f"{part.name}: {format_quantity(value, unit).text}{share}"
    return f"{stacked_values.label}\n{part_text}\nof {format_quantity(whole, unit).text}"


def _svg(width: int, height: int, css: str) -> ElementTree.Element:
    # Not role="img", because images must not contain links.
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": f"shares {css}", "role": "group"})
    svg.set("viewBox", f"0 0 {width} {height}")
    svg.set("preserveAspectRatio", "none")
    found: ElementTree.Element = svg
    return found
