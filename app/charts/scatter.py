"""The scatter plot: dots by two values, the box that is selected, and the labels of the axes.

SVG without script or inline style. Positions are shares of the box in the page, so that dots stay round and text keeps
its size. Colors come from static/css/ratios.css by class.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..analysis.ratios.scatter import Box
from ..domain.arrays import Array, Float64Array
from .axis import tick_step
from .dot_labels import draw_label, place_labels
from .svg import add_element, escape_text

LEVEL_COUNT = 10
MAX_TICKS = 7
RADIUS, LEAST_RADIUS = 5.0, 2.5
"""Of dots in pixels: of few, and of very many."""
FEW_DOTS = 50
"""Up to so many are drawn large and opaque."""
MAX_POWER = 305.0
MARGIN = 0.04
"""Of an axis, beyond the outermost dots."""


@dataclass(frozen=True)
class ScatterAxis:
    """An axis from low to high. is_log: whether it is logarithmic; then both are above 0."""

    low: float
    high: float
    is_log: bool

    def place(self, value: float) -> float:
        """From 0 at the low end to 1; outside of the axis beyond these."""
        return float(self.places(np.float64(value)))

    def places(self, values: Any) -> Any:
        """`place` of each of the values, float64."""
        if not self.is_log:
            return (values - self.low) / (self.high - self.low)
        low, high = np.log10([self.low, self.high])
        with np.errstate(divide="ignore"):
            return (np.log10(np.maximum(values, 0)) - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        if not self.is_log:
            step = tick_step(self.high - self.low, "", MAX_TICKS)
            return [step * n for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
            ticks = [factor * 10.0**power for power in powers for factor in factors]
            found = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(found) <= MAX_TICKS:
                break
        else:
            found = found[:: math.ceil(len(found) / MAX_TICKS)]
        return found if len(found) > 1 else [self.low, self.high]


def fit_axis(values: Float64Array, is_log: bool) -> ScatterAxis:
    """The axis for finite values, on a logarithmic axis above 0."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (1.0, 1.0)
    if is_log:
        first, last = math.log10(low), math.log10(high)
        if last - first < 0.001:
            first, last = first - 0.2, last + 0.2
        edge = (last - first) * MARGIN
        return ScatterAxis(10 ** max(first - edge, -MAX_POWER), 10 ** min(last + edge, MAX_POWER), True)
    if high - low <= 1e-9 * abs(high):
        reach = abs(high) / 2 or 1.0
        low, high = low - reach, high + reach
    edge = (high - low) * MARGIN
    return ScatterAxis(low - edge, high + edge, False)


def weight_levels(weight: Array) -> Array:
    """The color of each dot, from 1 to `LEVEL_COUNT`, by the square root of its weight relative to the greatest."""
    size = np.abs(weight)
    most = float(size.max(initial=0))
    if most <= 0:
        return np.ones(len(size), np.int64)
    levels: Array = np.clip(np.ceil(np.sqrt(size / most) * LEVEL_COUNT), 1, LEVEL_COUNT).astype(np.int64)
    return levels


def dot_radius(count: int) -> float:
    """The radius of `count` dots in pixels, so that their area grows only with the square root of their number."""
    return max(LEAST_RADIUS, RADIUS * math.pow(FEW_DOTS / max(count, FEW_DOTS), 0.25))


def draw_dots(
    title: str,
    axes: tuple[ScatterAxis, ScatterAxis],
    x: Float64Array,
    y: Float64Array,
    level: Array,
    tips: Sequence[str],
    *,
    means: tuple[float, float] = (math.nan, math.nan),
    box: Box | None = None,
    names: Sequence[str] = (),
) -> str:
    """The dots, the first in front of the others. level: of their colors. tips: the text of each. means: the lines of
    the mean of x and y, NaN for none. box: the selected one. names: the labels of the first dots, where they fit."""
    radius = dot_radius(len(x))
    css = "scatter-dots scatter-dots--many" if len(x) > FEW_DOTS else "scatter-dots"
    # Written as text: it is several times faster than elements, and there are up to 2,000 dots.
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" class="{css}" role="img"><title>{escape_text(title)}</title>']
    for axis, is_x in zip(axes, (True, False), strict=True):
        parts += [_draw_line(axis.place(tick), is_x, "scatter-guide") for tick in axis.ticks()]
    for axis, mean, is_x in zip(axes, means, (True, False), strict=True):
        if math.isfinite(mean) and 0 <= axis.place(mean) <= 1:
            parts.append(_draw_line(axis.place(mean), is_x, "scatter-mean"))
    across, down = axes[0].places(x), 1 - axes[1].places(y)
    cx, cy, levels = across.tolist(), down.tolist(), level.tolist()
    for at in reversed(range(len(x))):
        parts.append(
            f'<circle cx="{to_share(cx[at])}" cy="{to_share(cy[at])}" r="{radius:.3g}" class="dot-{levels[at]}">'
            f"<title>{escape_text(tips[at])}</title></circle>"
        )
    parts += [
        draw_label(label, to_share(cx[label.at]), to_share(cy[label.at]), radius)
        for label in place_labels(across[: len(names)], down[: len(names)], names, radius)
    ]
    if box:
        left, right = _edges(axes[0], box.x)
        bottom, top = _edges(axes[1], box.y)
        parts.append(
            f'<rect x="{to_share(left)}" width="{to_share(right - left)}" y="{to_share(1 - top)}" '
            f'height="{to_share(top - bottom)}" class="scatter-box"/>'
        )
    return "".join((*parts, "</svg>"))


def draw_x_labels(axis: ScatterAxis, labels: Sequence[str]) -> str:
    """The labels of the ticks below the plot; every other one has a class, to hide it where there is little room."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "scatter-x", "aria-hidden": "true"})
    for number, (tick, label) in enumerate(zip(axis.ticks(), labels, strict=True)):
        share = axis.place(tick)
        anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        css = {"class": "scatter-minor"} if number % 2 else {}
        add_element(svg, "text", {"x": to_share(share), "y": "16", "text-anchor": anchor} | css).text = label
    return ElementTree.tostring(svg, encoding="unicode")


def draw_y_labels(axis: ScatterAxis, labels: Sequence[str]) -> str:
    """The labels of the ticks to the left of the plot."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "scatter-y", "aria-hidden": "true"})
    for tick, label in zip(axis.ticks(), labels, strict=True):
        y = to_share(1 - axis.place(tick))
        add_element(svg, "text", {"x": "100%", "dx": "-7", "y": y, "dy": "0.35em", "text-anchor": "end"}).text = label
    return ElementTree.tostring(svg, encoding="unicode")


def draw_levels() -> str:
    """The colors of dots in order, from little to much weight."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "scatter-scale"})
    svg.set("aria-hidden", "true")
    svg.set("viewBox", f"0 0 {LEVEL_COUNT} 1")
    svg.set("preserveAspectRatio", "none")
    for level in range(1, LEVEL_COUNT + 1):
        add_element(svg, "rect", {"x": str(level - 1), "width": "1", "height": "1", "class": f"dot-{level}"})
    return ElementTree.tostring(svg, encoding="unicode")


def _draw_line(share: float, is_x: bool, css: str) -> str:
    at = to_share(share if is_x else 1 - share)
    ends = f'x1="{at}" x2="{at}" y1="0" y2="100%"' if is_x else f'y1="{at}" y2="{at}" x1="0" x2="100%"'
    return f'<line {ends} class="{css}"/>'


def _edges(axis: ScatterAxis, edges: tuple[float | None, float | None]) -> tuple[float, float]:
    """Where a box begins and ends on the axis, cut off at its ends."""
    low, high = edges
    first = 0.0 if low is None else min(1.0, max(0.0, axis.place(low)))
    return first, 1.0 if high is None else min(1.0, max(first, axis.place(high)))


def to_share(part: float) -> str:
    """A part of the box as a position or size in SVG."""
    return f"{100 * part:.2f}%"
