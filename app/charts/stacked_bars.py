"""Stacked charts: horizontal bars and columns of parts, as SVG without script or inline style.

They stretch to their boxes in the page; all text is in the page or in their titles. Colors come
from static/css/trace.css by the keys of the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from ..domain.units import format_percent, format_quantity
from .layout import Area, bar_layout
from .svg import add_element, strip_invalid_xml

MAX_COLUMNS = 160
"""If there are more columns, adjacent ones are averaged."""
WIDTH, HEIGHT = 1000, 100
GAP = 0.15


@dataclass(frozen=True)
class StackPart:
    """A part with its own color. key: the suffix of its class."""

    key: str
    name: str
    description: str = ""


@dataclass(frozen=True)
class StackedValues:
    """Values by part, in the order of the parts. url: of its link; empty for none."""

    label: str
    values: tuple[float, ...]
    url: str = ""


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


def draw_columns(title: str, parts: Sequence[StackPart], bars: Sequence[StackedValues], unit: str) -> str:
    """Columns in the given order, the highest as high as the drawing; the first part is at the bottom."""
    merged = _merge_neighbors(bars)
    top = max((sum(max(0.0, value) for value in one.values) for one in merged), default=0.0)
    svg = _svg(WIDTH, HEIGHT, "shares-columns")
    add_element(svg, "title", {}).text = strip_invalid_xml(title)
    groups = []
    for one in merged:
        # Not reached with the Tab key: the table below has the same links.
        linked = {"href": one.url, "aria-label": strip_invalid_xml(one.label), "tabindex": "-1"}
        groups.append(add_element(svg, "a", linked) if one.url else add_element(svg, "g", {}))
    used = [number for number in range(len(parts)) if any(one.values[number] > 0 for one in merged)]
    series = [[one.values[number] for one in merged] for number in used]
    for number, drawn in zip(used, bar_layout(series, Area(0, 0, WIDTH, HEIGHT), top, gap=GAP), strict=True):
        for one, group, rectangle in zip(merged, groups, drawn, strict=True):
            if rectangle.height <= 0:
                continue
            css = {"class": f"shares-{parts[number].key}"}
            shape = add_element(group, "rect", rectangle.attributes | css)
            add_element(shape, "title", {}).text = strip_invalid_xml(
                _format_tooltip(one, parts[number], one.values[number], unit)
            )
    return ElementTree.tostring(svg, encoding="unicode")


def _merge_neighbors(every: Sequence[StackedValues]) -> list[StackedValues]:
    """The values, with adjacent ones averaged if there are too many."""
    size = -(-len(every) // MAX_COLUMNS)
    if size < 2:
        return list(every)
    merged = []
    for start in range(0, len(every), size):
        some = every[start : start + size]
        means = tuple(sum(values) / len(some) for values in zip(*(one.values for one in some), strict=True))
        merged.append(StackedValues(f"{some[0].label} to {some[-1].label}, on average", means))
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
