"""The heat map of samples: cells by column and row, the frame of a time range, and the labels of the axes.

SVG without script or inline style that stretches to its box in the page. Cells of one color are one path, so that a map
of tens of thousands of cells has ten elements. Time goes up within a column, then to the next one. Colors come from
static/css/heatmap.css by class.
"""

from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np

from ..analysis.timeline.heat_map import HeatMapGrid
from ..domain.arrays import Array
from ..domain.units import NO_BREAK_SPACE, NS_PER_MS, NS_PER_S, NS_PER_US, format_axis_labels, get_time_unit
from .svg import add_element, strip_invalid_xml

COLOR_COUNT = 10
MAX_TICKS = 9
ROW_TICKS = 6
_MINUTE, _HOUR, _DAY = 60 * NS_PER_S, 3600 * NS_PER_S, 86400 * NS_PER_S
_UNITS = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"), (1, "ns"))
_STEPS = (
    *(factor * 10**power for power in range(9) for factor in (1, 2, 5)),
    *(n * NS_PER_S for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(factor * 10**power * _DAY for power in range(6) for factor in (1, 2, 5)),
)


def color_levels(values: Array) -> Array:
    """The color of each cell, from 1 to `COLOR_COUNT`: linear from 0 to the greatest value. 1 also where no value is
    above 0."""
    most = int(values.max(initial=0))
    if most <= 0:
        return np.ones(len(values), np.int64)
    levels: Array = np.clip(np.ceil(values / most * COLOR_COUNT), 1, COLOR_COUNT).astype(np.int64)
    return levels


def draw_heat_map(title: str, grid: HeatMapGrid, cell: Array, value: Array) -> str:
    """The cells with samples, in the color of their value. cell: as in `HeatMap`."""
    svg = _svg(grid, "heat-cells", {"role": "img", "shape-rendering": "crispEdges"})
    add_element(svg, "title", {}).text = strip_invalid_xml(title)
    column, row = np.divmod(cell, grid.rows)
    level = color_levels(value)
    # A run is a sequence of adjacent cells of one column and color.
    same = (np.diff(cell) == 1) & (np.diff(column) == 0) & (np.diff(level) == 0)
    first = np.flatnonzero(np.concatenate(([True], ~same))[: len(cell)])
    last = np.append(first[1:], len(cell)) - 1
    for color in range(1, COLOR_COUNT + 1):
        mine = level[first] == color
        if mine.any():
            runs = zip(
                column[first[mine]].tolist(),
                (grid.rows - 1 - row[last[mine]]).tolist(),
                (last[mine] - first[mine] + 1).tolist(),
                strict=True,
            )
            path = "".join(f"M{x} {y}h1v{height}h-1z" for x, y, height in runs)
            add_element(svg, "path", {"d": path, "class": f"heat-{color}"})
    return ElementTree.tostring(svg, encoding="unicode")


def draw_range(grid: HeatMapGrid, start_ns: int, end_ns: int) -> str:
    """The frame around a time range, and a veil over the rest; without a frame if the range is outside of the map."""
    svg = _svg(grid, "heat-frame", {"aria-hidden": "true"})
    shape = range_path(grid, start_ns, end_ns)
    add_element(svg, "path", {"d": f"M0 0H{grid.columns}V{grid.rows}H0Z{shape}", "class": "heat-veil"})
    if shape:
        add_element(svg, "path", {"d": shape, "class": "heat-edge"})
    return ElementTree.tostring(svg, encoding="unicode")


def range_path(grid: HeatMapGrid, start_ns: int, end_ns: int) -> str:
    """The outline of a time range in units of cells: parts of the first and last column, and all columns between them;
    empty if nothing of it is in the map. static/js/charts/heatmap/grid.js draws the same."""
    low = max(start_ns, grid.first_ns) - grid.first_ns
    high = min(end_ns, grid.end_ns) - grid.first_ns
    if high <= low:
        return ""
    first, begin = divmod(low, grid.column_ns)
    last, end = divmod(high, grid.column_ns)
    if end == 0:
        last, end = last - 1, grid.column_ns
    from_, to = (f"{grid.rows * (1 - part / grid.column_ns):.4g}" for part in (begin, end))
    if first == last:
        return f"M{first} {from_}V{to}H{first + 1}V{from_}Z"
    return f"M{first} {from_}V0H{last}V{to}H{last + 1}V{grid.rows}H{first + 1}V{from_}Z"


def draw_column_axis(grid: HeatMapGrid) -> str:
    """The labels below the columns: time since the first one starts. Every other label has a class, to hide it where
    there is little room."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "heat-x", "aria-hidden": "true"})
    ticks = list_time_ticks(grid.columns * grid.column_ns, MAX_TICKS)
    for number, (tick, label) in enumerate(zip(ticks, format_ticks(ticks), strict=True)):
        share = tick / (grid.columns * grid.column_ns)
        anchor = "start" if number == 0 else "end" if share > 0.97 else "middle"
        css = {"class": "heat-minor"} if number % 2 else {}
        place = {"x": f"{100 * share:.2f}%", "y": "16", "text-anchor": anchor}
        add_element(svg, "text", place | css).text = label
        add_element(svg, "line", {"x1": place["x"], "x2": place["x"], "y1": "0", "y2": "4"} | css)
    return ElementTree.tostring(svg, encoding="unicode")


def draw_row_axis(grid: HeatMapGrid) -> str:
    """The labels next to the rows: offset in the column, from the bottom up."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "heat-y", "aria-hidden": "true"})
    ticks = list_time_ticks(grid.column_ns, ROW_TICKS)
    for tick, label in zip(ticks, format_ticks(ticks), strict=True):
        y = f"{100 * (1 - tick / grid.column_ns):.2f}%"
        # Labels at the ends are inside of the box.
        down = {0: "-0.1em", grid.column_ns: "0.8em"}.get(tick, "0.35em")
        add_element(svg, "text", {"x": "100%", "dx": "-7", "y": y, "dy": down, "text-anchor": "end"}).text = label
        add_element(svg, "line", {"x1": "100%", "x2": "100%", "y1": y, "y2": y, "transform": "translate(-4 0)"})
    return ElementTree.tostring(svg, encoding="unicode")


def draw_color_scale() -> str:
    """The colors in order, from little to much."""
    svg = add_element(
        None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "heat-scale", "aria-hidden": "true"}
    )
    svg.set("viewBox", f"0 0 {COLOR_COUNT} 1")
    svg.set("preserveAspectRatio", "none")
    svg.set("shape-rendering", "crispEdges")
    for color in range(1, COLOR_COUNT + 1):
        box = {"x": str(color - 1), "width": "1", "height": "1", "class": f"heat-{color}"}
        add_element(svg, "rect", box)
    return ElementTree.tostring(svg, encoding="unicode")


def list_time_ticks(length_ns: int, most: int) -> list[int]:
    """Round times from 0 to a length, at most `most` of them."""
    step = next((step for step in _STEPS if length_ns // step < most), length_ns)
    return list(range(0, length_ns + 1, step))


def format_ticks(ticks: Sequence[int]) -> tuple[str, ...]:
    """Labels of an axis that starts at 0, all in the largest unit that leaves no fractions; or in the selected unit."""
    if len(ticks) < 2 or get_time_unit():
        return format_axis_labels(ticks, "ns")
    length, unit = next(pair for pair in _UNITS if ticks[1] % pair[0] == 0)
    return tuple(f"{tick // length:,}{NO_BREAK_SPACE}{unit}" if tick else "0" for tick in ticks)


def format_width(ns: int) -> str:
    """A round length of time: "20 ms", "1.2 s", "10 min"."""
    length, unit = next((pair for pair in _UNITS if ns >= pair[0]), _UNITS[-1])
    return f"{ns / length:,.6g}{NO_BREAK_SPACE}{unit}"


def _svg(grid: HeatMapGrid, css: str, more: dict[str, str]) -> ElementTree.Element:
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": css} | more)
    svg.set("viewBox", f"0 0 {grid.columns} {grid.rows}")
    svg.set("preserveAspectRatio", "none")
    found: ElementTree.Element = svg
    return found
