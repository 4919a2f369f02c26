"""Quantities over time as steps: each value holds until the next.

SVG without script or inline style that stretches to its box in the page; labels of axes are in the page. Colors come
from static/css/memory.css by class. If there are more values than pixels, the minimum and maximum of each column are
drawn, so that no extreme is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from ..analysis.memory.curves import Curve, downsample_curve, values_at
from .svg import add_element, strip_invalid_xml

WIDTH, HEIGHT = 1000, 100
COLUMNS = 640


@dataclass(frozen=True)
class CurveLine:
    """A curve to draw. css: the suffix of its class. filled: as an area down to 0. stacked: as an area on top of the
    previous stacked ones."""

    css: str
    curve: Curve
    filled: bool = False
    stacked: bool = False


@dataclass(frozen=True)
class CurveMark:
    """A marked time, and at what height (None: full height)."""

    time_ns: int
    css: str
    words: str
    value: float | None = None


def draw_curves(
    title: str,
    lines: Sequence[CurveLine],
    marks: Sequence[CurveMark],
    start_ns: int,
    end_ns: int,
    most: float,
    ticks: Sequence[float] = (),
) -> str:
    """The curves between two times, from 0 to `most`, with a horizontal line at each tick; the first curve is behind
    the others."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "curves", "role": "img"})
    svg.set("viewBox", f"0 0 {WIDTH} {HEIGHT}")
    svg.set("preserveAspectRatio", "none")
    add_element(svg, "title", {}).text = strip_invalid_xml(title)
    scale = _Scale(start_ns, end_ns, most)
    for tick in ticks:
        add_element(svg, "path", {"d": f"M0 {scale.y(tick)}H{WIDTH}", "class": "curves-guide"})
    stacked = [line for line in lines if line.stacked]
    for line, shape in zip(reversed(stacked), reversed(_stack(stacked, scale)), strict=True):
        add_element(svg, "path", {"d": shape, "class": f"curves-area curves-{line.css}"})
    for line in lines:
        if line.stacked:
            continue
        path = _path(line.curve, scale)
        if line.filled and path:
            area = f"M0 {HEIGHT}V{path[1:].partition(' ')[2]}V{HEIGHT}Z"
            add_element(svg, "path", {"d": area, "class": f"curves-area curves-{line.css}"})
        if path:
            add_element(svg, "path", {"d": path, "class": f"curves-line curves-{line.css}"})
    for mark in marks:
        if not start_ns <= mark.time_ns <= end_ns:
            continue
        x = f"{scale.x(mark.time_ns):.2f}"
        group = add_element(svg, "g", {"class": f"curves-mark curves-{mark.css}"})
        add_element(group, "title", {}).text = strip_invalid_xml(mark.words)
        if mark.value is None:
            add_element(group, "path", {"d": f"M{x} 0V{HEIGHT}"})
        else:
            # A line of length 0 is drawn as a round dot of its width, even in a stretched drawing.
            add_element(group, "path", {"d": f"M{x} {scale.y(mark.value)}h0", "class": "curves-dot"})
    return ElementTree.tostring(svg, encoding="unicode")


def sample_curve(curve: Curve, start_ns: int, end_ns: int, count: int) -> list[int]:
    """The values in the middle of `count` equal parts of a time range."""
    middle = start_ns + ((np.arange(count) + 0.5) * (end_ns - start_ns) / count).astype(np.int64)
    return [int(value) for value in values_at(curve, middle)] if len(curve.time_ns) else [0] * count


@dataclass(frozen=True)
class _Scale:
    start_ns: int
    end_ns: int
    most: float

    def x(self, time_ns: float) -> float:
        return WIDTH * (time_ns - self.start_ns) / max(1, self.end_ns - self.start_ns)

    def y(self, value: float) -> str:
        share = min(1.0, max(0.0, value / self.most)) if self.most > 0 else 0.0
        return f"{HEIGHT * (1 - share):.2f}"


def _path(curve: Curve, scale: _Scale) -> str:
    """The steps of a curve, or the range of each column with changes."""
    if not len(curve.time_ns):
        return ""
    low, high = (int(np.searchsorted(curve.time_ns, edge, "right")) for edge in (scale.start_ns, scale.end_ns))
    first = float(curve.value[max(low - 1, 0)])
    parts = [f"M0 {scale.y(first)}"]
    if high - low <= COLUMNS:
        for time_ns, value in zip(curve.time_ns[low:high].tolist(), curve.value[low:high].tolist(), strict=True):
            parts.append(f"H{scale.x(time_ns):.2f}V{scale.y(value)}")
    else:
        found = downsample_curve(curve, scale.start_ns, scale.end_ns, COLUMNS)
        columns = (found.column, found.low, found.high, found.last)
        for column, least, most, last in zip(*(part.tolist() for part in columns), strict=True):
            # Last the end that is closer to the continuation.
            near, far = (least, most) if abs(last - least) > abs(last - most) else (most, least)
            parts.append(f"H{(column + 0.5) * WIDTH / COLUMNS:.2f}V{scale.y(near)}V{scale.y(far)}")
    return "".join(parts) + f"H{WIDTH}"


def _stack(lines: Sequence[CurveLine], scale: _Scale) -> list[str]:
    """Stacked areas: each from 0 to its cumulative sum."""
    if not lines:
        return []
    span = scale.end_ns - scale.start_ns
    times = np.unique(np.concatenate([line.curve.time_ns for line in lines]))
    times = times[(times > scale.start_ns) & (times < scale.end_ns)]
    if len(times) > COLUMNS:
        whole = np.sum([values_at(line.curve, times) for line in lines], axis=0)
        # A product with the times of years would overflow.
        column = (times - scale.start_ns) // max(1, -(-span // COLUMNS))
        # For each column the time with the maximum.
        order = np.lexsort((-whole, column))
        first = np.ones(len(order), bool)
        first[1:] = column[order][1:] != column[order][:-1]
        times = np.sort(times[order[first]])
    times = np.concatenate([[scale.start_ns], times])
    shapes, under = [], np.zeros(len(times))
    for line in lines:
        under = under + values_at(line.curve, times)
        parts = [f"M0 {HEIGHT}V{scale.y(float(under[0]))}"]
        for time_ns, value in zip(times[1:].tolist(), under[1:].tolist(), strict=True):
            parts.append(f"H{scale.x(time_ns):.2f}V{scale.y(value)}")
        shapes.append("".join(parts) + f"H{WIDTH}V{HEIGHT}Z")
    return shapes
