"""Small charts next to tables: the first few rows as bars, and histograms.

SVG without script or inline style; colors come from static/css/bars.css by class. Every name is escaped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..domain.arrays import Array
from ..domain.units import format_axis_labels, format_count, format_percent, format_quantity
from .layout import Area, bar_layout
from .svg import add_element, add_link, fit_text, strip_invalid_xml

ROW_HEIGHT, GAP = 22, 6
MAX_COLUMNS, HEIGHT, LABEL_HEIGHT = 40, 110, 18
GAP_OF_CLASSES = 0.1
LOG_RATIO = 30.0
"""If the largest value is at least this multiple of the smallest, a histogram has logarithmic bins."""


@dataclass(frozen=True)
class ChartSize:
    """The size of a drawing. css: its class. width: in its units, which are CSS pixels if not scaled. label, label_em:
    for the labels of bars. values: of the bars.
    """

    css: str
    width: int
    label: int
    label_em: float
    values: int


SIZES = (ChartSize("bars--wide", 560, 250, 20.0, 110), ChartSize("bars--narrow", 340, 140, 11.0, 96))
"""Each chart is drawn for wide and narrow pages; static/css/bars.css shows the one that fits."""


@dataclass(frozen=True)
class TopBar:
    """A row. label: next to it; name: the full name. share: in percent, None for none. url: of its link; empty for
    none."""

    label: str
    name: str
    value: float
    share: float | None = None
    url: str = ""


@dataclass(frozen=True)
class Histogram:
    """A histogram. edges: one more than counts. logarithmic: whether the bins have an equal ratio."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    logarithmic: bool = False


def draw_top_bars(title: str, unit: str, bars: Sequence[TopBar], most: float | None = None) -> str:
    """The rows as bars. most: the value of a bar of full length, which is then drawn pale behind each; by default
    the maximum."""
    return "".join(_top_bars(title, unit, bars, most, size) for size in SIZES)


def _top_bars(title: str, unit: str, bars: Sequence[TopBar], most: float | None, size: ChartSize) -> str:
    height = ROW_HEIGHT * len(bars) + 4
    svg = _svg(size, height, f"{title}: the first {len(bars)}", "group" if any(bar.url for bar in bars) else "img")
    limited, most = most is not None, max((bar.value for bar in bars), default=0.0) if most is None else most
    room = size.width - size.label - size.values
    area = Area(size.label, 4 - GAP / 2, room, ROW_HEIGHT * len(bars))
    values = [[min(bar.value, most) for bar in bars]]
    (drawn,) = bar_layout(values, area, most, horizontal=True, gap=GAP / ROW_HEIGHT)
    for bar, rectangle in zip(bars, drawn, strict=True):
        y = rectangle.y
        share = "" if bar.share is None else format_percent(bar.share)
        shown = format_quantity(bar.value, unit).text
        group = add_link(svg, bar.url, f"{bar.name}: {shown}", "bars-row")
        add_element(group, "title", {}).text = strip_invalid_xml(
            f"{bar.name}\n{shown}" + (f", {share}" if share else "")
        )
        label = add_element(
            group, "text", {"x": str(size.label - 8), "y": f"{y + 13:.2f}", "class": "bars-label", "text-anchor": "end"}
        )
        label.text = fit_text(bar.label, size.label_em)
        box = rectangle.attributes
        if limited:
            add_element(group, "rect", box | {"width": str(room), "class": "bars-track"})
        add_element(group, "rect", box | {"class": "bars-part bars-plain"})
        x = size.label + (room if limited else rectangle.width) + 6
        text = add_element(group, "text", {"x": f"{x:.2f}", "y": f"{y + 13:.2f}", "class": "bars-scale"})
        text.text = f"{shown}  {share}".rstrip()
    return ElementTree.tostring(svg, encoding="unicode")


def build_histogram(values: Array) -> Histogram | None:
    """The histogram of values (none negative) with at most `MAX_COLUMNS` bins; None with fewer than two values.

    Bins have equal width, or if the largest value is at least `LOG_RATIO` times the smallest, equal ratio.
    """
    if len(values) < 2:
        return None
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Histogram((low, high), (len(values),))
    classes = min(MAX_COLUMNS, max(5, math.ceil(math.log2(len(values)) * 3)))
    least = float(values[values > 0].min()) if low <= 0 else low
    logarithmic = high >= least * LOG_RATIO
    if logarithmic:
        edges = np.geomspace(least, high, classes + 1)
        edges[0], edges[-1] = low, high
    else:
        edges = np.linspace(low, high, classes + 1)
    counts, _ = np.histogram(values, edges)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), logarithmic)


def draw_histogram(title: str, unit: str, histogram: Histogram, noun: str) -> str:
    """The histogram as columns. noun: the counted items, singular. The title says if its axis is logarithmic."""
    return "".join(_distribution(title, unit, histogram, noun, size) for size in SIZES)


def _distribution(title: str, unit: str, histogram: Histogram, noun: str, size: ChartSize) -> str:
    svg = _svg(size, HEIGHT + LABEL_HEIGHT + 12, f"{title}, {format_count(sum(histogram.counts))} {noun}s")
    most = max(histogram.counts)
    step = size.width / len(histogram.counts)
    (drawn,) = bar_layout([histogram.counts], Area(0, 12, size.width, HEIGHT), most, gap=GAP_OF_CLASSES)
    for number, (times, rectangle) in enumerate(zip(histogram.counts, drawn, strict=True)):
        low, high = histogram.edges[number], histogram.edges[number + 1]
        group = add_element(svg, "g", {"class": "bars-row"})
        words = (
            f"{format_quantity(low, unit).text} – {format_quantity(high, unit).text}: {times:,} "
            f"{noun}{'' if times == 1 else 's'}"
        )
        add_element(group, "title", {}).text = words
        # The full height reacts to the pointer.
        clear = {"x": f"{number * step:.2f}", "y": "12", "width": f"{step:.2f}", "height": str(HEIGHT)}
        add_element(group, "rect", clear | {"class": "bars-clear"})
        # Nonempty bins are always visible.
        height = max(1.5, rectangle.height) if times else 0.0
        box = replace(rectangle, y=12 + HEIGHT - height, height=height).attributes
        add_element(group, "rect", box | {"class": "bars-part bars-plain"})
    add_element(svg, "path", {"d": f"M0 {12 + HEIGHT}H{size.width}", "class": "bars-guide"})
    middle = len(histogram.counts) // 2
    scale = dict(
        zip(
            places := (0, middle, -1), format_axis_labels([histogram.edges[edge] for edge in places], unit), strict=True
        )
    )
    for at, anchor, edge in ((0.0, "start", 0), (middle * step, "middle", middle), (float(size.width), "end", -1)):
        if edge == middle and len(histogram.counts) < 5:
            continue
        place = {"x": f"{at:.2f}", "y": str(HEIGHT + LABEL_HEIGHT + 8), "class": "bars-scale", "text-anchor": anchor}
        add_element(svg, "text", place).text = scale[edge]
    noun = noun if most == 1 else f"{noun}s"
    add_element(svg, "text", {"x": "0", "y": "8", "class": "bars-scale"}).text = strip_invalid_xml(f"{most:,} {noun}")
    return ElementTree.tostring(svg, encoding="unicode")


def _svg(size: ChartSize, height: int, title: str, role: str = "img") -> Any:
    # Images must not contain links.
    css = f"bars bars--small {size.css}"
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": css, "role": role})
    svg.set("viewBox", f"0 0 {size.width} {height}")
    add_element(svg, "title", {}).text = strip_invalid_xml(title)
    return svg
